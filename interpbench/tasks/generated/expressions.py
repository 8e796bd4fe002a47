"""Expressions of random programs: what they compute, in which layer, as RASP, and in words.

All values are whole numbers. An expression is evaluated on arrays of int16 `[row, pos]`, in which None is
`NONE`; `tests/tasks` compares that with Tracr's interpreter. Heads are at odd halves of layers and MLPs at
even ones: half 1 is the attention of the first layer, half 2 its MLP. Each is computed as early as it can be;
Tracr may compute it later.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from tracr.rasp.rasp import SOp

from interpbench.causal.model import NONE
from interpbench.tasks.generated.number_functions import CHANGES, JOINS, PREDICATES
from interpbench.tasks.programs.ops import at_offset, rasp, select, take, tokens


@dataclass(frozen=True)
class InputSizes:
    """What the expressions of a program have in common.

    Attributes:
        values: the number of tokens, which are 0, 1, ….
        length: the number of tokens of an input.
        causal: whether no position sees a later one.
    """

    values: int
    length: int
    causal: bool


@dataclass(frozen=True)
class Expression:
    """The base class of expressions, and the tokens themselves.

    Attributes:
        setting: what all expressions of the program have in common.
    """

    setting: InputSizes

    @property
    def parts(self) -> tuple["Expression", ...]:
        """The expressions that it reads."""
        return ()

    @cached_property
    def half(self) -> int:
        """The half of a layer in which it is computed; 0 for the tokens."""
        return 0

    @property
    def layers(self) -> int:
        """The number of layers that compute it."""
        return (self.half + 1) // 2

    @cached_property
    def values(self) -> tuple[int, ...]:
        """The values that it may have."""
        return tuple(range(self.setting.values))

    @cached_property
    def key(self) -> str:
        """Its canonical form: the same for expressions that differ in the order of arguments alone."""
        return "x"

    def words(self, *parts: str) -> str:
        """Returns what it is, given what each of its parts is called."""
        return "the token"

    def of(self, inputs: np.ndarray) -> np.ndarray:
        """Returns its values, int16 `[row, pos]`, on inputs of this shape."""
        return inputs.astype(np.int16)

    def rasp(self, made: dict[str, SOp]) -> SOp:
        """Returns it as RASP; `made` holds what has been made already, by its key."""
        if self.key not in made:
            made[self.key] = self._rasp(made)
        return made[self.key]

    def _rasp(self, made: dict[str, SOp]) -> SOp:
        return tokens

    def __iter__(self) -> Iterator["Expression"]:
        """Yields it and all that it reads, each once."""
        found: dict[str, Expression] = {self.key: self}
        for part in self.parts:
            found |= {one.key: one for one in part}
        return iter(found.values())


def _head(*parts: Expression) -> int:
    """Returns the half of a head that reads some expressions: the first attention after them."""
    last = max(part.half for part in parts)
    return last + 1 + last % 2


def _mlp(*parts: Expression) -> int:
    """Returns the half of an MLP that reads some expressions: the first one after them."""
    last = max(part.half for part in parts)
    return last + 2 - last % 2


@dataclass(frozen=True)
class Moved(Expression):
    """The value some positions away; None beyond the ends of the sequence.

    Attributes:
        offset: the number of positions to the right; negative to the left.
        moved: the expression whose value it is.
    """

    offset: int
    moved: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The expression that is moved."""
        return (self.moved,)

    @cached_property
    def half(self) -> int:
        """The half of its head."""
        return _head(self.moved)

    @cached_property
    def values(self) -> tuple[int, ...]:
        """Those of what is moved."""
        return self.moved.values

    @cached_property
    def key(self) -> str:
        """Its canonical form."""
        return f"move({self.offset},{self.moved.key})"

    def words(self, *parts: str) -> str:
        """Returns what it is, given what each of its parts is called."""
        side = "left" if self.offset < 0 else "right"
        far = f"{abs(self.offset)} to the {side}"
        return f"the token {far}" if self.moved.half == 0 else f"{parts[0]} at the position {far}"

    def of(self, inputs: np.ndarray) -> np.ndarray:
        """Returns its values."""
        values = self.moved.of(inputs)
        moved = np.full_like(values, NONE)
        if self.offset < 0:
            moved[:, -self.offset :] = values[:, : self.offset]
        else:
            moved[:, : -self.offset] = values[:, self.offset :]
        return moved

    def _rasp(self, made: dict[str, SOp]) -> SOp:
        return at_offset(self.offset, "moved", self.moved.rasp(made))


