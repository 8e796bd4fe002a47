"""Compares the fast ACDC with the sequential algorithm, in circuits, calls of the network, and CPU seconds.

Both run in float64 on one thread, on a random network of 6 layers and 4 heads (1,108 edges) whose writers
differ in scale, so that circuits are sparse. The sequential version is the published algorithm on the same
kernel: one full forward pass for each candidate edge, of which nothing is reused. (The oracle in
`tests/oracles/acdc.py`, with one example and one position at a time, is slower by orders of magnitude.)

Run: `python -m benchmarks.acdc`.
"""

import time

import numpy as np
import torch

from interpbench.circuits.naming import Node
from interpbench.circuits.scores import Cost
from interpbench.core.process import prepare_torch
from interpbench.discovery.acdc import Acdc
from interpbench.discovery.method import clean_and_patch
from interpbench.tasks.problem import Problem
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.model import Transformer


def network(seed: int = 0, spread: float = 2.0) -> Transformer:
    """Returns a random network whose writers' scales are log-normal."""
    made = Transformer(TransformerConfig(6, 4, 32, 8, 64, 20, 20, 8), seed).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for block in made.blocks:
            scales = torch.exp(spread * torch.randn(5, generator=generator, dtype=torch.float64) - 1.5)
            block.attn.W_O.mul_(scales[:4, None, None])
            block.mlp.W_out.mul_(scales[4])
    return made


def problem(examples: int = 16) -> Problem:
    """Returns a problem on random inputs, scored at the last position."""
    generator = torch.Generator().manual_seed(1)
    clean, corrupted = (torch.randint(0, 20, (examples, 8), generator=generator) for _ in range(2))
    scored = torch.zeros(8, examples, dtype=torch.bool)
    scored[-1] = True
    return Problem(network(), clean, corrupted, scored)


@torch.no_grad()
def sequential(made: Problem, threshold: float) -> tuple[np.ndarray, int]:
    """Returns the edges of the circuit, `[reader, writer]`, and the number of forward calls."""
    graph, cost = made.graph, Cost()
    runs = clean_and_patch(made, "kl", "resample", cost)
    removed = np.zeros(graph.legal.shape, bool)
    calls = 2

    def measure(state: np.ndarray) -> float:
        circuit = Circuits(torch.from_numpy(state[None]).double(), runs.patch)
        return float(runs.metric(frozen_run(made.network, runs.clean[0], circuit)).mean())

    current = measure(removed)
    for index in reversed(range(len(graph.readers))):
        reader = graph.readers[index]
        if reader.slot != "logits":
            node = graph.node_index[Node(reader.layer, reader.head)]
            if not (graph.legal[:, node] & ~removed[:, node]).any():
                removed[index] = graph.legal[index]
                continue
        for writer in np.flatnonzero(graph.legal[index])[::-1]:
            state = removed.copy()
            state[index, writer] = True
            value = measure(state)
            calls += 1
            if value - current < threshold:
                removed, current = state, value
    return graph.legal & ~removed, calls


def main() -> None:
    """Prints the table."""
    prepare_torch(threads=1)
    made = problem()
    print(f"{'threshold':>9} {'kept':>5} {'identical':>9} | {'sequential':>18} | {'fast':>18} | ratios")
    for threshold in (0.001, 0.003, 0.01, 0.03, 0.1):
        started = time.process_time()
        kept, calls = sequential(made, threshold)
        middle = time.process_time()
        scores = Acdc(thresholds=(threshold,))(made)
        ended = time.process_time()
        same = np.array_equal(scores.circuits[threshold], kept)
        slow, fast = middle - started, ended - middle
        print(
            f"{threshold:9} {kept.sum():5} {same!s:>9} | {calls:5} calls {slow:6.2f} s | "
            f"{scores.cost.forward_calls:5} calls {fast:6.2f} s | "
            f"{slow / fast:.1f}× time, {calls / scores.cost.forward_calls:.1f}× calls"
        )


if __name__ == "__main__":
    main()
