"""Draws what a training step sees: inputs, interventions, and the program's answers to them.

Worlds of a step, in order: the clean source world, which carries the behaviour loss, then those that the
objective asks for, all run on another input, the base: `iit` (aligned nodes swapped), `strict` (forbidden
nodes swapped), `edge_strict` (edges outside the circuit patched, and edges of the program that change
nothing on its domain: the target is the program's own output with those edges patched). A base's first
source is its row of the source world, its second one the next row.

Everything is drawn in pools of many steps, each from a generator named by the pool's number, so that a
resumed run draws the same, and the causal model is run a few times a pool instead of a few times a step.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interpbench.alignment.alignment import Alignment
from interpbench.alignment.truth import structural_reads
from interpbench.causal.model import Intervention, Read, Trace, changed, has_value
from interpbench.circuits.truth import Truth
from interpbench.core import seeds
from interpbench.core.errors import TrainingError
from interpbench.training.objective import Objective, Targets

SOURCES = 2
"""Different sources among which a random subset of variables, or of forbidden nodes, draws."""
CANDIDATES = 4
"""Sources drawn for each base; about half of the interventions then change the output."""


@dataclass(frozen=True)
class Batch:
    """One step. T counts BOS, P does not; W writers, R readers.

    Attributes:
        tokens: `[world, batch, T]` ids.
        targets: `[P, world, batch]` class codes or numbers.
        weights: `[P, world, batch]`: each scored position's share of the total loss.
        nodes: `[W, world, batch]`: the source, from 1, that a node is taken from; 0 for none.
        edges: `[R, W, batch]` 0/1 for the last world, or None.
        values: variable to its values `[P, world, batch]`, if readouts are trained then.
        attended: variable to where its head is to look, `[P, T, world, batch]`, if that is trained then:
            shares of the loss at each query and key.
        worlds: the name of each world.
    """

    tokens: Tensor
    targets: Tensor
    weights: Tensor
    nodes: Tensor
    edges: Tensor | None
    values: dict[str, Tensor]
    attended: dict[str, Tensor]
    worlds: tuple[str, ...]


class Sampler:
    """Draws batches for an aligned task."""

    def __init__(self, alignment: Alignment, truth: Truth, objective: Objective, batch: int, seed: int):
        self.alignment, self.truth, self.objective = alignment, truth, objective
        self.task, self.batch, self.seed = alignment.task, batch, seed
        self.forbidden_nodes = [alignment.graph.node_index[node] for node in alignment.outside]
        self.idle_edges = np.argwhere(truth.idle)
        self.reads = structural_reads(alignment)
        self.steps = max(1, 4096 // batch)
        self._pool: tuple[int, list[Batch]] = (-1, [])

    def __call__(self, step: int, device: torch.device) -> Batch:
        """Returns the batch of a step."""
        number, place = divmod(step, self.steps)
        if self._pool[0] != number:
            self._pool = (number, self._draw(number, device))
        return self._pool[1][place]

    def worlds(self, step: int) -> tuple[str, ...]:
        """Returns the names of the worlds of a step, the same for a whole pool."""
        objective = self.objective
        strict = step // self.steps * self.steps >= objective.strict_after
        wanted = [
            ("source", True),
            ("iit", objective.iit > 0),
            ("strict", strict and objective.strict > 0 and bool(self.forbidden_nodes)),
            ("edge_strict", strict and objective.edge_strict > 0),
        ]
        return tuple(name for name, wants in wanted if wants)

    def _draw(self, number: int, device: torch.device) -> list[Batch]:
        worlds = self.worlds(number * self.steps)
        rng = seeds.generator(self.seed, "pool", number)
        rows, batch, graph = self.steps * self.batch, self.batch, self.alignment.graph
        base, source, nodes_iit, counterfactual = self.interventions(rng, rows)
        model = self.task.model
        unchanged = model.run(base)
        n_writers = len(graph.nodes)
        nodes = np.zeros((n_writers, len(worlds), rows), np.int8)
        traces = [model.run(source)]
        edges = None
        reads: dict[tuple[str, Read], Intervention] = {}
        for world, name in enumerate(worlds[1:], start=1):
            traces.append(counterfactual if name == "iit" else unchanged)
            if name == "iit":
                nodes[:, world] = nodes_iit
            elif name == "strict":
                chosen = self._choose(rng, len(self.forbidden_nodes), rows)
                nodes[self.forbidden_nodes, world] = chosen.T
            else:
                edges = np.zeros((len(graph.readers), n_writers, rows), np.float32)
                chosen = self._choose(rng, len(self.idle_edges), rows)
                edges[self.idle_edges[:, 0], self.idle_edges[:, 1]] = chosen.T
                reads = self._patched_reads(traces[0], edges > 0)
                traces[-1] = model.run(base, edges=reads)

        tokens = [source] + [base] * (len(worlds) - 1)
        ids = np.stack([self.task.token_ids(x) for x in tokens])
        target = np.stack([trace[model.output] for trace in traces])  # [world, row, pos]
        scored = has_value(target)
        target = np.where(scored, target, 0)
        shares = self._shares(scored, worlds, number * self.steps >= self.objective.outputs_after)

        def split(array: np.ndarray, axis: int) -> Tensor:
            """Cuts the row axis into steps, which become the first axis."""
            shape = (*array.shape[:axis], self.steps, batch, *array.shape[axis + 1 :])
            cut = np.moveaxis(array.reshape(shape), axis, 0)
            return torch.from_numpy(np.ascontiguousarray(cut)).to(device)

        kind = torch.float32 if model.numerical else torch.int64
        ids_t, nodes_t = split(ids, 1), split(nodes, 2)
        target_t = split(target.transpose(2, 0, 1), 2).to(kind)
        share_t = split(shares.transpose(2, 0, 1), 2)
        edges_t = None if edges is None else split(edges, 2)
        until = self.objective.readout_until
        read_out = until is None or number * self.steps < until
        values = {name: split(x, 2) for name, x in self._values(traces).items()} if read_out else {}
        looks = {name: split(x, 3) for name, x in self._attended(traces, reads).items()}
        return [
            Batch(
                ids_t[i],
                target_t[i],
                share_t[i],
                nodes_t[i],
                None if edges_t is None else edges_t[i],
                {name: value[i] for name, value in values.items()},
                {name: look[i] for name, look in looks.items()},
                worlds,
            )
            for i in range(self.steps)
        ]

    def _values(self, traces: list[Trace]) -> dict[str, np.ndarray]:
        """Returns the variables that are read out, `[P, world, row]`; none, if none are."""
        if self.objective.readout == 0:
            return {}
        values: dict[str, np.ndarray] = {}
        for name in (name for names in self.alignment.units.values() for name in names):
            value = np.stack([trace[name] for trace in traces])
            kind = np.float32 if value.dtype.kind == "f" else value.dtype
            values[name] = value.transpose(2, 0, 1).astype(kind)
        return values

    def _attended(
        self, traces: list[Trace], reads: dict[tuple[str, Read], Intervention]
    ) -> dict[str, np.ndarray]:
        """Returns where heads are to look, `[P, T, world, row]`, as shares of a step's loss.

        A query's share is even over the keys that its variable attends to, but for the slack at BOS, where
        all of it is if there are none. A variable's queries at BOS have half of its loss, the others the
        other half.
        """
        looks: dict[str, np.ndarray] = {}
        if self.objective.attention == 0:
            return looks
        for name in self._lookers():
            edges = [{} for _ in traces[1:]] + [reads]
            keys = [self.task.model.attended(name, trace, edge) for trace, edge in zip(traces, edges)]
            chosen = np.stack(keys)  # [world, row, query, key]
            somewhere = np.any(chosen, axis=3)
            share = np.concatenate([~somewhere[..., None], chosen], 3).astype(np.float32)
            share /= share.sum(3, keepdims=True)
            share[somewhere] *= 1 - self.objective.slack
            share[..., 0] += self.objective.slack * somewhere
            for rows in (~somewhere, somewhere):
                count = rows.reshape(len(rows), self.steps, -1).sum((0, 2)).clip(1)
                share[rows] /= 2 * np.broadcast_to(count.repeat(self.batch)[:, None], rows.shape)[rows, None]
            looks[name] = share.transpose(2, 3, 0, 1)
        return looks

    def _lookers(self) -> list[str]:
        """Returns the aligned variables that say where their head looks."""
        model = self.task.model
        names = [name for names in self.alignment.units.values() for name in names]
        looking = [name for name in names if model.variables[name].attends is not None]
        if not looking:
            raise TrainingError(
                f"objective.attention: no variable of {self.task.name!r} says where its head looks"
            )
        return looking

    def _shares(self, scored: np.ndarray, worlds: tuple[str, ...], outputs: bool) -> np.ndarray:
        """Returns each position's weight: the term's, divided by the scored positions of its worlds."""
        weights = np.array([outputs * self.objective.weight(term) for term in ("behaviour", *worlds[1:])])
        cut = scored.reshape(len(weights), self.steps, self.batch, -1)
        count = np.maximum(cut.sum((2, 3), keepdims=True), 1)
        return (weights[:, None, None, None] * cut / count).reshape(scored.shape).astype(np.float32)

    def _choose(self, rng: np.random.Generator, count: int, rows: int) -> np.ndarray:
        """Returns bool `[row, count]`: which of `count` forbidden things each row patches."""
        single = np.zeros((rows, count), bool)
        if count:
            single[np.arange(rows), rng.integers(count, size=rows)] = True
        subset = rng.random((rows, count)) < rng.random((rows, 1))
        kinds: dict[Targets, np.ndarray] = {
            "individual": single,
            "subsets": subset,
            "all": np.ones((rows, count), bool),
        }
        kind = rng.random((rows, 1))
        kinds["mixed"] = np.where(kind < 0.5, single, subset)
        kinds["thirds"] = np.where(kind < 1 / 3, single, subset | (kind >= 2 / 3))
        return kinds[self.objective.targets]

    def interventions(
        self, rng: np.random.Generator, rows: int, held_out: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Trace]:
        """Draws bases, sources and interchange interventions, many of them effective.

        Some rows swap one unit, the others a random subset of units with a random source each: see
        `Objective.swaps`.

        Args:
            rng: the generator.
            rows: how many, a multiple of the batch: a row's second source is the next row of its batch.
            held_out: draw from the held-out part of a large domain.

        Returns:
            base `[row, pos]`, source `[row, pos]`, the swaps `[W, row]` (0: none, s: from source s), and
            the program's variables under them.
        """
        domain, units, model = self.task.domain, self.alignment.units, self.task.model
        base = domain.draw(rng, rows, held_out)
        deep = self.objective.swaps == "deep"
        pick = rng.random((rows, len(units)))
        if deep:
            pick **= np.arange(len(units), 0, -1.0) ** -2  # the largest is unit i in proportion to the square
        single = pick.argmax(1)[:, None] == np.arange(len(units))
        subset = rng.integers(SOURCES + 1, size=(rows, len(units)))
        swaps = np.where(rng.random((rows, 1)) < (0.75 if deep else 0.5), single, subset).astype(np.int8)

        candidates = domain.sources(rng, base.repeat(CANDIDATES, 0), held_out)
        trace = model.run(candidates)
        before = model.outputs(base).repeat(CANDIDATES, 0)
        swapped = self._swap(base.repeat(CANDIDATES, 0), [trace] * SOURCES, swaps.repeat(CANDIDATES, 0))
        after = swapped[model.output]
        effective = changed(before, after).any(1).reshape(rows, CANDIDATES)
        answered = has_value(after).any(1).reshape(rows, CANDIDATES)  # else there is nothing to learn
        wanted = rng.random((rows, 1)) < (0.25 if deep else 0.5)
        preference = rng.random((rows, CANDIDATES)) + (effective & wanted) + 2 * answered
        chosen = np.arange(rows) * CANDIDATES + preference.argmax(1)
        nodes = np.zeros((len(self.alignment.graph.nodes), rows), np.int8)
        for column, node in enumerate(units):
            nodes[self.alignment.graph.node_index[node]] = swaps[:, column]

        following = np.roll(chosen.reshape(-1, self.batch), -1, 1).ravel()
        traces = [{name: values[place] for name, values in trace.items()} for place in (chosen, following)]
        return base, candidates[chosen], nodes, self._swap(base, traces, swaps)

    def _patched_reads(self, source: Trace, edges: np.ndarray) -> dict[tuple[str, Read], Intervention]:
        """Returns what the program's own reads get with edges patched, row by row: `edges [R, W, row]`."""
        return {
            read: Intervention(source[read[1].parent], edges[place])
            for place, reads in self.reads.items()
            if edges[place].any()
            for read in reads
        }

    def _swap(self, base: np.ndarray, traces: list[Trace], swaps: np.ndarray) -> Trace:
        """Returns the program's variables with units swapped: `swaps [row, unit]`, 0: none, s: trace s."""
        interventions: dict[str, Intervention] = {}
        for column, names in enumerate(self.alignment.units.values()):
            for name in names:
                values = np.where((swaps[:, column] == 2)[:, None], traces[1][name], traces[0][name])
                interventions[name] = Intervention(values, swaps[:, column] > 0)
        return self.task.model.run(base, interventions)
