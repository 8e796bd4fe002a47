"""The high-level causal model: a graph of variables, each with a value at every position.

A *categorical* variable has a finite tuple of values, and its values are stored as int16 codes into this
tuple. The code -1 is None, which means that there is no value; a lookup table with one more row than there
are values has None in its last row. Values of a *numerical* variable are float64, with NaN for None.

The model is run on many inputs at once. It uses numpy rather than torch: it is then imported in milliseconds
and as fast on a CPU. Training computes its targets in large blocks ahead of time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interpbench.circuits.naming import Slot
from interpbench.core.errors import TaskError

NONE = -1
"""The code of None, for positions without a value."""
MANY = 32
"""More dimensions of a head than this, and it compares so many keys that few inputs bring two given ones
together: training then does more for such heads."""
Trace = dict[str, np.ndarray]
"""The values of all variables in a run, `[row, pos]`, by name."""


@dataclass(frozen=True)
class Read:
    """A parent of a variable, and the input through which the variable's node reads it.

    Attributes:
        parent: the name of the parent variable.
        slot: a head's query, key or value input (`q`, `k`, `v`), or an MLP's (`mlp`). None if the model
            leaves open through which of a head's inputs it is read: any of the three, or several.
    """

    parent: str
    slot: Slot | None = None


@dataclass(frozen=True)
class Variable:
    """A variable of the causal model, with a value at each position.

    Attributes:
        name: the name of the variable, which no other variable has.
        reads: the parents, in the order of the mechanism's arguments.
        mechanism: a function that takes one array `[row, pos]` for each parent and returns `[row, pos]`.
        values: all values of a categorical variable, in the order of their codes; None if it is numerical.
        formula: a description of what the mechanism computes.
        attends: a function that takes the mechanism's arguments and returns bool `[row, query, key]`, the
            keys that a head that computes the variable attends to; it attends to BOS where there are none.
            None if the model leaves it open.
        attends_bos: whether the head attends to BOS, too, evenly with these keys: what BOS keeps of the
            attention is then their number.
        head_dimensions: the number of dimensions in which a head can attend evenly to these keys: the rank
            of the table of queries and keys, or the largest number of values of keys that one query attends
            to, if that is less.
    """

    name: str
    reads: tuple[Read, ...]
    mechanism: Callable[..., np.ndarray]
    values: tuple[object, ...] | None
    formula: str = ""
    attends: Callable[..., np.ndarray] | None = None
    attends_bos: bool = False
    head_dimensions: int = 1


@dataclass(frozen=True)
class Intervention:
    """An intervention on a variable, or on the value that one reader of it sees.

    Attributes:
        values: the values that it is set to, `[row, pos]`.
        where: bool `[row]` or `[row, pos]`, the rows or positions at which it is set.
    """

    values: np.ndarray
    where: np.ndarray


class CausalModel:
    """An acyclic causal model.

    Args:
        variables: the variables, parents first. The variable called `tokens`, which has no parents, is the
            input.
        output: the name of the variable that is the output.
        others: the names of further variables that a network in training has to give at its end, each by an
            unembedding of its own.

    Raises:
        TaskError: if a variable reads one that does not come before it, if two have the same name, or input
            or output is missing.

    Attributes:
        ends: the output and the others.
    """

    def __init__(self, variables: Sequence[Variable], output: str, others: Sequence[str] = ()):
        self.variables = {variable.name: variable for variable in variables}
        self.output, self.ends = output, (output, *others)
        seen: set[str] = set()
        for variable in variables:
            missing = [read.parent for read in variable.reads if read.parent not in seen]
            if missing:
                raise TaskError(
                    f"variable {variable.name!r} reads {missing[0]!r}, which has to be listed before it"
                )
            if variable.name in seen:
                raise TaskError(f"two variables are called {variable.name!r}; rename one of them")
            seen.add(variable.name)
        if "tokens" not in seen or not seen.issuperset(self.ends):
            raise TaskError(f"a causal model needs the variables 'tokens' and {output!r}")

    @cached_property
    def classes(self) -> tuple[object, ...] | None:
        """The values of the output, in the order of the classes; None for a numerical output."""
        return self.variables[self.output].values

    @cached_property
    def head_dimensions(self) -> int:
        """The largest `head_dimensions` of a variable."""
        return max(variable.head_dimensions for variable in self.variables.values())

    @cached_property
    def counts(self) -> int:
        """The number of heads that count the keys that a selector selects."""
        return sum(variable.attends_bos for variable in self.variables.values())

    @property
    def numerical(self) -> bool:
        """Whether the output is a number."""
        return self.classes is None

    def run(
        self,
        tokens: np.ndarray,
        interventions: Mapping[str, Intervention] | None = None,
        edges: Mapping[tuple[str, Read], Intervention] | None = None,
        clean: Trace | None = None,
    ) -> Trace:
        """Runs the model on codes `[row, pos]`.

        Args:
            tokens: integer codes into the vocabulary, `[row, pos]`.
            interventions: interventions on variables, by name.
            edges: interventions on what a single child sees of its parent, by the child's name and the read.
            clean: the values of every variable without interventions, if they are known: what no intervention
                reaches is then not computed again.

        Returns:
            The values of every variable, `[row, pos]`.
        """
        interventions, edges = interventions or {}, edges or {}
        reached = set(interventions) | {child for child, _ in edges}
        trace: Trace = {}
        for name, variable in self.variables.items():
            if any(read.parent in reached for read in variable.reads):
                reached.add(name)
            if clean is not None and name not in reached:
                trace[name] = clean[name]
                continue
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
        """Returns bool `[row, query, key]`, the keys that the head of a variable attends to in a run.

        Args:
            name: the name of a variable with `attends`.
            trace: the values of all variables in the run.
            edges: interventions on what a single child sees of its parent, by the child's name and the read.
        """
        attends = self.variables[name].attends
        assert attends is not None
        return attends(*self._inputs(name, trace, edges or {}))

    def _inputs(
        self, name: str, trace: Trace, edges: Mapping[tuple[str, Read], Intervention]
    ) -> list[np.ndarray]:
        """Returns the arguments of a variable's mechanism, after interventions on edges."""
        return [self.seen(name, read, trace, edges) for read in self.variables[name].reads]

    @staticmethod
    def seen(
        name: str, read: Read, trace: Trace, edges: Mapping[tuple[str, Read], Intervention]
    ) -> np.ndarray:
        """Returns what a variable sees of a parent `[row, pos]`, after interventions on edges.

        Args:
            name: the name of the variable.
            read: its read of the parent.
            trace: the values of all variables in the run.
            edges: interventions on what a single child sees of its parent, by the child's name and the read.
        """
        return _set(trace[read.parent], edges.get((name, read)))

    def outputs(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the output `[row, pos]` of inputs `[row, pos]`."""
        return self.run(tokens)[self.output]

    def answered(self, trace: Trace) -> np.ndarray:
        """Returns bool `[row]`, whether any of `ends` has a value at any position of a run."""
        return np.any([has_value(trace[name]).any(1) for name in self.ends], axis=0)

    def effective(self, before: Trace, after: Trace) -> np.ndarray:
        """Returns bool `[row]`, whether two runs have other values of any of `ends` at any position."""
        return np.any([changed(before[name], after[name]).any(1) for name in self.ends], axis=0)

    def decode(self, name: str, values: np.ndarray) -> list[list[object]]:
        """Returns the Python values, None included, of a variable's codes or numbers `[row, pos]`."""
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
    """Returns bool of the same shape, whether each value is not None."""
    return ~np.isnan(values) if values.dtype.kind == "f" else values >= 0


def changed(before: np.ndarray, after: np.ndarray, tolerance: float = 1e-6) -> np.ndarray:
    """Returns bool of the same shape, whether two outputs differ and neither of them is None.

    Args:
        before: outputs, as codes or numbers.
        after: other outputs, of the same shape.
        tolerance: the largest difference of numbers that counts as none.
    """
    both = has_value(before) & has_value(after)
    if before.dtype.kind == "f":
        return both & (np.abs(np.nan_to_num(before) - np.nan_to_num(after)) > tolerance)
    return both & (before != after)
