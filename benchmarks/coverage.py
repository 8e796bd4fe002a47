"""How well stated uncertainties cover the truth: intervals of a bootstrap of pairs, where a path seldom acts.

A score that is a mean over pairs of inputs is an estimate of the mean over all pairs, and a bootstrap of the
pairs gives it an interval of 95 %. Networks of regime `rare` are given pairs of which a share has the rare
token in the clean input; the edges are those of the copy that is read there. The scores of single pairs are
measured once, on a pool of pairs with the token and on one without. From these, 400 samples of 64 pairs are
drawn at each share, with the interval of each edge's mean; its coverage is the share of samples whose
interval holds the mean over the pools, mixed at this share. Methods are those whose scores are means over
pairs, EAP and its kin with their signs.

Numbers are in `docs/coverage.json`, the figure in `docs/coverage.png`.

Run: `python -m benchmarks.coverage`; `--draw` draws what is measured.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from matplotlib.ticker import LogLocator

from benchmarks.power import VALUES, dialled
from interpbench.checkpoints.checkpoint_files import in_regimes
from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.core import seeds
from interpbench.core.config import Unchecked
from interpbench.core.files import write_json
from interpbench.core.process import prepare_torch
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.method import get_method
from interpbench.reports.palette import COLOURS, Picture, save
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.problem import Pairs
from interpbench.tasks.regimes.rare import RareToken

METHODS: dict[str, Unchecked] = {
    "exact": {},
    "atp": {},
    "eap": {"absolute": False},
    "eap_ig": {"absolute": False},
    "relp": {"absolute": False},
}
TASKS = ("trend_to_next", "equals_two_back", "differs_from_both_neighbours")
POOL, PAIRS, SAMPLES, RESAMPLES = 256, 64, 400, 400
LEVEL = 0.95
RESULTS, FIGURE = Path("docs/coverage.json"), Path("docs/coverage.png")


@dataclass(frozen=True)
class Coverage:
    """How often the intervals of a method hold what they should.

    Attributes:
        task: the task without the regime.
        method: the method.
        share: the share of clean inputs that have the rare token.
        covered: for each edge, the share of intervals that hold the mean.
        blind: the share of samples that have no input with the token at all.
    """

    task: str
    method: str
    share: float
    covered: tuple[float, ...]
    blind: float


def pools(task: str) -> tuple[Pairs, Pairs]:
    """Returns pairs without the rare token in the clean input, and pairs with it."""
    found: list[Pairs] = []
    for share, wanted in ((0.002, False), (0.99, True)):
        drawn = get_task(f"{task}[regime=rare,share={share}]")
        domain = drawn.domain
        assert isinstance(domain, RareToken)
        pairs = draw_pairs(drawn, 2 * POOL, 3)
        kept = (pairs.clean == domain.token).any(1) == wanted
        found.append(Pairs(*(each[kept][:POOL] for each in (pairs.clean, pairs.corrupted, pairs.scored))))
    return found[0], found[1]


def of_single_pairs(checkpoint: Checkpoint, method: str, pairs: Pairs, edges: np.ndarray) -> np.ndarray:
    """Returns the scores of edges on each pair alone, `[pair, edge]`.

    Args:
        checkpoint: the network.
        method: the method.
        pairs: the pairs.
        edges: the edges, bool `[reader, writer]`.
    """
    made = get_method(method, METHODS[method])
    rows: list[np.ndarray] = []
    for at in range(len(pairs.clean)):
        one = Pairs(*(each[at : at + 1] for each in (pairs.clean, pairs.corrupted, pairs.scored)))
        rows.append(apply(made, one.problem(checkpoint.network), method).edges[edges])
    return np.array(rows)


def coverage(
    without: np.ndarray, having: np.ndarray, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Returns the coverage of each edge's interval, and the share of samples without any of the second pool.

    Args:
        without: the scores of edges on pairs of the first pool, `[pair, edge]`.
        having: those on pairs of the second pool.
        share: how often a pair is of the second pool.
        rng: the random generator of samples and resamples.
    """
    wanted = (1 - share) * without.mean(0) + share * having.mean(0)
    held, blind = np.zeros(len(wanted)), 0
    for _ in range(SAMPLES):
        second = rng.random(PAIRS) < share
        blind += not second.any()
        sample = np.where(
            second[:, None],
            having[rng.integers(len(having), size=PAIRS)],
            without[rng.integers(len(without), size=PAIRS)],
        )
        weights = rng.multinomial(PAIRS, np.full(PAIRS, 1 / PAIRS), RESAMPLES) / PAIRS
        low, high = np.quantile(weights @ sample, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=0)
        held += (low <= wanted) & (wanted <= high)
    return held / SAMPLES, blind / SAMPLES


def measured(task: str) -> list[Coverage]:
    """Returns the coverage of each method at each share, on the network of a task in regime `rare`."""
    checkpoint = load_checkpoint(in_regimes()[f"{task}[regime=rare]"])
    edges, (without, having) = dialled(checkpoint, "share"), pools(task)
    found: list[Coverage] = []
    for method in METHODS:
        first, second = (of_single_pairs(checkpoint, method, pairs, edges) for pairs in (without, having))
        for share in VALUES["share"]:
            rng = seeds.generator(0, "coverage", task, method, int(1000 * share))
            covered, blind = coverage(first, second, share, rng)
            found.append(Coverage(task, method, share, tuple(covered.tolist()), blind))
    return found


def draw(every: Sequence[Coverage]) -> None:
    """Draws the mean coverage over edges against the share, an axis for each network."""
    figure = Picture(figsize=(3.1 * len(TASKS) + 1.5, 2.9), layout="constrained")
    grid = figure.subplots(1, len(TASKS), squeeze=False, sharey=True)[0]
    for axes, task in zip(grid, TASKS):
        axes.axhline(LEVEL, color="0.5", lw=0.8, ls=":")
        for number, method in enumerate(METHODS):
            here = [one for one in every if (one.task, one.method) == (task, method)]
            means = [float(np.mean(one.covered)) for one in here]
            axes.plot(
                [one.share for one in here], means, color=COLOURS[number], marker=".", lw=1.4, label=method
            )
        blind = {one.share: 1 - one.blind for one in every if one.task == task}
        axes.plot(*zip(*sorted(blind.items())), color="0.5", lw=1, ls="--", label="samples with the token")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator())
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set(ylim=(-0.03, 1.03), title=task, xlabel="share of inputs on which the path acts")
        axes.title.set_fontsize(9)
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_ylabel(f"coverage of {LEVEL:.0%} intervals")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    save(figure, FIGURE)


def main() -> None:
    """Measures all networks, and writes numbers and figure."""
    parser = argparse.ArgumentParser(description="Coverage of stated uncertainties.")
    parser.add_argument("--draw", action="store_true", help="draw what has been measured; measure nothing")
    options = parser.parse_args()
    prepare_torch(threads=1)
    if not options.draw:
        every: list[Coverage] = []
        for task in TASKS:
            every += measured(task)
            print(f"{task}: done", flush=True)
        write_json(RESULTS, [asdict(one) for one in every])
    stored = json.loads(RESULTS.read_text())
    draw([Coverage(**{**one, "covered": tuple(one["covered"])}) for one in stored])


if __name__ == "__main__":
    main()
