"""Measures how costs grow with the number of edges, in wider and deeper networks for `hist`, on one thread.

No network is trained for this. The released `hist` is put into a larger network, whose other heads, layers
and features have random weights that are so small that no answer changes. The network thus does its task, and
forbidden nodes write something, as in a trained network: with 1,519 edges, the screen runs 2.8 % of all
(edge, row) at a smallest margin of 7.1, and in a network that was trained at this size 2.9 % at 6.7. The
costs are:

* the CPU time of a training step with the default objective and batches of 64, with its share of drawing
  data;
* the CPU time of a certificate with default settings. One chunk of 512 rows of each draw is measured, and
  costs that grow with the number of rows are multiplied by the number of chunks in a certificate. The
  adversary's search, whose cost does not grow with rows, is measured as a whole;
* the CPU time of the screen of single edges in it; and of the first version of certificates, in which each
  edge was run alone on all of 5,000 rows, scaled up from 128 rows;
* the CPU time of ACDC with one threshold, and of EAP, on a few prompts;
* by how much memory rises in each of these; for the certificate, with 512 rows of each draw in one batch.

Run: `python -m benchmarks.scaling`. It takes about an hour; `--shapes 2x4 4x8` two minutes.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from benchmarks.certificates import Former, spent
from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.core import seeds
from interpbench.core.process import prepare_torch
from interpbench.discovery.acdc import Acdc
from interpbench.discovery.eap import Eap
from interpbench.reports.palette import COLOURS, save
from interpbench.runs.measure import measured
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.measure_certificate import ROWS_PER_CHUNK, certify
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.trainer import Trainer
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer

SHAPES = ((2, 4), (4, 8), (8, 8), (12, 12))
"""The numbers of layers and heads of the networks."""
NOISE = 0.05
"""The size of what forbidden nodes write, in units of what the nodes of an untrained network write."""
FORMER_ROWS = 5000
THRESHOLD = 0.01
LIMITS = {6637: 600.0, 32491: 3600.0}
"""The largest number of seconds that a certificate may take, by the number of edges."""
CPU = torch.device("cpu")


def widened(trained: Transformer, shape: TransformerConfig, noise: float, seed: int = 0) -> Transformer:
    """Returns a network of a larger shape that gives the same answers as a trained one.

    Args:
        trained: the trained network, whose weights are the first ones along every axis.
        shape: the larger shape.
        noise: the size of all other weights that write or read, as a share of those of an untrained network.
        seed: the seed of these other weights.
    """
    wide, given = Transformer(shape, seed), trained.state_dict()
    with torch.no_grad():
        for name, values in wide.state_dict().items():
            if name.endswith(("W_O", "W_out", "W_U")):
                values.mul_(noise)
            if name not in given:
                continue
            if name.endswith(("W_Q", "W_K", "W_V")):
                values[: len(given[name])].mul_(noise)
            elif name.endswith("W_in"):
                values[:, : given[name].shape[1]].mul_(noise)
            corner = values[tuple(map(slice, given[name].shape))]
            corner.copy_(given[name])
            if name.endswith(("W_Q", "b_Q")):
                corner.mul_((shape.d_head / trained.cfg.d_head) ** 0.5)  # scores are divided by its root
    return wide


@dataclass(frozen=True)
class Costs:
    """The costs of one network: CPU seconds, and by how many bytes memory rose."""

    edges: int
    shape: str
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    memory: dict[str, float] = field(default_factory=dict[str, float])
    notes: list[str] = field(default_factory=list[str])


class Measurement:
    """The measurements of one network."""

    def __init__(self, trained: Transformer, layers: int, heads: int):
        shape = replace(
            trained.cfg,
            n_layers=layers,
            n_heads=heads,
            d_model=64,
            d_head=max(round(64 / heads), trained.cfg.d_head),
            d_mlp=256,
        )
        self.task, self.alignment = get_task("hist"), align(get_task("hist"), shape.graph)
        self.truth = find_truth(self.alignment)
        self.network = widened(trained, shape, NOISE)
        self.costs = Costs(len(shape.graph.edges), f"{layers} × {heads}")

    def _measure(self, name: str, call: Callable[[], Any]) -> tuple[Any, float]:
        """Returns the result of a call and its CPU seconds, and stores by how much memory rose."""
        result, _, cost = measured(call, CPU)
        self.costs.memory[name] = cost.get("peak_bytes", 0.0)
        return result, cost["cpu_seconds"]

    def step(self, steps: int) -> None:
        """Measures a training step, with its share of drawing a pool of steps."""
        network = Transformer(self.network.cfg)
        network.load_state_dict(self.network.state_dict())
        trainer = Trainer(
            network, self.alignment, self.truth, Recipe(), TrainerSettings(), CertificateSettings(), 0
        )
        times: list[float] = []

        def train() -> None:
            trainer.step()
            trainer.progress.step = trainer.sampler.steps  # which draws
            for _ in range(steps):
                start = time.process_time()
                trainer.step()
                times.append(time.process_time() - start)

        self._measure("step", train)
        step = statistics.median(times[1:])
        self.costs.seconds["step"] = step + max(0.0, times[0] - step) / trainer.sampler.steps

    def certificate(self, evaluation: Evaluation) -> None:
        """Measures a certificate, on one chunk of each draw."""
        full = CertificateSettings()
        chunks = full.pairs / ROWS_PER_CHUNK
        checks = {name: round(getattr(full, name) / chunks) for name in ("checks", "edge_checks")}
        few = replace(full, pairs=ROWS_PER_CHUNK, looks=1, **checks)
        parts = {
            "screen": ["screening.EdgeScreen.measure"],
            "stress": ["measure_certificate._Certificate._stress"],
            "search": ["adversary._Search.__init__", "adversary._Search.worst"],
            "worst sets": ["adversary._Search.measured"],
        }
        with spent(parts) as seconds:
            proof, total = self._measure("certificate", lambda: certify(evaluation, self.truth, few))
        fixed = seconds["stress"] + seconds["search"]
        costs = self.costs.seconds
        costs["certificate"] = fixed + chunks * (total - fixed)
        costs["screen"] = chunks * seconds["screen"]
        costs["adversary"] = seconds["search"] + chunks * seconds["worst sets"]
        rates = [rate for kind in proof.rates.values() for draws in kind.values() for rate in draws.values()]
        wrong, rows = sum(rate.wrong for rate in rates), sum(rate.rows for rate in rates)
        run = proof.screen.run / proof.screen.items
        candidates = sum(attack.candidates for attack in proof.attacks.values())
        self.costs.notes.append(
            f"{wrong:,} of {rows:,} rows wrong, smallest margin {proof.margin:.1f}; the screen runs "
            f"{run:.1%} of (edge, row); the adversary tries {candidates} sets"
        )

    def former(self, evaluation: Evaluation, rows: int) -> None:
        """Measures the first version of certificates, in which each inert edge is run alone on every row."""
        rng, domain = seeds.generator(0, "former"), self.task.domain
        base = domain.draw(rng, rows, True)
        source = domain.sources(rng, base, True)
        runs = evaluation.activations(base), evaluation.activations(source)
        former = Former(evaluation, self.truth)
        _, seconds = self._measure("former", lambda: former.add_edges(*runs))
        self.costs.seconds["former"] = seconds * FORMER_ROWS / rows

    def discovery(self, prompts: int) -> None:
        """Measures ACDC and EAP."""
        problem = draw_pairs(self.task, prompts).problem(self.network)
        methods = {"EAP": Eap(), "ACDC": Acdc(thresholds=(THRESHOLD,))}
        for name, find in methods.items():
            scores, self.costs.seconds[name] = self._measure(name, lambda find=find: find(problem))
            if name == "ACDC":
                kept = int(np.sum(scores.circuits[THRESHOLD]))
                self.costs.notes.append(f"ACDC keeps {kept} edges in {scores.cost.forward_calls:,} calls")


def measure(
    trained: Transformer,
    layers: int,
    heads: int,
    rows: int,
    prompts: int,
    steps: int,
    say: Callable[[str], None],
) -> Costs:
    """Returns the costs of one network.

    Args:
        trained: the trained network.
        layers: the number of layers of the larger network.
        heads: the number of heads in each layer of the larger network.
        rows: the number of rows on which single edges are run alone.
        prompts: the number of prompts for discovery methods.
        steps: the number of training steps.
        say: a function that is called with a description of each measurement before it starts.
    """
    network = Measurement(trained, layers, heads)
    place = f"{network.costs.shape}, {network.costs.edges:,} edges: "
    say(place + "training")
    network.step(steps)
    network.network.requires_grad_(False)
    evaluation = Evaluation(network.network, network.alignment)
    say(place + "a certificate")
    network.certificate(evaluation)
    say(place + "EAP and ACDC")
    network.discovery(prompts)
    if rows:
        say(place + "each edge alone on every row")
        network.former(evaluation, rows)
    return network.costs


TITLES = {
    "step": "training step",
    "certificate": "certificate",
    "screen": "of it, single edges",
    "adversary": "of it, adversary",
    "former": "single edges, former way",
    "ACDC": "ACDC",
    "EAP": "EAP",
}
"""The titles of costs, in the order of columns and curves."""


def seconds_in_words(seconds: float) -> str:
    """Returns a time in words: 12 ms, 1.2 s, 1.2 min, or 1.2 h."""
    for unit, size, most in (("ms", 1e-3, 1.0), ("s", 1.0, 120.0), ("min", 60.0, 7200.0)):
        if seconds < most:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 3600:.3g} h"


def table(networks: Sequence[Costs]) -> Table:
    """Returns the table of CPU times, and of by how much memory rose."""
    made = Table(title="hist, CPU time of one thread and how far memory rises")
    for title in ("network", "edges", *TITLES.values()):
        made.add_column(title, justify="right")
    for costs in networks:
        cells = [
            "\n".join(
                [seconds_in_words(costs.seconds[name])]
                + [f"{costs.memory[name] / 2**20:,.0f} MiB" for _ in range(name in costs.memory)]
            )
            if name in costs.seconds
            else "–"
            for name in TITLES
        ]
        made.add_row(costs.shape, f"{costs.edges:,}", *cells, end_section=True)
    return made


def draw(networks: Sequence[Costs], path: Path) -> None:
    """Draws time and memory against the number of edges, with logarithmic axes."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, what, unit in ((panels[0], "seconds", 1.0), (panels[1], "memory", 2.0**20)):
        for place, (name, title) in enumerate(TITLES.items()):
            points = [
                (costs.edges, values[name] / unit)
                for costs in networks
                if (values := getattr(costs, what)).get(name)
            ]
            if points:
                dashed = "--" if name in ("screen", "adversary", "former") else "-"
                axes.plot(*zip(*points), f"o{dashed}", color=COLOURS[place], markersize=4.5, label=title)
        axes.set(xscale="log", yscale="log", xlabel="edges")
        axes.grid(color="0.92", zorder=-1)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].plot(
        *zip(*LIMITS.items()), "_", color="0.4", markersize=18, markeredgewidth=2, label="asked for"
    )
    panels[0].set_title("CPU seconds of one thread", fontsize=10)
    panels[1].set_title("memory, MiB more than before", fontsize=10)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save(figure, path)


