"""Compares the cost of a certificate with that of its first version, in CPU seconds of one thread.

* The first version (was) patches each node alone, all forbidden nodes at once, each inert edge alone by a run
  of its own, and all inert edges at once, and checks that patching required nodes and edges has an effect. It
  does so on 5,000 random pairs, or on all pairs of a domain of at most 1,000 inputs. It measures nothing for
  subsets, strata and single positions, nor how often required edges act as those of the program.
* The present version (is) is `certify` with its default settings, by the default standard. For a network that
  just misses a target, rows are added several times; the table gives their number, as the cost grows with it.

Run: `python -m benchmarks.certificates`, or with names or folders of checkpoints.
"""

import argparse
import inspect
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.grades import grade
from interpbench.circuits.ground_truth import Truth, required_edges
from interpbench.core import seeds
from interpbench.core.process import prepare_torch
from interpbench.runs.subject import subject_of
from interpbench.training.interventional_accuracy import Activations, Evaluation
from interpbench.training.measure_certificate import certify

DEFAULT = ("frac_prevs", "hist", "paren_balance", "mean_of_ends")
PAIRS, ALL_UP_TO = 5000, 1000
"""The number of random pairs in the first version, and the largest domain of which all pairs were run."""
DRAWN, ENUMERATED = 512, 2048
"""The numbers of pairs in a batch of the first version: for random pairs, and for all pairs."""
TRAINING = "interpbench.training."
PARTS = {
    "effective rows": ["measure_certificate._Certificate._fill"],
    "sets": [
        "intervention_tests.InterventionTests._node_sets",
        "intervention_tests.InterventionTests._edge_sets",
    ],
    "single edges": ["screening.EdgeScreen.measure"],
    "adversary": ["measure_certificate.attack"],
}
REST = "everything else"
"""The name of the remaining cost: clean runs, and patching nodes, single positions and required edges."""


@contextmanager
def spent(parts: Mapping[str, Sequence[str]]) -> Generator[dict[str, float]]:
    """Returns a context in which the CPU seconds of each part are measured.

    Args:
        parts: for each part, the functions and methods of `interpbench.training` that it consists of. None of
            them may call another one.
    """
    seconds = dict.fromkeys(parts, 0.0)

    @contextmanager
    def clock(name: str) -> Generator[None]:
        start = time.process_time()
        try:
            yield
        finally:
            seconds[name] += time.process_time() - start

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **settings: Any) -> Any:
            with clock(name):
                return function(*args, **settings)

        def generate(*args: Any, **settings: Any) -> Iterator[Any]:
            items, done = function(*args, **settings), object()
            while True:
                with clock(name):  # not the caller's work between items
                    item = next(items, done)
                if item is done:
                    return
                yield item

        return generate if inspect.isgeneratorfunction(function) else call

    with ExitStack() as stack:
        for name, places in parts.items():
            for place in places:
                replaced = timed(name, resolve_name(TRAINING + place))
                stack.enter_context(patch(TRAINING + place, replaced))
        yield seconds


