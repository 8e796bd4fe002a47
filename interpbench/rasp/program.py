"""A RASP program: its expressions in the order of Tracr's compiler, their names, and its causal model.

Only `tracr.rasp` is imported here, which needs neither JAX nor Tracr's compiler.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
from tracr.rasp import causal_eval, rasp

from interpbench.causal.model import CausalModel, Read, Variable
from interpbench.causal.selection import positions
from interpbench.core.errors import TaskError
from interpbench.rasp import mechanisms as mech

WIDTH_HEAD = "_head"
"""The suffix of the variable that the head of a selector width computes; its MLP computes the width."""


@dataclass(frozen=True)
class Program:
    """A RASP program on sequences of a fixed length.

    Attributes:
        expression: the expression that is the output.
        vocab: the tokens, in sorted order.
        length: the number of tokens of a sequence, BOS not counted.
        causal: whether attention is causal.
    """

    expression: rasp.SOp
    vocab: tuple[rasp.Value, ...]
    length: int
    causal: bool

    @cached_property
    def graph(self) -> Any:
        """The graph of expressions, by their numbers in the breadth-first order of Tracr's compiler."""
        numbers: dict[object, int] = {}
        graph = nx.DiGraph()

        def number(expression: rasp.RASPExpr) -> int:
            is_input = isinstance(expression, rasp.TokensType | rasp.IndicesType)
            key = type(expression) if is_input else id(expression)
            if key not in numbers:
                numbers[key] = len(numbers)
                graph.add_node(numbers[key], expression=expression)
            return numbers[key]

        queue = deque[rasp.RASPExpr]([self.expression])
        number(self.expression)
        while queue:
            expression = queue.popleft()
            parent = number(expression)
            for child in expression.children:
                queue.append(child)
                graph.add_edge(number(child), parent)
        return graph

    @cached_property
    def names(self) -> dict[int, str]:
        """The names of expressions, by number; those that repeat end with a counter."""
        names: dict[int, str] = {}
        taken: set[str] = set()
        for key in nx.lexicographical_topological_sort(self.graph):
            expression = self.graph.nodes[key]["expression"]
            if isinstance(expression, rasp.SOp):
                base, count = expression.name, 2
                name = base
                while name in taken:
                    name, count = f"{base}_{count}", count + 1
                taken.add(name)
                names[key] = name
        return names

    def number_of(self, expression: rasp.RASPExpr) -> int:
        """Returns the number of a child expression."""
        for key, data in self.graph.nodes.items():
            found = data["expression"]
            if found is expression or (
                type(found) is type(expression) and isinstance(found, rasp.TokensType | rasp.IndicesType)
            ):
                return key
        raise KeyError(expression)

    @cached_property
    def causal_model(self) -> CausalModel:
        """The program as a causal model."""
        lowering = _Lowering(self)
        for key in nx.lexicographical_topological_sort(self.graph):
            expression = self.graph.nodes[key]["expression"]
            if isinstance(expression, rasp.SOp):
                lowering.lower(expression, self.names[key])
        return CausalModel(lowering.variables, self.names[0])

    def interpret(self, tokens: Sequence[object]) -> list[object]:
        """Returns the output for one sequence, computed by Tracr's own interpreter, which is slow."""
        evaluate = causal_eval.evaluate if self.causal else rasp.evaluate
        return list(evaluate(self.expression, list(tokens)))  # type: ignore[arg-type]

    def listing(self) -> list[str]:
        """Returns a line for each variable that is computed: its name and its expression."""
        lines: list[str] = []
        for key in nx.lexicographical_topological_sort(self.graph):
            expression = self.graph.nodes[key]["expression"]
            if isinstance(expression, rasp.SOp) and expression.children:
                lines.append(f"{self.names[key]} = {self._describe(expression)}")
        return lines

    def _describe(self, expression: Any) -> str:
        def name(child: rasp.RASPExpr) -> str:
            return self.names[self.number_of(child)]

        encoding = ", numerical" if rasp.is_numerical(expression) else ""
        if isinstance(expression, rasp.Map):
            return f"map({name(expression.inner)}{encoding})"
        if isinstance(expression, rasp.LinearSequenceMap):
            first, second = expression.fst_fac, expression.snd_fac
            return f"{first:g}·{name(expression.fst)} + {second:g}·{name(expression.snd)}"
        if isinstance(expression, rasp.SequenceMap):
            return f"map({name(expression.fst)}, {name(expression.snd)})"
        selector = expression.selector
        where = f"select(keys={name(selector.keys)}, queries={name(selector.queries)})"
        if isinstance(expression, rasp.SelectorWidth):
            return f"width({where})"
        return f"aggregate({where}, {name(expression.sop)}{encoding})"


