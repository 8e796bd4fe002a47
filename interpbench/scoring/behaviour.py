"""How circuits behave: many circuits of one network in one call, on pairs that discovery did not see.

An edge outside the circuit lets through what its writer writes on the corrupted input. The measure m is the
logit of the clean answer minus that of the corrupted answer, the mean over scored positions; for numbers it
is the distance from the corrupted output towards the clean one.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.graph import Graph
from interpbench.core import seeds
from interpbench.tasks.problem import Metric, Problem
from interpbench.transformer.patching import Candidates, record, run_circuits

ROWS_PER_CALL = 512
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
        self._clean, self._patch = clean.stack, corrupted.stack
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
        keep = list(new.values())
        for values, key in zip(self._run(keep, self._patch), new):
            self._known[key] = self._measured(values)
        return np.stack([self._known[c.tobytes()] for c in circuits])

    def outputs(self, circuit: np.ndarray, sources: np.ndarray) -> Tensor:
        """Returns logits `[V, T, B]` of a circuit, edges outside it reading clean inputs `sources` `[B]`."""
        (logits,) = self._run([circuit], self._clean[..., torch.from_numpy(sources).to(self._clean.device)])
        return logits

    @torch.no_grad()
    def _run(self, keep: Sequence[np.ndarray], patch: Tensor) -> list[Tensor]:
        """Returns the logits `[V, T, B]` of each circuit."""
        examples, network = len(self.problem.clean), self.problem.network
        at_once = max(1, ROWS_PER_CALL // examples)
        logits: list[Tensor] = []
        for first in range(0, len(keep), at_once):
            removed = self.graph.legal & ~np.stack(keep[first : first + at_once])
            masks = torch.from_numpy(removed).to(self._clean)
            candidates = Candidates(masks, patch, self._clean)
            logits += run_circuits(network, self._clean[0], candidates, len(removed)).unbind(2)
        return logits

    def _measured(self, logits: Tensor) -> np.ndarray:
        return -self._metric(logits).double().cpu().numpy()

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