@dataclass(frozen=True)
class Counted(Expression):
    """The number of positions whose key compares in a way with the query of this one.

    Attributes:
        predicate: how, one of `PREDICATES`.
        keys: what is compared at each position.
        queries: what it is compared with here.
    """

    predicate: str
    keys: Expression
    queries: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Keys and queries."""
        return (self.keys, self.queries)

    @cached_property
    def half(self) -> int:
        """The half of the MLP that follows its head."""
        return _head(self.keys, self.queries) + 1

    @cached_property
    def values(self) -> tuple[int, ...]:
        """From 0 to the length."""
        return tuple(range(self.setting.length + 1))

    @cached_property
    def key(self) -> str:
        """Its canonical form."""
        return f"count({self.predicate},{self.keys.key},{self.queries.key})"

    def words(self, *parts: str) -> str:
        """Returns what it is, given what each of its parts is called."""
        where = "positions up to here" if self.setting.causal else "positions"
        counted, compared = parts[0].removeprefix("the "), PREDICATES[self.predicate].words
        return f"the number of {where} whose {counted} is {compared} {parts[1]} here"

    def of(self, inputs: np.ndarray) -> np.ndarray:
        """Returns its values."""
        keys, queries = self.keys.of(inputs)[:, None, :], self.queries.of(inputs)[:, :, None]
        chosen = PREDICATES[self.predicate].of(keys, queries) & (keys != NONE) & (queries != NONE)
        return (np.tril(chosen) if self.setting.causal else chosen).sum(-1, dtype=np.int16)

    def _rasp(self, made: dict[str, SOp]) -> SOp:
        compare = PREDICATES[self.predicate].of

        def chosen(key: int | None, query: int | None) -> bool:
            return key is not None and query is not None and bool(compare(np.int64(key), np.int64(query)))

        selector = select(self.keys.rasp(made), self.queries.rasp(made), chosen)
        return rasp.SelectorWidth(selector).named("count")


@dataclass(frozen=True)
class Taken(Expression):
    """The token at the position that another expression says; None if there is none, or it is not seen."""

    place: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The place, and the tokens."""
        return (self.place, Expression(self.setting))

    @cached_property
    def half(self) -> int:
        """The half of its head."""
        return _head(self.place)

    @cached_property
    def key(self) -> str:
        """Its canonical form."""
        return f"take({self.place.key})"

    def words(self, *parts: str) -> str:
        """Returns what it is, given what each of its parts is called."""
        return f"the token at position {parts[0]} (from 0)"

    def of(self, inputs: np.ndarray) -> np.ndarray:
        """Returns its values."""
        place, here = self.place.of(inputs), np.arange(inputs.shape[1])
        last = here if self.setting.causal else inputs.shape[1] - 1
        there = (place >= 0) & (place <= last)
        found = np.take_along_axis(inputs, np.where(there, place, 0).astype(np.intp), 1)
        return np.where(there, found, NONE).astype(np.int16)

    def _rasp(self, made: dict[str, SOp]) -> SOp:
        return take(self.place.rasp(made), "taken")


@dataclass(frozen=True)
class Changed(Expression):
    """A function of an expression and a constant.

    Attributes:
        function: the function, one of `CHANGES`.
        constant: the constant.
        changed: the expression.
    """

    function: str
    constant: int
    changed: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The expression."""
        return (self.changed,)

    @cached_property
    def half(self) -> int:
        """The half of its MLP."""
        return _mlp(self.changed)

    @cached_property
    def values(self) -> tuple[int, ...]:
        """The values of the function."""
        found = self._apply(np.array(self.changed.values, np.int16))
        return tuple(sorted(set(found.tolist())))

    @cached_property
    def key(self) -> str:
        """Its canonical form."""
        return f"{self.function}({self.changed.key},{self.constant})"

    def words(self, *parts: str) -> str:
        """Returns what it is, given what each of its parts is called."""
        return CHANGES[self.function].words.format(parts[0], self.constant, n=self.setting.values)

    def _apply(self, values: np.ndarray) -> np.ndarray:
        found = CHANGES[self.function].of(values, np.int16(self.constant), self.setting.values)
        return np.where(values == NONE, NONE, found).astype(np.int16)

    def of(self, inputs: np.ndarray) -> np.ndarray:
        """Returns its values."""
        return self._apply(self.changed.of(inputs))

    def _rasp(self, made: dict[str, SOp]) -> SOp:
        function, constant, n = CHANGES[self.function].of, self.constant, self.setting.values
        return rasp.Map(
            lambda x: int(function(np.int64(x), np.int64(constant), n)),
            self.changed.rasp(made),
        ).named("changed")


@dataclass(frozen=True)
class Combined(Expression):
    """A function of two expressions.

    Attributes:
        function: the function, one of `JOINS`.
        first: its first argument.
        second: its second argument.
    """

    function: str
    first: Expression
    second: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Both expressions."""
        return (self.first, self.second)

    @cached_property
    def half(self) -> int:
        """The half of its MLP."""
        return _mlp(self.first, self.second)

    @cached_property
    def values(self) -> tuple[int, ...]:
        """The values of the function."""
        grid = np.array(np.meshgrid(self.first.values, self.second.values), np.int16)
        return tuple(sorted(set(self._apply(*grid).ravel().tolist())))

    @cached_property
    def key(self) -> str:
        """Its canonical form, with the arguments of a symmetric function in alphabetical order."""
        keys = [self.first.key, self.second.key]
        told = sorted(keys) if JOINS[self.function].symmetric else keys
        return f"{self.function}({','.join(told)})"

    def words(self, *parts: str) -> str:
        """Returns what it is, given what each of its parts is called."""
        return JOINS[self.function].words.format(*parts, n=self.setting.values)

    def _apply(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        found = JOINS[self.function].of(first, second, self.setting.values)
        return np.where((first == NONE) | (second == NONE), NONE, found).astype(np.int16)

    def of(self, inputs: np.ndarray) -> np.ndarray:
        """Returns its values."""
        return self._apply(self.first.of(inputs), self.second.of(inputs))

    def _rasp(self, made: dict[str, SOp]) -> SOp:
        function, n = JOINS[self.function].of, self.setting.values
        return rasp.SequenceMap(
            lambda a, b: int(function(np.int64(a), np.int64(b), n)),
            self.first.rasp(made),
            self.second.rasp(made),
        ).named("combined")
