"""Stratified draws: equally many inputs from each stratum of a task, so that rare kinds of inputs occur.

The strata are those of the domain (`Domain.strata`) and those of the outputs (`output_strata.py`). Many
strata of the domain can be drawn directly. Inputs of the others are found among other draws
(`searched_strata.py`), or among all inputs if the domain is enumerated.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from interpbench.causal.model import CausalModel
from interpbench.core import seeds
from interpbench.tasks.domain import Domain
from interpbench.tasks.output_strata import Outputs
from interpbench.tasks.searched_strata import SearchedStrata, spread
from interpbench.tasks.stratum import Stratum

PAIRS = 1 << 26
"""The largest number of pairs of positions, over all inputs, on which the program is run at once."""


class Strata:
    """The strata of a task.

    In a large domain, draws for the held-out part consist of held-out inputs. Exceptions are strata with
    fewer than `stratum.FEW` held-out inputs (such as inputs that repeat one token throughout): these strata,
    which `whole` names, are drawn from as a whole, and `Domain.is_held_out` says which inputs are held out.
    Other draws contain no held-out input, and no stratum of which all inputs are held out. In an enumerated
    domain nothing is held out.

    Args:
        domain: the inputs of the task.
        causal_model: the program of the task.
        scored: a function that returns bool `[row, pos]`, which outputs `[row, pos]` are scored.
        name: the name of the task, from which random generators are seeded.
    """

    def __init__(
        self, domain: Domain, causal_model: CausalModel, scored: Callable[[np.ndarray], np.ndarray], name: str
    ):
        self._domain, self._causal_model, self._scored, self._name = domain, causal_model, scored, name

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all strata that have some input."""
        return (*(stratum.name for stratum in self._drawn), *self._found.names)

    @cached_property
    def whole(self) -> tuple[str, ...]:
        """The names of strata with hardly any held-out input, from which draws are made as a whole."""
        if self._domain.enumerated:
            return ()
        return (*(stratum.name for stratum in self._drawn if stratum.whole()), *self._found.whole)

    def labels(self, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row, stratum]`, the strata to which each of the inputs `[row, pos]` belongs."""
        drawn = [stratum.has(tokens)[:, None] for stratum in self._drawn]
        return np.concatenate([*drawn, self._found.labels(tokens)], 1)

    def draw(self, rng: np.random.Generator, count: int, held_out: bool = False) -> np.ndarray:
        """Draws inputs, int16 `[count, length]`, equally many from every stratum, in random order.

        Args:
            rng: the random generator.
            count: the number of inputs; if it is not a multiple of the number of strata, some strata, chosen
                at random, get one more than the others.
            held_out: whether inputs come from the held-out part of a large domain (see the class).
        """
        if not self.names:
            return self._domain.draw(rng, count, held_out)
        if self._domain.enumerated:
            return self._draw_labelled(rng, count)
        drawn, found = self._present[held_out], self._found.present(held_out)
        sizes = _shares(rng, count, len(drawn) + len(found))
        parts = [self._draw_one(rng, stratum, n, held_out) for stratum, n in zip(drawn, sizes)]
        parts.append(self._found.draw(rng, dict(zip(found, sizes[len(drawn) :])), held_out))
        return rng.permutation(np.concatenate(parts)).astype(np.int16, copy=False)

    @staticmethod
    def _draw_one(rng: np.random.Generator, stratum: Stratum, count: int, held_out: bool) -> np.ndarray:
        """Draws inputs of a stratum that can be drawn directly, some of them twice if it has too few."""
        assert stratum.draw is not None
        rows = stratum.draw(rng, max(count, 1), held_out)[:count]
        return rows if len(rows) == count else np.concatenate([rows, spread(rng, rows, count - len(rows))])

    def _draw_labelled(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from an enumerated domain; no input of a stratum is drawn twice before all others once."""
        sizes = _shares(rng, count, len(self._members))
        places = [spread(rng, members, size) for members, size in zip(self._members, sizes)]
        return self._everything[rng.permutation(np.concatenate(places))].astype(np.int16, copy=False)

    @cached_property
    def _everything(self) -> np.ndarray:
        """All inputs of an enumerated domain."""
        return self._domain.all()

    @cached_property
    def _members(self) -> list[np.ndarray]:
        """The indices of each stratum's inputs among all inputs."""
        return [np.flatnonzero(column) for column in self.labels(self._everything).T]

    @cached_property
    def _named(self) -> list[Stratum]:
        """The strata of the domain."""
        return list(self._domain.strata())

    @cached_property
    def _drawn(self) -> list[Stratum]:
        """The domain's strata that have some input and can be drawn directly, or all if it is enumerated."""
        if self._domain.enumerated:
            return [stratum for stratum in self._named if stratum.has(self._everything).any()]
        return [stratum for stratum in self._named if self._has_some(stratum, True)]

    @cached_property
    def _present(self) -> tuple[list[Stratum], list[Stratum]]:
        """Those of them with some input that is not held out, and those with some held-out input."""
        return [stratum for stratum in self._drawn if self._has_some(stratum, False)], self._drawn

    @staticmethod
    def _has_some(stratum: Stratum, held_out: bool) -> bool:
        rng = seeds.generator(0, "strata", stratum.name)
        return stratum.draw is not None and len(stratum.draw(rng, 1, held_out)) > 0

    @cached_property
    def _found(self) -> SearchedStrata:
        sought = [] if self._domain.enumerated else [s for s in self._named if s.draw is None]
        classes = self._causal_model.classes
        return SearchedStrata(self._domain, self._drawn, sought, self._outputs, classes, self._name)

    def _outputs(self, tokens: np.ndarray) -> Outputs:
        """Returns outputs and at which positions they are scored, computed on limited numbers of inputs."""
        rows = max(1, PAIRS // tokens.shape[1] ** 2)
        parts = [
            self._causal_model.outputs(tokens[i : i + rows]) for i in range(0, max(len(tokens), 1), rows)
        ]
        outputs = np.concatenate(parts)
        return outputs, self._scored(outputs)


def _shares(rng: np.random.Generator, count: int, strata: int) -> list[int]:
    """Returns the number of inputs to draw from each stratum."""
    sizes = np.full(strata, count // strata)
    sizes[rng.choice(strata, count % strata, replace=False)] += 1
    return sizes.tolist()
