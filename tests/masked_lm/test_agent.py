"""The agent: its tools without Strands, and with it driven by a script in place of a language model."""

import importlib.util
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from interpbench.core.errors import TraceError, UnknownNameError
from interpbench.masked_lm.agent import PROVIDERS, create_orchestrator, get_model
from interpbench.masked_lm.agent_tools import TraceTools
from tests.masked_models import facts, spec

FolderOf = Callable[[str], Path]
HERE = importlib.util.find_spec("strands") is not None
NAMES = ["make_dataset", "trace_facts", "draw_charts", "interpret"]


@pytest.fixture
def written(random_model: FolderOf) -> str:
    """A specification of two facts in one model, as JSON."""
    return json.dumps(spec(Path("found"), {"Tiny": random_model("bert")}, facts()[:2]).to_dict())


def test_the_tools_do_all_of_it(written: str, tmp_path: Path) -> None:
    tools = TraceTools(tmp_path, local_files_only=True)
    assert [tool.__name__ for tool in tools.all] == NAMES and all(tool.__doc__ for tool in tools.all)
    assert tools.make_dataset(written).startswith(
        "2 prompts of 2 facts are in the folder found. Advice: facts: 2"
    )
    assert {path.name for path in (tmp_path / "found").iterdir()} == {
        "spec.json",
        "dataset.json",
        "run_config.json",
    }
    assert "clean minus corrupted" in tools.trace_facts("found")
    (tmp_path / "found" / "fig5_peaks.png").unlink()
    assert (
        "fig5_peaks.png" in tools.draw_charts("found") and (tmp_path / "found" / "fig5_peaks.png").is_file()
    )
    assert tools.interpret("found").startswith("## Tiny")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"output_dir": "/tmp"}, "is not a folder below"),
        ({"output_dir": "../out"}, "is not a folder below"),
        ({"output_dir": "."}, "is not a folder below"),
        ({"fact": 1}, "fact: unknown key; did you mean facts"),
        (
            {"models": [{"name": "x", "huggingface_id": "nobody/nothing"}]},
            "cannot load the tokenizer nobody/nothing",
        ),
        ({"facts": []}, "facts: there is none"),
    ],
)
def test_a_tool_answers_what_is_wrong(
    change: dict[str, Any], said: str, written: str, tmp_path: Path
) -> None:
    tools = TraceTools(tmp_path, local_files_only=True)
    answer = tools.make_dataset(json.dumps({**json.loads(written), **change}))
    assert answer.startswith("error: ") and said in answer
    assert not list(tmp_path.iterdir())


def test_tools_out_of_order_answer_so(tmp_path: Path) -> None:
    tools = TraceTools(tmp_path)
    for tool in tools.all[1:]:
        assert tool("nowhere").startswith("error: ") and "does not exist" in tool("nowhere")
    assert tools.make_dataset("{").startswith("error: the specification is not JSON")


@pytest.mark.skipif(HERE, reason="Strands is installed")
def test_without_strands_it_is_said_what_to_install() -> None:
    for call in (
        lambda: create_orchestrator(None),
        *(lambda name=name: get_model(name) for name in PROVIDERS),
    ):
        with pytest.raises(TraceError, match=r"strands is not installed; pip install 'interpbench\[agent\]'"):
            call()


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown provider 'antropic'; did you mean anthropic"):
        get_model("antropic")
    assert list(PROVIDERS) == ["anthropic", "bedrock", "gemini", "openai"]


@pytest.mark.skipif(not HERE, reason="needs strands-agents, the extra interpbench[agent]")
@pytest.mark.filterwarnings("ignore")
def test_an_agent_traces_facts_by_a_script(written: str, tmp_path: Path) -> None:
    """A script takes the place of a language model; the first call is wrong, and mended."""
    from strands.models import Model

    class Scripted(Model):
        def __init__(self, turns: list[Any]):
            self.turns, self.heard, self.tools = turns, list[str](), list[Any]()

        def update_config(self, **config: Any) -> None: ...

        def get_config(self) -> dict[str, Any]:
            return {}

        async def structured_output(self, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
            yield {}

        async def stream(
            self, messages: Any, tool_specs: Any = None, *rest: Any, **named: Any
        ) -> AsyncIterator[Any]:
            self.tools = tool_specs
            for block in messages[-1]["content"]:
                if "toolResult" in block:
                    self.heard.append(block["toolResult"]["content"][0]["text"])
            turn = self.turns.pop(0)
            start, delta, end = {}, {"text": turn}, "end_turn"
            if not isinstance(turn, str):
                start = {"toolUse": {"toolUseId": str(len(self.turns)), "name": turn[0]}}
                delta, end = {"toolUse": {"input": json.dumps(turn[1])}}, "tool_use"
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": end}}

    wrong = json.dumps({**json.loads(written), "output_dir": "/tmp"})
    where = {"output_dir": "found"}
    script: list[Any] = [("make_dataset", {"spec_json": wrong}), ("make_dataset", {"spec_json": written})]
    model = Scripted([*script, *((name, where) for name in NAMES[1:]), "it is done"])
    agent = create_orchestrator(model, tmp_path, local_files_only=True)
    assert "it is done" in str(agent("Where are lands?"))
    assert [text.split()[0] for text in model.heard] == ["error:", "2", '{"Tiny":', "wrote", "##"]
    assert [tool["name"] for tool in model.tools] == NAMES
    assert set(model.tools[0]["inputSchema"]["json"]["properties"]) == {"spec_json"}
    assert (tmp_path / "found" / "report.md").is_file()
