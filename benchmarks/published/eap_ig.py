"""EAP, EAP-IG, clean-corrupted and exact patching against the code of Hanna et al. (2024).

Signed scores, the mean over examples, in double precision: where attention is saturated, gradients in single
precision are off by more than a ten-thousandth. Their EAP-IG takes the gradient at m points, the corrupted
input among them and the clean one not: k/m of the way to the clean one, k = 0 … m - 1. At their points we say
what they say; how far that is from our midpoints is said beside it. They move the token embedding alone, we
token plus position: the position is the same at both ends, so that is no difference.
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
"""Points of EAP-IG in their README, and in MIB's experiments."""
EXACT = 1e-6
"""What rounding may come to, of the largest score; their scores come back as numbers in single precision."""
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
    """Returns `[B, T]`, which way an output that is a number moves; None for classes."""
    if not problem.numerical:
        return None
    return clean_and_patch(problem, "logit_diff", "resample", Cost()).metric.reference.direction.T.tolist()


def at_their_points(problem: Problem, metric: MetricName) -> np.ndarray:
    """Returns what our EAP-IG would say if it took their points, of which 1 is the corrupted end."""
    runs = clean_and_patch(problem, metric, "resample", Cost())
    points = along_inputs(problem, [1 - step / STEPS for step in range(STEPS)])
    found = attribute(problem, gradients(problem, runs, points, Cost())).mean(0)
    return found.double().cpu().numpy()[problem.graph.legal]


def _distance(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Says how far our midpoints are from their points."""
    correlation = spearmanr(abs(ours), abs(theirs)).statistic
    share = np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-12)
    return f"midpoints: rank correlation {correlation:.3f}, up to {share:.0%} off"
