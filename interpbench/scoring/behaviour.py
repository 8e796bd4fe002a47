"""How circuits behave: many circuits of one network in one call, on pairs that discovery did not see.

An edge outside the circuit lets through what its writer writes on the corrupted input. The measure m is the
logit of the clean answer minus that of the corrupted answer, the mean over scored positions; for numbers it
is the distance from the corrupted output towards the clean one.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.core import seeds
from interpbench.tasks.problem import Metric, Problem
from interpbench.transformer.fast.run_circuits import CircuitLogits, run_circuits
from interpbench.transformer.recording import record

SMALLEST_GAP = 1e-9
"""Of a corruption that is not dead."""


class Behaviour:
    """Runs circuits of one network. A circuit that several methods find is run once.

    Attributes:
        problem: the network and B pairs.
        full: `[B]` m of the network.
        empty: `[B]` m of the corrupted run.
        changed: share of the pairs in which the network's answer at a scored position changes (for numbers:
            by more than a thousandth of its largest output).
    """

    @torch.no_grad()
    def __init__(self, problem: Problem):
        self.problem, self.graph = problem, problem.graph
        self.logits, clean = record(problem.network, problem.clean)
        corrupted_logits, corrupted = record(problem.network, problem.corrupted)
        self._clean, self._patch = clean, corrupted.stack
        self._metric = Metric("logit_diff", problem, self.logits, corrupted_logits)
        self.full, self.empty = (self._measured(x) for x in (self.logits, corrupted_logits))
        self.changed = float(_changed(problem, self.logits, corrupted_logits).mean())
        self._known: dict[bytes, np.ndarray] = {}

    @property
    def gap(self) -> float:
        """How far m falls from the network to the corrupted run: the unit of faithfulness."""
        return float((self.full - self.empty).mean())

    @property
    def dead(self) -> bool:
        """Whether corrupted inputs change no answer, so that nothing can be told from them."""
        return not self.changed or abs(self.gap) <= SMALLEST_GAP

    def measure(self, circuits: Sequence[np.ndarray]) -> np.ndarray:
        """Returns m of each circuit on each pair, `[K, B]`; all circuits go through together.

        Args:
            circuits: bool `[reader, writer]`, the edges that are kept.
        """
        new = {key: c for c in circuits if (key := c.tobytes()) not in self._known}
        found = np.empty((len(new), len(self.problem.clean)))
        for part in self._run(list(new.values()), self._patch):
            found[part.circuits, part.examples] = self._measured(part.logits, part.examples)
        self._known.update(zip(new, found))
        return np.stack([self._known[c.tobytes()] for c in circuits])

    def outputs(self, circuit: np.ndarray, sources: np.ndarray) -> Tensor:
        """Returns logits `[V, T, B]` of a circuit, edges outside it reading clean inputs `sources` `[B]`."""
        stack = self._clean.stack
        parts = self._run([circuit], stack[..., torch.from_numpy(sources).to(stack.device)])
        return torch.cat([part.logits[:, :, 0] for part in parts], -1)

    def _run(self, keep: Sequence[np.ndarray], patch: Tensor) -> Iterator[CircuitLogits]:
        """Runs the circuits that keep these edges."""
        removed = self.graph.legal & ~np.array(keep, bool).reshape(-1, *self.graph.legal.shape)
        return run_circuits(self.problem.network, self._clean, patch, removed, whole=True)

    def _measured(self, logits: Tensor, examples: slice = slice(None)) -> np.ndarray:
        return -self._metric.part(examples)(logits).double().cpu().numpy()

    def generator(self, *names: str | int) -> np.random.Generator:
        """Returns a random generator of that name."""
        return seeds.generator(self.problem.seed, "behaviour", *names)


def _changed(problem: Problem, clean: Tensor, corrupted: Tensor) -> np.ndarray:
    """Returns `[B]` bool: whether an answer at a scored position differs between logits `[V, T, B]`."""
    if problem.numerical:
        differs = (clean - corrupted)[0].abs() > 1e-3 * clean.abs().max()
    else:
        differs = clean.argmax(0) != corrupted.argmax(0)
    return (differs & problem.scored).any(0).cpu().numpy()


def circuit_nodes(graph: Graph, circuit: np.ndarray) -> list[int]:
    """Returns the writers of a circuit, but for the embedding, which is the input itself."""
    return [int(w) for w in np.flatnonzero(circuit.any(0)) if w]
