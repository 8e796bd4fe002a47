"""The high-level model: a causal graph of sequence variables, run on many inputs at once.

Values. A *categorical* variable has a finite tuple of values and is stored as int16 codes into it; the
code -1 is None ("no value here"), so a lookup table with one more row than values has None as its last
row. A *numerical* variable is stored as float64, with NaN for None.

numpy rather than torch: a model is then importable in milliseconds and as fast on a CPU; training draws
its labels in large blocks ahead of time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interpbench.circuits.naming import Slot
from interpbench.core.errors import TaskError

NONE = -1
Trace = dict[str, np.ndarray]


@dataclass(frozen=True)
class Read:
    """A variable as another one reads it: through a query, key or value input, or into an MLP.

    Where the model does not say through which of a head's inputs, `slot` is None: any of the three, or
    several.
    """

    parent: str
    slot: Slot | None = None


@dataclass(frozen=True)
class Variable:
    """A node of the causal graph, with a value at each position.

    Attributes:
        name: unique in the model.
        reads: the parents, in the order in which the mechanism takes them.
        mechanism: takes one array `[row, pos]` per read and returns `[row, pos]`.
        values: the finite value set of a categorical variable; None if it is numerical.
        formula: what the mechanism computes, for people to read.
        attends: takes what the mechanism takes and returns bool `[row, query, key]`: where a head that
            computes the variable looks; at BOS where it returns nothing. None if the model does not say.
    """

    name: str
    reads: tuple[Read, ...]
    mechanism: Callable[..., np.ndarray]
    values: tuple[object, ...] | None
    formula: str = ""
    attends: Callable[..., np.ndarray] | None = None


@dataclass(frozen=True)
class Intervention:
    """Values `[row, pos]` that a variable (or one reader of it) gets in rows, or places, `where`.

    `where` is bool `[row]` or `[row, pos]`.
    """

    values: np.ndarray
    where: np.ndarray


class CausalModel:
    """An acyclic model. The variable without a mechanism's inputs called `tokens` is the input."""

    def __init__(self, variables: Sequence[Variable], output: str):
        self.variables = {variable.name: variable for variable in variables}
        self.output = output
        seen: set[str] = set()
        for variable in variables:
            missing = [read.parent for read in variable.reads if read.parent not in seen]
            if missing:
                raise TaskError(f"variable {variable.name!r} reads {missing[0]!r} before it is computed")
            seen.add(variable.name)
        if "tokens" not in seen or output not in seen:
            raise TaskError(f"a causal model needs the variables 'tokens' and {output!r}")

    @cached_property
    def classes(self) -> tuple[object, ...] | None:
        """The output's values in class order, or None for a numerical output."""
        return self.variables[self.output].values

    @property
    def numerical(self) -> bool:
        """Whether the output is a number."""
        return self.classes is None

    def run(
        self,
        tokens: np.ndarray,
        interventions: Mapping[str, Intervention] | None = None,
        edges: Mapping[tuple[str, Read], Intervention] | None = None,
    ) -> Trace:
        """Runs the model on codes `[row, pos]`.

        Args:
            tokens: int codes into the vocabulary.
            interventions: variable name to the values that it is set to, row by row.
            edges: (child, read) to the values that this child alone sees, row by row.

        Returns:
            The value of every variable, `[row, pos]`.
        """
        interventions, edges = interventions or {}, edges or {}
        trace: Trace = {}
        for name, variable in self.variables.items():
            if name == "tokens":
                value = np.asarray(tokens, np.int16)
            else:
                inputs = self._inputs(name, trace, edges)
                value = variable.mechanism(*inputs) if inputs else variable.mechanism(tokens)
            trace[name] = _set(value, interventions.get(name))
        return trace

    def attended(
        self, name: str, trace: Trace, edges: Mapping[tuple[str, Read], Intervention] | None = None
    ) -> np.ndarray:
        """Returns bool `[row, query, key]`: where the head of a variable that says so looks in a run."""
        attends = self.variables[name].attends
        assert attends is not None
        return attends(*self._inputs(name, trace, edges or {}))

    def _inputs(
        self, name: str, trace: Trace, edges: Mapping[tuple[str, Read], Intervention]
    ) -> list[np.ndarray]:
        """Returns what a variable's mechanism takes."""
        reads = self.variables[name].reads
        return [_set(trace[read.parent], edges.get((name, read))) for read in reads]

    def outputs(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the output alone."""
        return self.run(tokens)[self.output]

    def decode(self, name: str, values: np.ndarray) -> list[list[object]]:
        """Turns codes (or numbers) of a variable into Python values, None included."""
        table = self.variables[name].values
        if table is None:
            return [[None if np.isnan(x) else float(x) for x in row] for row in values]
        return [[None if x < 0 else table[x] for x in row] for row in values]


def _set(value: np.ndarray, intervention: Intervention | None) -> np.ndarray:
    if intervention is None:
        return value
    where = intervention.where if intervention.where.ndim == 2 else intervention.where[:, None]
    return np.where(where, intervention.values, value)


def has_value(values: np.ndarray) -> np.ndarray:
    """Returns where a value is not None."""
    return ~np.isnan(values) if values.dtype.kind == "f" else values >= 0


def changed(before: np.ndarray, after: np.ndarray, tolerance: float = 1e-6) -> np.ndarray:
    """Returns where two outputs, neither of them None, differ."""
    both = has_value(before) & has_value(after)
    if before.dtype.kind == "f":
        return both & (np.abs(np.nan_to_num(before) - np.nan_to_num(after)) > tolerance)
    return both & (before != after)
