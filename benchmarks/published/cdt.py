"""Compares `cdt` with the code of its authors, at heads, which are all that their code decomposes.

The worker's docstring says what it replaces of GPT-2. Both work in double precision. Their code divides by
the sizes of the two parts plus a small number. If both parts of a linear map's output are almost zero, as in
heads that a network does not use, this number takes a share of the bias from both parts, which then do not
add up to the whole; this project gives that share to the rest. The rows that must agree up to rounding are
therefore computed with an almost vanishing number in both. One more row has their number as it is, and says
how far the results are apart.
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
"""The number that is added to the sizes of parts in both codes, so small that it only prevents 0/0."""
EXACT = 1e-9
"""The largest difference that counts as rounding, as a share of the largest number."""


def compare(problem: Problem, theirs: Published, _name: str) -> Iterator[Row]:
    """Yields rows for each ablation: on the relevance of heads to the logits, and to later heads."""
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
    """Returns the relevance of the N heads to the logits, `[N]`, and to later heads, in one array."""
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
    """Returns the relevances of `our_relevance` by their code, with this project's metric of the logits."""
    found = load_file(theirs.ask("decompose", ablation=ablation, tolerance=tolerance))
    metric = clean_and_patch(problem, "logit_diff", ablation, Cost()).metric
    relevance = -metric(found["logits"].permute(3, 2, 0, 1)).mean(1)
    return relevance.detach().numpy(), found["shares"].numpy()[_heads(problem)[1]]


def _heads(problem: Problem) -> tuple[list[int], np.ndarray]:
    """Returns the indices of heads among nodes, and whether the second is in a later layer, bool `[N, N]`."""
    heads = [index for index, node in enumerate(problem.graph.nodes) if node.head is not None]
    layers = np.array([problem.graph.nodes[index].layer for index in heads])
    return heads, layers[:, None] < layers[None]


def _distance(method: str, ours: np.ndarray, theirs: np.ndarray) -> Row:
    """Returns a row with the difference of two rules, for which no agreement is claimed."""
    share = np.abs(ours - theirs).max() / np.abs(theirs).max()
    return Row(
        method, ours.size, f"off by {share:.1e}; rank correlation {spearmanr(ours, theirs)[0]:.4f}", None
    )
