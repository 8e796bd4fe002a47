"""Indirect-object identification: who gets the object? The circuit of the published model, made exact."""

from collections.abc import Callable

from interpbench.causal.model import CausalModel
from interpbench.tasks.catalogue import causal_task
from interpbench.tasks.handwritten.ioi.model import ioi_causal_model
from interpbench.tasks.handwritten.ioi.prompts import Prompts
from interpbench.tasks.handwritten.ioi.templates import LARGE, PUBLISHED
from interpbench.tasks.handwritten.ioi.words import NAMES, OBJECTS, PLACES
from interpbench.tasks.task import InTokens
from interpbench.tasks.tokenizers import Tokenized, Words

large = Prompts(LARGE, NAMES, PLACES, OBJECTS)
published = Prompts(PUBLISHED, NAMES[:100], ("store", "market"), ("milk", "egg", "bread"))
ALIGNMENT = {"duplicate": "a1.h1", "s_inhibition": "a2.h1", "name_mover": "a4.h1"}
NETWORK = {
    **{"n_layers": 6, "n_heads": 4, "d_model": 64, "d_head": 32, "d_mlp": 256},
    **{"normalization": "LNPre", "activation": "gelu_new"},
}
WIDE = {"d_head": 16, "d_mlp": 3072, "init_std": 0.02}
FEWEST_NAMES = 20
"""A tokenizer that has fewer of the names as single tokens is refused."""


def _task(
    name: str, prompts: Prompts, only_at_end: bool, variant_of: str | None = None
) -> Callable[[Callable[[], CausalModel]], Callable[[], CausalModel]]:
    """Registers a task with what all have in common: the published nodes and network."""

    def in_tokens(tokenizer: str) -> InTokens:
        words = Words(tokenizer)
        names = words.single(prompts.names, FEWEST_NAMES)
        some = Prompts(prompts.templates, names, prompts.places, prompts.objects)
        domain = Tokenized(some, some.vocab, some.length, words, len(names))
        vocab, length = domain.vocab, domain.length
        return InTokens(
            domain, vocab, length, lambda: ioi_causal_model(vocab, len(names), length, only_at_end)
        )

    return causal_task(
        name,
        vocab=prompts.vocab,
        length=prompts.length,
        domain=prompts,
        alignment=ALIGNMENT,
        network=NETWORK,
        published=WIDE,
        variant_of=variant_of,
        tokenized=in_tokens,
    )


@_task("ioi", large, only_at_end=True)
def ioi() -> CausalModel:
    """At the end of a prompt in which someone gives an object to someone, the name of who gets it."""
    return ioi_causal_model(large.vocab, len(large.names), large.length, only_at_end=True)


@_task("ioi_next_token", large, only_at_end=False, variant_of="ioi")
def ioi_next_token() -> CausalModel:
    """At every position of such a prompt where one name leads, that name: at first and from the giver on."""
    return ioi_causal_model(large.vocab, len(large.names), large.length, only_at_end=False)


@_task("ioi_published_prompts", published, only_at_end=True, variant_of="ioi")
def ioi_published_prompts() -> CausalModel:
    """As ioi, on the few prompts of the published model: two orders of names, two places, three objects."""
    return ioi_causal_model(published.vocab, len(published.names), published.length, only_at_end=True)