def main() -> None:
    """Prints the table and draws the figure."""
    parser = argparse.ArgumentParser(description="How costs grow with the number of edges.")
    parser.add_argument("--shapes", nargs="+", metavar="LxH", default=[f"{x}x{y}" for x, y in SHAPES])
    parser.add_argument("--trained", default="hist", help="a checkpoint of the task hist")
    parser.add_argument("--rows", type=int, default=128, help="of the former way; 0 for none")
    parser.add_argument("--prompts", type=int, default=8, help="of ACDC and EAP")
    parser.add_argument("--steps", type=int, default=6, help="of training")
    parser.add_argument("--figure", type=Path, default=Path("docs/scaling.png"))
    options = parser.parse_args()
    prepare_torch(threads=1)
    trained = load_checkpoint(find_checkpoint(options.trained), certificate=False).network
    console, networks = Console(width=120), list[Costs]()
    for shape in options.shapes:
        layers, heads = map(int, shape.split("x"))
        with console.status("") as status:
            networks.append(
                measure(trained, layers, heads, options.rows, options.prompts, options.steps, status.update)
            )
        for note in networks[-1].notes:
            console.print(f"{networks[-1].edges:,} edges: {note}", highlight=False)
    console.print(table(networks))
    full = CertificateSettings()
    console.print(
        f"A certificate has {full.pairs:,} rows of each draw, of which {ROWS_PER_CHUNK:,} were measured, "
        f"single edges the former way {FORMER_ROWS:,} rows, of which {options.rows:,} were.",
        highlight=False,
    )
    draw(networks, options.figure)


if __name__ == "__main__":
    main()
