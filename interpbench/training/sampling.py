"""Draws of training: the inputs, interventions and targets of each step.

The rows of a step are in worlds. The first one runs source inputs without interventions and has the loss
`behaviour`. The others, one for each further loss of the objective, run base inputs. In `iit` aligned nodes
are swapped, in `strict` forbidden nodes; in `edge_strict` edges without effect are patched, and in some rows
a required edge. The target is the program's output under the same interventions. `world_builders.py` and
`edge_world.py` build the worlds.

Many steps are drawn together, as a pool, from a generator that is seeded by the pool's number. A resumed run
thus draws the same, and the causal model is run a few times for a pool instead of for each step.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Intervention, Trace, has_value
from interpbench.circuits.certificate import Kind
from interpbench.circuits.ground_truth import Truth
from interpbench.core import seeds
from interpbench.training.edge_world import EdgeWorld
from interpbench.training.failures import NO_FAILURES, Failures, pick, prefer
from interpbench.training.guidance import Guidance
from interpbench.training.recipe import Recipe
from interpbench.training.world_builders import (
    StrictWorld,
    Swapped,
    World,
    WorldBuilder,
    source_world,
    swap_world,
)
from interpbench.transformer.worlds import Plan

KINDS_OF_EDGES: tuple[Kind, ...] = ("edges", "edge_sets", "required_edges")
"""The interventions of the edge term."""
SOURCES = 2
"""The number of sources that the nodes of a random subset are swapped from."""
CANDIDATES = 4
"""The number of sources that are drawn for each base, to choose one that changes the output."""


@dataclass(frozen=True)
class Batch:
    """The rows of one step.

    Shapes: T positions with BOS, P = T - 1 without it, W nodes, R readers.

    Attributes:
        tokens: token ids, `[world, batch, T]`.
        targets: class codes or numbers, `[P, world, batch]`.
        weights: the weight of each position's loss in the total, `[P, world, batch]`; 0 if it is not scored.
        nodes: the source of each node's activation, `[W, world, batch]`, 1 or 2; 0 if it is not swapped.
        edges: the patched edges of the last world, `[R, W, batch]` 0/1; None for none.
        edge_sources: 1 if patched edges take their node's second source, 0 for the first: `[R, W, batch]`, or
            `[W, batch]` if it is the same for all edges out of a node.
        places: the positions at which nodes are swapped, `[world, T, batch]` 0/1; None for all.
        values: the values of probed variables, `[P, world, batch]`, by name; empty if no probe is trained.
        attended: the attention that is wanted of each variable's head, `[P, T, world, batch]` (query, key),
            times the weight of the query, by the variable's name; empty if attention is not supervised.
        crossed: the same for the queries of each row and the keys of the next one (`Guidance.crossed`).
        readouts: the targets of readouts, as those of the output, by name (`CausalModel.ends`).
        readout_weights: their weights, by name.
        worlds: the name of each world.
        plan: the swaps that there are in the batches of its pool.
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
    crossed: dict[str, Tensor]
    readouts: dict[str, Tensor]
    readout_weights: dict[str, Tensor]
    worlds: tuple[str, ...]
    plan: Plan

    def tensors(self) -> dict[str, Tensor]:
        """Returns all tensors, by the attribute's name; those of a dict as `values/NAME`."""
        found: dict[str, Tensor] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                found[name] = value
            elif isinstance(value, dict):
                found |= {f"{name}/{key}": tensor for key, tensor in value.items()}
        return found

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "Batch":
        """Returns a batch with other tensors; their names are those of `tensors()`."""
        given: dict[str, Any] = {name: tensor for name, tensor in tensors.items() if "/" not in name}
        for name, value in vars(self).items():
            if isinstance(value, dict):
                given[name] = {key: tensors[f"{name}/{key}"] for key in value}
        return dataclasses.replace(self, **given)


