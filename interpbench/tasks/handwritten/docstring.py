"""Docstring completion (Heimersheim and Janiak 2023): which argument is documented next?

After `def load ( self , file , size , mode ) : " param file path param size number param` the next word is
`mode`, the argument that follows the last documented one in the definition.
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
"""The positions of the arguments in the definition, and of those that are documented."""
INCIDENTAL = (1, 15, 18)
"""The positions of the words that the output never depends on: the function's name and descriptions."""
SHORT = 17
"""The length of a prompt that documents one argument; the others document two."""


class Docstrings(Slots):
    """Prompts that define three different arguments and document one or both of the first two."""

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
        """Draws prompts with three different arguments, one or two documented, and uniform other words."""
        tokens = super().sample(rng, count)
        order = rng.random((count, len(ARGUMENTS))).argsort(1)[:, : len(DEFINED)]
        return self._defining(rng, tokens, self.arguments[order])

    def reordered(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts with the same arguments in another order, one or two of them documented."""
        texts = super().sample(rng, len(tokens))
        return self._defining(rng, texts, rng.permuted(tokens[:, DEFINED], axis=1))

    def _defining(self, rng: np.random.Generator, texts: np.ndarray, arguments: np.ndarray) -> np.ndarray:
        """Puts arguments `[row, 3]` into texts and documents the first two in any order, or one of them."""
        texts[:, DEFINED] = arguments
        texts[:, DOCUMENTED] = rng.permuted(arguments[:, :2], axis=1)
        texts[rng.random(len(texts)) < 0.5, SHORT:] = NONE
        return texts

    def strata(self) -> Sequence[Stratum]:
        """Returns strata by length, by the argument documented last, of sorted arguments, and by word."""
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
        """Returns bool `[row]`, whether the argument of this number is the one documented last."""
        last = rows[np.arange(len(rows)), self._last_documented(rows)]
        return last == rows[:, DEFINED[argument]]

    def _extremes(self, place: int) -> list[Stratum]:
        """Returns two strata: prompts with the first and with the last word that can be at a position."""
        return [self.with_word(place, code) for code in (min(self._codes[place]), max(self._codes[place]))]

    def put(self, tokens: np.ndarray, place: int, code: int) -> np.ndarray:
        """Returns prompts in which one word is replaced.

        An argument is exchanged with the one that was there, so that no argument occurs twice.

        Args:
            tokens: prompts `[row, pos]`.
            place: the position of the word; shorter prompts stay as they are.
            code: the code of the new word, one that can be at this position.
        """
        before = tokens[:, [place]]
        if code not in self.arguments:
            there = (np.arange(self.length) == place) & (before >= 0)
            return np.where(there, np.int16(code), tokens)
        exchanged = np.where(tokens == code, before, tokens)
        return np.where(tokens == before, np.int16(code), exchanged)

    def shuffled(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts of the same text and length with the arguments reordered and another answer."""
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
        """Returns prompts in which each argument is replaced everywhere by the one that follows it."""
        corrupted = tokens.copy()
        for place, following in zip(DEFINED, (*DEFINED[1:], DEFINED[0])):
            moved = tokens == tokens[:, [place]]
            corrupted = np.where(moved, tokens[:, [following]], corrupted)
        return corrupted

    def renamed(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts in which the argument that is the answer is replaced by a new one."""
        corrupted, rows = tokens.copy(), np.arange(len(tokens))
        corrupted[rows, self._answer_place(tokens)] = self._others(rng, tokens)
        return corrupted

    def undocumented(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns prompts in which the argument documented last is not in the definition: output None."""
        corrupted, rows = tokens.copy(), np.arange(len(tokens))
        corrupted[rows, self._last_documented(tokens)] = self._others(rng, tokens)
        return corrupted

    def _last_documented(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the position `[row]` of the argument that is documented last."""
        return np.where((tokens < 0).any(1), *DOCUMENTED)

    def _answer_place(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the position `[row]`, in the definition, of the argument that is the answer."""
        asked = tokens[np.arange(len(tokens)), self._last_documented(tokens)]
        return np.where(asked == tokens[:, DEFINED[0]], *DEFINED[1:])

    def _answers(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the code `[row]` of the argument that is the answer."""
        return tokens[np.arange(len(tokens)), self._answer_place(tokens)]

    def _others(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Draws an argument `[row]` for each prompt that its definition does not have."""
        taken = (self.arguments == tokens[:, DEFINED, None]).any(1)
        return self.arguments[(rng.random(taken.shape) * ~taken).argmax(1)]


def _rising(codes: np.ndarray) -> np.ndarray:
    """Returns bool `[row]`, whether each row of codes is in the order of the vocabulary."""
    return np.diff(codes).min(1) > 0


PROMPTS = Docstrings()
VOCAB = PROMPTS.vocab
IS_ARGUMENT = np.array([word in ARGUMENTS for word in (*VOCAB, "none")])
"""Whether the token of each code is an argument; the last entry is for None."""


def two_back(query: np.ndarray, key: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Returns the token two positions back: before an argument, this is the argument before it.

    Args:
        query: the position of each query, `[row, query]`.
        key: the position of each key, `[row, key]`.
        tokens: the token of each key, `[row, key]`.
    """
    return selected(key[:, None, :] == query[:, :, None] - 2, tokens)


def next_argument(query: np.ndarray, key: np.ndarray, tokens: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns, at the end, the earlier argument whose `two_back` is the same as at the end; None elsewhere.

    Args:
        query: `two_back` at each query, `[row, query]`.
        key: `two_back` at each key, `[row, key]`.
        tokens: the token of each key, by which arguments are known, `[row, key]`.
        values: the token of each key, which is the result, `[row, key]`.
    """
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
