"""The hypothesis tests of circuits of Shi et al. (2024, arXiv 2410.13032), with exact p-values.

Three idealised tests: is the circuit as good as the network (*equivalence*), does what is outside it know
nothing of the answer (*independence*), is each edge needed (*minimality*)? Two against random circuits of
the same size: *sufficiency* and *partial necessity*. Where the published code differs from its paper the
paper is followed; where a p-value would be undefined or too small, it is made exact:

* equivalence counts the pairs in which the circuit does better; ties are half; the composite null
  |P − ½| ≤ ε is taken at its worst point; the test with exchanged hypotheses (TOST) stands beside it;
* independence patches with the clean inputs in a random order, since corrupted inputs are drawn to have
  another answer than the clean one and so are never independent of it; the order is one of the permutations
  that it is compared with, which makes the test exact; each kernel has its own median bandwidth;
* minimality is corrected for the number of edges (Bonferroni); an edge beats a random one only strictly.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.circuits import random_circuit
from interpbench.scoring.intervals import binomial

LEVEL = 0.05
"""Of significance."""
TESTS = ("equivalence", "independence", "minimality", "sufficiency", "necessity")


@dataclass(frozen=True)
class TestSettings:
    """Settings of the tests.

    Attributes:
        epsilon: how far from ½ the share of pairs won may be.
        indifference: m within this share of the network's gap to the corrupted run is a tie; 0 as published
            lets a difference of one bit win.
        quantile: the share q* of random circuits, or edges, that is to be beaten.
        random: how many random ones.
        permutations: of the independence test.
    """

    epsilon: float = 0.1
    indifference: float = 0.01
    quantile: float = 0.9
    random: int = 100
    permutations: int = 1_000


def hypothesis_tests(
    behaviour: Behaviour, circuit: np.ndarray, settings: TestSettings | None = None
) -> dict[str, Any]:
    """Runs the five tests on a circuit; each result has `passed`, `p`, and its statistic with an interval.

    Equivalence and independence are passed when they are not rejected, the others when their null, that the
    circuit or edge is no better than random ones, is.
    """
    settings = settings or TestSettings()
    return {
        "equivalence": equivalence(behaviour, circuit, settings),
        "independence": independence(behaviour, circuit, settings),
        "minimality": minimality(behaviour, circuit, settings),
        **against_random(behaviour, circuit, settings),
    }


def equivalence(behaviour: Behaviour, circuit: np.ndarray, settings: TestSettings) -> dict[str, Any]:
    """Tests H0: |P(the circuit's m is above the network's) − ½| ≤ ε, ties counted half.

    `p_tost` belongs to H0: |P − ½| ≥ ε, whose rejection shows equivalence rather than assuming it.
    """
    difference = behaviour.measure([circuit])[0] - behaviour.full
    tie = abs(difference) <= max(settings.indifference * abs(behaviour.gap), 1e-9)
    tries = len(difference)
    wins = float((difference[~tie] > 0).sum() + tie.sum() / 2)
    far = abs(wins - tries / 2)
    top, bottom = 0.5 + settings.epsilon, 0.5 - settings.epsilon
    p = binom.sf(np.ceil(tries / 2 + far) - 1, tries, top) + binom.cdf(np.floor(tries / 2 - far), tries, top)
    tost = max(binom.cdf(np.ceil(wins), tries, top), binom.sf(np.floor(wins) - 1, tries, bottom))
    return {
        **_share(wins, tries),
        "p": min(1.0, float(p)),
        "p_tost": float(tost),
        "passed": bool(p >= LEVEL),
    }


def independence(behaviour: Behaviour, circuit: np.ndarray, settings: TestSettings) -> dict[str, Any]:
    """Tests H0: the output of the complement of the circuit is independent of the network's (HSIC).

    The interval is that of the permutation p-value, which is itself an estimate.
    """
    rng = behaviour.generator("independence")
    count = len(behaviour.full)
    complement = behaviour.outputs(behaviour.graph.legal & ~circuit, rng.permutation(count))
    scored = behaviour.problem.scored
    x, y = (
        _kernel(_seen(logits, scored, behaviour.problem.numerical))
        for logits in (behaviour.logits, complement)
    )
    x -= x.mean(0)
    x -= x.mean(1, keepdims=True)
    observed = float((x * y).sum())
    orders = (rng.permutation(count) for _ in range(settings.permutations))
    extreme = sum(float((x * y[np.ix_(order, order)]).sum()) >= observed - 1e-12 for order in orders)
    p = (1 + extreme) / (1 + settings.permutations)
    low, high = binomial(extreme, settings.permutations)
    return {"value": p, "low": low, "high": high, "p": p, "passed": p >= LEVEL}


def minimality(behaviour: Behaviour, circuit: np.ndarray, settings: TestSettings) -> dict[str, Any]:
    """Tests for each edge e H0: removing e moves m no more than q* of the random edges do.

    A random edge is added to the circuit and removed again. The value is the share of edges that pass.
    """
    base = behaviour.measure([circuit])[0].mean()
    edges, others = np.argwhere(circuit), np.argwhere(behaviour.graph.legal & ~circuit)
    if not len(edges) or not len(others):
        return {**_share(0, max(len(edges), 1)), "p": 1.0, "passed": False}
    drawn = behaviour.generator("minimality").integers(len(others), size=settings.random)
    without = [_flipped(circuit, edge) for edge in edges]
    inflated = [_flipped(circuit, others[index]) for index in drawn]
    effects = abs(behaviour.measure([*without, *inflated]).mean(1) - base)
    beaten = (effects[: len(edges), None] > effects[None, len(edges) :] + 1e-9).sum(1)
    p = np.minimum(1, len(edges) * binom.sf(beaten - 1, settings.random, settings.quantile))
    needed = int((p < LEVEL).sum())
    return {**_share(needed, len(edges)), "p": float(p.max()), "passed": needed == len(edges)}


def against_random(behaviour: Behaviour, circuit: np.ndarray, settings: TestSettings) -> dict[str, Any]:
    """Tests H0: the circuit beats no more than q* of random circuits of the same size.

    Sufficiency compares how near m of the circuit is to the network's; partial necessity how far m of the
    complement is from it. Random circuits are unions of random paths from the embedding to the logits.
    """
    graph, size = behaviour.graph, int(circuit.sum())
    drawn = [
        random_circuit(graph, size, behaviour.generator("random circuits", size, draw))
        for draw in range(settings.random)
    ]
    results: dict[str, Any] = {}
    for name, sign in (("sufficiency", -1), ("necessity", 1)):
        tried = [circuit, *drawn] if name == "sufficiency" else [graph.legal & ~c for c in (circuit, *drawn)]
        loss = sign * abs(behaviour.measure(tried) - behaviour.full).mean(1)
        beaten = int((loss[0] > loss[1:] + 1e-9).sum())
        p = float(binom.sf(beaten - 1, settings.random, settings.quantile))
        results[name] = {**_share(beaten, settings.random), "p": p, "passed": p < LEVEL}
    return results


def _share(hits: float, tries: int) -> dict[str, float]:
    low, high = binomial(hits, tries)
    return {"value": hits / tries, "low": low, "high": high}


def _flipped(circuit: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """Returns the circuit with one edge removed, or added."""
    changed = circuit.copy()
    changed[tuple(edge)] ^= True
    return changed


def _seen(logits: Tensor, scored: Tensor, numerical: bool) -> np.ndarray:
    """Returns `[B, features]`: the outputs at the positions that are scored in every pair, as distributions.

    Where no position is, the outputs at the last scored position of each pair.
    """
    values = logits if numerical else torch.log_softmax(logits, 0).exp()
    always = scored.all(1)
    if always.any():
        return values[:, always].flatten(0, 1).T.double().cpu().numpy()
    steps = torch.arange(len(scored), device=scored.device)[:, None]
    last = (scored * steps).max(0).values
    return values[:, last, torch.arange(len(last), device=last.device)].T.double().cpu().numpy()


def _kernel(values: np.ndarray) -> np.ndarray:
    """Returns the Gaussian kernel `[B, B]` of rows; bandwidth: the median distance between different ones."""
    squares = ((values[:, None] - values[None]) ** 2).sum(2)
    positive = squares[squares > 1e-12]
    return np.exp(-squares / (np.median(positive) if len(positive) else 1.0))
