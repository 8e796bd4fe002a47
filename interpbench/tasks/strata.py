"""Draws that are spread evenly over the strata of a task: what uniform draws hardly see, they see often.

The strata are those that the domain names (`Domain.strata`) and those of the outputs (`output_strata.py`).
Many of the first can be drawn directly; inputs of the others are found among draws (`searched_strata.py`).
The inputs of an enumerated domain are all labelled instead.
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
"""Pairs of positions, over all inputs, on which the program is run at a time."""


class Strata:
    """The strata of a task.

    In a large domain, draws for the held-out part are of held-out inputs, but for strata that have fewer than
    `stratum.FEW` of them there (as inputs of one token throughout): these, named by `whole`, are drawn as a
    whole, and `Domain.is_held_out` tells which inputs are held out. All other draws are without any held-out
    input; a stratum that is held out altogether is left out of them. In an enumerated domain the flag has no
    effect.

    Args:
        domain: its inputs.
        causal_model: its program.
        scored: returns which outputs `[row, pos]` are scored, bool.
        name: the task's, from which draws are seeded.
    """

    def __init__(
        self, domain: Domain, causal_model: CausalModel, scored: Callable[[np.ndarray], np.ndarray], name: str
    ):
        self._domain, self._causal_model, self._scored, self._name = domain, causal_model, scored, name

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the strata, each of which has some input."""
        return (*(stratum.name for stratum in self._drawn), *self._found.names)

    @cached_property
    def whole(self) -> tuple[str, ...]:
        """The names of the strata of which hardly any input is held out: they are drawn as a whole."""
        if self._domain.enumerated:
            return ()
        return (*(stratum.name for stratum in self._drawn if stratum.whole()), *self._found.whole)

    def labels(self, tokens: np.ndarray) -> np.ndarray:
        """Returns which inputs `[row, pos]` belong to which strata, bool `[row, stratum]`."""
        drawn = [stratum.has(tokens)[:, None] for stratum in self._drawn]
        return np.concatenate([*drawn, self._found.labels(tokens)], 1)

    def draw(self, rng: np.random.Generator, count: int, held_out: bool = False) -> np.ndarray:
        """Draws int16 `[count, length]`, from every stratum equally often, in any order.

        Args:
            rng: the generator.
            count: how many; some strata, drawn by chance, get one more than others if it is no multiple.
            held_out: draw from the held-out part of a large domain; see the class.
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
        """Draws inputs of a stratum that draws for itself, some of them again if it finds too few."""
        assert stratum.draw is not None
        rows = stratum.draw(rng, max(count, 1), held_out)[:count]
        return rows if len(rows) == count else np.concatenate([rows, spread(rng, rows, count - len(rows))])

    def _draw_labelled(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws from an enumerated domain: no input of a stratum twice before all others of it."""
        sizes = _shares(rng, count, len(self._members))
        places = [spread(rng, members, size) for members, size in zip(self._members, sizes)]
        return self._everything[rng.permutation(np.concatenate(places))].astype(np.int16, copy=False)

    @cached_property
    def _everything(self) -> np.ndarray:
        """All inputs of an enumerated domain."""
        return self._domain.all()

    @cached_property
    def _members(self) -> list[np.ndarray]:
        """The places of each stratum's inputs among all."""
        return [np.flatnonzero(column) for column in self.labels(self._everything).T]

    @cached_property
    def _named(self) -> list[Stratum]:
        """What the domain names."""
        return list(self._domain.strata())

    @cached_property
    def _drawn(self) -> list[Stratum]:
        """The domain's strata that draw for themselves, or all of an enumerated domain's, if not empty."""
        if self._domain.enumerated:
            return [stratum for stratum in self._named if stratum.has(self._everything).any()]
        return [stratum for stratum in self._named if self._has_some(stratum, True)]

    @cached_property
    def _present(self) -> tuple[list[Stratum], list[Stratum]]:
        """Those of them that have some input in the rest, and in the held-out part."""
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
        """Returns outputs and where they are scored, run on as many inputs at a time as memory allows."""
        rows = max(1, PAIRS // tokens.shape[1] ** 2)
        parts = [
            self._causal_model.outputs(tokens[i : i + rows]) for i in range(0, max(len(tokens), 1), rows)
        ]
        outputs = np.concatenate(parts)
        return outputs, self._scored(outputs)


def _shares(rng: np.random.Generator, count: int, strata: int) -> list[int]:
    """Returns how many inputs to draw from each stratum."""
    sizes = np.full(strata, count // strata)
    sizes[rng.choice(strata, count % strata, replace=False)] += 1
    return sizes.tolist()
