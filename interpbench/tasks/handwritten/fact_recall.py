"""Facts that an encoder fills in at a mask, each recalled at a place that is known.

"in france people speak [MASK]": the language follows from the country. It may be looked up where the country
is, by an MLP whose output a head brings to the mask; or at the mask, by an MLP that reads the country which a
head has brought; or on the way, by a head that reads the country and writes its language. Causal tracing of
masked language models (Meng et al. 2022, for decoders) claims to tell these apart.
"""

from collections.abc import Callable, Mapping

import numpy as np

from interpbench.causal.model import NONE, CausalModel, Read, Variable
from interpbench.causal.selection import positions, selected
from interpbench.tasks.catalogue import causal_task
from interpbench.tasks.slots import Slots

LANGUAGE_OF = {
    **dict.fromkeys(("austria", "germany"), "german"),
    **dict.fromkeys(("brazil", "portugal", "angola"), "portuguese"),
    **dict.fromkeys(("chile", "peru", "spain"), "spanish"),
    **dict.fromkeys(("egypt", "morocco", "oman"), "arabic"),
    **dict.fromkeys(("france", "senegal"), "french"),
    "sweden": "swedish",
}
"""The language of each country; those of several countries are no names of one."""
COUNTRIES, LANGUAGES = tuple(sorted(LANGUAGE_OF)), tuple(sorted({*LANGUAGE_OF.values()}))
HOME, SUBJECT, MASK = 3, 7, 10
"""The positions of a country that does not matter, of the one that does, and of the mask."""
MASKED = "[MASK]"


class MaskedFacts(Slots):
    """Prompts such as "she lives in peru , but in france people speak [MASK] ."."""

    def __init__(self) -> None:
        who, does = ("he", "she"), ("lives", "studies", "works")
        slots = [who, does, "in", COUNTRIES, ",", "but", "in", COUNTRIES, "people", "speak", MASKED, "."]
        choices = [(slot,) if isinstance(slot, str) else slot for slot in slots]
        corruptions = {"another country": self.elsewhere, "countries exchanged": self.exchanged}
        super().__init__(choices, corruptions, incidental=(0, 1, HOME))
        self.countries = np.array(self.codes(COUNTRIES), np.int16)
        self.languages = np.full(len(self.vocab) + 1, NONE, np.int16)  # by token; the last is for None
        self.languages[self.countries] = [LANGUAGES.index(LANGUAGE_OF[name]) for name in COUNTRIES]

    def elsewhere(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts with another country, of another language, before the mask."""
        corrupted = tokens.copy()
        other = self.languages[self.countries][None] != self.languages[tokens[:, SUBJECT]][:, None]
        chosen = (other * rng.random(other.shape)).argmax(1)
        corrupted[:, SUBJECT] = self.countries[chosen]
        return corrupted

    def exchanged(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts with both countries exchanged, or with another one if they share a language."""
        corrupted = tokens.copy()
        corrupted[:, [HOME, SUBJECT]] = tokens[:, [SUBJECT, HOME]]
        same = self.languages[tokens[:, HOME]] == self.languages[tokens[:, SUBJECT]]
        return np.where(same[:, None], self.elsewhere(rng, tokens), corrupted)


PROMPTS = MaskedFacts()
Build = Callable[[], CausalModel]
"""The type of functions that return a task's causal model."""
VOCAB = PROMPTS.vocab
START = [
    Variable("tokens", (), lambda tokens: tokens, VOCAB),
    Variable("positions", (), positions, tuple(range(PROMPTS.length))),
]


def language_of(tokens: np.ndarray) -> np.ndarray:
    """Returns the language of each country, `[row, pos]`; None for other tokens."""
    return PROMPTS.languages[tokens]


def at_mask(query: np.ndarray, key: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns at the mask what is at the subject, `[row, pos]`; None elsewhere.

    Args:
        query: the position of each query, `[row, query]`.
        key: the position of each key, `[row, key]`.
        values: the value at each key, `[row, key]`.
    """
    return selected((query == MASK)[:, :, None] & (key == SUBJECT)[:, None, :], values)


def _task(name: str, alignment: Mapping[str, str]) -> Callable[[Build], Build]:
    return causal_task(
        name,
        vocab=VOCAB,
        length=PROMPTS.length,
        domain=PROMPTS,
        alignment=alignment,
        attention="bidirectional",
    )


def _moved(of: str, name: str, values: tuple[str, ...], said: str) -> Variable:
    reads = (Read("positions", "q"), Read("positions", "k"), Read(of, "v"))
    return Variable(name, reads, at_mask, values, said)


@_task("fact_in_early_mlp", {"language": "m0", "language_at_mask": "a1.h0"})
def fact_in_early_mlp() -> CausalModel:
    """At a mask, the language of a country: an MLP looks it up at the country, a head brings it."""
    language = Variable(
        "language", (Read("tokens", "mlp"),), language_of, LANGUAGES, "the country's language"
    )
    moved = _moved("language", "language_at_mask", LANGUAGES, "at the mask, the language of the country")
    return CausalModel([*START, language, moved], "language_at_mask")


@_task("fact_in_late_mlp", {"country_at_mask": "a0.h1", "language": "m1"})
def fact_in_late_mlp() -> CausalModel:
    """At a mask, the language of a country: a head brings the country, an MLP looks it up."""
    moved = _moved("tokens", "country_at_mask", VOCAB, "at the mask, the country before it")
    language = Variable(
        "language", (Read("country_at_mask", "mlp"),), language_of, LANGUAGES, "the country's language"
    )
    return CausalModel([*START, moved, language], "language")


@_task("fact_in_head", {"language": "a1.h2"})
def fact_in_head() -> CausalModel:
    """At a mask, the language of a country: a head looks it up while it brings it."""

    def mechanism(query: np.ndarray, key: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        return at_mask(query, key, language_of(tokens))

    reads = (Read("positions", "q"), Read("positions", "k"), Read("tokens", "v"))
    said = "at the mask, the language of the country before it"
    return CausalModel([*START, Variable("language", reads, mechanism, LANGUAGES, said)], "language")
