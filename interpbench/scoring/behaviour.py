"""The behaviour of circuits of a network, on pairs of inputs that discovery methods did not see.

Every edge outside a circuit is patched with its writer's output on the corrupted input. The measure m of a
circuit on a pair is the logit difference, that is the logit of the clean answer minus that of the corrupted
answer, as a mean over scored positions. For numerical outputs it is the distance from the corrupted output
towards the clean one.

Letters of shapes: B pairs of a clean and a corrupted input, K circuits, T positions, V output classes.
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
"""The smallest difference in m between clean and corrupted runs at which faithfulness is computed."""

LEAST_CHANGE = 1e-3
"""The least change of a numerical output that counts as another answer, as a share of the largest output."""


class Behaviour:
    """Runs circuits of one network, and remembers their results: a circuit found by two methods is run once.

    Attributes:
        problem: the network and the B pairs of inputs.
        full: m of the network on its clean inputs, `[B]`.
        empty: m of the network on its corrupted inputs, `[B]`.
        changed: the share of the pairs in which corruption changes the network's answer at a scored position
            (a numerical output by more than a thousandth of the largest output).
    """

    @torch.no_grad()
    def __init__(self, problem: Problem):
        self.problem, self.graph = problem, problem.graph
        self.logits, clean = record(problem.network, problem.clean)
        corrupted_logits, corrupted = record(problem.network, problem.corrupted)
        self._clean, self._patch = clean, corrupted.stack
        self._metric = Metric("logit_diff", problem, self.logits, corrupted_logits)
        self.full, self.empty = (self._measured(x) for x in (self.logits, corrupted_logits))
        least = LEAST_CHANGE * float(self.logits.abs().max())
        differs = _differs(problem, self.logits, corrupted_logits, least)
        self.changed = float((differs & problem.scored).any(0).float().mean())
        self._known: dict[bytes, np.ndarray] = {}

    @property
    def gap(self) -> float:
        """The mean difference in m between clean and corrupted runs, by which faithfulness is normalised."""
        return float((self.full - self.empty).mean())

    @property
    def dead(self) -> bool:
        """Whether corrupted inputs change no answer, so that faithfulness is not defined."""
        return not self.changed or abs(self.gap) <= SMALLEST_GAP

    def measure(self, circuits: Sequence[np.ndarray]) -> np.ndarray:
        """Returns m of each circuit on each pair, `[K, B]`; all circuits are run in one batch.

        Args:
            circuits: for each circuit the edges in it, bool `[reader, writer]`.
        """
        new = {key: c for c in circuits if (key := c.tobytes()) not in self._known}
        found = np.empty((len(new), len(self.problem.clean)))
        for part in self._run(list(new.values()), self._patch):
            found[part.circuits, part.examples] = self._measured(part.logits, part.examples)
        self._known.update(zip(new, found))
        return np.stack([self._known[c.tobytes()] for c in circuits])

    def answers(self, circuits: Sequence[np.ndarray], tolerance: float) -> np.ndarray:
        """Returns whether each circuit gives the network's answers to each pair, bool `[K, B]`.

        Args:
            circuits: for each circuit the edges in it, bool `[reader, writer]`.
            tolerance: how far numerical outputs may be from the network's.
        """
        same = np.empty((len(circuits), len(self.problem.clean)), bool)
        for part in self._run(circuits, self._patch):
            rows = part.examples
            clean, scored = self.logits[:, :, None, rows], self.problem.scored[:, None, rows]
            differs = _differs(self.problem, clean, part.logits, tolerance)
            same[part.circuits, rows] = ~(differs & scored).any(0).cpu().numpy()
        return same

    def outputs(self, circuit: np.ndarray, sources: np.ndarray) -> Tensor:
        """Returns the logits of a circuit, `[V, T, B]`, whose complement is patched from other clean inputs.

        Args:
            circuit: the edges in the circuit, bool `[reader, writer]`.
            sources: for each pair, the index of the clean input that it is patched from, `[B]`.
        """
        stack = self._clean.stack
        parts = self._run([circuit], stack[..., torch.from_numpy(sources).to(stack.device)])
        return torch.cat([part.logits[:, :, 0] for part in parts], -1)

    def _run(self, keep: Sequence[np.ndarray], patch: Tensor) -> Iterator[CircuitLogits]:
        """Runs the circuits with the edges `keep`; every other edge is patched with `patch`."""
        removed = self.graph.legal & ~np.array(keep, bool).reshape(-1, *self.graph.legal.shape)
        return run_circuits(self.problem.network, self._clean, patch, removed, whole=True)

    def _measured(self, logits: Tensor, examples: slice = slice(None)) -> np.ndarray:
        return -self._metric.part(examples)(logits).double().cpu().numpy()

    def generator(self, *names: str | int) -> np.random.Generator:
        """Returns the random generator with a name, seeded by the problem's seed."""
        return seeds.generator(self.problem.seed, "behaviour", *names)


def _differs(problem: Problem, one: Tensor, other: Tensor, tolerance: float) -> Tensor:
    """Returns whether answers differ, numbers by more than a tolerance; the first axis of logits is lost."""
    if problem.numerical:
        return (one - other)[0].abs() > tolerance
    return one.argmax(0) != other.argmax(0)


def circuit_nodes(graph: Graph, circuit: np.ndarray) -> list[int]:
    """Returns the indices of the nodes in a circuit, without the embedding, which is the input itself."""
    return [int(w) for w in np.flatnonzero(circuit.any(0)) if w]
