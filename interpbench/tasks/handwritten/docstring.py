"""Docstring completion (Heimersheim and Janiak 2023): which argument is to be documented next?

In `def load ( self , file , size , mode ) : " param file path param size number param` the next word is
`mode`: what follows, in the definition, the argument documented last.
"""

from collections.abc import Sequence
from math import perm

import numpy as np

from interpbench.causal.model import NONE, CausalModel, Read, Variable
from interpbench.causal.selection import earlier, is_last, positions, selected
from interpbench.tasks.catalogue import causal_task
from interpbench.tasks.slots import Slots
from interpbench.tasks.stratum import Stratum, length_strata

FUNCTIONS = ("build", "check", "close", "fetch", "load", "merge", "parse", "print", "save", "send", "sort")
ARGUMENTS = tuple(
    """
    action address amount angle axis base batch bound buffer callback color column command count data
    date depth encoding error factor field file filter flag format index input key label level limit
    mask mode name node offset option order output path pattern port prefix query rate scale seed size
    """.split()
)
WORDS = ("array", "boolean", "list", "number", "optional", "string", "text", "value")
DEFINED, DOCUMENTED = (5, 7, 9), (14, 17)
"""Positions of the arguments, in the definition and where they are documented."""
INCIDENTAL = (1, 15, 18)
"""Positions of the words that no answer depends on: the function's name and descriptions."""
SHORT = 17
"""The length of a prompt that documents one argument; the others document two."""


