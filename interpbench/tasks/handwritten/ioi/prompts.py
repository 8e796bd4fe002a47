"""The domain of IOI prompts: templates filled with names, places and objects.

Inputs are arrays `[row, pos]` of codes into the vocabulary, which starts with the names; -1 follows the end
of a prompt. A tenth of the texts (templates, whatever the order of their names) and a tenth of the pairs of
names are chosen by a hash; prompts with such a text, or with both names of such a pair, are held out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations, permutations, product
from math import perm

import numpy as np

from interpbench.core.errors import TaskError
from interpbench.tasks.domain import RESAMPLE, Corruption, Domain, in_hashed_tenth, row_hash
from interpbench.tasks.handwritten.ioi.strata import prompt_strata
from interpbench.tasks.handwritten.ioi.templates import IO, OBJECT, PLACE, SLOTS, S, T, Template
from interpbench.tasks.stratum import Stratum

END = -1
FEWEST_TEXTS = 10
"""The number of texts from which on some are held out."""
LEARNED = (1 / 12, 1 / 12, 4 / 12, 1 / 12, 1 / 12, 4 / 12)
"""The probabilities with which training draws a source in each of six ways."""
AGAIN = 6
"""The number of attempts to make a source that is held out."""
ANY_NAME = 10_000
"""The number that stands for any name in a text; with a position added, for the name that is first there."""


class Prompts(Domain):
    """All prompts that some templates and words make.

    Args:
        templates: the templates.
        names: the names, of which each prompt has different ones.
        places: the places.
        objects: the objects.

    Attributes:
        vocab: the names, the places, the objects, then the other words.
        length: the number of tokens of the longest prompt.
    """

    def __init__(
        self,
        templates: Sequence[Template],
        names: Sequence[str],
        places: Sequence[str],
        objects: Sequence[str],
    ):
        self.templates, self.names = tuple(templates), tuple(names)
        self.places, self.objects = tuple(places), tuple(objects)
        self._fillers = {PLACE: self.places, OBJECT: self.objects}
        words = sorted({word for template in templates for word in template} - set(SLOTS))
        self.vocab = (*names, *places, *objects, *words)
        twice = sorted(word for word, times in Counter(self.vocab).items() if times > 1)
        if twice:
            raise TaskError(f"names, places, objects and words of templates share {', '.join(twice)}")
        self.length = max(map(len, templates))
        code = {word: number for number, word in enumerate(self.vocab)}
        code |= {slot: -2 - number for number, slot in enumerate(SLOTS)}
        self._texts = np.full((len(templates), self.length), END, np.int16)  # slots are -2, -3, …
        for number, template in enumerate(templates):
            self._texts[number, : len(template)] = [code[word] for word in template]
        texts = {tuple(ANY_NAME if word in (IO, S, T) else word for word in t) for t in self.templates}
        self._holds_texts_out = len(texts) >= FEWEST_TEXTS

    @property
    def size(self) -> int:
        """The exact number of prompts."""
        count = {slot: len(words) for slot, words in self._fillers.items()}
        total = 0
        for template in self.templates:
            fillings = perm(len(self.names), len({IO, S, T} & set(template)))
            for slot, words in count.items():
                fillings *= words if slot in template else 1
            total += fillings
        return total

    @property
    def enumerated(self) -> bool:
        """Whether nothing is held out, which is never so for prompts."""
        return False

    def all(self) -> np.ndarray:
        """Returns every prompt, `[size, length]`; only a small set fits into memory."""
        places = range(len(self.names), len(self.names) + len(self._fillers[PLACE]))
        objects = range(places.stop, places.stop + len(self._fillers[OBJECT]))
        rows: list[np.ndarray] = []
        for template, text in zip(self.templates, self._texts):
            people = [slot for slot in (IO, S, T) if slot in template]
            choices = {
                slot: codes for slot, codes in ((PLACE, places), (OBJECT, objects)) if slot in template
            }
            slots = [-2 - SLOTS.index(slot) for slot in (*people, *choices)]
            for who in permutations(range(len(self.names)), len(people)):
                for what in product(*choices.values()):
                    row = text.copy()
                    for slot, code in zip(slots, (*who, *what)):
                        row[text == slot] = code
                    rows.append(row)
        return np.stack(rows)

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws prompts `[count, length]`: a template, then its words, uniformly."""
        return self.told(rng, rng.integers(len(self.templates), size=count))

    def positions(self, tokens: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the positions, each `[row]`, of IO, S1, S2 (the giver's first and last mention) and END.

        Raises:
            TaskError: if a row is not a prompt of these templates.
        """
        number = self.template_of(tokens)
        if (number < 0).any():
            raise TaskError(f"row {(number < 0).argmax()} is not a prompt of these templates")
        texts = self._texts[number]
        last = np.where((texts <= -2) & (texts > -2 - 3), np.arange(self.length), -1).max(1)
        subject = np.take_along_axis(texts, last[:, None], 1)
        return {
            "io": (texts == -2 - SLOTS.index(IO)).argmax(1),
            "s1": (texts == subject).argmax(1),
            "s2": last,
            "end": (texts != END).sum(1) - 1,
        }

    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row]`, which prompts have a held-out text, or both names of a held-out pair."""
        held = np.zeros(len(tokens), bool)
        if self._holds_texts_out:
            held |= in_hashed_tenth(self._text(tokens))
        names = self._names_in(tokens, self._most_names)
        for pair in combinations(names.T, 2):
            held |= in_hashed_tenth(np.sort(np.stack(pair, 1), 1)) & (pair[1] >= 0)
        return held

    def strata(self) -> Sequence[Stratum]:
        """Returns the strata of prompts (`strata.py`)."""
        return prompt_strata(self)

    def told(self, rng: np.random.Generator, templates: np.ndarray) -> np.ndarray:
        """Draws a prompt of each of these templates `[row]`, given by number: `[row, length]`."""
        return self._fill(rng, templates, self._distinct(rng, len(templates), 3))

    def word_at(self, tokens: np.ndarray, slot: str) -> np.ndarray:
        """Returns the code `[row]` of the word that fills a slot; -1 where a template has no such slot."""
        number = self.template_of(tokens)
        there = (self._texts[number] == -2 - SLOTS.index(slot)) & (number >= 0)[:, None]
        return np.where(there, tokens, END).max(1)

    def codes_of(self, slot: str) -> list[int]:
        """Returns the codes of the words that can fill a slot."""
        words = self._fillers.get(slot, self.names)
        first = self.vocab.index(words[0])
        return list(range(first, first + len(words)))

    # Functions that change prompts.

    @property
    def corruptions(self) -> Mapping[str, Corruption]:
        """The corruptions: `abc` (other names, each once), `swap` (IO and S exchanged) and `resample`."""
        return {"abc": self.abc, "swap": self.swap, RESAMPLE: super().corruptions[RESAMPLE]}

    def abc(self, rng: np.random.Generator, tokens: np.ndarray, apart: bool = False) -> np.ndarray:
        """Returns prompts of the same text in which all names are new and different.

        Args:
            rng: the random generator.
            tokens: prompts `[row, pos]`.
            apart: whether most results shall be held out, by their pair of names.
        """
        where = self._is_name(tokens)
        known = self._names_in(tokens, self._most_names)
        others = self._distinct(rng, len(tokens), int(where.sum(1).max(initial=0)), known)
        if apart:
            others = self._paired(rng, others, known)
        return self._renamed(tokens, where.cumsum(1) - 1, others)

    def swap(self, rng: np.random.Generator, tokens: np.ndarray, apart: bool = False) -> np.ndarray:
        """Returns prompts in which IO replaces S at its last mention, so that the answer is S.

        Args:
            rng: the random generator, which is not used.
            tokens: prompts `[row, pos]`.
            apart: has no effect; results are held out exactly if `tokens` are.
        """
        rows, place = np.arange(len(tokens)), self.positions(tokens)
        swapped = tokens.copy()
        swapped[rows, place["s2"]] = tokens[rows, place["io"]]
        return swapped

    def renamed(self, rng: np.random.Generator, tokens: np.ndarray, apart: bool = False) -> np.ndarray:
        """Returns prompts of the same text with other names, in the same roles.

        Args:
            rng: the random generator.
            tokens: prompts `[row, pos]`.
            apart: whether most results shall be held out, by their pair of names.
        """
        first = self._first_time(tokens)
        rank = np.take_along_axis(first.cumsum(1) - 1, self._first_place(tokens), 1)
        names = self._distinct(rng, len(tokens), int(first.sum(1).max(initial=0)))
        return self._renamed(tokens, rank, self._paired(rng, names) if apart else names)

    def retold(self, rng: np.random.Generator, tokens: np.ndarray, apart: bool = False) -> np.ndarray:
        """Returns prompts of random templates with the same names, in any roles.

        Args:
            rng: the random generator.
            tokens: prompts `[row, pos]`.
            apart: whether results shall be held out, by their text.
        """
        some = np.flatnonzero(self._held_templates) if apart else np.arange(0)
        every = some if len(some) else np.arange(len(self.templates))
        return self._retold(rng, tokens, every[rng.integers(len(every), size=len(tokens))])

    def overtaken(self, rng: np.random.Generator, tokens: np.ndarray, apart: bool = False) -> np.ndarray:
        """Returns prompts with the same names, of templates that repeat a name at the last position of these.

        Few random prompts do so. Activations swapped in from them act at the position of the answer.

        Args:
            rng: the random generator.
            tokens: prompts `[row, pos]`.
            apart: whether results shall be held out, by their text.
        """
        ends = (tokens >= 0).sum(1) - 1
        fits = self._again[:, ends].T + rng.random((len(tokens), len(self.templates)), np.float32)
        if apart:
            fits += 2 * self._held_templates
        return self._retold(rng, tokens, fits.argmax(1))

    def sources(self, rng: np.random.Generator, base: np.ndarray, held_out: bool = False) -> np.ndarray:
        """Draws each source in one of six ways: an independent prompt, or one made from the base.

        Training draws `retold` and `overtaken` four times as often, as these are learned last. A source for
        the held-out part that is not held out is made again, with a held-out pair of names or a held-out
        text. If it still belongs to the other part, an independent prompt is drawn.
        """
        way = rng.choice(6, size=len(base), p=None if held_out else LEARNED)
        sources = self.draw(rng, len(base), held_out)
        makers = (self.renamed, self.retold, self.abc, self.swap, self.overtaken)
        for number, make in enumerate(makers, 1):
            rows = np.flatnonzero(way == number)
            made = make(rng, base[rows])
            right = self.is_held_out(made) == held_out
            for _ in range(AGAIN if held_out else 0):
                left = np.flatnonzero(~right)
                if not len(left):
                    break
                made[left] = make(rng, base[rows[left]], apart=True)
                right[left] = self.is_held_out(made[left])
            sources[rows[right]] = made[right]
        return sources

    # Parts of these functions.

    def _is_name(self, tokens: np.ndarray) -> np.ndarray:
        return (tokens >= 0) & (tokens < len(self.names))

    def _first_place(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the first position of each token in its row, `[row, pos]`."""
        return (tokens[:, :, None] == tokens[:, None, :]).argmax(2)

    def _first_time(self, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row, pos]`, whether a token is a name that has not occurred before."""
        return self._is_name(tokens) & (self._first_place(tokens) == np.arange(tokens.shape[1]))

    def _names_in(self, tokens: np.ndarray, most: int) -> np.ndarray:
        """Returns the different names of each row, `[row, most]`, padded with -1."""
        return -np.sort(-np.where(self._first_time(tokens), tokens, END), 1)[:, :most]

    def _distinct(
        self, rng: np.random.Generator, rows: int, count: int, but: np.ndarray | None = None
    ) -> np.ndarray:
        """Draws different names `[row, count]`, none of which is in `but [row, any]`."""
        order = rng.random((rows, len(self.names)), np.float32)
        if but is not None:
            for column in but.T:
                order[np.flatnonzero(column >= 0), column[column >= 0]] = 2
        chosen = np.argpartition(order, count, 1)[:, :count]
        return rng.permuted(chosen, axis=1).astype(np.int16)

    def _paired(
        self, rng: np.random.Generator, names: np.ndarray, but: np.ndarray | None = None
    ) -> np.ndarray:
        """Returns names `[row, any]` of which the first two are a held-out pair where it draws new names."""
        if not len(self._held_pairs):
            return names
        pairs = self._held_pairs[rng.integers(len(self._held_pairs), size=len(names))]
        taken = names[:, 2:] if but is None else np.concatenate([names[:, 2:], but], 1)
        new = ~(taken[:, :, None] == pairs[:, None, :]).any((1, 2))
        return np.concatenate([np.where(new[:, None], pairs, names[:, :2]), names[:, 2:]], 1)

    @cached_property
    def _held_pairs(self) -> np.ndarray:
        """The codes of all held-out pairs of names, `[pair, 2]`, in both orders."""
        pairs = np.array(list(combinations(range(len(self.names)), 2)), np.int16)
        held = pairs[in_hashed_tenth(pairs)]
        return np.concatenate([held, held[:, ::-1]])

    @cached_property
    def _held_templates(self) -> np.ndarray:
        """Whether each template has a held-out text, bool `[template]`."""
        held = in_hashed_tenth(self._text(self._every_template))
        return held & self._holds_texts_out

    def _renamed(self, tokens: np.ndarray, rank: np.ndarray, names: np.ndarray) -> np.ndarray:
        """Returns tokens with each name replaced by name number `rank [row, pos]` of `names [row, any]`."""
        chosen = np.take_along_axis(names, rank.clip(0, names.shape[1] - 1), 1)
        return np.where(self._is_name(tokens), chosen, tokens)

    def _fill(self, rng: np.random.Generator, templates: np.ndarray, names: np.ndarray) -> np.ndarray:
        """Returns prompts of templates with `names [row, 3]` as IO, S and T, and random place and object."""
        tokens = self._texts[templates]
        first = len(self.names)
        fillings = list(names.T)
        for words in self._fillers.values():
            fillings.append(rng.integers(first, first + len(words), size=len(templates), dtype=np.int16))
            first += len(words)
        for number, codes in enumerate(fillings):
            tokens = np.where(tokens == -2 - number, codes[:, None], tokens)
        return tokens

    def _retold(self, rng: np.random.Generator, tokens: np.ndarray, templates: np.ndarray) -> np.ndarray:
        """Returns prompts of templates with the names of `tokens` in any roles, and new ones if needed."""
        known = self._names_in(tokens, 3)
        names = np.where(known >= 0, known, self._distinct(rng, len(tokens), 3, known))
        return self._fill(rng, templates, rng.permuted(names, axis=1))

    @cached_property
    def _has_name(self) -> np.ndarray:
        """Whether there is a name at each position of each template, bool `[template, pos]`."""
        return np.isin(self._texts, [-2 - SLOTS.index(slot) for slot in (IO, S, T)])

    @property
    def _most_names(self) -> int:
        """The largest number of positions of a prompt that have a name."""
        return int(self._has_name.sum(1).max())

    @cached_property
    def _again(self) -> np.ndarray:
        """Whether there is a name that has occurred before, bool `[template, pos]`."""
        before = np.tri(self.length, k=-1, dtype=bool)
        same = self._texts[:, :, None] == self._texts[:, None, :]
        return self._has_name & (same & before).any(2)

    def template_of(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the number `[row]` of each prompt's template; -1 if it is not a prompt of any."""
        keys, numbers = self._keys
        key = row_hash(self._pattern(tokens))
        place = np.searchsorted(keys, key).clip(0, len(keys) - 1)
        return np.where(keys[place] == key, numbers[place], -1)

    @cached_property
    def _keys(self) -> tuple[np.ndarray, np.ndarray]:
        """The sorted hashes of all templates, and their numbers."""
        keys = row_hash(self._pattern(self._every_template))
        if len(np.unique(keys)) < len(keys):
            raise TaskError("two templates of the prompts are the same")
        order = keys.argsort()
        return keys[order], order

    @cached_property
    def _every_template(self) -> np.ndarray:
        """A prompt of each template, `[template, pos]`."""
        count = len(self.templates)
        rng = np.random.Generator(np.random.PCG64(0))
        return self._fill(rng, np.arange(count), np.tile(np.arange(3, dtype=np.int16), (count, 1)))

    def _pattern(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the text of each row with the first position of each name, which tell its template."""
        return self._text(tokens) + np.where(self._is_name(tokens), self._first_place(tokens), 0)

    def _text(self, tokens: np.ndarray) -> np.ndarray:
        """Returns each row with names, places and objects replaced by numbers for these three kinds."""
        text = np.where(self._is_name(tokens), ANY_NAME, tokens.astype(np.int64))
        first = len(self.names)
        for number, words in enumerate(self._fillers.values(), 1):
            text = np.where((tokens >= first) & (tokens < first + len(words)), -1 - number, text)
            first += len(words)
        return text
