"""The ground truth as literal loops over pairs of inputs, nodes and edges, with RASP values in dictionaries.

It shares nothing with `interpbench.causal` and `interpbench.alignment.find_ground_truth` but the names of the
variables and the nodes that carry them.
"""

from collections import Counter

from tracr.rasp import rasp

HEAD = "_head"
"""The suffix of the variable that a selector width's head computes; an MLP turns it into the count."""


def strict(function, *values):
    """Returns a program's function of some values; None if one of them is None, or on an arithmetic error."""
    if None in values:
        return None
    try:
        return function(*values)
    except ArithmeticError:
        return None


class Oracle:
    """The variables of a task: by name, the reads (slot, parent) and the function of the values read."""

    def __init__(self, task, nodes):
        self.task, self.nodes = task, {variable: str(node) for variable, node in nodes.items()}
        self.causal = task.attention == "causal"
        self.variables, self.expressions = {}, {}
        for number, name in task.program.names.items():
            expression = task.program.graph.nodes[number]["expression"]
            self.expressions[id(expression)] = name
            self.define(name, expression)
        self.output = task.program.names[0]
        self.clean = {}

    def define(self, name, expression):
        if isinstance(expression, rasp.TokensType | rasp.IndicesType):
            self.variables[name] = ((), None)
        elif isinstance(expression, rasp.SelectorWidth):
            keys, queries = expression.selector.keys, expression.selector.queries

            def count(q, k):
                return [sum(row) for row in self.selected(expression.selector, q, k)]

            self.variables[name + HEAD] = ((("q", queries), ("k", keys)), count)
            self.variables[name] = ((("mlp", name + HEAD),), list)
        elif isinstance(expression, rasp.Aggregate):
            reads = (
                ("q", expression.selector.queries),
                ("k", expression.selector.keys),
                ("v", expression.sop),
            )
            self.variables[name] = (reads, lambda q, k, v: self.aggregate(expression, q, k, v))
        else:
            parents = (
                [expression.inner] if isinstance(expression, rasp.Map) else [expression.fst, expression.snd]
            )
            reads = tuple(("mlp", parent) for parent in parents)
            self.variables[name] = (reads, lambda *xs: [strict(expression.f, *x) for x in zip(*xs)])

    def selected(self, selector, queries, keys):
        return [
            [
                query is not None
                and key is not None
                and (j <= i or not self.causal)
                and bool(selector.predicate(key, query))
                for j, key in enumerate(keys)
            ]
            for i, query in enumerate(queries)
        ]

    def aggregate(self, expression, queries, keys, values):
        result = []
        for row in self.selected(expression.selector, queries, keys):
            chosen = [value for value, seen in zip(values, row) if seen]
            if rasp.is_numerical(expression):
                default = 0 if expression.default is None else expression.default
                result.append(None if None in chosen else sum(chosen) / len(chosen) if chosen else default)
            else:
                votes = Counter(value for value in chosen if value is not None)
                most = [value for value in votes if votes[value] == max(votes.values())]
                result.append(most[0] if len(most) == 1 else None)
        return result

    def reads(self, name):
        return [
            (slot, parent if isinstance(parent, str) else self.name(parent))
            for slot, parent in self.variables[name][0]
        ]

    def name(self, expression):
        for kind, name in ((rasp.TokensType, "tokens"), (rasp.IndicesType, "indices")):
            if isinstance(expression, kind):
                return name
        return self.expressions[id(expression)]

    def run(self, tokens, swapped=None, reads=None):
        """Returns the value of every variable.

        Args:
            tokens: the input.
            swapped: values that replace those of variables, by the variable's name.
            reads: values that replace those of a parent for one child only, by (child, slot, parent).
        """
        swapped, reads, trace = swapped or {}, reads or {}, {}

        def value(name):
            if name not in trace:
                if name in swapped:
                    trace[name] = swapped[name]
                elif name == "tokens":
                    trace[name] = list(tokens)
                elif name == "indices":
                    trace[name] = list(range(len(tokens)))
                else:
                    inputs = [((name, *read), read[1]) for read in self.reads(name)]
                    seen = [reads[read] if read in reads else value(parent) for read, parent in inputs]
                    trace[name] = self.variables[name][1](*seen)
            return trace[name]

        for name in self.variables:
            value(name)
        return trace

    def run_clean(self, tokens):
        if tokens not in self.clean:
            self.clean[tokens] = self.run(tokens)
        return self.clean[tokens]

    def program_edges(self):
        """Returns the reads, (child, slot, parent), of each edge, (node, reader), but those of the logits."""
        edges = {}
        for child in self.variables:
            for slot, parent in self.reads(child):
                place = self.nodes[child]
                reader = place if slot == "mlp" else f"{place}<{slot}>"
                edges.setdefault((self.nodes[parent], reader), []).append((child, slot, parent))
        return edges

    def differs(self, before, after):
        """Returns whether two outputs differ where neither is None; numbers by more than rounding errors."""
        pairs = [pair for pair in zip(before[self.output], after[self.output]) if None not in pair]
        return any(abs(x - y) > 1e-6 if isinstance(x, float) else x != y for x, y in pairs)

    def effective(self, pairs):
        """Returns the names of the nodes and edges that change an output for one of the pairs, by level."""
        found = {"node": set(), "head_edge": set(), "qkv_edge": set()}
        edges = self.program_edges()
        merged = {}
        for (node, reader), reads in edges.items():
            merged.setdefault((node, reader.split("<")[0]), []).extend(reads)
        sink = f"{self.nodes[self.output]}->logits"
        for base, source in pairs:
            clean, other = self.run_clean(base), self.run_clean(source)
            for node in set(self.nodes.values()) - found["node"]:
                names = [name for name in self.variables if self.nodes[name] == node]
                if any(clean[name] != other[name] for name in names):
                    after = self.run(base, {name: other[name] for name in names})
                    if self.differs(clean, after):
                        found["node"].add(node)
                        if node == self.nodes[self.output]:
                            found["qkv_edge"].add(sink)
                            found["head_edge"].add(sink)
            for level, groups in (("qkv_edge", edges), ("head_edge", merged)):
                for (node, reader), reads in groups.items():
                    name = f"{node}->{reader}"
                    if name in found[level] or all(clean[read[2]] == other[read[2]] for read in reads):
                        continue
                    after = self.run(base, None, {read: other[read[2]] for read in reads})
                    if self.differs(clean, after):
                        found[level].add(name)
                        found["head_edge"].add(f"{node}->{reader.split('<')[0]}")
        return found

    def structural(self):
        """Returns the names of everything in the program's graph, by level."""
        slots = {f"{node}->{reader}" for node, reader in self.program_edges()}
        sink = f"{self.nodes[self.output]}->logits"
        heads = {name.split("<")[0] for name in slots}
        return {"node": set(self.nodes.values()), "head_edge": heads | {sink}, "qkv_edge": slots | {sink}}
