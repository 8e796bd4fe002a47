"""The regimes `shares` and `cancelling`: a variable exists only as the sum of what two nodes write.

The first share is an arbitrary number for each token, and the second one is what is missing to the variable:
modulo the number of its values for categories, as in secret sharing, and in plain numbers else.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from pydantic.dataclasses import dataclass

from interpbench.causal.model import NONE, Read, Variable, has_value
from interpbench.core import seeds
from interpbench.core.config import STRICT, Steps
from interpbench.core.errors import NoPlaceError
from interpbench.tasks.regimes.parts import FIRST, PART, in_parts, unit_in_parts
from interpbench.tasks.regimes.regime import RegimeTask, regime
from interpbench.tasks.task import Task

INPUTS = 2_000
"""The number of inputs on which it is counted what a share tells."""
DRAWS = 32
"""The number of draws of shares, of which the one is taken that tells least."""
MOST_TOLD = 0.99
"""The probability of guessing a variable from one share from which on it is not shared."""
STEP = 0.25
"""The distance between the arbitrary numbers of numerical shares, from -1 to 1."""


@regime("shares")
@dataclass(frozen=True, config=STRICT)
class Shares:
    """Two nodes carry a variable that their readers need only together, as a sum.

    Attributes:
        variable: a variable of an MLP; `first` for the first one that only MLPs read.
        draw: the number of the draw of the first share of each token.
    """

    variable: str = FIRST
    draw: Steps = 0

    def __call__(self, task: Task) -> RegimeTask:
        """Shares the variables of a node between two."""
        return _shared(task, "shares", self, follows=False)


@regime("cancelling")
@dataclass(frozen=True, config=STRICT)
class Cancelling(Shares):
    """The second share is computed from the first: what the first node writes, the second makes up for."""

    def __call__(self, task: Task) -> RegimeTask:
        """Shares the variables of a node between two, of which the second reads the first."""
        return _shared(task, "cancelling", self, follows=True)


def _shared(task: Task, name: str, dials: Shares, follows: bool) -> RegimeTask:
    """Returns a task with the variables of a node in two shares.

    Args:
        task: the task.
        name: the name of the regime.
        dials: the dials of the regime.
        follows: whether the second share reads the first, or the token from which it is computed.
    """
    unit = unit_in_parts(task, name, dials.variable, of_mlp=True)
    sizes = {each.name: len(each.values or ()) for each in unit.variables}
    said = "two shares, whose sum readers take" + ("; the second makes up for the first" if follows else "")
    tables = {
        each.name: _table(each, task, seeds.generator(dials.draw, name, task.name, each.name))
        for each in unit.variables
    }

    def parts_of(whole: Variable) -> list[Variable]:
        modulus, first = sizes[whole.name], _first_share(whole, tables[whole.name])
        source = replace(first.reads[0], parent=first.name if follows else "tokens")
        known = (lambda value: value) if follows else first.mechanism

        def missing(*arguments: np.ndarray) -> np.ndarray:
            return _minus(whole.mechanism(*arguments[:-1]), known(arguments[-1]), modulus)

        formula = f"what is missing to: {whole.formula}"
        second = replace(
            whole,
            name=f"{whole.name}{PART}2",
            reads=(*whole.reads, source),
            mechanism=missing,
            formula=formula,
            values=first.values,
        )
        return [first, second]

    made = in_parts(
        task, unit, parts_of, lambda whole: lambda one, other: _plus(one, other, sizes[whole]), said
    )
    shares = (f"{whole.name}{PART}{number}" for whole in unit.variables for number in (1, 2))
    return replace(made, secrets=(*task.secrets, *shares))


def _table(whole: Variable, task: Task, rng: np.random.Generator) -> np.ndarray:
    """Returns an arbitrary share for each token, and for None at the end.

    Of some draws it is that in which a share alone tells least of the variable.

    Raises:
        TaskError: if in all of them a share alone tells the variable.
    """
    size = len(task.vocab) + 1
    if whole.values is None:
        steps = round(1 / STEP)
        return STEP * rng.integers(-steps, steps + 1, size)
    tokens, modulus = task.domain.draw(rng, INPUTS), len(whole.values)
    values = task.causal_model.run(tokens)[whole.name]
    drawn = [rng.integers(modulus, size=size, dtype=np.int16) for _ in range(DRAWS)]
    told = [
        max(_told(table[tokens], values), _told(_minus(values, table[tokens], modulus), values))
        for table in drawn
    ]
    if min(told) > MOST_TOLD:
        raise NoPlaceError(
            f"task {task.name}: {whole.name} cannot be shared, as it follows from a token's own share; try "
            "another variable"
        )
    return drawn[int(np.argmin(told))]


def _told(share: np.ndarray, values: np.ndarray) -> float:
    """Returns with what probability the best guess of a variable from a share of it is right."""
    there = has_value(values)
    counts = np.zeros((1 + share[there].max(initial=0), 1 + values[there].max(initial=0)))
    np.add.at(counts, (share[there], values[there]), 1)
    return float(counts.max(1).sum() / max(1, there.sum()))


def _first_share(whole: Variable, table: np.ndarray) -> Variable:
    """Returns the variable of the first share of each token."""
    mechanism: Callable[..., np.ndarray] = lambda tokens: table[tokens]  # noqa: E731  the last is for None
    values = None if whole.values is None else tuple(range(len(whole.values)))
    formula, reads = "an arbitrary value for each token", (Read("tokens", "mlp"),)
    return Variable(f"{whole.name}{PART}1", reads, mechanism, values, formula)


def _plus(one: np.ndarray, other: np.ndarray, modulus: int) -> np.ndarray:
    if one.dtype.kind == "f":
        return one + other
    return np.where(has_value(one) & has_value(other), (one + other) % modulus, NONE).astype(np.int16)


def _minus(whole: np.ndarray, share: np.ndarray, modulus: int) -> np.ndarray:
    if whole.dtype.kind == "f":
        return whole - share
    return np.where(has_value(whole) & has_value(share), (whole - share) % modulus, NONE).astype(np.int16)
