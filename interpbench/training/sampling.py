"""Draws what a training step sees: inputs, interventions, and the program's answers to them.

Worlds of a step, in order: the clean source world, which carries the behaviour loss, then those that the
objective asks for, all run on another input, the base: `iit` (aligned nodes swapped), `strict` (forbidden
nodes swapped), `edge_strict` (edges outside the circuit patched, edges of the program that change nothing on
its domain, and in some rows a required one: the target is the program's own output with its edges patched).
`worlds.py` and `edge_world.py` build them.

Everything is drawn in pools of many steps, each from a generator named by the pool's number, so that a
resumed run draws the same, and the causal model is run a few times a pool instead of a few times a step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Intervention, Read, Trace, changed, has_value
from interpbench.circuits.ground_truth import Truth
from interpbench.core import seeds
from interpbench.core.errors import TrainingError
from interpbench.training.edge_world import EdgeWorld
from interpbench.training.recipe import Recipe
from interpbench.training.world_builders import (
    StrictWorld,
    Swapped,
    World,
    WorldBuilder,
    source_world,
    swap_world,
)

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
        edge_sources: `[W, batch]`: 0 or 1, how many rows further on the source of patched edges is.
        places: `[world, T, batch]` 0/1: where nodes are swapped; None for everywhere.
        values: variable to its values `[P, world, batch]`, if probes are trained then.
        attended: variable to where its head is to look, `[P, T, world, batch]`, if that is trained then:
            shares of the loss at each query and key.
        worlds: the name of each world.
    """

    tokens: Tensor
    targets: Tensor
    weights: Tensor
    nodes: Tensor
    edges: Tensor | None
    edge_sources: Tensor | None
    places: Tensor | None
    values: dict[str, Tensor]
    attended: dict[str, Tensor]
    worlds: tuple[str, ...]


