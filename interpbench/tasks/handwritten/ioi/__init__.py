"""Indirect-object identification: who gets the object? The circuit of the published model, made exact."""

from collections.abc import Callable
from typing import Any

from interpbench.causal.model import CausalModel
from interpbench.tasks.catalogue import causal_task
from interpbench.tasks.handwritten.ioi.model import ioi_causal_model
from interpbench.tasks.handwritten.ioi.prompts import Prompts
from interpbench.tasks.handwritten.ioi.templates import LARGE, PUBLISHED
from interpbench.tasks.handwritten.ioi.words import NAMES, OBJECTS, PLACES
from interpbench.tasks.tokenizers import Tokenized, Words

large = Prompts(LARGE, NAMES, PLACES, OBJECTS)
published = Prompts(PUBLISHED, NAMES[:100], ("store", "market"), ("milk", "egg", "bread"))
PLACEMENT = {"duplicate": "a1.h1", "s_inhibition": "a2.h1", "name_mover": "a4.h1"}
NETWORK: dict[str, Any] = {
    **{"n_layers": 6, "n_heads": 4, "d_model": 64, "d_head": 32, "d_mlp": 256},
    **{"normalization": "LNPre", "activation": "gelu_new"},
}
WIDE: dict[str, Any] = {"d_head": 16, "d_mlp": 3072, "init_std": 0.02}
FEWEST_NAMES = 20
"""A tokenizer that has fewer of the names as single tokens is refused."""


def _settings(prompts: Prompts, only_at_end: bool) -> dict[str, Any]:
    """Returns what the tasks have in common: the published nodes and network."""
    return {
        "inputs": prompts,
        "vocab": prompts.vocab,
        "length": prompts.length,
        "placement": PLACEMENT,
        "network": NETWORK,
        "published": WIDE,
        "tokenized": _in_tokens(prompts, only_at_end),
    }


def _in_tokens(prompts: Prompts, only_at_end: bool) -> Callable[[str], dict[str, Any]]:
    """Returns what says how the task differs on the same prompts in the tokens of a tokenizer."""

    def differences(tokenizer: str) -> dict[str, Any]:
        words = Words(tokenizer)
        names = words.single(prompts.names, FEWEST_NAMES)
        some = Prompts(prompts.templates, names, prompts.places, prompts.objects)
        inputs = Tokenized(some, some.vocab, some.length, words, len(names))
        return {
            "inputs": inputs,
            "vocab": inputs.vocab,
            "length": inputs.length,
            "build": lambda: ioi_causal_model(inputs.vocab, len(names), inputs.length, only_at_end),
        }

    return differences


@causal_task("ioi", **_settings(large, only_at_end=True))
def ioi() -> CausalModel:
    """At the end of a prompt in which someone gives an object to someone, the name of who gets it."""
    return ioi_causal_model(large.vocab, len(large.names), large.length, only_at_end=True)


@causal_task("ioi_next_token", variant_of="ioi", **_settings(large, only_at_end=False))
def ioi_next_token() -> CausalModel:
    """At every position of such a prompt where one name leads, that name: at first and from the giver on."""
    return ioi_causal_model(large.vocab, len(large.names), large.length, only_at_end=False)


@causal_task("ioi_published_prompts", variant_of="ioi", **_settings(published, only_at_end=True))
def ioi_published_prompts() -> CausalModel:
    """As ioi, on the few prompts of the published model: two orders of names, two places, three objects."""
    return ioi_causal_model(published.vocab, len(published.names), published.length, only_at_end=True)
