"""Indirect-object identification: who gets the object? The circuit of the published model, made exact."""

from typing import Any

from interpbench.causal.model import CausalModel
from interpbench.tasks.catalogue import causal_task
from interpbench.tasks.handwritten.ioi.model import ioi_model
from interpbench.tasks.handwritten.ioi.prompts import Prompts
from interpbench.tasks.handwritten.ioi.templates import LARGE, PUBLISHED
from interpbench.tasks.handwritten.ioi.words import NAMES, OBJECTS, PLACES

large = Prompts(LARGE, NAMES, PLACES, OBJECTS)
published = Prompts(PUBLISHED, NAMES[:100], ("store", "market"), ("milk", "egg", "bread"))
NETWORK: dict[str, Any] = {
    **{"n_layers": 6, "n_heads": 4, "d_model": 64, "d_head": 16, "d_mlp": 256},
    **{"normalization": "LNPre", "activation": "gelu_new"},
}


def _settings(prompts: Prompts) -> dict[str, Any]:
    """Returns what the tasks have in common: the published nodes and network."""
    return {
        "inputs": prompts,
        "vocab": prompts.vocab,
        "length": prompts.length,
        "placement": {"duplicate": "a1.h1", "s_inhibition": "a2.h1", "name_mover": "a4.h1"},
        "network": NETWORK,
        "published": {"d_mlp": 3072, "init_std": 0.02},
    }


@causal_task("ioi", **_settings(large))
def ioi() -> CausalModel:
    """At the end of a prompt in which someone gives an object to someone, the name of who gets it."""
    return ioi_model(large.vocab, len(large.names), large.length, only_at_end=True)


@causal_task("ioi_next_token", **_settings(large))
def ioi_next_token() -> CausalModel:
    """At every position of such a prompt where one name leads, that name: at first and from the giver on."""
    return ioi_model(large.vocab, len(large.names), large.length, only_at_end=False)


@causal_task("ioi_published_prompts", **_settings(published))
def ioi_published_prompts() -> CausalModel:
    """As ioi, on the few prompts of the published model: two orders of names, two places, three objects."""
    return ioi_model(published.vocab, len(published.names), published.length, only_at_end=True)