class _Lowering:
    """The lowering of a program to a causal model: it collects the variables and all values of each."""

    def __init__(self, program: Program):
        self.program = program
        self.variables: list[Variable] = []
        self.values: dict[str, mech.Values] = {}

    def add(
        self,
        name: str,
        reads: Sequence[Read],
        mechanism: mech.Mechanism,
        values: mech.Values,
        numerical: bool,
        select: mech.Mechanism | None = None,
        attends_bos: bool = False,
        head_dimensions: int = 1,
    ) -> None:
        self.values[name] = values
        attends = None if select is None else mech.of_selected(select)
        self.variables.append(
            Variable(
                name,
                tuple(reads),
                mechanism,
                None if numerical else values,
                attends=attends,
                attends_bos=attends_bos,
                head_dimensions=head_dimensions,
            )
        )

    def name(self, expression: rasp.RASPExpr) -> str:
        return self.program.names[self.program.number_of(expression)]

    def lower(self, expression: rasp.SOp, name: str) -> None:
        numerical = rasp.is_numerical(expression)
        if isinstance(expression, rasp.TokensType):
            self.add(name, (), lambda tokens: tokens, self.program.vocab, False)
        elif isinstance(expression, rasp.IndicesType):
            self.add(name, (), positions, tuple(range(self.program.length)), False)
        elif isinstance(expression, rasp.Map):
            self._map(expression, name, numerical)
        elif isinstance(expression, rasp.LinearSequenceMap):
            first, second = self.name(expression.fst), self.name(expression.snd)
            values = mech.image(expression.f, self.values[first], self.values[second])
            mechanism = mech.linear(expression.fst_fac, expression.snd_fac)
            self.add(name, [Read(first, "mlp"), Read(second, "mlp")], mechanism, values, True)
        elif isinstance(expression, rasp.SequenceMap):
            first, second = self.name(expression.fst), self.name(expression.snd)
            domains = (self.values[first], self.values[second])
            values = mech.image(expression.f, *domains)
            mechanism = mech.table(expression.f, domains, values)
            self.add(name, [Read(first, "mlp"), Read(second, "mlp")], mechanism, values, False)
        elif isinstance(expression, rasp.SelectorWidth):
            self._width(expression, name)
        elif isinstance(expression, rasp.Aggregate):
            self._aggregate(expression, name, numerical)
        else:
            raise TaskError(f"Tracr cannot compile {name}, a {type(expression).__name__}")

    def _map(self, expression: rasp.Map, name: str, numerical: bool) -> None:
        inner = self.name(expression.inner)
        values = mech.image(expression.f, self.values[inner])
        if rasp.is_numerical(expression.inner):
            mechanism = mech.of_number(expression.f, None if numerical else values)
        elif numerical:
            mechanism = mech.to_number(expression.f, self.values[inner])
        else:
            mechanism = mech.table(expression.f, [self.values[inner]], values)
        self.add(name, [Read(inner, "mlp")], mechanism, values, numerical)

    def _select(self, selector: rasp.Selector) -> tuple[list[Read], mech.Mechanism, int]:
        """Returns what a selector reads, its mechanism, and in how many dimensions a head can compute it."""
        if not isinstance(selector, rasp.Select):
            raise TaskError(
                f"Tracr cannot compile the composite selector {selector.name}; {_instead(selector)}"
            )
        keys, queries = self.name(selector.keys), self.name(selector.queries)
        chosen = mech.selection_table(selector.predicate, self.values[keys], self.values[queries])
        select = mech.selection(chosen, self.program.causal)
        both = isinstance(selector.keys, rasp.IndicesType) and isinstance(selector.queries, rasp.IndicesType)
        in_order = self.program.causal and both
        return [Read(queries, "q"), Read(keys, "k")], select, mech.head_dimensions(chosen, in_order)

    def _width(self, expression: rasp.SelectorWidth, name: str) -> None:
        if rasp.is_numerical(expression):
            raise TaskError(f"selector width {name!r} is numerical; it has to be categorical")
        reads, select, dimensions = self._select(expression.selector)
        widths = tuple(range(self.program.length + 1))
        head = name + WIDTH_HEAD
        self.add(head, reads, mech.width(select), widths, False, select, True, dimensions)
        self.add(name, [Read(head, "mlp")], lambda width: width, widths, False)

    def _aggregate(self, expression: "rasp.Aggregate[float]", name: str, numerical: bool) -> None:
        reads, select, dimensions = self._select(expression.selector)
        value = self.name(expression.sop)
        values = self.values[value]
        mechanism: mech.Mechanism
        if numerical:
            lengths = range(1, self.program.length + 1)
            values = mech.sort_values({k / n for n in lengths for k in range(n + 1)})
            mechanism = mech.average(select, 0.0 if expression.default is None else expression.default)
        else:
            mechanism = mech.pick(select, len(values))
        self.add(name, [*reads, Read(value, "v")], mechanism, values, numerical, select, False, dimensions)


def _instead(selector: Any) -> str:
    """Returns what to write instead of a selector that is made of others."""
    if isinstance(selector, rasp.SelectorNot):
        return "write one Select whose predicate is negated: Select(k, q, lambda k, q: not predicate(k, q))"
    word = "or" if isinstance(selector, rasp.SelectorOr) else "and"
    same = f"Select(k, q, lambda k, q: first(k, q) {word} second(k, q))"
    pairs = "pair(a, b) = SequenceMap(lambda a, b: (a, b), a, b)"
    other = f"Select(pair(k1, k2), pair(q1, q2), lambda k, q: first(k[0], q[0]) {word} second(k[1], q[1]))"
    return f"write one Select: {same}, or where keys or queries differ {other} with {pairs}"
