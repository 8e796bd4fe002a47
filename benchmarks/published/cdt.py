"""Our `cdt` against the code of its authors, at heads, which are all that their code decomposes.

The worker says what it puts in place of GPT-2's parts. Both sides work in double precision. Where both
parts of what a linear map makes are next to nothing, as in heads that a network does not use, the number
that their code adds to the parts' sizes takes some of the bias from both, so that they no longer add up to
the whole; we give that to the rest. Hence rows with next to none on both sides, which must agree to
rounding, and one with the number as it is, which says how far that is from ours.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import numpy as np
from safetensors.torch import load_file
from scipy.stats import spearmanr

from benchmarks.published.exchange import Published, Row, close
from interpbench.circuits.scores import Cost
from interpbench.discovery import cdt
from interpbench.discovery.method import AblationValue, clean_and_patch, get_method
from interpbench.tasks.problem import Problem

REPOSITORY = "https://github.com/adelaidehsu/CD_Circuit"
COMMIT = "079ecef"
PATHS = ("CD_Circuit",)
WORKER = "cdt_worker.py"
ABLATIONS: tuple[AblationValue, ...] = ("mean_position", "resample")
NEXT_TO_NONE = 1e-30
"""A tolerance that only keeps 0/0 from being no number."""
EXACT = 1e-9
"""What rounding may come to, of the largest number."""


def compare(problem: Problem, theirs: Published, _name: str) -> Iterator[Row]:
    """Yields, for each ablation, rows of heads' relevance to the logits and to later heads."""
    problem = replace(problem, network=copy.deepcopy(problem.network).double())
    for ablation in ABLATIONS:
        kinds = f"cdt {ablation}, logits", f"cdt {ablation}, later heads"
        with mock.patch.object(cdt, "TOLERANCE", NEXT_TO_NONE):
            ours = our_relevance(problem, ablation)
        for kind, one, other in zip(kinds, ours, their_relevance(problem, theirs, ablation, NEXT_TO_NONE)):
            yield close(kind, one, other, EXACT)
        ours, found = our_relevance(problem, ablation), their_relevance(problem, theirs, ablation)
        yield _distance(f"{kinds[0]}, their tolerance", ours[0], found[0])


def our_relevance(problem: Problem, ablation: AblationValue) -> tuple[np.ndarray, np.ndarray]:
    """Returns heads' relevance to the logits `[N]`, and to later heads, one after the other."""
    settings = {"ablation": ablation, "absolute": False, "iterate": False}
    scores = get_method("cdt", settings)(problem).own_nodes
    assert scores is not None
    found = cdt.Propagation(problem, clean_and_patch(problem, "logit_diff", ablation, Cost()), True, Cost())
    found.propagate(slice(0, len(problem.graph.nodes)))
    heads, later = _heads(problem)
    return scores[heads], found.shares[np.ix_(heads, heads)][later]


def their_relevance(
    problem: Problem, theirs: Published, ablation: AblationValue, tolerance: float = cdt.TOLERANCE
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the same from what their code returns; the metric of the logits is ours."""
    found = load_file(theirs.ask("decompose", ablation=ablation, tolerance=tolerance))
    metric = clean_and_patch(problem, "logit_diff", ablation, Cost()).metric
    relevance = -metric(found["logits"].permute(3, 2, 0, 1)).mean(1)
    return relevance.detach().numpy(), found["shares"].numpy()[_heads(problem)[1]]


def _heads(problem: Problem) -> tuple[list[int], np.ndarray]:
    """Returns the heads' indices among nodes, and `[N, N]`, whether the second is in a later layer."""
    heads = [index for index, node in enumerate(problem.graph.nodes) if node.head is not None]
    layers = np.array([problem.graph.nodes[index].layer for index in heads])
    return heads, layers[:, None] < layers[None]


def _distance(method: str, ours: np.ndarray, theirs: np.ndarray) -> Row:
    """Returns how far two rules are apart: a figure, where no agreement is claimed."""
    share = np.abs(ours - theirs).max() / np.abs(theirs).max()
    return Row(
        method, ours.size, f"off by {share:.1e}; rank correlation {spearmanr(ours, theirs)[0]:.4f}", None
    )
