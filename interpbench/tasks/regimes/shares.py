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
from interpbench.tasks.regimes.parts import FIRST, PART, in_parts, unit_in_parts
from interpbench.tasks.regimes.regime import RegimeTask, regime
from interpbench.tasks.task import Task

STEP = 0.25
"""The distance between the arbitrary numbers of numerical shares, from -1 to 1."""


@regime("shares")
@dataclass(frozen=True, config=STRICT)
class Shares:
    """Neither of two nodes carries a variable that their readers need, and their sum does.

    Attributes:
        variable: a variable of an MLP; `first` for the first one that only MLPs read.
        draw: the number of the draw of the first share of each token.
    """

    variable: str = FIRST
    draw: Steps = 0

    def __call__(self, task: Task) -> RegimeTask:
        """Shares the variables of a node between two."""
        return _shared(task, "shares", self.variable, self.draw, follows=False)


@regime("cancelling")
@dataclass(frozen=True, config=STRICT)
class Cancelling:
    """The second share is computed from the first: what the first node writes, the second makes up for.

    Attributes:
        variable: a variable of an MLP; `first` for the first one that only MLPs read.
        draw: the number of the draw of the first share of each token.
    """

    variable: str = FIRST
    draw: Steps = 0

    def __call__(self, task: Task) -> RegimeTask:
        """Shares the variables of a node between two, of which the second reads the first."""
        return _shared(task, "cancelling", self.variable, self.draw, follows=True)


def _shared(task: Task, name: str, variable: str, draw: int, follows: bool) -> RegimeTask:
    """Returns a task with the variables of a node in two shares.

    Args:
        task: the task.
        name: the name of the regime.
        variable: a variable of the node.
        draw: the number of the draw of the first share.
        follows: whether the second share reads the first, or the token from which it is computed.
    """
    unit = unit_in_parts(task, name, variable, of_mlp=True)
    sizes = {each.name: len(each.values or ()) for each in unit.variables}
    said = "two shares, whose sum readers take" + (
        "; the second makes up for the first" if follows else ", neither alone of any use"
    )

    def parts_of(whole: Variable) -> list[Variable]:
        rng, modulus = seeds.generator(draw, name, task.name, whole.name), sizes[whole.name]
        first = _first_share(whole, task, rng, modulus)
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

    return in_parts(
        task, unit, parts_of, lambda whole: lambda one, other: _plus(one, other, sizes[whole]), said
    )


def _first_share(whole: Variable, task: Task, rng: np.random.Generator, modulus: int) -> Variable:
    """Returns a variable with an arbitrary value for each token."""
    size = len(task.vocab)
    if whole.values is None:
        steps = round(1 / STEP)
        table = STEP * rng.integers(-steps, steps + 1, size + 1)
    else:
        table = (np.arange(size + 1) + rng.integers(modulus, size=size + 1)).astype(np.int16) % modulus
    mechanism: Callable[..., np.ndarray] = lambda tokens: table[tokens]  # noqa: E731  the last is for None
    values = None if whole.values is None else tuple(range(modulus))
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
