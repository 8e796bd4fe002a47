"""Strata that cannot be drawn directly, such as an output class: their inputs are found by a search.

The search draws inputs from the task's distribution and from all strata that can be drawn directly. Then it
changes inputs with known outputs a little, which finds ever rarer outputs (as in MAP-Elites, Mouret and Clune
2015). The inputs of a stratum that it has found are the stratum's pool.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from interpbench.core import seeds
from interpbench.tasks.domain import Domain
from interpbench.tasks.output_strata import Answers, Outputs, flat, group, same_throughout, sayer
from interpbench.tasks.stratum import Stratum, few

BATCH, BATCHES = 4096, 4
"""The number of inputs that the search for outputs draws at once, and how often it draws as many."""
PATIENCE, MOST_ROUNDS, ENOUGH = 8, 60, 256
"""The search ends when `PATIENCE` rounds in a row have found no new output, after `MOST_ROUNDS` rounds, or
when it has found more than `ENOUGH` outputs."""
POOL, SOUGHT, ROUNDS = 1024, 128, 6
"""The largest number of inputs in a stratum's pool, the number below which more are sought, and the largest
number of rounds of this search."""


class Pool(NamedTuple):
    """Inputs of a stratum in one part of the domain; `whole` if they are from both, as one has hardly any."""

    rows: np.ndarray
    whole: bool


class _Known(NamedTuple):
    """All inputs that the search has drawn, their outputs, and the groups of these."""

    rows: np.ndarray
    outputs: Outputs
    answers: Answers


class SearchedStrata:
    """The strata of outputs, and the strata of the domain that cannot be drawn directly.

    Args:
        domain: the inputs of the task.
        drawn: the strata of the domain that can be drawn directly.
        sought: the other strata of the domain.
        outputs: a function that returns the outputs of inputs and at which positions these are scored.
        classes: the values of the output classes; None for numerical outputs.
        name: the name of the task, from which random generators are seeded.
    """

    def __init__(
        self,
        domain: Domain,
        drawn: Sequence[Stratum],
        sought: Sequence[Stratum],
        outputs: Callable[[np.ndarray], Outputs],
        classes: Sequence[object] | None,
        name: str,
    ):
        self._domain, self._drawn, self._sought = domain, drawn, sought
        self._outputs, self._say, self._name = outputs, sayer(classes), name

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the strata that have some input."""
        names = (*(stratum.name for stratum in self._sought), *self._known.answers.names)
        return tuple(names[column] for column in self._kept)

    def labels(self, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row, stratum]`, the strata to which each of the inputs `[row, pos]` belongs."""
        return self._labels(tokens, self._outputs(tokens))[:, self._kept]

    def present(self, held_out: bool) -> list[int]:
        """Returns the indices of the strata that have some held-out input, or some that is not held out."""
        return [column for column, pool in enumerate(self._pools[held_out]) if len(pool.rows)]

    @property
    def whole(self) -> tuple[str, ...]:
        """The names of strata with hardly any held-out input, from which draws are made as a whole."""
        return tuple(name for name, pool in zip(self.names, self._pools[True]) if pool.whole)

    def draw(self, rng: np.random.Generator, wanted: dict[int, int], held_out: bool) -> np.ndarray:
        """Draws inputs of several strata.

        Args:
            rng: the random generator.
            wanted: the number of inputs for each stratum, by its index.
            held_out: whether inputs come from the held-out part of the domain.
        """
        if not wanted:
            return self._domain.draw(rng, 1, held_out)[:0]
        some = self._candidates(rng, max(2 * sum(wanted.values()), 64), held_out)
        labels = self.labels(some)
        parts: list[np.ndarray] = []
        missing: dict[int, int] = {}
        for column, count in wanted.items():
            members = np.flatnonzero(labels[:, column])
            if len(members) > count:
                members = rng.choice(members, count, replace=False)
            parts.append(some[members])
            missing[column] = count - len(members)
        return np.concatenate([*parts, self._near(rng, missing, held_out)])

    def _near(self, rng: np.random.Generator, wanted: dict[int, int], held_out: bool) -> np.ndarray:
        """Draws inputs similar to those of the pools; the pools' own where these are not in the stratum."""
        pools, counts = self._pools[held_out], list(wanted.values())
        rows = [spread(rng, pools[column].rows, count) for column, count in wanted.items()]
        bases = np.concatenate(rows)
        if not len(bases):
            return bases
        columns = np.repeat(list(wanted), counts)
        others = self._domain.near(rng, bases)
        if others is bases:
            return bases
        right = self.labels(others)[np.arange(len(others)), columns]
        whole = np.repeat([pools[column].whole for column in wanted], counts)
        right &= whole | self._in_part(others, held_out)
        return np.where(right[:, None], others, bases)

    def _candidates(self, rng: np.random.Generator, count: int, held_out: bool) -> np.ndarray:
        """Draws inputs, half from the task's distribution and half from strata that can be drawn directly."""
        each = 1 + count // (2 * max(len(self._drawn), 1))
        drawn = [s.draw(rng, each, held_out) for s in self._drawn if s.draw is not None]
        return np.concatenate([self._domain.draw(rng, count // 2, held_out), *drawn])

    def _in_part(self, rows: np.ndarray, held_out: bool) -> np.ndarray:
        return self._domain.is_held_out(rows) == held_out

    # The search.

    @cached_property
    def _known(self) -> _Known:
        rng = seeds.generator(0, "strata", self._name, "search")
        if self._domain.enumerated:
            return self._grouped([self._domain.all()])
        batches = [self._candidates(rng, BATCH, bool(batch % 2)) for batch in range(BATCHES)]
        seen: dict[float, list[np.ndarray]] = {}
        for rows in batches:
            _note(seen, rows, self._outputs(rows))
        barren = 0
        for _ in range(MOST_ROUNDS):
            if barren == PATIENCE or not seen or len(seen) > ENOUGH:
                break
            values = sorted(seen)
            lists = [seen[values[place]] for place in rng.integers(len(values), size=BATCH // 2)]
            bases = np.stack([rows[rng.integers(len(rows))] for rows in lists])
            others = self._domain.near(rng, bases)
            if others is bases:
                break
            batches.append(others)
            barren = 0 if _note(seen, others, self._outputs(others)) else barren + 1
        return self._grouped(batches)

    def _grouped(self, batches: list[np.ndarray]) -> _Known:
        """Returns the inputs of all batches, their outputs, and the groups of these."""
        rows = np.concatenate(batches)
        outputs = self._outputs(rows)
        values, times = np.unique(flat(outputs)[0], return_counts=True)
        same = same_throughout(outputs)
        return _Known(rows, outputs, group(values, times, self._say, bool(same.any() and not same.all())))

    def _labels(self, tokens: np.ndarray, outputs: Outputs) -> np.ndarray:
        """Returns bool `[row, stratum]`, the strata of each input; some of these strata may have no input."""
        sought = [stratum.has(tokens)[:, None] for stratum in self._sought]
        return np.concatenate([*sought, self._known.answers.labels(outputs)], 1)

    @cached_property
    def _kept(self) -> list[int]:
        """The indices of the strata of `_labels` that have some input."""
        known = self._known
        return np.flatnonzero(self._labels(known.rows, known.outputs).any(0)).tolist()

    @cached_property
    def _pools(self) -> tuple[list[Pool], list[Pool]]:
        """The pools of all strata, of inputs that are not held out and of held-out ones."""
        rng = seeds.generator(0, "strata", self._name, "pools")
        known = self._known
        labels = self._labels(known.rows, known.outputs)[:, self._kept]
        held = self._domain.is_held_out(known.rows)
        pools: tuple[list[Pool], list[Pool]] = ([], [])
        for column in range(len(self._kept)):
            members = np.flatnonzero(labels[:, column])
            both = [
                self._enlarged(rng, known.rows, members, members[held[members] == part], column, part)
                for part in (False, True)
            ]
            pools[False].append(Pool(both[False], False))
            whole = few(both[True])
            pools[True].append(Pool(np.unique(np.concatenate(both), axis=0) if whole else both[True], whole))
        return pools

    def _enlarged(
        self,
        rng: np.random.Generator,
        rows: np.ndarray,
        members: np.ndarray,
        inside: np.ndarray,
        column: int,
        held_out: bool,
    ) -> np.ndarray:
        """Returns different inputs of a stratum in a part: `inside`, and others similar to `members`."""
        inside = rng.permutation(inside)[: 4 * POOL]
        found = np.unique(rows[inside], axis=0)
        for _ in range(ROUNDS):
            if len(found) >= SOUGHT:
                break
            bases = rows[rng.choice(members, BATCH // 4)]
            others = self._domain.near(rng, bases)
            if others is bases:
                break
            others = others[self.labels(others)[:, column]]
            found = np.unique(np.concatenate([found, others[self._in_part(others, held_out)]]), axis=0)
        return rng.permutation(found)[:POOL]


def _note(seen: dict[float, list[np.ndarray]], rows: np.ndarray, outputs: Outputs) -> bool:
    """Adds an input to `seen` for each output that occurs, and returns whether one of these is new."""
    values, places = flat(outputs)
    different, first = np.unique(values, return_index=True)
    new = False
    for value, row in zip(different.tolist(), rows[places[first]]):
        new |= value not in seen
        seen.setdefault(value, []).append(row)
    return new


def spread(rng: np.random.Generator, rows: np.ndarray, count: int) -> np.ndarray:
    """Draws rows so that none is drawn twice before all others have been drawn.

    Args:
        rng: the random generator.
        rows: the inputs `[row, pos]`, or other values `[row, ...]`, to draw from.
        count: the number of rows.
    """
    if not count:
        return rows[:0]
    rounds, rest = divmod(count, len(rows))
    every = [np.arange(len(rows))] * rounds
    return rows[np.concatenate([*every, rng.choice(len(rows), rest, replace=False)])]
