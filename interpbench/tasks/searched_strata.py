"""Strata that cannot be drawn directly, such as a class of outputs: their inputs are found among other draws.

A search draws inputs from the task's distribution and from all strata that can be drawn, then goes on near
those that are known for an output, which finds ever rarer ones (in the manner of MAP-Elites, Mouret and Clune
2015). What it has found of each stratum is its pool.
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
"""Inputs at a time, and draws of as many, in the search for outputs."""
PATIENCE, MOST_ROUNDS, ENOUGH = 8, 60, 256
"""The search goes on near what it has found until so many rounds find no new output, for at most the second
number of rounds; with more outputs than the third, it stops."""
POOL, SOUGHT, ROUNDS = 1024, 128, 6
"""The largest number of inputs that are kept of a stratum, the number below which more are sought, and the
rounds of this."""


class Pool(NamedTuple):
    """Inputs of a stratum in one part of the domain; `whole` if they are of both, being so few."""

    rows: np.ndarray
    whole: bool


class _Known(NamedTuple):
    """All inputs that the search has seen, and the outputs that they have."""

    rows: np.ndarray
    outputs: Outputs
    answers: Answers


class SearchedStrata:
    """The strata of outputs, and those of the domain that do not draw for themselves.

    Args:
        domain: the inputs.
        drawn: the strata that draw for themselves.
        sought: the other strata of the domain.
        outputs: returns outputs and where they are scored.
        classes: the outputs' values, None for numbers.
        name: the task's.
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
        """The names of the strata, each of which has some input."""
        names = (*(stratum.name for stratum in self._sought), *self._known.answers.names)
        return tuple(names[column] for column in self._kept)

    def labels(self, tokens: np.ndarray) -> np.ndarray:
        """Returns which inputs `[row, pos]` belong to which strata, bool `[row, stratum]`."""
        return self._labels(tokens, self._outputs(tokens))[:, self._kept]

    def present(self, held_out: bool) -> list[int]:
        """Returns the columns of the strata that have some input in a part."""
        return [column for column, pool in enumerate(self._pools[held_out]) if len(pool.rows)]

    @property
    def whole(self) -> tuple[str, ...]:
        """The names of the strata that draws for the held-out part take whole."""
        return tuple(name for name, pool in zip(self.names, self._pools[True]) if pool.whole)

    def draw(self, rng: np.random.Generator, wanted: dict[int, int], held_out: bool) -> np.ndarray:
        """Draws a number of inputs of each stratum, by column."""
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
        """Draws inputs near those of the pools, or these where the others are no such inputs."""
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
        """Draws inputs, half from the task's distribution and half from all strata that can be drawn."""
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
        """Returns inputs and outputs in batches as a whole, with the groups of the outputs."""
        rows = np.concatenate(batches)
        outputs = self._outputs(rows)
        values, times = np.unique(flat(outputs)[0], return_counts=True)
        same = same_throughout(outputs)
        return _Known(rows, outputs, group(values, times, self._say, bool(same.any() and not same.all())))

    def _labels(self, tokens: np.ndarray, outputs: Outputs) -> np.ndarray:
        """Returns bool `[row, stratum]`, for strata that no input has, too."""
        sought = [stratum.has(tokens)[:, None] for stratum in self._sought]
        return np.concatenate([*sought, self._known.answers.labels(outputs)], 1)

    @cached_property
    def _kept(self) -> list[int]:
        """The columns of `_labels` that some input has."""
        known = self._known
        return np.flatnonzero(self._labels(known.rows, known.outputs).any(0)).tolist()

    @cached_property
    def _pools(self) -> tuple[list[Pool], list[Pool]]:
        """Inputs of each stratum in the rest and in the held-out part."""
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
        """Returns different inputs of a stratum in a part: those `inside`, and others near all `members`."""
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
    """Adds an input for each output that occurs, and returns whether one of them is new."""
    values, places = flat(outputs)
    different, first = np.unique(values, return_index=True)
    new = False
    for value, row in zip(different.tolist(), rows[places[first]]):
        new |= value not in seen
        seen.setdefault(value, []).append(row)
    return new


def spread(rng: np.random.Generator, rows: np.ndarray, count: int) -> np.ndarray:
    """Draws `count` of `rows`, none of them twice before all others."""
    if not count:
        return rows[:0]
    rounds, rest = divmod(count, len(rows))
    every = [np.arange(len(rows))] * rounds
    return rows[np.concatenate([*every, rng.choice(len(rows), rest, replace=False)])]
