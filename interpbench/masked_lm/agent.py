"""An agent that traces facts when it is asked to in words, by Strands: the extra `interpbench[agent]`."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from interpbench.core.errors import TraceError, UnknownNameError
from interpbench.masked_lm.agent_tools import TraceTools

PROVIDERS = {
    "anthropic": ("strands.models.anthropic", "AnthropicModel"),
    "bedrock": ("strands.models.bedrock", "BedrockModel"),
    "gemini": ("strands.models.gemini", "GeminiModel"),
    "openai": ("strands.models.openai", "OpenAIModel"),
}
"""The providers of language models, with the module and the class of Strands for each."""
PROMPT = """\
You find out where masked language models restore facts, by causal tracing. Use the tools in this order:
make_dataset, trace_facts, interpret; draw_charts draws the charts anew. Write 8 to 12 facts if the user gives
none. Each has a template with one {}, a target that belongs there, a word of the sentence that tells it
(context_from), and another of the same kind and number of tokens (context_to). If a tool answers with error:,
mend the specification and call it again. Report the peaks of MLP and attention with their intervals, whether
the context curve is flat, and the sign of clean minus corrupted. Never call the last layer of the residual
stream the place of a fact. Say that a peak is where a clean activation suffices, and no proof of storage.
"""
"""The instructions of the agent."""


def get_model(provider: str, **options: Any) -> Any:
    """Returns a language model for `create_orchestrator`.

    Args:
        provider: `anthropic`, `openai`, `bedrock` or `gemini`.
        **options: what its class in Strands takes, such as `client_args` and `model_id`.

    Raises:
        UnknownNameError: if there is no such provider.
        TraceError: if a package that it needs is not installed.
    """
    if provider not in PROVIDERS:
        raise UnknownNameError("provider", provider, PROVIDERS)
    module, name = PROVIDERS[provider]
    return getattr(_imported(module), name)(**options)


def create_orchestrator(
    model: Any, workspace: str | Path = ".", local_files_only: bool = False, device: str = "cpu"
) -> Any:
    """Returns an agent of Strands, which is called with what is asked in words.

    Args:
        model: a language model, as `get_model` returns it, or any that Strands takes.
        workspace: the folder below which results are written.
        local_files_only: whether the network must not be used for the models that are traced.
        device: the device of torch.

    Raises:
        TraceError: if Strands is not installed.
    """
    strands = _imported("strands")
    tools: list[Callable[..., Any]] = [
        strands.tool(function) for function in TraceTools(workspace, local_files_only, device).all
    ]
    return strands.Agent(model=model, tools=tools, system_prompt=PROMPT, callback_handler=None)


def _imported(module: str) -> Any:
    """Returns a module of Strands.

    Raises:
        TraceError: if it, or a package that it needs, is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = error.name or str(error)
        raise TraceError(
            f"{missing} is not installed; pip install 'interpbench[agent]' installs it"
        ) from None
