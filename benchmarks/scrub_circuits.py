"""Circuits that methods found, as hypotheses: how much of its loss a network keeps if all else is resampled.

Of each method, the circuit of a network is as many of its best edges as the true circuit has. It is scrubbed
with q, k and v apart on the pairs of inputs on which evaluations run circuits, on all released networks whose
circuit is not trivial: these are the numbers of `evaluate.py`, which here are added to the rows of
`docs/leaderboard.json` that have none. Beside them stands the faithfulness (CPR) of the same rows, in which
all edges outside the circuit take the values of one other input, and circuits of all sizes count.

Run: `python -m benchmarks.scrub_circuits`; `--write` measures nothing. The table is in `docs/scrubbing.md`,
the figure is `docs/scrubbing-circuits.png`. What is missing takes an hour; methods that train are left out.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.core import seeds
from interpbench.core.estimate import Estimate
from interpbench.core.files import write_text
from interpbench.core.process import prepare_torch
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.method import get_method
from interpbench.reports.models_page import put
from interpbench.reports.palette import COLOURS, Picture, save
from interpbench.runs.evaluate import budget
from interpbench.runs.evaluate_settings import EvaluateConfig
from interpbench.runs.leaderboard_files import read_board, write_page
from interpbench.runs.scrub_circuit import percent_recovered
from interpbench.runs.shared_runs import SharedRuns
from interpbench.scoring.circuits_from_scores import edges_by_score, of_true_size
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import BOARD, TRUTH, LeaderboardRow, board_text, rounded

PAGE, FIGURE = Path("docs/scrubbing.md"), Path("docs/scrubbing-circuits.png")
FOLDER = Path("docs")
BEGIN = "<!-- made by `python -m benchmarks.scrub_circuits` -->"
SHOWN = ("acdc", "exact", "eap_ig", "eap", "gim", "ifr", "activation_std", "random")
"""The methods of the figure, no more than there are colours."""
HIGH, MIDDLE = 0.8, (10.0, 90.0)
"""The CPR from which on it is high, and the percentages between which a circuit recovers neither all nor
nothing."""
ALL = 99.0
"""The percentage from which on the loss counts as recovered."""
LEAST = -50.0
"""The percentage below which points are drawn at the edge of the figure."""


def missing(board: Board) -> Iterator[tuple[Path, list[LeaderboardRow]]]:
    """Yields the folder of each model, and its rows without a percentage, of methods that do not train."""
    folders = {folder.name: folder for folder in find_checkpoints("nontrivial")}
    for name, folder in released().items():
        if name not in folders:
            continue
        rows = [
            row
            for row in board.rows
            if row.task == name and row.recovered is None and not row.left_out and not trains(row.method)
        ]
        if rows:
            yield folder, rows


def trains(method: str) -> bool:
    """Returns whether a method, by the name of its row, trains masks."""
    return method != TRUTH and budget(get_method(method.split("+")[0], {})) is not None


def measured(folder: Path, rows: list[LeaderboardRow]) -> Iterator[tuple[LeaderboardRow, Estimate | None]]:
    """Yields each row with the percentage of the loss that its method's circuit recovers."""
    checkpoint, config = load_checkpoint(folder), EvaluateConfig({"name": "eap"})
    shared = SharedRuns(checkpoint, partial(load_pairs, folder), config)
    for row in rows:
        if row.checkpoint != checkpoint.record.sha256[:12]:
            continue
        scores = shared.true_scores
        if row.method != TRUTH:
            name = row.method.split("+")[0]
            method = get_method(name, dict(row.settings))
            scores = apply(method, shared.problem(config.examples_for(name)), name)
        rng = seeds.generator(config.seed, "ties", "true size")
        order = edges_by_score(scores.graph, scores.edges, rng)
        circuit = of_true_size(checkpoint.truth, order, any_order=True)
        yield row, percent_recovered(shared.behaviour, circuit, config.seed)


