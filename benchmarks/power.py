"""Power curves: which share of certain edges a method finds, against how hard they are to see.

A method is an estimator, whose power depends on what it is given. Four dials make edges harder to see:

* `share`: the share of inputs on which a rarely read copy acts. Networks of regime `rare` are given pairs in
  which its token stands in so many of the clean inputs; the edges are those of that copy.
* `noise`: what a network of regime `noisy` writes after its circuit is made louder or softer, around its
  mean, in tasks whose circuit ends before the last node. The dial is signal to noise: what the weakest
  required edge moves the margin by, divided by what the strongest forbidden one does. The edges are all
  required ones.
* `copies`: copies of a variable that vote. The edges are those of the copies.
* `width`: how many times as many nodes there are. The edges are all required ones. A network of
  more than four times as many is not certified, as that takes up to hours: it is copied like smaller ones,
  its answers are compared with the task's own network, and methods that patch single edges are left out.

The power is the share of the dial's edges that score higher than 99 % of the forbidden ones (of less than a
hundred, than all of them), as a mean over independent draws of 64 pairs, with the interval of a bootstrap of
draws. Noise that changes more than one answer in a thousand is left out. Networks are those of
`models/regimes`, and those that `--train` trains in `runs/power`, where the same command goes on after an
interruption. Numbers are in `docs/power.json`, the figure in `docs/power.png`; what was measured on networks
that are not there now is kept.

Run: `python -m benchmarks.power`; `--train` first trains what is missing, `--draw` draws what is measured,
`--method exact` measures one method alone.
"""

import argparse
import json
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from matplotlib.ticker import LogLocator

from benchmarks.dialled_networks import changed_answers, copied, louder
from interpbench import train
from interpbench.checkpoints.checkpoint_files import in_regimes
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.grades import RELEASED
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import Node
from interpbench.circuits.order_arrays import orders_of
from interpbench.core import seeds
from interpbench.core.errors import InterpBenchError
from interpbench.core.files import write_json
from interpbench.core.process import prepare_torch
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.method import get_method
from interpbench.reports.palette import COLOURS, Picture, save
from interpbench.runs.certified_training import copying
from interpbench.runs.subject import subject_of
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.problem import Pairs
from interpbench.tasks.regimes.parts import PART
from interpbench.tasks.regimes.regime import RegimeTask
from interpbench.training.effect_sizes import effects_of
from interpbench.training.interventional_accuracy import Evaluation

METHODS: dict[str, tuple[str, dict[str, object]]] = {
    "exact": ("exact", {}),
    "exact, logit difference": ("exact", {"metric": "logit_diff"}),
    "acdc": ("acdc", {}),
    "eap": ("eap", {}),
    "eap_ig": ("eap_ig", {}),
    "atp": ("atp", {}),
    "mask_ig": ("mask_ig", {}),
    "relp": ("relp", {}),
    "activation_std": ("activation_std", {}),
}
"""The methods, with settings that are not their defaults."""
TASKS = {
    "share": ("trend_to_next", "equals_two_back", "differs_from_both_neighbours"),
    "noise": ("trend_to_next", "equals_two_back", "count_a", "hist"),
    "copies": ("trend_to_next", "equals_two_back", "differs_from_both_neighbours", "detect_abc"),
    "width": ("trend_to_next", "equals_two_back", "count_a"),
}
"""The tasks whose networks each dial turns."""
VALUES: dict[str, tuple[float, ...]] = {
    "share": (0.002, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 0.99),
    "noise": (0.125, 0.25, 0.5, 1, 1.5, 2, 2.5, 3),
    "copies": (3, 5, 7),
    "width": (2, 3, 4, 6, 8, 10, 20, 30),
}
"""The values of each dial; of noise they are how many times as loud it is as trained."""
NAMES = {
    "share": "{}[regime=rare]",
    "noise": "{}[regime=noisy]",
    "copies": "{}[regime=redundant,copies={:g}]",
    "width": "{}[regime=wide,times={:g}]",
}
DEFAULTS = {"copies": 3, "width": 10}
"""The values that are left out of names."""
WHOLE = ("copies", "width")
"""The dials whose values are few whole numbers."""
WIDEST = 4
"""How many times as many nodes a network may have to be certified, and for its edges to be patched."""
ONE_BY_ONE = ("exact", "acdc")
"""The methods that patch edges one by one."""
PAIRS, DRAWS = 64, 8
FALSE_POSITIVES = 100
"""One in so many forbidden edges may score higher than an edge that is found."""
MOST_CHANGED = 1e-3
"""The largest share of answers that louder noise may change."""
AXES = {
    "share": "share of inputs on which the path acts",
    "noise": "signal to noise",
    "copies": "copies that vote",
    "width": "times as many nodes",
}
OUT = "runs/power"
RESULTS, FIGURE = Path("docs/power.json"), Path("docs/power.png")