class Former:
    """The first version of certificates: for each intervention, the number of wrong base/source pairs."""

    def __init__(self, evaluation: Evaluation, truth: Truth, pairs: int = PAIRS):
        self.evaluation, self.truth, self.pairs = evaluation, truth, pairs
        self.inert = np.argwhere(truth.inert)
        self.unaligned = np.array(
            [[node in evaluation.alignment.unaligned_nodes for node in truth.graph.nodes]]
        )
        self.wrong: dict[str, int] = {}
        self.affected: dict[str, int] = {}
        self.rows = 0

    def measure(self, seed: int = 0) -> None:
        """Runs all interventions on all pairs; those of single inert edges come last."""
        for base, source in self._pairs(seed):
            self._add(base, source)
        for base, source in self._pairs(seed):
            self.add_edges(base, source)

    def add_edges(self, base: Activations, source: Activations) -> None:
        """Patches each inert edge alone on a chunk of pairs."""
        answer = base.trace[self.evaluation.causal_model.output]
        for number, predictions in self.evaluation.single_edges(base, source.stack, self.inert):
            self._count(f"edge {number}", predictions, answer)

    def _count(self, name: str, predictions: np.ndarray, answer: np.ndarray) -> None:
        wrong = int((~self.evaluation.right(predictions, answer)).sum())
        self.wrong[name] = self.wrong.get(name, 0) + wrong

    def _add(self, base: Activations, source: Activations) -> None:
        ev, answer = self.evaluation, base.trace[self.evaluation.causal_model.output]
        self.rows += len(base.tokens)
        self._count("accuracy", ev.predictions(base.logits), answer)
        ev.margin(base)
        for node, predictions in ev.single_nodes(base, source.stack, list(ev.alignment.aligned_nodes)):
            self._count(f"variables of {node}", predictions, ev.counterfactual(base, source, node)[0])
            self._affects(str(node), base, predictions)
        for node, predictions in ev.single_nodes(base, source.stack, ev.alignment.unaligned_nodes):
            self._count(f"node {node}", predictions, answer)
        for name, mask in required_edges(self.truth).items():
            if not self.affected.get(name):  # once is enough
                ((_, predictions),) = ev.single_edges(base, source.stack, np.argwhere(mask)[:1])
                self._affects(name, base, predictions)
        ((_, predictions),) = ev.patched(base, source.stack, nodes=self.unaligned)
        self._count("all nodes", predictions, answer)
        ((_, predictions),) = ev.patched(base, source.stack, edges=self.truth.inert[None])
        self._count("all edges", predictions, ev.with_edges(base, source, self.truth.inert))

    def _affects(self, name: str, base: Activations, predictions: np.ndarray) -> None:
        """Counts the rows on which patching a required node or edge changes a scored output."""
        ev = self.evaluation
        tolerance = ev.task.tolerance if ev.causal_model.numerical else 0
        moved = np.abs(predictions - ev.predictions(base.logits)) > tolerance
        rows = np.any(moved & ev.task.scored(base.trace[ev.causal_model.output]), axis=1)
        self.affected[name] = self.affected.get(name, 0) + int(rows.sum())

    def _pairs(self, seed: int) -> Iterator[tuple[Activations, Activations]]:
        """Yields all pairs of a small domain, or random ones of a large one, in batches."""
        ev, domain = self.evaluation, self.evaluation.task.domain
        rng = seeds.generator(seed, "certificate", ev.task.name)
        if domain.size > ALL_UP_TO:
            for first in range(0, self.pairs, DRAWN):
                base = domain.draw(rng, min(DRAWN, self.pairs - first), True)
                source = domain.sources(rng, base, True)
                yield ev.activations(base), ev.activations(source)
            return
        side, inputs = math.isqrt(ENUMERATED), rng.permutation(domain.all())
        blocks = [ev.activations(inputs[first : first + side]) for first in range(0, len(inputs), side)]
        for number in rng.permutation(len(blocks) ** 2):
            base, source = divmod(int(number), len(blocks))
            yield ev.pair(blocks[base], blocks[source])


def compare(folder: Path) -> tuple[list[str], list[str]]:
    """Returns the rows of a checkpoint in the two tables."""
    checkpoint = load_checkpoint(folder, certificate=False)
    subject = subject_of(checkpoint)
    evaluation = Evaluation(checkpoint.network, subject.alignment)
    former = Former(evaluation, subject.truth)
    start = time.process_time()
    former.measure()
    was = time.process_time() - start
    start = time.process_time()
    with spent(PARTS) as seconds:
        proof = certify(evaluation, subject.truth)
    now = time.process_time() - start
    alone = now - seconds["adversary"]
    parts = {REST: now - sum(seconds.values()), **seconds}
    rates = [rate for kind in proof.rates.values() for draws in kind.values() for rate in draws.values()]
    rows = max(rate.rows for rate in proof.rates["accuracy"]["output"].values())
    costs = [
        checkpoint.task,
        f"{len(former.inert)}",
        f"{former.rows:,}",
        f"{rows:,}" if proof.all_pairs else f"2 × {rows:,}",
        f"{max(rate['looks'] for rate in rates)}",
        f"{was:.1f} s",
        f"{now:.1f} s",
        f"{now / was:.2f}",
        f"{alone:.1f} s",
        f"{alone / was:.2f}",
        grade(proof).grade or "none",
    ]
    return costs, [checkpoint.task, *(f"{value:.1f} s ({value / now:.0%})" for value in parts.values())]


def tables() -> tuple[Table, Table]:
    """Returns the two tables, without rows."""
    costs = Table(title="What a certificate costs, CPU time of one thread")
    parts = Table(title="Where the time goes")
    for table in (costs, parts):
        table.add_column("model")
    for title in ("edges", "rows was", "is", "looks", "was", "is", "ratio", "no attack", "ratio", "grade"):
        costs.add_column(title, justify="right")
    for title in (REST, *PARTS):
        parts.add_column(title, justify="right")
    return costs, parts


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description="What a certificate costs, as it was and as it is.")
    parser.add_argument("checkpoints", nargs="*", default=DEFAULT, help="names of models, or folders")
    options = parser.parse_args()
    prepare_torch(threads=1)
    console, both = Console(width=120), tables()
    with console.status("") as status:
        for name in options.checkpoints:
            for folder in find_checkpoints(name):
                status.update(f"certifying {name}")
                for table, cells in zip(both, compare(folder)):
                    table.add_row(*cells)
    for table in both:
        console.print(table)


if __name__ == "__main__":
    main()
