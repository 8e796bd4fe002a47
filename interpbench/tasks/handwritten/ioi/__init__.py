"""Indirect-object identification (IOI): the circuit of the published InterpBench model, made exact."""

from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT
from interpbench.tasks.catalogue import task_family
from interpbench.tasks.handwritten.ioi.model import ioi_causal_model
from interpbench.tasks.handwritten.ioi.prompts import Prompts
from interpbench.tasks.handwritten.ioi.templates import LARGE, PUBLISHED
from interpbench.tasks.handwritten.ioi.words import NAMES, OBJECTS, PLACES
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.task import CausalTask
from interpbench.tasks.tokenizers import Tokenized, Words

large = Prompts(LARGE, NAMES, PLACES, OBJECTS)
published = Prompts(PUBLISHED, NAMES[:100], ("store", "market"), ("milk", "egg", "bread"))
ALIGNMENT = {"duplicate": "a1.h1", "s_inhibition": "a2.h1", "name_mover": "a4.h1"}
NETWORK = ModelSettings(
    n_layers=6, n_heads=4, d_model=64, d_head=32, d_mlp=256, normalization="LNPre", activation="gelu_new"
)
WIDE = ModelSettings(d_head=16, d_mlp=3072, init_std=0.02)
FEWEST_NAMES = 20
"""The number of names that have to be single tokens of a tokenizer; one with fewer is refused."""


@dataclass(frozen=True, config=STRICT)
class PromptTokens:
    """The tokens in which prompts are written.

    Attributes:
        tokenizer: a Hugging Face tokenizer, by its name on the hub or its folder; None for whole words.
    """

    tokenizer: str | None = None


def _task(
    prompts: Prompts, tokens: PromptTokens, only_at_end: bool, variant_of: str | None = None
) -> CausalTask:
    """Returns an IOI task with the nodes and network of the published model.

    With a tokenizer, names that are several of its tokens are left out.
    """
    domain: Prompts | Tokenized = prompts
    names = len(prompts.names)
    if tokens.tokenizer is not None:
        words = Words(tokens.tokenizer)
        single = words.single(prompts.names, FEWEST_NAMES)
        some, names = Prompts(prompts.templates, single, prompts.places, prompts.objects), len(single)
        domain = Tokenized(some, some.vocab, some.length, words, names)
    vocab, length = domain.vocab, domain.length
    return CausalTask(
        build=lambda: ioi_causal_model(vocab, names, length, only_at_end),
        vocab=vocab,
        length=length,
        domain=domain,
        attention="causal",
        alignment=ALIGNMENT,
        network=NETWORK,
        published=WIDE,
        variant_of=variant_of,
    )


@task_family("ioi", PromptTokens, one_program=True)
def ioi(tokens: PromptTokens) -> CausalTask:
    """At the end of a prompt in which someone gives an object to someone, the name of who gets it."""
    return _task(large, tokens, only_at_end=True)


@task_family("ioi_next_token", PromptTokens, one_program=True)
def ioi_next_token(tokens: PromptTokens) -> CausalTask:
    """At every position of an IOI prompt up to which exactly one name occurs only once, that name."""
    return _task(large, tokens, only_at_end=False, variant_of="ioi")


@task_family("ioi_published_prompts", PromptTokens, one_program=True)
def ioi_published_prompts(tokens: PromptTokens) -> CausalTask:
    """IOI on the few prompts of the published model: two orders of names, two places, three objects."""
    return _task(published, tokens, only_at_end=True, variant_of="ioi")