@dataclass(frozen=True)
class Point:
    """The power of a method at one value of a dial.

    Attributes:
        dial: the name of the dial.
        task: the task without the regime.
        value: the value of the dial; of noise, the ratio of signal to noise.
        method: the method.
        powers: the power on each draw of pairs.
        changed: the share of answers that the louder noise changes; 0 for other dials.
    """

    dial: str
    task: str
    value: float
    method: str
    powers: tuple[float, ...]
    changed: float = 0.0


def name_of(dial: str, task: str, value: float) -> str:
    """Returns the name of the task whose network a value of a dial needs."""
    at_default = DEFAULTS.get(dial) == value
    name = NAMES[dial].format(task, value)
    return name.rpartition(",")[0] + "]" if at_default else name


def folder_of(name: str) -> Path | None:
    """Returns the folder of a certified network of a task; None if there is none."""
    if name in in_regimes():
        return in_regimes()[name]
    for file in sorted((Path(OUT) / name).glob("trained-*/certificate.json")):
        verdict = load_checkpoint(file.parent).verdict()
        if verdict is not None and verdict.reaches(RELEASED):
            return file.parent
    return None


def is_wide(dial: str, value: float) -> bool:
    """Returns whether a value of a dial makes networks of too many edges to certify and patch each."""
    return dial == "width" and value > WIDEST


def dialled(checkpoint: Checkpoint, dial: str) -> np.ndarray:
    """Returns the edges whose power is measured, bool `[reader, writer]`."""
    truth, graph = checkpoint.truth, checkpoint.truth.graph
    needed = orders_of(truth, "qkv_edge") >= 0
    if dial in ("noise", "width"):
        return needed
    parts = {
        node: {int(name.partition(PART)[2] or 1) for name in names}
        for node, names in checkpoint.variables.items()
    }
    copied = {
        name.partition(PART)[0] for names in checkpoint.variables.values() for name in names if PART in name
    }
    wanted = {
        node
        for node, names in checkpoint.variables.items()
        if any(name.partition(PART)[0] in copied for name in names) and (dial == "copies" or 2 in parts[node])
    }
    reads = np.array([Node(reader.layer, reader.head) in wanted for reader in graph.readers])
    writes = np.array([node in wanted for node in graph.nodes])
    return needed & (reads[:, None] | writes)


