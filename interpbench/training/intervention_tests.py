"""The interventions of a certificate, each with the program's output under the same intervention.

A *row* is a base with its sources. It counts if the program has an output at some scored position, and it is
right if the network's output is right at every scored position.

Shapes: R readers, W nodes.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from interpbench.alignment.structure import structural_ends
from interpbench.causal.model import Intervention, changed
from interpbench.circuits.certificate import ALL, OWN_SOURCES, SETS, SUBSETS, Kind
from interpbench.circuits.ground_truth import State, Truth, required_edges
from interpbench.circuits.naming import edge_name
from interpbench.training.interventional_accuracy import Activations, Evaluation, Inputs
from interpbench.transformer.fast.run_circuits import NUMBERS_PER_CALL
from interpbench.transformer.routes import Replaced, Routes

SPARSE: tuple[Kind, ...] = ("variables", "effective", "effective_positions", "required_edges")
"""The kinds of interventions of which few rows may count."""
CHANGING: dict[Kind, Kind] = {
    "variables": "effective",
    "positions": "effective_positions",
    "required_edges": "effective_edges",
}
"""The kind that is measured along with another one: rows on which the program's output changes."""


@dataclass(frozen=True)
class Chunk:
    """Rows: bases with their sources, and the network's activations on them.

    Attributes:
        base: the bases.
        sources: the sources of each base; interventions with a single source take the first.
        rng: the random generator for interventions that are drawn.
        at: the position of swaps at a single one, `[row]`; None to draw it.
    """

    base: Activations
    sources: tuple[Activations, ...]
    rng: np.random.Generator
    at: np.ndarray | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of one intervention on a chunk.

    Attributes:
        kind: the kind of intervention.
        place: the name of the node, edge or set.
        right: bool `[row]`, the rows that are right.
        counts: bool `[row]`, the rows that count.
    """

    kind: Kind
    place: str
    right: np.ndarray
    counts: np.ndarray


class InterventionTests:
    """All interventions of a certificate but patches of single inert edges, which are in `screening`.

    Args:
        evaluation: the network and its alignment.
        truth: the states of nodes and edges.

    Attributes:
        places: the names of nodes, edges or sets that are measured, by kind, in the network's order.
        effect: for each required node or edge, the number of rows on which patching it changes the network's
            output, and the number of rows.
    """

    def __init__(self, evaluation: Evaluation, truth: Truth):
        self.evaluation, self.truth = evaluation, truth
        self.inert = np.argwhere(truth.inert)
        self.unaligned = np.array(
            [node in evaluation.alignment.unaligned_nodes for node in truth.graph.nodes]
        )
        self.aligned = {str(node): node for node in evaluation.alignment.aligned_nodes}
        self.unaligned_nodes = {str(node): node for node in evaluation.alignment.unaligned_nodes}
        self.required = required_edges(truth)
        self.places: dict[Kind, tuple[str, ...]] = {
            "accuracy": ("output",),
            "variables": tuple(self.aligned),
            "effective": tuple(self.aligned),
            "positions": tuple(self.aligned),
            "effective_positions": tuple(self.aligned),
            "nodes": tuple(self.unaligned_nodes),
            "edges": tuple(map(self.edge_name, self.inert)),
            "required_edges": tuple(self.required),
            "effective_edges": tuple(self.required),
            "node_sets": SETS if self.unaligned_nodes else (),
            "edge_sets": SETS if len(self.inert) else (),
        }
        needed = [*truth.names("node", State.REQUIRED)[1:], *self.required]
        self.effect = {name: [0, 0] for name in needed}

    def edge_name(self, edge: np.ndarray) -> str:
        """Returns the name of an edge, given the indices of its reader and node."""
        graph = self.truth.graph
        return edge_name(graph.nodes[edge[1]], graph.readers[edge[0]])

    def measure(self, chunk: Chunk, wanted: Mapping[Kind, Collection[str]]) -> Iterator[Outcome]:
        """Yields the outcomes of interventions on a chunk, with `wanted` names of places by kind."""
        kinds: dict[Kind, Callable[[Chunk, Collection[str]], Iterator[Outcome]]] = {
            "accuracy": self._accuracy,
            "variables": self._variables,
            "positions": self._positions,
            "nodes": self._nodes,
            "node_sets": self._node_sets,
            "edge_sets": self._edge_sets,
            "required_edges": self._required,
        }
        for kind, measured in kinds.items():
            places = set(wanted.get(kind, ())) | set(wanted.get(CHANGING.get(kind, kind), ()))
            if places:
                yield from measured(chunk, places)

    def _outcome(self, kind: Kind, place: str, predictions: np.ndarray, answer: np.ndarray) -> Outcome:
        ev = self.evaluation
        return Outcome(kind, place, ev.right(predictions, answer), ev.answered(answer))

    def _outcomes(
        self, kind: Kind, place: str, predictions: np.ndarray, answer: np.ndarray, chunk: Chunk
    ) -> Iterator[Outcome]:
        """Yields the outcome, and that of the rows on which the program's output changes (`CHANGING`)."""
        outcome = self._outcome(kind, place, predictions, answer)
        yield outcome
        effective = np.any(changed(self._answer(chunk), answer), axis=1)
        yield Outcome(CHANGING[kind], place, outcome.right, effective)

    def _affects(self, name: str, chunk: Chunk, predictions: np.ndarray) -> None:
        """Adds to `effect` the rows on which patching something required changes the network's output."""
        if name not in self.effect:
            return
        ev = self.evaluation
        clean, scored = ev.predictions(chunk.base.logits), ev.task.scored(self._answer(chunk))
        tolerance = ev.task.tolerance if ev.causal_model.numerical else 0
        differs = np.any((np.abs(predictions - clean) > tolerance) & scored, axis=1)
        self.effect[name][0] += int(differs.sum())
        self.effect[name][1] += int(scored.any(1).sum())

    def _answer(self, chunk: Chunk) -> np.ndarray:
        """Returns the program's outputs on the bases, `[row, pos]`."""
        return chunk.base.trace[self.evaluation.causal_model.output]

    def _accuracy(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        predictions = self.evaluation.predictions(chunk.base.logits)
        yield self._outcome("accuracy", "output", predictions, self._answer(chunk))

    def _variables(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        """Swaps each aligned node in the network and its variables in the program."""
        nodes = [node for name, node in self.aligned.items() if name in places]
        ev, source = self.evaluation, chunk.sources[0]
        for node, predictions in ev.single_nodes(chunk.base, source.stack, nodes):
            answer = ev.counterfactual(chunk.base, source, node)[0]
            self._affects(str(node), chunk, predictions)
            yield from self._outcomes("variables", str(node), predictions, answer, chunk)

    def _positions(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        """Swaps each aligned node, and its variables, at one random position of each row."""
        nodes = [node for name, node in self.aligned.items() if name in places]
        ev, base, source = self.evaluation, chunk.base, chunk.sources[0]
        rows, length = base.tokens.shape
        at = chunk.rng.integers(length, size=rows) if chunk.at is None else chunk.at
        where = at[:, None] == np.arange(length)
        chosen = torch.from_numpy(np.concatenate([np.zeros((len(at), 1), bool), where], 1).T.copy())
        patch = torch.where(chosen.to(ev.device), source.stack, base.stack)
        for node, predictions in ev.single_nodes(base, patch, nodes):
            answer = ev.counterfactual(base, source, node, where)[0]
            yield from self._outcomes("positions", str(node), predictions, answer, chunk)

    def _nodes(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        nodes = [node for name, node in self.unaligned_nodes.items() if name in places]
        for node, predictions in self.evaluation.single_nodes(chunk.base, chunk.sources[0].stack, nodes):
            yield self._outcome("nodes", str(node), predictions, self._answer(chunk))

    def _node_sets(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        """Patches all forbidden nodes, or a random set of them in each row."""
        ev, base, answer = self.evaluation, chunk.base, self._answer(chunk)
        if ALL in places:
            ((_, predictions),) = ev.patched(base, chunk.sources[0].stack, nodes=self.unaligned[None])
            yield self._outcome("node_sets", ALL, predictions, answer)
        for name, sources in self._set_kinds(chunk, places):
            chosen = random_routes(chunk.rng, len(base.tokens), int(self.unaligned.sum()), len(sources))
            predictions = self._replaced(base, sources, chosen)
            yield self._outcome("node_sets", name, predictions, answer)

    def _replaced(
        self, base: Activations, sources: tuple[Activations, ...], chosen: np.ndarray
    ) -> np.ndarray:
        """Returns predictions with forbidden nodes patched.

        Args:
            base: the bases.
            sources: the sources.
            chosen: the number of each forbidden node's source, `[row, forbidden node]`, from 1; 0 for none.
        """
        ev, places = self.evaluation, np.flatnonzero(self.unaligned)
        found: list[np.ndarray] = []
        for some in ev.chunks(len(chosen)):
            patch = sources[0].stack[..., some].clone()
            replaced = torch.zeros(len(patch), patch.shape[3], dtype=torch.bool, device=ev.device)
            for column, place in enumerate(places.tolist()):
                routes = torch.from_numpy(chosen[some, column]).to(ev.device)
                replaced[place] = routes > 0
                for number, source in enumerate(sources[1:], 2):
                    patch[place] = torch.where(routes == number, source.stack[place][..., some], patch[place])
            with torch.no_grad():
                logits = ev.network.run(base.stack[0][..., some], Replaced(replaced, patch))
            found.append(ev.predictions(logits))
        return np.concatenate(found)

    def _edge_sets(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        """Patches all inert edges, or a random set of them in each row; in the program, those that it has."""
        ev, base, source = self.evaluation, chunk.base, chunk.sources[0]
        if ALL in places:
            ((_, predictions),) = ev.patched(base, source.stack, edges=self.truth.inert[None])
            answer = ev.with_edges(base, source, self.truth.inert)
            yield self._outcome("edge_sets", ALL, predictions, answer)
        for name, sources in self._set_kinds(chunk, places):
            routes = np.zeros((len(base.tokens), *self.truth.graph.legal.shape), np.int8)
            chosen = random_routes(chunk.rng, len(base.tokens), len(self.inert), len(sources))
            routes[:, self.inert[:, 0], self.inert[:, 1]] = chosen
            predictions = self.routed(base, sources, routes)
            yield self._outcome("edge_sets", name, predictions, self.answers(base, sources, routes))

    def _set_kinds(
        self, chunk: Chunk, places: Collection[str]
    ) -> Iterator[tuple[str, tuple[Activations, ...]]]:
        kinds = {SUBSETS: chunk.sources[:1], OWN_SOURCES: chunk.sources}
        return ((name, sources) for name, sources in kinds.items() if name in places)

    def _required(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        """Patches each required edge in network and program, with the others of its witness if it has one."""
        ev, base, source = self.evaluation, chunk.base, chunk.sources[0]
        names = [name for name in self.required if name in places]
        masks = np.stack([self.required[name] for name in names])
        alone = [place for place, mask in enumerate(masks) if mask.sum() == 1]
        several = [place for place in range(len(names)) if place not in alone]
        found = dict(ev.single_edges(base, source.stack, np.argwhere(masks[alone])[:, 1:])) if alone else {}
        runs = {alone[number]: predictions for number, predictions in found.items()}
        if several:
            for number, predictions in ev.patched(base, source.stack, edges=masks[several]):
                runs[several[number]] = predictions
        for place, name in enumerate(names):
            self._affects(name, chunk, runs[place])
            answer = self._with_required(name, base, source)
            yield from self._outcomes("required_edges", name, runs[place], answer, chunk)

    def _with_required(self, name: str, base: Inputs, source: Inputs) -> np.ndarray:
        """Returns the program's output `[row, pos]` with a required edge patched."""
        ev, mask, everywhere = self.evaluation, self.required[name], np.ones(len(base.tokens), bool)
        swapped = {
            variable: Intervention(source.trace[variable], everywhere)
            for place, node in structural_ends(ev.alignment).items()
            if mask[place]
            for variable in ev.alignment.variables_at(node)
        }
        return ev.with_edges(base, source, mask, swapped)

    def counting(
        self, kind: Kind, place: str, base: np.ndarray, source: np.ndarray, at: np.ndarray
    ) -> np.ndarray:
        """Returns bool `[row]`, the rows that count for an intervention; only the program is run.

        Args:
            kind: the kind of intervention, one of `SPARSE`.
            place: the name of the aligned node or required edge.
            base: the bases `[row, pos]`.
            source: the sources `[row, pos]`.
            at: the position of each row at which a node is swapped, `[row]`, for `effective_positions`.
        """
        ev = self.evaluation
        here, there = (Inputs(tokens, ev.causal_model.run(tokens)) for tokens in (base, source))
        if kind == "required_edges":
            return ev.answered(self._with_required(place, here, there))
        where = at[:, None] == np.arange(base.shape[1]) if kind == "effective_positions" else None
        answer, effective = ev.counterfactual(here, there, self.aligned[place], where)
        return ev.answered(answer) if kind == "variables" else effective

    def routed(self, base: Activations, sources: tuple[Activations, ...], routes: np.ndarray) -> np.ndarray:
        """Returns predictions `[row, pos]` with edges patched.

        Args:
            base: the bases.
            sources: the sources.
            routes: the number of each edge's source, `[row, R, W]`, from 1; 0 if it is not patched.
        """
        found: list[np.ndarray] = []
        ev, cfg = self.evaluation, self.evaluation.network.cfg
        numbers = cfg.d_model * cfg.n_ctx * (3 * cfg.n_heads + (len(sources) + 1) * routes.shape[2])
        at_once = max(16, NUMBERS_PER_CALL // numbers)
        for first in range(0, len(routes), at_once):
            some = slice(first, first + at_once)
            masks = np.stack([routes[some] == number for number in range(1, len(sources) + 1)], 3)
            given = torch.stack([source.stack[..., some] for source in sources], 1)
            chosen = torch.from_numpy(masks).to(given)
            with torch.no_grad():
                logits = ev.network.run(base.stack[0][..., some], Routes(chosen, given, by_row=True))
            found.append(ev.predictions(logits))
        return np.concatenate(found)

    def answers(self, base: Activations, sources: tuple[Activations, ...], routes: np.ndarray) -> np.ndarray:
        """Returns the program's output `[row, pos]` with those of the patched edges patched that are its own.

        Args:
            base: the bases.
            sources: the sources.
            routes: the number of each edge's source, `[row, R, W]`, from 1; 0 if it is not patched.
        """
        ev = self.evaluation
        interventions: dict[tuple[str, object], Intervention] = {}
        for place, reads in ev.reads.items():
            chosen = routes[:, place[0], place[1]]
            if not reads or not chosen.any():
                continue
            for read in reads:
                values = sources[0].trace[read[1].parent]
                for number, source in enumerate(sources[1:], 2):
                    values = np.where((chosen == number)[:, None], source.trace[read[1].parent], values)
                interventions[read] = Intervention(values, chosen > 0)
        if not interventions:
            return base.trace[ev.causal_model.output]
        trace = ev.causal_model.run(base.tokens, None, interventions, base.trace)  # type: ignore[arg-type]
        return trace[ev.causal_model.output]


def random_routes(rng: np.random.Generator, rows: int, count: int, sources: int) -> np.ndarray:
    """Draws a random set of random density for each row, and a source for each of its members.

    Args:
        rng: the random generator.
        rows: the number of rows.
        count: the number of nodes or edges to choose from.
        sources: the number of sources.

    Returns:
        The number of each member's source, `[row, count]`, from 1; 0 for what is not in the set.
    """
    chosen = rng.random((rows, count), np.float32) < rng.random((rows, 1), np.float32)
    return chosen * rng.integers(1, sources + 1, size=(rows, count), dtype=np.int8)
