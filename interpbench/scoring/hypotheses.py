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
* minimality is corrected for the number of edges (Bonferroni).
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from interpbench.core.estimate import Estimate
from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.circuits_from_scores import random_circuit
from interpbench.scoring.results import HypothesisTest, TestName

LEVEL = 0.05
"""Significance level alpha of the tests."""
TESTS: tuple[TestName, ...] = ("equivalence", "independence", "minimality", "sufficiency", "necessity")


@dataclass(frozen=True)
class HypothesisSettings:
    """Settings of the tests.

    Attributes:
        epsilon: how far from ½ the share of pairs won may be.
        indifference: m within this share of the network's gap to the corrupted run is a tie. As published it
            is 0, and a difference of one bit wins; but networks here are trained to the same answers, not to
            the same logits.
        quantile: the share q* of random circuits, or edges, that is to be beaten.
        random: how many random ones.
        permutations: of the independence test.
    """

    epsilon: float = 0.1
    indifference: float = 0.1
    quantile: float = 0.9
    random: int = 100
    permutations: int = 1_000


def hypothesis_tests(
    behaviour: Behaviour, circuit: np.ndarray, settings: HypothesisSettings | None = None
) -> dict[TestName, HypothesisTest]:
    """Runs the five tests on a circuit.

    The null of an idealised test is that the circuit is ideal: it is passed when that is not rejected. The
    null of the other two is that the circuit is no better than random ones: passed when that is.
    """
    settings = settings or HypothesisSettings()
    return {
        "equivalence": equivalence(behaviour, circuit, settings),
        "independence": independence(behaviour, circuit, settings),
        "minimality": minimality(behaviour, circuit, settings),
        **against_random(behaviour, circuit, settings),
    }


def equivalence(behaviour: Behaviour, circuit: np.ndarray, settings: HypothesisSettings) -> HypothesisTest:
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
    return HypothesisTest(Estimate.share(wins, tries), min(1.0, float(p)), bool(p >= LEVEL), float(tost))


def independence(behaviour: Behaviour, circuit: np.ndarray, settings: HypothesisSettings) -> HypothesisTest:
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
    low, high = Estimate.share(extreme, settings.permutations).ends
    return HypothesisTest(Estimate(p, low, high, "exact"), p, p >= LEVEL)


def minimality(behaviour: Behaviour, circuit: np.ndarray, settings: HypothesisSettings) -> HypothesisTest:
    """Tests for each edge e H0: removing e moves m more than removing a random one, with probability ≥ q*.

    The random edges are of inflated circuits: a random path is added, and one of the edges that came with it
    removed. The value is the share of edges for which H0 stands.
    """
    edges = np.argwhere(circuit)
    if not len(edges):
        return HypothesisTest(Estimate.share(0, 1), 1.0, False)
    rng = behaviour.generator("minimality")
    inflated, reduced = [], []
    while len(inflated) < settings.random and not circuit[behaviour.graph.legal].all():
        larger = circuit | random_circuit(behaviour.graph, 1, rng)
        if len(added := np.argwhere(larger & ~circuit)):
            inflated.append(larger)
            reduced.append(_flipped(larger, rng.choice(added)))
    without = [_flipped(circuit, edge) for edge in edges]
    base, *means = behaviour.measure([circuit, *without, *inflated, *reduced]).mean(1)
    effects, others = abs(np.array(means[: len(edges)]) - base), np.array(means[len(edges) :])
    random = abs(np.subtract(*np.split(others, 2)))
    beaten = (effects[:, None] > random + 1e-9).sum(1)
    p = np.minimum(1, len(edges) * binom.cdf(beaten, len(random), settings.quantile))
    stands = Estimate.share(int((p >= LEVEL).sum()), len(edges))
    return HypothesisTest(stands, float(p.min()), bool(p.min() >= LEVEL))


def against_random(
    behaviour: Behaviour, circuit: np.ndarray, settings: HypothesisSettings
) -> dict[TestName, HypothesisTest]:
    """Tests H0: the circuit beats no more than q* of random circuits of the same size.

    Sufficiency compares how near m of the circuit is to the network's; partial necessity how far m of the
    complement is from it. Random circuits are unions of random paths from the embedding to the logits.
    """
    graph, size = behaviour.graph, int(circuit.sum())
    drawn = [
        random_circuit(graph, size, behaviour.generator("random circuits", size, draw))
        for draw in range(settings.random)
    ]
    results: dict[TestName, HypothesisTest] = {}
    signs: dict[TestName, int] = {"sufficiency": -1, "necessity": 1}
    for name, sign in signs.items():
        tried = [circuit, *drawn] if name == "sufficiency" else [graph.legal & ~c for c in (circuit, *drawn)]
        loss = sign * abs(behaviour.measure(tried) - behaviour.full).mean(1)
        beaten = int((loss[0] > loss[1:] + 1e-9).sum())
        p = float(binom.sf(beaten - 1, settings.random, settings.quantile))
        results[name] = HypothesisTest(Estimate.share(beaten, settings.random), p, p < LEVEL)
    return results


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