def known(rows: Sequence[LeaderboardRow], cprs: bool = False) -> dict[str, dict[str, float]]:
    """Returns what each method's circuit recovers on each network, or its CPR."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        value = (row.faithfulness and row.faithfulness.cpr) if cprs else row.recovered
        if value is not None:
            found.setdefault(row.method, {})[row.task] = value.value
    return found


def pairs(recovered: Mapping[str, float], cpr: Mapping[str, float]) -> np.ndarray:
    """Returns both numbers on the networks that have both, `[network, 2]`."""
    return np.array([(recovered[task], cpr[task]) for task in recovered if task in cpr]).reshape(-1, 2)


def table(found: Mapping[str, Mapping[str, float]], known: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the table of the page."""
    shares = ("at least 99 %", "below 50 %", "below 0 %")
    columns = ("method", "networks", "median % recovered (`node`)", *shares, "mean CPR")
    lines = [f"| {' | '.join(columns)} |", f"| --- |{' --: |' * (len(columns) - 1)}"]
    order = sorted(found, key=lambda name: -np.mean([value >= ALL for value in found[name].values()]))
    for name in order:
        values = np.array(list(found[name].values()))
        both = pairs(found[name], known.get(name, {}))
        cpr = f"{both[:, 1].mean():.3f}" if len(both) else "–"
        shares = " | ".join(f"{part.mean():.0%}" for part in (values >= ALL, values < 50, values < 0))
        lines.append(f"| {name} | {len(values)} | {np.median(values):.1f} | {shares} | {cpr} |")
    return "\n".join([*lines, "", agreement(found, known)])


def agreement(found: Mapping[str, Mapping[str, float]], known: Mapping[str, Mapping[str, float]]) -> str:
    """Returns in words how well the two numbers agree, over all methods."""
    each = [both for name in found if len(both := pairs(found[name], known.get(name, {})))]
    every = np.concatenate(each)
    high = every[every[:, 1] >= HIGH, 0]
    some = high[high < ALL]
    middle, of_some = (((part > MIDDLE[0]) & (part < MIDDLE[1])).mean() for part in (high, some))
    within_one = np.nanmedian([kendalltau(*both.T).statistic for both in each])
    low, top = MIDDLE
    return (
        f"Over all methods and networks ({len(every):,} circuits), Kendall's tau of the two is\n"
        f"{kendalltau(*every.T).statistic:.2f}; within a method it is {within_one:.2f} in the median. "
        f"Of the {len(high):,} circuits with a CPR of at least {HIGH},\n"
        f"{(high >= ALL).mean():.0%} recover {ALL:.0f} % or more, {(high <= low).mean():.0%} at most "
        f"{low:.0f} %, and {middle:.0%} between {low:.0f} and {top:.0f} %; of those below {ALL:.0f} %, "
        f"{of_some:.0%} are between."
    )


def figure(found: Mapping[str, Mapping[str, float]], known: Mapping[str, Mapping[str, float]]) -> Picture:
    """Returns the figure: both numbers of each method on each network."""
    picture = Picture(figsize=(6.4, 4.2), layout="constrained")
    axes = picture.subplots()
    for place, name in enumerate(SHOWN):
        both = pairs(found.get(name, {}), known.get(name, {}))
        colour, marker = COLOURS[place], "os^"[place % 3]
        axes.plot(
            both[:, 1], both[:, 0].clip(LEAST), marker, color=colour, alpha=0.6, markersize=4, label=name
        )
    axes.axhline(100, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlabel="faithfulness (CPR)", ylabel=f"% of the loss recovered (not below {LEAST:.0f})")
    axes.legend(frameon=False, fontsize=8, loc="center left")
    return picture


def main() -> None:
    """Measures what is missing, and writes rows, table and figure."""
    parser = argparse.ArgumentParser(description="What causal scrubbing recovers with circuits of methods.")
    parser.add_argument("--write", action="store_true", help="measure nothing")
    prepare_torch()
    path = FOLDER / BOARD
    if not parser.parse_args().write:
        for folder, rows in missing(read_board(path)):
            made = {(row.checkpoint, row.method): one for row, one in measured(folder, rows)}
            board = read_board(path)
            rows = [
                rounded(replace(row, recovered=made[row.checkpoint, row.method]))
                if (row.checkpoint, row.method) in made
                else row
                for row in board.rows
            ]
            write_text(path, board_text(rows, board.missing))
            print(folder.name, len(made), flush=True)
    names = {folder.name for folder in find_checkpoints("nontrivial")}
    rows = [row for row in read_board(path).rows if row.task in names]
    found, cprs = known(rows), known(rows, cprs=True)
    write_text(PAGE, put(PAGE.read_text(), table(found, cprs), BEGIN))
    save(figure(found, cprs), FIGURE)
    write_page(FOLDER)


if __name__ == "__main__":
    main()