class Docstrings(Slots):
    """Definitions of three different arguments, of which one or both of the first two are documented."""

    def __init__(self) -> None:
        slots = ["def", FUNCTIONS, "(", "self", ",", ARGUMENTS, ",", ARGUMENTS, ",", ARGUMENTS, ")", ":", '"']
        slots += ["param", ARGUMENTS, WORDS, "param", ARGUMENTS, WORDS, "param"]
        corruptions = {
            "shuffled": self.shuffled,
            "rotated": self.rotated,
            "renamed": self.renamed,
            "undocumented": self.undocumented,
        }
        choices = [(slot,) if isinstance(slot, str) else slot for slot in slots]
        super().__init__(choices, corruptions, [self.reordered], INCIDENTAL)
        self.arguments = np.array(self.codes(ARGUMENTS), np.int16)

    @property
    def size(self) -> int:
        """The exact number of prompts."""
        texts = 2 * (len(WORDS) + len(WORDS) ** 2)
        return len(FUNCTIONS) * perm(len(ARGUMENTS), len(DEFINED)) * texts

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws three different arguments, everything else uniformly, and one or two documented."""
        tokens = super().sample(rng, count)
        order = rng.random((count, len(ARGUMENTS))).argsort(1)[:, : len(DEFINED)]
        return self._defining(rng, tokens, self.arguments[order])

    def reordered(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts with the same arguments in another order, and one or two documented."""
        texts = super().sample(rng, len(tokens))
        return self._defining(rng, texts, rng.permuted(tokens[:, DEFINED], axis=1))

    def _defining(self, rng: np.random.Generator, texts: np.ndarray, arguments: np.ndarray) -> np.ndarray:
        """Puts arguments `[row, 3]` into texts; documents the first two in any order, or one of them."""
        texts[:, DEFINED] = arguments
        texts[:, DOCUMENTED] = rng.permuted(arguments[:, :2], axis=1)
        texts[rng.random(len(texts)) < 0.5, SHORT:] = NONE
        return texts

    def strata(self) -> Sequence[Stratum]:
        """Returns the lengths, which argument is asked after, sorted arguments, the first and last words."""
        words = [stratum for place in INCIDENTAL for stratum in self._extremes(place)]
        names = [stratum for place in DEFINED for stratum in self._extremes(place)]
        return [
            *length_strata(self),
            Stratum("order: the first argument documented last", lambda rows: self._asked(rows, 0)),
            Stratum("order: the second argument documented last", lambda rows: self._asked(rows, 1)),
            Stratum("extreme: arguments rising", lambda rows: _rising(rows[:, DEFINED])),
            Stratum("extreme: arguments falling", lambda rows: _rising(rows[:, DEFINED[::-1]])),
            *names,
            *words,
        ]

    def _asked(self, rows: np.ndarray, argument: int) -> np.ndarray:
        """Returns whether this argument is the one documented last, `[row]`."""
        last = rows[np.arange(len(rows)), self._last_documented(rows)]
        return last == rows[:, DEFINED[argument]]

    def _extremes(self, place: int) -> list[Stratum]:
        """Returns the prompts whose word at a position is the first, and the last, that can be there."""
        return [self.with_word(place, code) for code in (min(self._codes[place]), max(self._codes[place]))]

    def put(self, tokens: np.ndarray, place: int, code: int) -> np.ndarray:
        """Returns prompts with another word at a position, if one is there; arguments are exchanged."""
        before = tokens[:, [place]]
        if code not in self.arguments:
            there = (np.arange(self.length) == place) & (before >= 0)
            return np.where(there, np.int16(code), tokens)
        exchanged = np.where(tokens == code, before, tokens)
        return np.where(tokens == before, np.int16(code), exchanged)

    def shuffled(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts of the same text and length with the arguments in any order of another answer."""
        corrupted, same = tokens.copy(), np.ones(len(tokens), bool)
        while same.any():
            arguments = rng.permuted(tokens[same][:, DEFINED], axis=1)
            documented = rng.permuted(arguments[:, :2], axis=1)
            some = tokens[same]
            some[:, DEFINED] = arguments
            some[:, DOCUMENTED] = np.where(some[:, DOCUMENTED] >= 0, documented, NONE)
            corrupted[same] = some
            same = self._answers(corrupted) == self._answers(tokens)
        return corrupted

    def rotated(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts in which each argument takes the place of the one before, wherever it is."""
        corrupted = tokens.copy()
        for place, following in zip(DEFINED, (*DEFINED[1:], DEFINED[0])):
            moved = tokens == tokens[:, [place]]
            corrupted = np.where(moved, tokens[:, [following]], corrupted)
        return corrupted

    def renamed(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts in which the answer is another argument that occurs nowhere else."""
        corrupted, rows = tokens.copy(), np.arange(len(tokens))
        corrupted[rows, self._answer_place(tokens)] = self._others(rng, tokens)
        return corrupted

    def undocumented(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts in which the argument documented last is not in the definition: no answer."""
        corrupted, rows = tokens.copy(), np.arange(len(tokens))
        corrupted[rows, self._last_documented(tokens)] = self._others(rng, tokens)
        return corrupted

    def _last_documented(self, tokens: np.ndarray) -> np.ndarray:
        """Returns where the argument is that is documented last, `[row]`."""
        return np.where((tokens < 0).any(1), *DOCUMENTED)

    def _answer_place(self, tokens: np.ndarray) -> np.ndarray:
        """Returns where the argument is that follows, in the definition, the one documented last, `[row]`."""
        asked = tokens[np.arange(len(tokens)), self._last_documented(tokens)]
        return np.where(asked == tokens[:, DEFINED[0]], *DEFINED[1:])

    def _answers(self, tokens: np.ndarray) -> np.ndarray:
        """Returns that argument, `[row]`."""
        return tokens[np.arange(len(tokens)), self._answer_place(tokens)]

    def _others(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Draws for each row an argument that its definition does not have."""
        taken = (self.arguments == tokens[:, DEFINED, None]).any(1)
        return self.arguments[(rng.random(taken.shape) * ~taken).argmax(1)]


def _rising(codes: np.ndarray) -> np.ndarray:
    """Returns whether each row of codes is in the order of the vocabulary."""
    return np.diff(codes).min(1) > 0


PROMPTS = Docstrings()
VOCAB = PROMPTS.vocab
IS_ARGUMENT = np.array([word in ARGUMENTS for word in (*VOCAB, "none")])


def two_back(query: np.ndarray, key: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Returns the token two positions back: what a comma or a description separates."""
    return selected(key[:, None, :] == query[:, :, None] - 2, tokens)


def next_argument(query: np.ndarray, key: np.ndarray, tokens: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns, at the end, the argument earlier on whose `two_back` is that of the end."""
    same = (key[:, None, :] == query[:, :, None]) & (query >= 0)[:, :, None]
    match = same & IS_ARGUMENT[tokens][:, None, :] & earlier(tokens.shape[1])
    return np.where(is_last(values), selected(match, values), NONE)


@causal_task(
    "docstring",
    vocab=VOCAB,
    length=PROMPTS.length,
    domain=PROMPTS,
    alignment={"two_back": "a0.h1", "next_argument": "a1.h2"},
    network={"d_model": 64, "d_head": 16, "d_mlp": 256},
)
def docstring() -> CausalModel:
    """At the end of a docstring, the argument of the definition after the one documented last."""
    return CausalModel(
        [
            Variable("tokens", (), lambda tokens: tokens, VOCAB),
            Variable("positions", (), positions, tuple(range(PROMPTS.length))),
            Variable(
                "two_back",
                (Read("positions", "q"), Read("positions", "k"), Read("tokens", "v")),
                two_back,
                VOCAB,
                "the token two positions back",
            ),
            Variable(
                "next_argument",
                (Read("two_back", "q"), Read("two_back", "k"), Read("tokens", "k"), Read("tokens", "v")),
                next_argument,
                VOCAB,
                "at the end, the argument whose two_back is that of the end; none if there is none",
            ),
        ],
        "next_argument",
    )
