"""Interventions on a network that a certificate asks of, and what the program answers to the same ones.

A *row* is a base with its sources; it counts where the program has an answer, and is right if every scored
position is.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from interpbench.alignment.find_ground_truth import structural_ends
from interpbench.causal.model import Intervention, changed
from interpbench.circuits.certificate import ALL, OWN_SOURCES, SETS, SUBSETS, Kind
from interpbench.circuits.ground_truth import State, Truth, required_edges
from interpbench.circuits.naming import edge_name
from interpbench.training.interventional_accuracy import Activations, Evaluation, Inputs
from interpbench.transformer.fast.run_circuits import NUMBERS_PER_CALL
from interpbench.transformer.routes import Replaced, Routes

SPARSE: tuple[Kind, ...] = ("variables", "effective", "effective_positions", "required_edges")
"""Kinds of which it may be that few rows count."""
CHANGING: dict[Kind, Kind] = {
    "variables": "effective",
    "positions": "effective_positions",
    "required_edges": "effective_edges",
}
"""What is measured along with a kind: the rows on which the intervention changes the program's output."""


@dataclass(frozen=True)
class Chunk:
    """Clean runs of some bases and of as many sources each, the first one for what takes a single source.

    `at [row]` is where swaps at one position are; None to draw it.
    """

    base: Activations
    sources: tuple[Activations, ...]
    rng: np.random.Generator
    at: np.ndarray | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of one intervention on a chunk: which rows are right, and which count; bool `[row]`."""

    kind: Kind
    place: str
    right: np.ndarray
    counts: np.ndarray


class InterventionTests:
    """All interventions but single inert edges, which `screening` has.

    Attributes:
        places: kind to the names of what is measured, in the network's order.
        effect: of each required node or edge, on how many rows patching it does something, and of how many.
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
        """Returns the name of an edge (reader, writer)."""
        graph = self.truth.graph
        return edge_name(graph.nodes[edge[1]], graph.readers[edge[0]])

    def measure(self, chunk: Chunk, wanted: Mapping[Kind, Collection[str]]) -> Iterator[Outcome]:
        """Yields what comes of the wanted interventions on a chunk."""
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
        """Yields the outcome; of its rows, those on which the program's output changes count once more."""
        outcome = self._outcome(kind, place, predictions, answer)
        yield outcome
        effective = np.any(changed(self._answer(chunk), answer), axis=1)
        yield Outcome(CHANGING[kind], place, outcome.right, effective)

    def _affects(self, name: str, chunk: Chunk, predictions: np.ndarray) -> None:
        """Counts on how many rows patching something required changes a scored output of the network."""
        if name not in self.effect:
            return
        ev = self.evaluation
        clean, scored = ev.predictions(chunk.base.logits), ev.task.scored(self._answer(chunk))
        tolerance = ev.task.tolerance if ev.causal_model.numerical else 0
        differs = np.any((np.abs(predictions - clean) > tolerance) & scored, axis=1)
        self.effect[name][0] += int(differs.sum())
        self.effect[name][1] += int(scored.any(1).sum())

    def _answer(self, chunk: Chunk) -> np.ndarray:
        """Returns the program's answers to the bases, `[row, pos]`."""
        return chunk.base.trace[self.evaluation.causal_model.output]

    def _accuracy(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        predictions = self.evaluation.predictions(chunk.base.logits)
        yield self._outcome("accuracy", "output", predictions, self._answer(chunk))

    def _variables(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        """Swaps each aligned node."""
        nodes = [node for name, node in self.aligned.items() if name in places]
        ev, source = self.evaluation, chunk.sources[0]
        for node, predictions in ev.single_nodes(chunk.base, source.stack, nodes):
            answer = ev.counterfactual(chunk.base, source, node)[0]
            self._affects(str(node), chunk, predictions)
            yield from self._outcomes("variables", str(node), predictions, answer, chunk)

    def _positions(self, chunk: Chunk, places: Collection[str]) -> Iterator[Outcome]:
        """Swaps each aligned node at one random position, in network and program."""
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
        """Patches all forbidden nodes, or a random set of random density in each row."""
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
        """Returns predictions with forbidden nodes replaced: `chosen [row, forbidden]`, 0 or the source."""
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
        """The same for inert edges; the answer is the program's with its own ones among them patched."""
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
        """Patches each required edge alone: the program's own edge must be patched, too."""
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
        """Returns the program's output `[row, pos]` with the edge that a required one stands for patched."""
        reader, writer = (int(x) for x in np.argwhere(self.required[name])[0])
        end = structural_ends(self.evaluation.alignment).get((reader, writer))
        if end is None:
            return self.evaluation.with_edges(base, source, self.required[name])
        return self.evaluation.counterfactual(base, source, end)[0]

    def counting(
        self, kind: Kind, place: str, base: np.ndarray, source: np.ndarray, at: np.ndarray
    ) -> np.ndarray:
        """Returns which rows of inputs `[row, pos]` count, which the program alone says; bool `[row]`.

        Args:
            kind: one of `SPARSE`.
            place: the aligned node or required edge.
            base: the inputs.
            source: those that values are taken from.
            at: `[row]`, where, if at one position.
        """
        ev = self.evaluation
        here, there = (Inputs(tokens, ev.causal_model.run(tokens)) for tokens in (base, source))
        if kind == "required_edges":
            return ev.answered(self._with_required(place, here, there))
        where = at[:, None] == np.arange(base.shape[1]) if kind == "effective_positions" else None
        answer, effective = ev.counterfactual(here, there, self.aligned[place], where)
        return ev.answered(answer) if kind == "variables" else effective

    def routed(self, base: Activations, sources: tuple[Activations, ...], routes: np.ndarray) -> np.ndarray:
        """Returns predictions `[row, pos]` where each reader sees writers by `routes [row, R, W]`.

        0 is the row itself, s the row's source s.
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
        """Returns the program's output `[row, pos]` with its own edges patched by `routes [row, R, W]`."""
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
        return ev.causal_model.run(base.tokens, edges=interventions)[ev.causal_model.output]  # type: ignore[arg-type]


def random_routes(rng: np.random.Generator, rows: int, count: int, sources: int) -> np.ndarray:
    """Returns `[row, count]` ints: a random set of random density for each row, each of a random source.

    0 is not in the set, s takes the value of source s.
    """
    chosen = rng.random((rows, count), np.float32) < rng.random((rows, 1), np.float32)
    return chosen * rng.integers(1, sources + 1, size=(rows, count), dtype=np.int8)
