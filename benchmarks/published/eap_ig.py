"""Compares EAP, EAP-IG, clean-corrupted and exact patching with the code of Hanna et al. (2024).

Compared are signed scores, as means over examples, in double precision: if attention is saturated, gradients
in single precision are wrong by more than a ten-thousandth. Their EAP-IG computes gradients at m points,
which are k/m of the way from the corrupted to the clean input, k = 0 … m - 1. This project's scores agree
with theirs at their points; the difference from its own points, which are midpoints, is reported in another
row. Their code interpolates only the token embedding, this project token plus position embedding, which makes
no difference because the positions of both inputs are the same.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.stats import spearmanr

from benchmarks.published.exchange import Published, Row, close, values
from interpbench.circuits.scores import Cost
from interpbench.discovery.attribution import along_inputs, attribute, gradients
from interpbench.discovery.clean_corrupted import CleanCorrupted
from interpbench.discovery.eap import Eap
from interpbench.discovery.eap_ig import EapIg
from interpbench.discovery.exact import Exact
from interpbench.discovery.method import Method, clean_and_patch
from interpbench.tasks.metrics import MetricName
from interpbench.tasks.problem import Problem

REPOSITORY, COMMIT = "https://github.com/hannamw/EAP-IG", "795f560"
PATHS = ("EAP-IG/src",)
WORKER = "eap_ig_worker.py"
STEPS = 5
"""The number of points of EAP-IG in their README and in MIB's experiments."""
EXACT = 1e-6
"""The largest difference that counts as rounding, as a share of the largest score. Their scores are
rounded to single precision."""
METRICS: tuple[MetricName, ...] = ("logit_diff", "kl")


def compare(problem: Problem, theirs: Published, _name: str) -> Iterator[Row]:
    """Yields a row for each method and metric."""
    problem, graph = doubled(problem), problem.graph
    direction = direction_of_numbers(problem)

    def their(method: str, metric: str, steps: int | None = None) -> np.ndarray:
        found = theirs.ask("scores", method=method, metric=metric, direction=direction, steps=steps)
        return values(graph, found)

    def our(method: Method) -> np.ndarray:
        return method(problem).edges[graph.legal]

    yield close("eap, logit_diff", our(Eap(absolute=False)), their("EAP", "logit_diff"), EXACT)
    for metric in METRICS:
        found = their("EAP-IG-inputs", metric, STEPS)
        same = close(
            f"eap_ig, their {STEPS} points, {metric}", at_their_points(problem, metric), found, EXACT
        )
        far = _distance(our(EapIg(steps=STEPS, metric=metric, absolute=False)), found)
        yield replace(same, agreement=f"{same.agreement}; {far}")
        both = CleanCorrupted(metric=metric, absolute=False)
        yield close(f"clean_corrupted, {metric}", our(both), their("clean-corrupted", metric), EXACT)
        yield close(f"exact, {metric}", our(Exact(metric=metric)), their("exact", metric), EXACT)


def doubled(problem: Problem) -> Problem:
    """Returns the problem with its network in double precision."""
    return replace(problem, network=copy.deepcopy(problem.network).double())


def direction_of_numbers(problem: Problem) -> list[list[float]] | None:
    """Returns the sign of the change of a numerical output by corruption, `[B, T]`; None for classes.

    Letters of shapes: B pairs, T positions.
    """
    if not problem.numerical:
        return None
    return clean_and_patch(problem, "logit_diff", "resample", Cost()).metric.reference.direction.T.tolist()


def at_their_points(problem: Problem, metric: MetricName) -> np.ndarray:
    """Returns the scores of this project's EAP-IG at their points, of which 1 is the corrupted input."""
    runs = clean_and_patch(problem, metric, "resample", Cost())
    points = along_inputs(problem, [1 - step / STEPS for step in range(STEPS)])
    found = attribute(problem, gradients(problem, runs, points, Cost())).mean(0)
    return found.double().cpu().numpy()[problem.graph.legal]


def _distance(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Returns a row with the difference between scores at midpoints and scores at their points."""
    correlation = spearmanr(abs(ours), abs(theirs)).statistic
    share = np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-12)
    return f"midpoints: rank correlation {correlation:.3f}, up to {share:.0%} off"
