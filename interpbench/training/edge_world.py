"""The world of patched edges: the edges that each row patches, and the program's output under the same.

Most rows patch inert edges, which must not change the output (some may be edges of the program that have no
effect on its domain). Some rows patch a required edge, alone or with these. The target is the program's
output with those of the edges patched that are its own.

Shapes: R readers, W nodes.
"""

import math

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.alignment.structure import structural_ends, structural_reads
from interpbench.causal.model import Intervention, Read, Trace
from interpbench.circuits.ground_truth import Truth, required_edges
from interpbench.circuits.naming import edge_name
from interpbench.training.draws import Draws
from interpbench.training.world_builders import Swapped, World, choose, own_sources

EFFECTIVE = 3
"""The added weight of edges that change the output, in rows that prefer such edges."""
CROWDED = 0.75
"""The least share of rows that patch required edges where sets of edges have effects that single ones lack:
among bystanders, whose edges are most of these, and where edges are required of a higher order."""
LEAST = 0.01
"""The share of rows with an output up to which edges that leave few outputs are drawn more often."""


class EdgeWorld:
    """Builds the world in which edges are patched.

    Args:
        alignment: the nodes of the program's variables.
        truth: the states of nodes and edges.
        draws: the settings of draws.
    """

    def __init__(self, alignment: Alignment, truth: Truth, draws: Draws):
        self.alignment, self.draws, self.causal_model = alignment, draws, alignment.task.causal_model
        self.inert_edges = np.argwhere(truth.inert)
        nodes, readers = alignment.graph.nodes, alignment.graph.readers
        self.names = [edge_name(nodes[writer], readers[reader]) for reader, writer in self.inert_edges]
        self.reads, self.ends = structural_reads(alignment), structural_ends(alignment)
        self.logits = alignment.graph.reader_index[alignment.logits]
        required = required_edges(truth)
        self.required_names, self.required_edges = list(required), list(required.values())
        self.weights = [self._weight(mask) for mask in self.required_edges]
        self.crowded = len(self.causal_model.ends) > 1 or bool(truth.witnesses.get("qkv_edge"))
        self.together = draws.together if self.crowded else 0.0
        self.required = max(draws.required, CROWDED) if self.crowded and draws.required else draws.required

    def __call__(self, rng: np.random.Generator, swapped: Swapped) -> World:
        """Draws the edges that each row patches, and runs the program with its own of them patched."""
        graph, base, sources = self.alignment.graph, swapped.base, swapped.sources
        required, failures = self.required, swapped.failures
        failed = failures.shares("required_edges", self.required_names)
        if required and failed.any():
            required = max(required, self.draws.follow)
        rows = len(base)
        chosen = choose(rng, self.draws, failures.shares("edges", self.names), rows)
        nodes: np.ndarray | None = None
        edges = np.zeros((len(graph.readers), len(graph.nodes), rows), np.float32)
        if self.required_edges and required:
            kind = rng.random(rows)
            chosen &= (kind >= required / 2)[:, None]
            which = self._which_required(rng, swapped, failed)
            picked = which[:, None] == np.arange(len(self.required_edges))
            if self.together:
                density = rng.random((rows, 1))
                together = (rng.random(rows) < self.together) & (kind < required)
                picked[together] = (rng.random(picked.shape) < density)[together]
                chosen[together] = (rng.random(chosen.shape, np.float32) < density)[together]
                nodes = self._swapped_nodes(rng, together)
            for number, mask in enumerate(self.required_edges):
                for reader, writer in np.argwhere(mask):
                    edges[reader, writer, picked[:, number] & (kind < required)] = 1
        edges[self.inert_edges[:, 0], self.inert_edges[:, 1]] = chosen.T
        from_next = self._sources(rng, rows)
        reads, swaps = self._patched(sources, edges > 0, from_next)
        if nodes is not None:
            swaps = self._over(swaps, nodes, sources)
        trace = self.causal_model.run(base, swaps, reads, swapped.unchanged)
        return World(base, trace, nodes, edges=edges, edge_sources=from_next, reads=reads)

    def _sources(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        """Draws the sources of patched edges, 1 for the second: `[W, row]`, or `[R, W, row]` if `CROWDED`.

        Where only required edges have an effect, all edges out of a node may take the same source.
        """
        graph = self.alignment.graph
        shape = (len(graph.readers), len(graph.nodes)) if self.crowded else (len(graph.nodes),)
        drawn = own_sources(rng, self.draws.own_sources, (rows, math.prod(shape)))
        return drawn.T.reshape(*shape, rows)

    def _swapped_nodes(self, rng: np.random.Generator, together: np.ndarray) -> np.ndarray:
        """Draws nodes that some rows swap as well, `[W, row]`, 1 or 2 for the source; 0 if not swapped.

        A patched edge then brings its reader a value from another source than the node's other edges do.
        """
        graph = self.alignment.graph
        places = [graph.node_index[node] for node in self.alignment.aligned_nodes]
        rows = len(together)
        chosen = rng.random((len(places), rows)) < together * rng.random(rows)
        nodes = np.zeros((len(graph.nodes), rows), np.int8)
        nodes[places] = chosen * rng.integers(1, 3, size=chosen.shape, dtype=np.int8)
        return nodes

    def _over(
        self, swaps: dict[str, Intervention], nodes: np.ndarray, sources: tuple[Trace, Trace]
    ) -> dict[str, Intervention]:
        """Returns interventions on variables: those of patched edges over those of swapped nodes."""
        made: dict[str, Intervention] = {}
        for node, names in self.alignment.aligned_nodes.items():
            source = nodes[self.alignment.graph.node_index[node]]
            for name in names:
                values = np.where((source == 2)[:, None], sources[1][name], sources[0][name])
                where = source > 0
                if name in swaps:
                    values = np.where(swaps[name].where[:, None], swaps[name].values, values)
                    where = where | swaps[name].where
                made[name] = Intervention(values, where)
        return made

    def _which_required(self, rng: np.random.Generator, swapped: Swapped, failed: np.ndarray) -> np.ndarray:
        """Draws a required edge for each row, by index, of those that leave the program an output there.

        Edges that seldom leave an output are as likely overall. Half of the rows prefer an edge that changes
        the output. Some rows prefer edges that were wrong, in proportion to the share of wrong rows `failed`.
        """
        causal_model, rows = self.causal_model, len(swapped.base)
        clean, sources = swapped.unchanged, swapped.sources
        weights = np.zeros((rows, len(self.required_edges)))
        wanted = rng.random(rows) < 0.5
        none = np.zeros((len(self.alignment.graph.nodes), rows), np.int8)
        for number, mask in enumerate(self.required_edges):
            edges = np.broadcast_to(mask[:, :, None], (*mask.shape, rows))
            reads, swaps = self._patched(sources, edges, none)
            after = causal_model.run(swapped.base, swaps, reads, clean)
            answered = causal_model.answered(after)
            effective = causal_model.effective(clean, after) & wanted
            likelier = self.weights[number] * (1 + EFFECTIVE * effective)
            weights[:, number] = answered * likelier / max(answered.mean(), LEAST)
        if failed.any() and self.draws.follow:
            following = rng.random((rows, 1)) < self.draws.follow
            weights *= np.where(following, failed / failed.sum() + LEAST / len(failed), 1)
        arrivals = rng.exponential(size=weights.shape) / np.maximum(weights, 1e-9)
        return arrivals.argmin(1)

    def _weight(self, mask: np.ndarray) -> float:
        """Returns the weight with which a required edge is drawn; 1 if swaps are `even`.

        Let aligned nodes be numbered in layer order. The weight is the square of the number of the edge's end
        times the square of its distance from the number of the start. Nodes between the two keep the base's
        values, so that the end sees mixtures that no swap of a single node gives.
        """
        if self.draws.swaps == "even":
            return 1.0
        graph = self.alignment.graph
        numbers = {str(node): 1.0 + place for place, node in enumerate(self.alignment.aligned_nodes)}
        readers, writers = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        end = max((numbers.get(graph.readers[reader].destination, 0.0) for reader in readers), default=0.0)
        start = max((numbers.get(str(graph.nodes[writer]), 0.0) for writer in writers), default=0.0)
        return (end * (end - start)) ** 2 if end else 1.0

    def _patched(
        self, sources: tuple[Trace, Trace], edges: np.ndarray, from_next: np.ndarray
    ) -> tuple[dict[tuple[str, Read], Intervention], dict[str, Intervention]]:
        """Returns the interventions on reads and on variables that act like patched edges.

        Args:
            sources: the program's variables on the first and on the second source of each row.
            edges: the patched edges, bool `[R, W, row]`.
            from_next: `[W, row]` or `[R, W, row]`, 1 if edges take their node's second source.
        """
        from_next = np.broadcast_to(from_next, edges.shape)
        reads = self._patched_reads(sources, edges, from_next)
        swaps: dict[str, Intervention] = {}
        for place, node in self.ends.items():
            where = edges[place]
            if where.any():
                values = {
                    name: np.where(from_next[place][:, None], sources[1][name], sources[0][name])
                    for name in self.alignment.variables_at(node)
                    if place[0] != self.logits or name in self.causal_model.ends
                }
                swaps |= {name: Intervention(value, where) for name, value in values.items()}
        return reads, swaps

    def _patched_reads(
        self, sources: tuple[Trace, Trace], edges: np.ndarray, from_next: np.ndarray
    ) -> dict[tuple[str, Read], Intervention]:
        """Returns the interventions on the program's reads that act like patched edges (see `_patched`)."""
        reads: dict[tuple[str, Read], Intervention] = {}
        for place, those in self.reads.items():
            where = edges[place]
            for read in those if where.any() else ():
                here, there = (source[read[1].parent] for source in sources)
                values = np.where(from_next[place][:, None], there, here)
                if read in reads:  # through another input of the same head
                    before = reads[read]
                    values = np.where(where[:, None], values, before.values)
                    reads[read] = Intervention(values, where | before.where)
                else:
                    reads[read] = Intervention(values, where)
        return reads