def power(truth: Truth, edges: np.ndarray, scores: np.ndarray) -> float:
    """Returns the share of edges that score higher than all forbidden ones but one in `FALSE_POSITIVES`."""
    forbidden = np.sort(scores[truth.qkv_edges == State.FORBIDDEN])[::-1]
    return float((scores[edges] > forbidden[len(forbidden) // FALSE_POSITIVES]).mean())


def merged(stored: Sequence[Point], made: Sequence[Point]) -> list[Point]:
    """Returns all points; those that were measured again replace the stored ones.

    A dial of a single network is measured as a whole, so that stored values of the same method, task and dial
    go; one of several networks value by value, as there may be no network of a stored value now.
    """
    again = {_place(point) for point in made}
    return [point for point in stored if _place(point) not in again] + list(made)


def _place(point: Point) -> tuple[object, ...]:
    return point.dial, point.task, point.method, point.value if point.dial in WHOLE else None


def measured(dial: str, task: str, methods: Collection[str]) -> Iterator[Point]:
    """Yields the power of methods at each value of a dial that there is a network for."""
    for value in VALUES[dial]:
        wide, name = is_wide(dial, value), name_of(dial, task, value)
        folder = find_checkpoints(task)[0] if wide else folder_of(name)
        if folder is None:
            continue
        checkpoint = load_checkpoint(folder)
        network, drawn, at, changed = checkpoint.network, get_task(checkpoint.task), value, 0.0
        truth = checkpoint.truth
        if wide:
            network, truth = copied(name, checkpoint)
            changed = changed_answers(checkpoint, network)
        if dial == "share":
            drawn = get_task(f"{task}[regime=rare,share={value}]")
        if dial == "noise":
            made_louder = louder(checkpoint, value)
            if made_louder is None:
                continue
            network = made_louder
            subject = subject_of(checkpoint)
            effects = effects_of(Evaluation(network, subject.alignment), subject.truth, 0)
            assert effects is not None
            at, changed = effects.ratio, changed_answers(checkpoint, network)
        if changed > MOST_CHANGED:
            continue
        edges = orders_of(truth, "qkv_edge") >= 0 if wide else dialled(checkpoint, dial)
        if not edges.any():  # orders that high are not known of so many edges
            continue
        some = [draw_pairs(drawn, PAIRS, seed) for seed in range(DRAWS)]
        for method in methods:
            called, settings = METHODS[method]
            if wide and called in ONE_BY_ONE:
                continue
            made = get_method(called, settings)

            def found(pairs: Pairs) -> float:
                scores = apply(made, pairs.problem(network, len(pairs.clean)), called)  # noqa: B023
                return power(truth, edges, scores.edges)  # noqa: B023

            powers = tuple(found(pairs) for pairs in some)
            yield Point(dial, task, at, method, powers, changed)


def train_missing(dials: Sequence[str]) -> None:
    """Trains the networks that there are none of; what is not certified is left out.

    Wide ones get the nodes of the released network of the task alone.
    """
    wanted = {
        name_of(dial, task, value): (dial, task)
        for dial in dials
        for value in VALUES[dial]
        for task in TASKS[dial]
        if not is_wide(dial, value)
    }
    for name, (dial, alone) in wanted.items():
        if folder_of(name) is not None:
            continue
        try:
            task, start = get_task(name), {}
            if dial == "width":
                assert isinstance(task, RegimeTask)
                start = copying(task, load_checkpoint(find_checkpoints(alone)[0]))
                start["trainer"] = {"max_steps": 100}  # what is copied needs none
            outcome = train(name, out=OUT, **start)
            print(
                f"{name}: {'' if outcome.certified else 'not '}certified after {outcome.steps} steps",
                flush=True,
            )
        except InterpBenchError as error:
            print(f"{name}: {error}", flush=True)


def draw(points: Sequence[Point]) -> None:
    """Draws the power of each method against each dial, a row for each dial and a column for each task.

    Tasks that have been measured at fewer than three values (copies: two) are left out. Methods that find
    every edge at every value share a line, and are named above it.
    """
    at: dict[tuple[str, str], set[float]] = {}
    for point in points:
        at.setdefault((point.dial, point.task), set()).add(point.value)
    least = {dial: 2 if dial == "copies" else 3 for dial in VALUES}
    tasks = {dial: [t for t in TASKS[dial] if len(at.get((dial, t), ())) >= least[dial]] for dial in VALUES}
    dials = [dial for dial in VALUES if tasks[dial]]
    columns = max(map(len, tasks.values()))
    figure = Picture(figsize=(3.1 * columns + 1.7, 2.8 * len(dials)), layout="constrained")
    grid = figure.subplots(len(dials), columns, squeeze=False, sharey=True)
    rng = seeds.generator(0, "power intervals")
    shades = dict(zip(dict.fromkeys(name for name, _ in METHODS.values()), COLOURS, strict=False))
    for row, dial in enumerate(dials):
        for column in range(columns):
            axes = grid[row, column]
            if column >= len(tasks[dial]):
                axes.set_visible(False)
                continue
            task = tasks[dial][column]
            complete: dict[str, list[float]] = {}
            for number, method in enumerate(METHODS):
                here = sorted(
                    (p for p in points if (p.dial, p.task, p.method) == (dial, task, method)),
                    key=lambda p: p.value,
                )
                if not here:
                    continue
                values, powers = [p.value for p in here], np.array([p.powers for p in here])
                if powers.min() == 1:
                    complete[method] = values
                    continue
                picks = rng.integers(powers.shape[1], size=(1000, powers.shape[1]))
                low, high = np.quantile(powers[:, picks].mean(2), (0.025, 0.975), axis=1)
                name, settings = METHODS[method]
                colour, line = shades[name], "--" if settings else "-"
                shift = 0.004 * (number - len(METHODS) / 2)  # lines of the same power stay apart
                style = {"color": colour, "ls": line, "lw": 1.4, "marker": ".", "ms": 4}
                axes.plot(values, powers.mean(1) + shift, label=method, **style)
                axes.fill_between(values, low + shift, high + shift, color=colour, alpha=0.12, lw=0)
            if complete:
                values = max(complete.values(), key=len)
                axes.plot(values, np.ones(len(values)), color="0.6")
                said = textwrap.fill(f"all edges: {'; '.join(complete)}", 58, break_on_hyphens=False)
                axes.text(0, 1.02, said, transform=axes.transAxes, va="bottom", fontsize=7, color="0.35")
            axes.set_xscale("log")
            there = at[dial, task]
            steps = (1,) if max(there) > 100 * min(there) else (1, 2, 5)
            axes.xaxis.set_major_locator(LogLocator(subs=steps))
            if dial in WHOLE:
                axes.set_xticks(sorted(there))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
            axes.set(ylim=(-0.04, 1.06), xlabel=AXES[dial])
            axes.set_title(task, fontsize=9, pad=26)
            axes.spines[["top", "right"]].set_visible(False)
        grid[row, 0].set_ylabel("share of edges found")
    shown = [axes.get_legend_handles_labels() for axes in grid.flat]
    named = {label: handle for handles, labels in shown for handle, label in zip(handles, labels)}
    lines = {method: named[method] for method in METHODS if method in named}
    figure.legend(lines.values(), lines, loc="outside right upper", frameon=False, fontsize=8)
    save(figure, FIGURE)


def main() -> None:
    """Measures what can be measured, writes the numbers, and draws the figure."""
    parser = argparse.ArgumentParser(description="Power curves.")
    parser.add_argument("--train", action="store_true", help="first train the networks that are missing")
    parser.add_argument("--draw", action="store_true", help="draw what has been measured; measure nothing")
    parser.add_argument("--method", choices=METHODS, action="append", help="this one alone; all by default")
    parser.add_argument("--dial", choices=VALUES, action="append", help="this dial alone; all by default")
    options = parser.parse_args()
    stored = json.loads(RESULTS.read_text()) if RESULTS.is_file() else []
    points = [Point(**{**one, "powers": tuple(one["powers"])}) for one in stored]
    prepare_torch(threads=1)
    if options.train:
        train_missing(options.dial or tuple(VALUES))
    for dial in () if options.draw else options.dial or VALUES:
        for task in TASKS[dial]:
            made = list(measured(dial, task, options.method or METHODS))
            points = merged(points, made)
            print(f"{dial} of {task}: {len(made)} points", flush=True)
            write_json(RESULTS, [asdict(point) for point in points])
    if points:
        draw(points)


if __name__ == "__main__":
    main()
