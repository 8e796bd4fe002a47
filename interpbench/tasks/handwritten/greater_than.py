"""Greater-than (Hanna et al. 2023): two heads bring the years to the end, an MLP compares them.

Hanna et al. let GPT-2 name any later year, so that many answers are right. Here both years are given, and
there is one answer: whether the second is later.
"""

from collections.abc import Sequence

import numpy as np

from interpbench.causal.model import NONE, CausalModel, Read, Variable
from interpbench.causal.selection import positions, selected
from interpbench.tasks.catalogue import causal_task
from interpbench.tasks.slots import Slots
from interpbench.tasks.stratum import Stratum, made

NOUNS = ("alliance", "campaign", "dynasty", "expedition", "famine", "feud", "reign", "siege", "truce", "war")
VERBS = ("continued", "dragged", "endured", "lasted", "ran")
CENTURIES = ("15", "16", "17", "18")
YEARS = tuple(f"{year:02}" for year in range(2, 62))
START, FINISH, END = 5, 8, 9
"""The positions of the two years, and of the last token, where the answer is."""
INCIDENTAL = (1, 2, 4, 7)
"""The positions of noun, verb and centuries, which the output never depends on."""


class Comparisons(Slots):
    """Prompts with two years; the first is never the last year of `YEARS`, so that a year can be later."""

    def __init__(self) -> None:
        years = (YEARS[:-1], "to", CENTURIES, YEARS, ":")
        slots = ["the", NOUNS, VERBS, "from", CENTURIES, *years]
        choices = [(slot,) if isinstance(slot, str) else slot for slot in slots]
        corruptions = {"redrawn": self.redrawn, "flipped": self.flipped}
        super().__init__(choices, corruptions, incidental=INCIDENTAL)
        self.years = np.array(self.codes(YEARS), np.int16)

    def strata(self) -> Sequence[Stratum]:
        """Returns strata by word, and of years that are equal, next to each other, or far apart.

        One more stratum has the same century twice: only their positions tell the two apart.
        """
        last = len(YEARS) - 1
        by = {"the same year": 0, "one year later": 1, "one year earlier": -1}
        strata = [
            *super().strata(),
            *(self._by("ties: " + name, years, years) for name, years in by.items()),
            self._by("extreme: almost all years later", last - 2, last),
            self._by("extreme: almost all years earlier", 1 - last, 3 - last),
            made(self, "ties: the same century", self._same_century, self._in_one_century),
        ]
        return strata

    def _by(self, name: str, low: int, high: int) -> Stratum:
        """Returns the stratum of prompts whose second year is `low` to `high` years after the first."""

        def has(rows: np.ndarray) -> np.ndarray:
            start, finish = (np.searchsorted(self.years, rows[:, place]) for place in (START, FINISH))
            return (finish - start >= low) & (finish - start <= high)

        def make(rng: np.random.Generator, count: int) -> np.ndarray:
            rows = self.sample(rng, count)
            by = rng.integers(low, high + 1, size=count)
            lowest, highest = np.maximum(0, -by), np.minimum(len(YEARS) - 2, len(YEARS) - 1 - by)
            start = rng.integers(lowest, highest + 1)
            rows[:, START], rows[:, FINISH] = self.years[start], self.years[start + by]
            return rows

        return made(self, name, has, make)

    def _same_century(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, START - 1] == rows[:, FINISH - 1]

    def _in_one_century(self, rng: np.random.Generator, count: int) -> np.ndarray:
        rows = self.sample(rng, count)
        rows[:, FINISH - 1] = rows[:, START - 1]
        return rows

    def redrawn(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts with two other years and the other answer."""
        corrupted = tokens.copy()
        corrupted[:, START] = self.years[rng.integers(len(YEARS) - 1, size=len(tokens))]
        return self._answering(rng, corrupted, ~self._later(tokens))

    def flipped(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts with the same first year, another second year, and the other answer."""
        return self._answering(rng, tokens.copy(), ~self._later(tokens))

    def _later(self, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row]`, whether the second year is later: years are sorted like their codes."""
        return tokens[:, FINISH] > tokens[:, START]

    def _answering(self, rng: np.random.Generator, tokens: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Puts a second year into `tokens` that is later than the first where `later [row]` says so."""
        start, draw = np.searchsorted(self.years, tokens[:, START]), rng.random(len(tokens))
        number = np.where(later, start + 1 + draw * (len(YEARS) - 1 - start), draw * (start + 1))
        tokens[:, FINISH] = self.years[number.astype(int)]
        return tokens


PROMPTS = Comparisons()
VOCAB = PROMPTS.vocab
YEAR_OF = np.array([int(word) if word.isdigit() else NONE for word in (*VOCAB, "none")])
"""The number that the token of each code stands for, or None; the last entry is for None."""


def year_at(position: int, name: str) -> Variable:
    """Returns a variable whose value at the end is the token at `position`; it is None elsewhere."""

    def mechanism(query: np.ndarray, key: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        return selected((query == END)[:, :, None] & (key == position)[:, None, :], tokens)

    reads = (Read("positions", "q"), Read("positions", "k"), Read("tokens", "v"))
    return Variable(name, reads, mechanism, VOCAB, f"at the end, the token at position {position}")


def comparison(start: np.ndarray, finish: np.ndarray) -> np.ndarray:
    """Returns whether the finish is later than the start; None where one of them is no number."""
    first, second = YEAR_OF[start], YEAR_OF[finish]
    return np.where((first >= 0) & (second >= 0), second > first, NONE).astype(np.int16)


@causal_task(
    "greater_than",
    vocab=VOCAB,
    length=PROMPTS.length,
    domain=PROMPTS,
    alignment={"start": "a0.h1", "finish": "a0.h2", "later": "m1"},
    network={"d_model": 64, "d_head": 16, "d_mlp": 256},
)
def greater_than() -> CausalModel:
    """At the end of "the war lasted from 17 32 to 17 45 :", whether the last year is later than the first."""
    return CausalModel(
        [
            Variable("tokens", (), lambda tokens: tokens, VOCAB),
            Variable("positions", (), positions, tuple(range(PROMPTS.length))),
            year_at(START, "start"),
            year_at(FINISH, "finish"),
            Variable(
                "later",
                (Read("start", "mlp"), Read("finish", "mlp")),
                comparison,
                (False, True),
                "finish > start",
            ),
        ],
        "later",
    )