class Sampler:
    """Draws the batches of a training.

    Args:
        alignment: the nodes of the program's variables.
        truth: the states of nodes and edges.
        recipe: the losses, the draws, and when losses begin and end.
        batch: the number of rows of each world. Where edges are alone (`Draws.edges_alone`), they have the
            rows of the others, too.
        seed: the seed of all draws.
    """

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
        self.guidance = Guidance(alignment, recipe.objective)
        self._pool: tuple[int, list[Batch]] = (-1, [])

    def __call__(
        self, step: int, device: torch.device, guided: bool = True, failures: Failures = NO_FAILURES
    ) -> Batch:
        """Returns the batch of a step.

        Args:
            step: the number of steps before this one.
            device: the device of the tensors.
            guided: whether the step is guided. Without, `values` has those of shares alone (`Secrecy`), and
                `attended` and `crossed` are empty unless attention is supervised to the end. The other draws
                are the same.
            failures: what the network did wrong in the last validations before the pool of the step.
        """
        number, place = divmod(step, self.steps)
        if self._pool[0] != number:
            self._pool = (number, self._draw(number, device, guided, failures))
        batch = self._pool[1][place]
        if guided:
            return batch
        secret = {name: batch.values[name] for name in self.guidance.secrets}
        if self.recipe.supervised_to_end:
            return dataclasses.replace(batch, values=secret)
        return dataclasses.replace(batch, values=secret, attended={}, crossed={})

    def worlds(self, step: int, failures: Failures = NO_FAILURES) -> tuple[str, ...]:
        """Returns the names of the worlds of a step, which are the same for a whole pool.

        Args:
            step: the number of steps before this one.
            failures: what the network did wrong in the last validations before the pool of the step.
        """
        objective, number = self.recipe.objective, step // self.steps
        strict = self.recipe.curriculum.strict(number * self.steps)
        wanted = {
            "source": True,
            "iit": objective.iit > 0,
            "strict": strict and objective.strict > 0 and bool(self.forbidden_nodes),
            "edge_strict": strict and objective.edge_strict > 0,
        }
        if failures.are_of(*KINDS_OF_EDGES) and self._alone(number):
            wanted |= {"iit": not wanted["edge_strict"], "strict": False}
        return tuple(name for name in self.builders if wanted[name])

    def _alone(self, pool: int) -> bool:
        """Returns whether edges are alone in a pool, if nothing else was wrong."""
        share = self.recipe.draws.edges_alone or 0.0
        return math.floor((pool + 1) * share) > math.floor(pool * share)

    def _draw(self, number: int, device: torch.device, guided: bool, failures: Failures) -> list[Batch]:
        """Draws the batches of a pool: builds its worlds and puts them side by side."""
        step = number * self.steps
        names, usual = self.worlds(step, failures), self.worlds(step)
        rng = seeds.generator(self.seed, "pool", number)
        batch = self.batch * len(usual) // len(names)
        rows = self.steps * batch
        swapped = self.interventions(rng, rows, failures=failures, batch=batch)
        worlds = [self.builders[name](rng, swapped) for name in names]
        causal_model, curriculum = self.task.causal_model, self.recipe.curriculum
        nodes = np.zeros((len(self.alignment.graph.nodes), len(worlds), rows), np.int8)
        for place, world in enumerate(worlds):
            if world.nodes is not None:
                nodes[:, place] = world.nodes
        places, last = _places(worlds), worlds[-1]
        plan = Plan.of(nodes, last.edge_sources)
        ids = np.stack([self.task.token_ids(world.tokens) for world in worlds])

        def split(array: np.ndarray, axis: int) -> Tensor:
            """Cuts the row axis into steps, which become the first axis."""
            shape = (*array.shape[:axis], self.steps, batch, *array.shape[axis + 1 :])
            cut = np.moveaxis(array.reshape(shape), axis, 0)
            return torch.from_numpy(np.ascontiguousarray(cut)).to(device)

        ids_t, nodes_t = split(ids, 1), split(nodes, 2)
        targets: dict[str, Tensor] = {}
        weights: dict[str, Tensor] = {}
        for name in causal_model.ends:
            target = np.stack([world.trace[name] for world in worlds])  # [world, row, pos]
            scored = has_value(target)
            kind = torch.float32 if causal_model.variables[name].values is None else torch.int64
            shares = self._shares(scored, names, curriculum.outputs(step)) / len(causal_model.ends)
            targets[name] = split(np.where(scored, target, 0).transpose(2, 0, 1), 2).to(kind)
            weights[name] = split(shares.astype(np.float32).transpose(2, 0, 1), 2)
        target_t, share_t = targets.pop(causal_model.output), weights.pop(causal_model.output)
        edges_t = None if last.edges is None else split(last.edges, 2)
        own = last.edge_sources
        edge_sources_t = None if own is None else split(own, own.ndim - 1)
        places_t = None if places is None else split(places, 2)
        traces = [world.trace for world in worlds]
        probed = self.guidance.values(traces, guided and curriculum.probes(step))
        values = {name: split(x, 2) for name, x in probed.items()}
        supervised = guided or self.recipe.supervised_to_end
        attended = self.guidance.attended(traces, last.reads, batch) if supervised else {}
        looks = {name: split(x, 3) for name, x in attended.items()}
        crossed = self.guidance.crossed(traces, last.reads, batch) if supervised else {}
        crosses = {name: split(x, 3) for name, x in crossed.items()}
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
                {name: look[i] for name, look in crosses.items()},
                {name: target[i] for name, target in targets.items()},
                {name: weight[i] for name, weight in weights.items()},
                names,
                plan,
            )
            for i in range(self.steps)
        ]

    def _shares(self, scored: np.ndarray, worlds: tuple[str, ...], outputs: bool) -> np.ndarray:
        """Returns each position's weight: its term's, divided by the term's number of scored positions."""
        objective, terms = self.recipe.objective, ("behaviour", *worlds[1:])
        weights = np.array([objective.weighted(term, float(outputs)) for term in terms])
        cut = scored.reshape(len(weights), self.steps, scored.shape[1] // self.steps, -1)
        count = np.maximum(cut.sum((2, 3), keepdims=True), 1)
        return (weights[:, None, None, None] * cut / count).reshape(scored.shape).astype(np.float32)

    def interventions(
        self,
        rng: np.random.Generator,
        rows: int,
        held_out: bool = False,
        failures: Failures = NO_FAILURES,
        batch: int | None = None,
    ) -> Swapped:
        """Draws bases, sources and interchange interventions, many of which change the output.

        Some rows swap one aligned node, the others a random subset of them, each with a random source: see
        `Draws.swaps`.

        Args:
            rng: the random generator.
            rows: the number of rows, a multiple of the batch; a row's second source is that of the next row.
            held_out: whether inputs come from the held-out part of a large domain.
            failures: what the network did wrong in the last validations.
            batch: the number of rows of each world of a step; None for the usual one.
        """
        domain, causal_model, draws = self.task.domain, self.task.causal_model, self.recipe.draws
        aligned = self.alignment.aligned_nodes
        base = self._stratified(rng, domain.draw(rng, rows, held_out), draws.strata, held_out, failures.bases)
        deep = draws.swaps == "deep"
        arrivals = rng.random((rows, len(aligned)))
        if deep:
            # the largest is then node i in proportion to the square of its place from the end
            arrivals **= np.arange(len(aligned), 0, -1.0) ** -2
        one = self._following(rng, arrivals.argmax(1), failures.shares("variables", map(str, aligned)))
        single = one[:, None] == np.arange(len(aligned))
        subset = rng.integers(SOURCES + 1, size=(rows, len(aligned)))
        swaps = np.where(rng.random((rows, 1)) < (0.75 if deep else 0.5), single, subset).astype(np.int8)

        candidates = domain.sources(rng, base.repeat(CANDIDATES, 0), held_out)
        candidates = self._stratified(rng, candidates, draws.strata / 2, held_out, failures.sources)
        trace = causal_model.run(candidates)
        unchanged = causal_model.run(base)
        repeated = {name: values.repeat(CANDIDATES, 0) for name, values in unchanged.items()}
        after = self._swap(repeated, [trace] * SOURCES, swaps.repeat(CANDIDATES, 0))
        effective = causal_model.effective(repeated, after).reshape(rows, CANDIDATES)
        answered = causal_model.answered(after).reshape(rows, CANDIDATES)  # else there is nothing to learn
        wanted = rng.random((rows, 1)) < (0.25 if deep else 0.5)
        preference = rng.random((rows, CANDIDATES)) + (effective & wanted) + 2 * answered
        chosen = np.arange(rows) * CANDIDATES + preference.argmax(1)
        nodes = np.zeros((len(self.alignment.graph.nodes), rows), np.int8)
        for column, node in enumerate(aligned):
            nodes[self.alignment.graph.node_index[node]] = swaps[:, column]

        places = None
        if draws.positions:
            place = rng.integers(base.shape[1], size=rows)[:, None] == np.arange(base.shape[1])
            places = place | (rng.random((rows, 1)) >= draws.positions)
        following = np.roll(chosen.reshape(-1, batch or self.batch), -1, 1).ravel()
        first, second = (
            {name: values[place] for name, values in trace.items()} for place in (chosen, following)
        )
        counterfactual = self._swap(unchanged, [first, second], swaps, places)
        return Swapped(base, (first, second), nodes, places, unchanged, counterfactual, failures)

    def _following(self, rng: np.random.Generator, drawn: np.ndarray, failed: np.ndarray) -> np.ndarray:
        """Returns targets `[row]` as drawn, some of them replaced in proportion to their failures."""
        follow = self.recipe.draws.follow
        if not follow or not failed.any():
            return drawn
        return np.where(rng.random(len(drawn)) < follow, pick(rng, failed, len(drawn), 1.0), drawn)

    def _stratified(
        self,
        rng: np.random.Generator,
        tokens: np.ndarray,
        share: float,
        held_out: bool,
        failures: Mapping[str, float],
    ) -> np.ndarray:
        """Returns tokens with a share of rows replaced by draws that are spread evenly over the strata.

        Half of the share `Draws.follow` of the rows is spread in proportion to strata's failures instead.
        """
        strata = self.task.strata
        rows = np.flatnonzero(rng.random(len(tokens)) < share)
        if len(rows):
            tokens = tokens.copy()
            tokens[rows] = strata.draw(rng, len(rows), held_out)
        failed = np.array([failures.get(name, 0.0) for name in strata.names]) if failures else np.zeros(0)
        many = int(self.recipe.draws.follow / 2 * len(tokens)) if failed.any() else 0
        if many:
            more = strata.draw(rng, 2 * many, held_out)
            tokens = tokens.copy()
            chosen = prefer(rng, strata.labels(more), failed, many)
            tokens[rng.choice(len(tokens), many, replace=False)] = more[chosen]
        return tokens

    def _swap(
        self, base: Trace, traces: list[Trace], swaps: np.ndarray, places: np.ndarray | None = None
    ) -> Trace:
        """Returns the program's variables with those of aligned nodes swapped.

        Args:
            base: the program's variables on the base.
            traces: the program's variables on the first and on the second source.
            swaps: the source of each aligned node, `[row, aligned node]`, 1 or 2; 0 if it is not swapped.
            places: bool `[row, pos]`, the positions at which nodes are swapped; None for all.
        """
        interventions: dict[str, Intervention] = {}
        for column, names in enumerate(self.alignment.aligned_nodes.values()):
            where = swaps[:, column] > 0
            for name in names:
                values = np.where((swaps[:, column] == 2)[:, None], traces[1][name], traces[0][name])
                interventions[name] = Intervention(
                    values, where if places is None else where[:, None] & places
                )
        return self.task.causal_model.run(base["tokens"], interventions, clean=base)


def _places(worlds: Sequence[World]) -> np.ndarray | None:
    """Returns the positions at which nodes are swapped, `[world, T, row]` 0/1 with BOS; None for all."""
    if all(world.places is None for world in worlds):
        return None
    rows, positions = worlds[0].tokens.shape
    places = np.ones((len(worlds), 1 + positions, rows), np.float32)
    for number, world in enumerate(worlds):
        if world.places is not None:
            places[number, 1:] = world.places.T
            places[number, 0] = world.places.all(1)
    return places
