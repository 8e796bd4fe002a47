"""Causal scrubbing: how long it takes, in forward passes and against the recursion path by path.

1. A hypothesis of 66 paths about a network of GPT-2's shape with random weights: the time of scrubbing 64
   samples, over that of a forward pass on 64 inputs.
2. 1,000 samples of `sort_digits`, scrubbed against its program: the time for each sample, over that of the
   recursion for one sample at a time (`computational_graph`), of the same draws. It is measured twice: as
   published, where each input that is drawn is run through the network, and with the values of all inputs
   known from one run before, which is not timed, as it is not of the 1,000 samples together.

All on one thread, in seconds of the processor, so that other work beside it does not count; of some
repetitions the least.

Run: `python -m benchmarks.scrubbing`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interpbench.alignment.alignment import align
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.naming import EMBED
from interpbench.core import seeds
from interpbench.core.process import prepare_torch
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.computational_graph import ComputationalGraph, scrub_graph
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.network_graph import network_graph
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.program_claims import program_hypothesis
from interpbench.scrubbing.residual import LOGITS, ScrubbedNetwork
from interpbench.tasks.catalogue import get_task
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer

PATHS = 66
TIMES = 3


def seconds(run: Callable[[], object], times: int = TIMES) -> float:
    """Returns the least time of some runs, in seconds of the processor."""
    found: list[float] = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def of_paths(least: int, layers: int, inputs: int) -> Hypothesis:
    """Returns a hypothesis of a head and an MLP in each layer; the first few also read those before them.

    Args:
        least: the least number of paths.
        layers: the number of layers of the network.
        inputs: the number of inputs.
    """
    rng = seeds.generator(0, "claims")
    nodes = [name for layer in range(layers) for name in (f"a{layer}.h{layer}", f"m{layer}")]
    claims = {name: NodeClaim(name, rng.integers(0, 4, inputs)) for name in nodes}
    claims |= {str(EMBED): NodeClaim(str(EMBED)), LOGITS: NodeClaim(LOGITS)}
    edges = [pair for name in nodes for pair in ((str(EMBED), name), (name, LOGITS))]
    for pair in pairwise(nodes):
        made = Hypothesis(claims, tuple(edges), str(EMBED), LOGITS)
        if sum(made.paths.values()) >= least:
            return made
        edges.append(pair)
    raise ValueError(f"{layers} layers have fewer than {least} paths")


def gpt2(samples: int = 64, length: int = 16) -> tuple[int, float, float]:
    """Returns the number of paths, and the seconds of scrubbing and of a forward pass."""
    network = Transformer(TransformerConfig(12, 12, 768, 64, 3072, 1000, 1000, length, "LN", "gelu_new"))
    network.requires_grad_(False)
    tokens = torch.from_numpy(seeds.generator(0, "tokens").integers(0, 1000, (samples, length)))
    hypothesis = of_paths(PATHS, 12, samples)
    draws = PathDraws(0, samples, Classes.of(np.zeros(samples), samples))
    scrubbed = ScrubbedNetwork(network, tokens)
    return (
        sum(hypothesis.paths.values()),
        seconds(lambda: scrubbed.scrub(hypothesis, draws)),
        seconds(lambda: network(tokens)),
    )


class KnownGraph(ComputationalGraph):
    """A graph whose values on all inputs are known from one run."""

    def __init__(self, graph: ComputationalGraph, data: Tensor):
        super().__init__(graph.operations, graph.output)
        self.values = graph.run(data)

    def run(self, data: Tensor) -> dict[str, Tensor]:
        """Returns the values."""
        return self.values


class ForgetfulGraph(ComputationalGraph):
    """A graph whose values are not known: it is run on each input that is drawn, once for all its values."""

    def run(self, data: Tensor) -> dict[str, Any]:
        """Returns what runs the graph on the inputs that are asked for, by node."""
        run = cache(lambda which: ComputationalGraph.run(self, data[[which]]))
        return {name: Values(run, name) for name in self.operations}


@dataclass(frozen=True)
class Values:
    """The values of a node, computed when they are asked for.

    Attributes:
        run: returns the values of all nodes on an input.
        name: the name of the node.
    """

    run: Callable[[int], dict[str, Tensor]]
    name: str

    def __getitem__(self, which: Tensor) -> Tensor:
        """Returns the value on one input, `[1, ...]`."""
        return self.run(int(which))[self.name]


def sort(samples: int = 1000, few: int = 20) -> tuple[int, float, float, float]:
    """Returns the number of paths, and the seconds of a sample: with others, and by both recursions."""
    checkpoint = load_checkpoint(find_checkpoint("sort_digits"), certificate=False)
    task, network = get_task("sort_digits"), checkpoint.network
    tokens = task.domain.draw(seeds.generator(0, "inputs"), samples)
    trace, ids = task.causal_model.run(tokens), torch.from_numpy(task.token_ids(tokens))
    alignment = align(task, network.cfg.graph)
    hypothesis = program_hypothesis(alignment, checkpoint.truth.circuit, trace, "features")
    scrubbed = ScrubbedNetwork(network, ids)
    everything, classes = Classes.of(np.zeros(samples), samples), hypothesis.classes(samples)
    fast = seconds(lambda: scrubbed.scrub(hypothesis, PathDraws(0, samples, everything), classes)) / samples
    graph = network_graph(network, split=True)
    forgetful = ForgetfulGraph(graph.operations, graph.output)

    def literal(graph: ComputationalGraph) -> None:
        for seed in range(few):
            scrub_graph(graph, hypothesis, ids, PathDraws(seed, 1, everything), classes)

    with torch.no_grad():
        known = KnownGraph(graph, ids)
        published, slow = (seconds(partial(literal, each)) / few for each in (forgetful, known))
    return sum(hypothesis.paths.values()), fast, published, slow


def main() -> None:
    """Measures, and prints ratios."""
    prepare_torch()
    torch.set_num_threads(1)
    paths, scrubbing, forward = gpt2()
    print(f"GPT-2's shape, {paths} paths: {scrubbing / forward:.1f} forward passes")
    paths, fast, published, slow = sort()
    print(f"sort_digits, {paths} paths: {1e6 * fast:.0f} µs for each sample; path by path", end=" ")
    print(f"{published / fast:.0f} times that, or {slow / fast:.0f} times with all values known before")


if __name__ == "__main__":
    main()
