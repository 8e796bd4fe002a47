"""Compares the cost of discovery methods on the IOI network, with each other and with auto-circuit.

The network is the released `ioi`, if there is one, and else one of the task's shape with random weights; it
has 1,108 edges. Prompts are drawn from the task's domain, with the corruption `abc`. Everything runs on one
thread. Times are medians over rounds in which all methods take turns.

1. EAP, EAP-IG with 10 points, and exact patching are compared in calls of the network and time. 2. With
`--auto-circuit python` (the Python of an environment that has auto-circuit), its EAP, subnetwork probing
   over edges, and ACDC run on the same weights and prompts, with all prompts in one batch.
   * EAP has the same formula in both; the largest difference is printed.
   * Subnetwork probing has the same steps of Adam, learning rate, penalty, initial gates and ablation (the
     mean of the corrupted inputs at each position). auto-circuit samples gates for each prompt, this project
     for all prompts together. Scores can therefore agree in rank, but not in value; and not even in rank if
     the network is sparse, because the penalty alone moves nearly all gates then.
   * ACDC has the same KL divergence, threshold and order of edges. This project decides in double precision,
     auto-circuit in single precision; the number of edges on which they differ is printed. auto-circuit runs
     the network once for each edge.

Run: `python -m benchmarks.discovery`. With auto-circuit it takes long; `--prompts 32` shortens it.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from scipy.stats import spearmanr

from benchmarks.published.exchange import Worker
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.hooked import save_hooked
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.naming import Edge, Hook, acdc_hooks
from interpbench.circuits.scores import Scores
from interpbench.core.process import prepare_torch
from interpbench.discovery.acdc import Acdc
from interpbench.discovery.eap import Eap
from interpbench.discovery.eap_ig import EapIg
from interpbench.discovery.edge_sp import EdgeSp
from interpbench.discovery.exact import Exact
from interpbench.discovery.method import Method
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.problem import Problem
from interpbench.tasks.shapes import shape
from interpbench.transformer.model import Transformer

RATE, PENALTY, KEPT = 0.1, 10.0, 5 / 6
"""The defaults of auto-circuit: the learning rate of Adam, λ, and the initial σ(θ)."""


def problem(prompts: int) -> tuple[str, Problem]:
    """Returns a description of the network, and the discovery problem."""
    task, folder = get_task("ioi"), released().get("ioi")
    network = Transformer(shape(task)) if folder is None else load_checkpoint(folder).network
    name = "random weights" if folder is None else "the released model"
    return name, draw_pairs(task, prompts, corruption="abc").problem(network)


@dataclass(frozen=True)
class Turn:
    """The result of a turn of a method: seconds, calls of the network, and scores in ACDC's order."""

    cpu: float
    wall: float
    calls: int
    values: np.ndarray
    passes: float = 0.0
    """Forward passes of all prompts."""


class Ours:
    """This project's methods on a problem."""

    def __init__(self, made: Problem):
        self.made = made
        visits = [
            (reader, writer)
            for reader in reversed(range(len(made.graph.readers)))
            for writer in np.flatnonzero(made.graph.legal[reader])[::-1].tolist()
        ]
        self.readers, self.writers = np.array(visits).T

    @property
    def edges(self) -> list[Edge]:
        """The edges in the order in which ACDC visits them."""
        graph = self.made.graph
        return [Edge(graph.nodes[w], graph.readers[r]) for r, w in zip(self.readers, self.writers)]

    def turn(self, method: Method) -> Turn:
        """Runs a method."""
        cpu, wall = time.process_time(), time.perf_counter()
        scores: Scores = method(self.made)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        cost = scores.cost
        values = scores.edges[self.readers, self.writers]
        return Turn(cpu, wall, cost.forward_calls, values, cost.forward_examples / len(self.made.clean))


class AutoCircuit(Worker):
    """A process that runs auto-circuit's methods on the same problem."""

    def __init__(self, python: str, ours: Ours):
        script = Path(__file__).with_name("auto_circuit_worker.py")
        super().__init__(python, script, [], lambda folder: write_for_worker(ours, folder))
        self.versions: dict[str, str] = self.read()

    def turn(self, method: str, **settings: float) -> Turn:
        """Runs a method."""
        found = self.send(method=method, **settings)
        return Turn(found["cpu"], found["wall"], found["calls"], np.array(found["values"]), found["calls"])


def write_for_worker(ours: Ours, folder: Path) -> None:
    """Writes the weights, the prompts and the order of edges for the worker."""
    made = ours.made
    save_hooked(made.network, folder)
    end, rows = made.scored.int().argmax(0), torch.arange(len(made.clean))
    assert bool((made.scored.sum(0) == 1).all()), "auto-circuit compares one position of each prompt"
    with torch.no_grad():
        answer, wrong = (
            made.network(tokens)[rows, end].argmax(-1) for tokens in (made.clean, made.corrupted)
        )
    prompts = {"clean": made.clean, "corrupted": made.corrupted, "end": end, "answer": answer, "wrong": wrong}
    save_file(prompts, folder / "prompts.safetensors")

    def place(hook: Hook) -> tuple[str, int | None]:
        return hook[0], hook[1][-1]

    edges = [(*place(child), *place(parent)) for child, parent in map(acdc_hooks, ours.edges)]
    (folder / "edges.json").write_text(json.dumps(edges))