class Sampler:
    """Draws batches for an aligned task."""

    def __init__(self, alignment: Alignment, truth: Truth, recipe: Recipe, batch: int, seed: int):
        self.alignment, self.truth, self.recipe = alignment, truth, recipe
        self.task, self.batch, self.seed = alignment.task, batch, seed
        strict = StrictWorld(alignment, recipe.draws)
        self.forbidden_nodes = strict.nodes
        self.builders: dict[str, WorldBuilder] = {
            "source": source_world,
            "iit": swap_world,
            "strict": strict,
            "edge_strict": EdgeWorld(alignment, truth, recipe.draws),
        }
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
        objective = self.recipe.objective
        strict = self.recipe.curriculum.strict(step // self.steps * self.steps)
        wanted = {
            "source": True,
            "iit": objective.iit > 0,
            "strict": strict and objective.strict > 0 and bool(self.forbidden_nodes),
            "edge_strict": strict and objective.edge_strict > 0,
        }
        return tuple(name for name in self.builders if wanted[name])

    def _draw(self, number: int, device: torch.device) -> list[Batch]:
        """Draws a pool: builds its worlds, and puts them side by side."""
        step, names = number * self.steps, self.worlds(number * self.steps)
        rng = seeds.generator(self.seed, "pool", number)
        rows, batch = self.steps * self.batch, self.batch
        swapped = self.interventions(rng, rows)
        worlds = [self.builders[name](rng, swapped) for name in names]
        causal_model, curriculum = self.task.causal_model, self.recipe.curriculum
        nodes = np.zeros((len(self.alignment.graph.nodes), len(worlds), rows), np.int8)
        for place, world in enumerate(worlds):
            if world.nodes is not None:
                nodes[:, place] = world.nodes
        places, last = _places(worlds), worlds[-1]
        ids = np.stack([self.task.token_ids(world.tokens) for world in worlds])
        target = np.stack([world.trace[causal_model.output] for world in worlds])  # [world, row, pos]
        scored = has_value(target)
        target = np.where(scored, target, 0)
        shares = self._shares(scored, names, curriculum.outputs(step))

        def split(array: np.ndarray, axis: int) -> Tensor:
            """Cuts the row axis into steps, which become the first axis."""
            shape = (*array.shape[:axis], self.steps, batch, *array.shape[axis + 1 :])
            cut = np.moveaxis(array.reshape(shape), axis, 0)
            return torch.from_numpy(np.ascontiguousarray(cut)).to(device)

        kind = torch.float32 if causal_model.numerical else torch.int64
        ids_t, nodes_t = split(ids, 1), split(nodes, 2)
        target_t = split(target.transpose(2, 0, 1), 2).to(kind)
        share_t = split(shares.transpose(2, 0, 1), 2)
        edges_t = None if last.edges is None else split(last.edges, 2)
        edge_sources_t = None if last.edge_sources is None else split(last.edge_sources, 1)
        places_t = None if places is None else split(places, 2)
        traces = [world.trace for world in worlds]
        probed = self._values(traces) if curriculum.probes(step) else {}
        values = {name: split(x, 2) for name, x in probed.items()}
        looks = {name: split(x, 3) for name, x in self._attended(traces, last.reads).items()}
        return [
            Batch(
                ids_t[i],
                target_t[i],
                share_t[i],
                nodes_t[i],
                None if edges_t is None else edges_t[i],
                None if edge_sources_t is None else edge_sources_t[i],
                None if places_t is None else places_t[i],
                {name: value[i] for name, value in values.items()},
                {name: look[i] for name, look in looks.items()},
                names,
            )
            for i in range(self.steps)
        ]

    def _values(self, traces: list[Trace]) -> dict[str, np.ndarray]:
        """Returns the variables that are probed, `[P, world, row]`; none, if none are."""
        if self.recipe.objective.probe == 0:
            return {}
        values: dict[str, np.ndarray] = {}
        for name in (name for names in self.alignment.aligned_nodes.values() for name in names):
            value = np.stack([trace[name] for trace in traces])
            kind = np.float32 if value.dtype.kind == "f" else value.dtype
            values[name] = value.transpose(2, 0, 1).astype(kind)
        return values

    def _attended(
        self, traces: list[Trace], reads: dict[tuple[str, Read], Intervention]
    ) -> dict[str, np.ndarray]:
        """Returns where heads are to look, `[P, T, world, row]`, as shares of a step's loss.

        A query's share is even over the keys that its variable attends to, but for `bos_slack`, where
        all of it is if there are none. A variable's queries at BOS have half of its loss, the others the
        other half.
        """
        looks: dict[str, np.ndarray] = {}
        if self.recipe.objective.attention_supervision == 0:
            return looks
        for name in self._lookers():
            edges = [{} for _ in traces[1:]] + [reads]
            keys = [self.task.causal_model.attended(name, trace, edge) for trace, edge in zip(traces, edges)]
            chosen = np.stack(keys)  # [world, row, query, key]
            somewhere = np.any(chosen, axis=3)
            share = np.concatenate([~somewhere[..., None], chosen], 3).astype(np.float32)
            share /= share.sum(3, keepdims=True)
            share[somewhere] *= 1 - self.recipe.objective.bos_slack
            share[..., 0] += self.recipe.objective.bos_slack * somewhere
            for rows in (~somewhere, somewhere):
                count = rows.reshape(len(rows), self.steps, -1).sum((0, 2)).clip(1)
                share[rows] /= 2 * np.broadcast_to(count.repeat(self.batch)[:, None], rows.shape)[rows, None]
            looks[name] = share.transpose(2, 3, 0, 1)
        return looks

    def _lookers(self) -> list[str]:
        """Returns the aligned variables that say where their head looks."""
        causal_model = self.task.causal_model
        names = [name for names in self.alignment.aligned_nodes.values() for name in names]
        looking = [name for name in names if causal_model.variables[name].attends is not None]
        if not looking:
            raise TrainingError(
                f"objective.attention_supervision: no variable of {self.task.name!r} says where it looks"
            )
        return looking

    def _shares(self, scored: np.ndarray, worlds: tuple[str, ...], outputs: bool) -> np.ndarray:
        """Returns each position's weight: the term's, divided by the scored positions of its worlds."""
        objective, terms = self.recipe.objective, ("behaviour", *worlds[1:])
        weights = np.array([objective.weighted(term, float(outputs)) for term in terms])
        cut = scored.reshape(len(weights), self.steps, self.batch, -1)
        count = np.maximum(cut.sum((2, 3), keepdims=True), 1)
        return (weights[:, None, None, None] * cut / count).reshape(scored.shape).astype(np.float32)

    def interventions(self, rng: np.random.Generator, rows: int, held_out: bool = False) -> Swapped:
        """Draws bases, sources and interchange interventions, many of them effective.

        Some rows swap one aligned node, the others a random subset of them with a random source each: see
        `Draws.swaps`.

        Args:
            rng: the generator.
            rows: how many, a multiple of the batch: a row's second source is the next row of its batch.
            held_out: draw from the held-out part of a large domain.
        """
        domain, causal_model, draws = self.task.domain, self.task.causal_model, self.recipe.draws
        aligned = self.alignment.aligned_nodes
        base = self._stratified(rng, domain.draw(rng, rows, held_out), draws.strata, held_out)
        deep = draws.swaps == "deep"
        pick = rng.random((rows, len(aligned)))
        if deep:
            # the largest is then node i in proportion to the square of its place from the end
            pick **= np.arange(len(aligned), 0, -1.0) ** -2
        single = pick.argmax(1)[:, None] == np.arange(len(aligned))
        subset = rng.integers(SOURCES + 1, size=(rows, len(aligned)))
        swaps = np.where(rng.random((rows, 1)) < (0.75 if deep else 0.5), single, subset).astype(np.int8)

        candidates = domain.sources(rng, base.repeat(CANDIDATES, 0), held_out)
        candidates = self._stratified(rng, candidates, draws.strata / 2, held_out)
        trace = causal_model.run(candidates)
        before = causal_model.outputs(base).repeat(CANDIDATES, 0)
        swapped = self._swap(base.repeat(CANDIDATES, 0), [trace] * SOURCES, swaps.repeat(CANDIDATES, 0))
        after = swapped[causal_model.output]
        effective = changed(before, after).any(1).reshape(rows, CANDIDATES)
        answered = has_value(after).any(1).reshape(rows, CANDIDATES)  # else there is nothing to learn
        wanted = rng.random((rows, 1)) < (0.25 if deep else 0.5)
        preference = rng.random((rows, CANDIDATES)) + (effective & wanted) + 2 * answered
        chosen = np.arange(rows) * CANDIDATES + preference.argmax(1)
        nodes = np.zeros((len(self.alignment.graph.nodes), rows), np.int8)
        for column, node in enumerate(aligned):
            nodes[self.alignment.graph.node_index[node]] = swaps[:, column]

        places = None
        if draws.positions:
            one = rng.integers(base.shape[1], size=rows)[:, None] == np.arange(base.shape[1])
            places = one | (rng.random((rows, 1)) >= draws.positions)
        following = np.roll(chosen.reshape(-1, self.batch), -1, 1).ravel()
        first, second = (
            {name: values[place] for name, values in trace.items()} for place in (chosen, following)
        )
        counterfactual = self._swap(base, [first, second], swaps, places)
        return Swapped(base, (first, second), nodes, places, causal_model.run(base), counterfactual)

    def _stratified(
        self, rng: np.random.Generator, tokens: np.ndarray, share: float, held_out: bool
    ) -> np.ndarray:
        """Replaces a share of inputs by even draws from the strata."""
        rows = np.flatnonzero(rng.random(len(tokens)) < share)
        if len(rows):
            tokens = tokens.copy()
            tokens[rows] = self.task.strata.draw(rng, len(rows), held_out)
        return tokens

    def _swap(
        self, base: np.ndarray, traces: list[Trace], swaps: np.ndarray, places: np.ndarray | None = None
    ) -> Trace:
        """Returns the program's variables with aligned nodes swapped.

        `swaps [row, aligned node]`: 0 for none, s for trace s; `places [row, pos]`: where; None for
        everywhere.
        """
        interventions: dict[str, Intervention] = {}
        for column, names in enumerate(self.alignment.aligned_nodes.values()):
            where = swaps[:, column] > 0
            for name in names:
                values = np.where((swaps[:, column] == 2)[:, None], traces[1][name], traces[0][name])
                interventions[name] = Intervention(
                    values, where if places is None else where[:, None] & places
                )
        return self.task.causal_model.run(base, interventions)


def _places(worlds: Sequence[World]) -> np.ndarray | None:
    """Returns where nodes are swapped, `[world, T, row]` 0/1, T with BOS; None for everywhere."""
    if all(world.places is None for world in worlds):
        return None
    rows, positions = worlds[0].tokens.shape
    places = np.ones((len(worlds), 1 + positions, rows), np.float32)
    for number, world in enumerate(worlds):
        if world.places is not None:
            places[number, 1:] = world.places.T
            places[number, 0] = world.places.all(1)
    return places
