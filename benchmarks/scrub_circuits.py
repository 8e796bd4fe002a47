"""Circuits that methods found, as hypotheses: how much of its loss a network keeps if all else is resampled.

Of each method, the circuit of a network is as many of its best edges as the true circuit has. It is scrubbed
with q, k and v apart, with 512 inputs and 500 samples, on all released networks whose circuit is not trivial.
Beside it stands the faithfulness (CPR) of the same method's circuits on `docs/leaderboard.json`, in which all
edges outside the circuit take the values of one other input, and circuits of all sizes count.

Run: `python -m benchmarks.scrub_circuits`; the table is in `docs/scrubbing.md`, the figure is
`docs/scrubbing-circuits.png`.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.core.files import write_text
from interpbench.core.process import prepare_torch
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.known_methods import EXAMPLES
from interpbench.discovery.method import get_method
from interpbench.reports.models_page import put
from interpbench.reports.palette import COLOURS, Picture, save
from interpbench.runs.leaderboard_files import read_board
from interpbench.runs.scrub import best_edges_of, scrub_program
from interpbench.runs.subject import subject_of
from interpbench.scoring.leaderboard_rows import BOARD

METHODS = ("acdc", "exact", "eap_ig", "eap", "gim", "ifr", "weight_norm", "activation_std", "random")
TRUTH = "the true circuit"
FEW = {"inputs": 512, "samples": 500}
PAGE, FIGURE = Path("docs/scrubbing.md"), Path("docs/scrubbing-circuits.png")
BEGIN = "<!-- made by `python -m benchmarks.scrub_circuits` -->"
ALL = 99.0
"""The percentage from which on the loss counts as recovered."""
LEAST = -50.0
"""The percentage below which points are drawn at the edge of the figure."""


def measure() -> dict[str, dict[str, float]]:
    """Returns the percentage of the loss that each method's circuit recovers on each network."""
    found: dict[str, dict[str, float]] = {}
    for folder in find_checkpoints("nontrivial"):
        checkpoint = load_checkpoint(folder, certificate=False)
        subject, network = subject_of(checkpoint), checkpoint.network
        if checkpoint.task != folder.name:
            continue
        circuit = subject.truth.circuit
        problem = load_pairs(folder).problem(network, EXAMPLES, 0)
        for method in (TRUTH, *METHODS):
            edges = circuit
            if method != TRUTH:
                scores = apply(get_method(method, {}), problem, method)
                edges = best_edges_of(scores, int(circuit.sum()))
            report = scrub_program(
                network, subject.alignment, circuit, found=edges, samplings=("node",), **FEW
            )
            percent = report.results["circuit"]["node"].percent
            if percent is not None:
                found.setdefault(method, {})[checkpoint.task] = percent.value
        print(folder.name, len(found), flush=True)
    return found


def cprs() -> dict[str, dict[str, float]]:
    """Returns the CPR of each method on each network, from the leaderboard."""
    found: dict[str, dict[str, float]] = {}
    for row in read_board(Path("docs") / BOARD).rows:
        if row.faithfulness is not None:
            found.setdefault(row.method, {})[row.task] = row.faithfulness.cpr.value
    return found


def pairs(recovered: Mapping[str, float], cpr: Mapping[str, float]) -> np.ndarray:
    """Returns both numbers on the networks that have both, `[network, 2]`."""
    return np.array([(recovered[task], cpr[task]) for task in recovered if task in cpr]).reshape(-1, 2)


def table(found: Mapping[str, Mapping[str, float]], known: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the table of the page."""
    lines = [
        "| method | networks | median % recovered | at least 99 % | below 0 % | mean CPR |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    order = sorted(found, key=lambda name: -np.mean([value >= ALL for value in found[name].values()]))
    for name in order:
        values = np.array(list(found[name].values()))
        both = pairs(found[name], known.get(name, {}))
        cpr = f"{both[:, 1].mean():.3f}" if len(both) else "–"
        shares = f"{np.mean(values >= ALL):.0%} | {np.mean(values < 0):.0%}"
        lines.append(f"| {name} | {len(values)} | {np.median(values):.1f} | {shares} | {cpr} |")
    every = np.concatenate([pairs(found[name], known.get(name, {})) for name in METHODS if name in found])
    within = [kendalltau(*pairs(found[name], known[name]).T).statistic for name in METHODS if name in known]
    lines += [
        "",
        f"Over all methods and networks, Kendall's tau of the two is {kendalltau(*every.T).statistic:.2f}; "
        f"within a method it is {np.nanmedian(within):.2f} in the median.",
    ]
    return "\n".join(lines)


def figure(found: Mapping[str, Mapping[str, float]], known: Mapping[str, Mapping[str, float]]) -> Picture:
    """Returns the figure: both numbers of each method on each network."""
    picture = Picture(figsize=(6.4, 4.2), layout="constrained")
    axes = picture.subplots()
    for place, name in enumerate(METHODS):
        both = pairs(found.get(name, {}), known.get(name, {}))
        colour, marker = COLOURS[place % len(COLOURS)], "os^"[place % 3]
        axes.plot(
            both[:, 1], both[:, 0].clip(LEAST), marker, color=colour, alpha=0.6, markersize=4, label=name
        )
    axes.axhline(100, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlabel="faithfulness (CPR)", ylabel=f"% of the loss recovered (not below {LEAST:.0f})")
    axes.legend(frameon=False, fontsize=8)
    return picture


def main() -> None:
    """Measures, and writes table and figure."""
    prepare_torch()
    found, known = measure(), cprs()
    write_text(PAGE, put(PAGE.read_text(), table(found, known), BEGIN))
    save(figure(found, known), FIGURE)


if __name__ == "__main__":
    main()