def rounds(count: int, turns: dict[str, Callable[[], Turn]]) -> dict[str, list[Turn]]:
    """Runs all methods in turns, `count` times, after a first round that does not count."""
    taken: dict[str, list[Turn]] = {name: [] for name in turns}
    for number in range(count + 1):
        for name, turn in turns.items():
            done = turn()
            if number:
                taken[name].append(done)
    return taken


def table(taken: dict[str, list[Turn]], against: str) -> None:
    """Prints calls, passes, and median seconds with their range, also as multiples of those of `against`."""
    base = statistics.median(turn.cpu for turn in taken[against])
    print(f"   {'':22}{'calls':>6}{'passes':>9}{'CPU s':>9}{'from':>9}{'to':>9}{'wall s':>9}{'ratio':>8}")
    for name, turns in taken.items():
        cpu = [turn.cpu for turn in turns]
        typical, wall = statistics.median(cpu), statistics.median(turn.wall for turn in turns)
        print(
            f"   {name:22}{turns[0].calls:6}{turns[0].passes:9.1f}{typical:9.2f}{min(cpu):9.2f}"
            f"{max(cpu):9.2f}{wall:9.2f}{typical / base:8.1f}"
        )


def ours_alone(ours: Ours, count: int) -> None:
    """Prints the table of this project's methods."""
    methods = {"eap": Eap(), "eap_ig, 10 points": EapIg(steps=10), "exact": Exact()}
    taken = rounds(count, {name: lambda m=method: ours.turn(m) for name, method in methods.items()})
    print(f"1. Scores of all edges (median of {count}); ratio to eap")
    table(taken, "eap")


def side_by_side(
    ours: Ours, theirs: AutoCircuit, count: int, steps: int, thresholds: Sequence[float]
) -> None:
    """Prints the comparisons with auto-circuit."""
    names = ", ".join(f"{name} {version}" for name, version in theirs.versions.items())
    print(f"2. Against {names}; ratio to ours")
    taken = rounds(
        count, {"eap": lambda: ours.turn(Eap(absolute=False)), "theirs": lambda: theirs.turn("eap")}
    )
    table(taken, "eap")
    mine, other = (turns[0].values for turns in taken.values())
    print(f"   largest difference {np.abs(mine - other).max():.1e} of {np.abs(mine).max():.1e}")

    probing = EdgeSp(
        penalties=(PENALTY,), steps=steps, rate=RATE, kept=KEPT, ablation="mean_position", metric="kl"
    )
    taken = rounds(
        count,
        {
            f"edge_sp, {steps} steps": lambda: ours.turn(probing),
            "theirs": lambda: theirs.turn("edge_sp", steps=steps, penalty=PENALTY, rate=RATE),
        },
    )
    table(taken, f"edge_sp, {steps} steps")
    mine, other = (turns[0].values for turns in taken.values())
    print(f"   rank correlation of scores {spearmanr(mine, other)[0]:.2f}")

    for threshold in thresholds:
        greedy(ours, theirs, threshold)


def greedy(ours: Ours, theirs: AutoCircuit, threshold: float) -> None:
    """Prints the comparison of ACDC at one threshold, with one turn each."""
    mine = ours.turn(Acdc(thresholds=(threshold,), metric="kl"))
    other = theirs.turn("acdc", threshold=threshold)
    table({f"acdc, {threshold:g}": [mine], "theirs": [other]}, f"acdc, {threshold:g}")
    kept, kept_by_them = (turn.values > 2 * threshold for turn in (mine, other))  # theirs is single precision
    differently = (kept != kept_by_them).sum()
    print(f"   kept {kept.sum()} edges, theirs {kept_by_them.sum()}; {differently} decided differently")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description="What scores for all edges of the IOI network cost.")
    parser.add_argument("--prompts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3, help="repeats; ACDC runs once for each threshold")
    parser.add_argument("--steps", type=int, default=20, help="gradient steps of subnetwork probing")
    parser.add_argument("--thresholds", type=float, nargs="+", default=[0.001, 0.01], help="of ACDC")
    parser.add_argument("--auto-circuit", metavar="PYTHON", help="of an environment that has auto-circuit")
    options = parser.parse_args()
    prepare_torch(threads=1)
    name, made = problem(options.prompts)
    ours = Ours(made)
    print(
        f"ioi, {name}, {len(made.graph.edges):,} edges, {options.prompts} prompts, torch {torch.__version__}"
    )
    ours_alone(ours, options.rounds)
    if options.auto_circuit:
        with AutoCircuit(options.auto_circuit, ours) as theirs:
            side_by_side(ours, theirs, options.rounds, options.steps, options.thresholds)


if __name__ == "__main__":
    main()
