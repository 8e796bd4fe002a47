"""The hypothesis tests of circuits of Shi et al. (2024, arXiv 2410.13032), with exact p-values.

Three tests are idealised. *Equivalence* asks whether the circuit does as well as the network, *independence*
whether the output of the circuit's complement is independent of the network's output, and *minimality*
whether each edge is needed. Two tests, *sufficiency* and *partial necessity*, compare the circuit with random
circuits of the same size. Where the published code differs from the paper, the paper is followed. Three
things differ from both, because a p-value would otherwise be undefined or too small:

* Equivalence counts the pairs in which the circuit does better, with ties counted half. Its composite null
  hypothesis |P − ½| ≤ ε is tested at its worst point, and the test with exchanged hypotheses (TOST) is
  reported too.
* Independence patches with the clean inputs in a random order. Corrupted inputs are drawn so that their
  answer differs from the clean one, and are therefore never independent of it. This order is one of the
  permutations that it is compared with, so that the test is exact. Each kernel has the median of its own
  distances as its bandwidth.
* Minimality is corrected for the number of edges (Bonferroni).

Letters of shapes: B pairs of inputs, T positions, V output classes. A circuit is the bool array
`[reader, writer]` of its edges; m is the measure of `behaviour`.
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
"""The significance level alpha of the tests."""
TESTS: tuple[TestName, ...] = ("equivalence", "independence", "minimality", "sufficiency", "necessity")
"""The names of all tests, in the order of tables."""


@dataclass(frozen=True)
class HypothesisSettings:
    """The settings of the hypothesis tests.

    Attributes:
        epsilon: how far from ½ the share of pairs in which the circuit does better may be.
        indifference: a difference in m counts as a tie if it is at most this share of the network's mean
            difference between clean and corrupted inputs. In the paper it is 0, so that the smallest
            difference decides; but networks here are trained for the same answers, not for the same logits.
        quantile: the share q* of random circuits, or random edges, that must be beaten.
        random: the number of random circuits, or random edges.
        permutations: the number of permutations in the test of independence.
    """

    epsilon: float = 0.1
    indifference: float = 0.1
    quantile: float = 0.9
    random: int = 100
    permutations: int = 1_000


def hypothesis_tests(
    behaviour: Behaviour, circuit: np.ndarray, settings: HypothesisSettings | None = None
) -> dict[TestName, HypothesisTest]:
    """Returns the results of the five tests of a circuit.

    The null hypothesis of an idealised test is that the circuit is ideal; the circuit passes if it is not
    rejected. The null hypothesis of the other two is that the circuit is no better than random ones; the
    circuit passes if it is rejected.

    Args:
        behaviour: runs the circuits.
        circuit: the circuit.
        settings: the settings of the tests; None for the default ones.
    """
    settings = settings or HypothesisSettings()
    return {
        "equivalence": equivalence(behaviour, circuit, settings),
        "independence": independence(behaviour, circuit, settings),
        "minimality": minimality(behaviour, circuit, settings),
        **against_random(behaviour, circuit, settings),
    }


def equivalence(behaviour: Behaviour, circuit: np.ndarray, settings: HypothesisSettings) -> HypothesisTest:
    """Tests H0: |P(the circuit's m is above the network's) − ½| ≤ ε, with ties counted half.

    `p_tost` is the p-value for H0: |P − ½| ≥ ε, whose rejection shows equivalence instead of assuming it.

    Args:
        behaviour: runs the circuits.
        circuit: the circuit.
        settings: the settings of the tests.
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
    """Tests H0: the output of the circuit's complement is independent of the network's output (HSIC).

    The interval is that of the p-value, which is an estimate from random permutations.

    Args:
        behaviour: runs the circuits.
        circuit: the circuit.
        settings: the settings of the tests.
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
    """Tests for each edge H0: with probability ≥ q*, removing it changes m more than removing a random edge.

    The random edges are those of inflated circuits: a random path is added to the circuit, and one of the
    edges that were added is removed. The statistic is the share of edges for which H0 is not rejected.

    Args:
        behaviour: runs the circuits.
        circuit: the circuit.
        settings: the settings of the tests.
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
    """Tests H0: the circuit beats at most a share q* of random circuits of the same size.

    Sufficiency compares how near the circuit's m is to the network's, partial necessity how far the
    complement's m is from it. Random circuits are unions of random paths from the embedding to the logits.

    Args:
        behaviour: runs the circuits.
        circuit: the circuit.
        settings: the settings of the tests.
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
    """Returns the circuit with one edge `(reader, writer)` removed if it is in it, and added if not."""
    changed = circuit.copy()
    changed[tuple(edge)] ^= True
    return changed


def _seen(logits: Tensor, scored: Tensor, numerical: bool) -> np.ndarray:
    """Returns the outputs at the positions that are scored in every pair, as probabilities, `[B, features]`.

    If there are no such positions, they are the outputs at the last scored position of each pair. Numerical
    outputs are returned unchanged.
    """
    values = logits if numerical else torch.log_softmax(logits, 0).exp()
    always = scored.all(1)
    if always.any():
        return values[:, always].flatten(0, 1).T.double().cpu().numpy()
    steps = torch.arange(len(scored), device=scored.device)[:, None]
    last = (scored * steps).max(0).values
    return values[:, last, torch.arange(len(last), device=last.device)].T.double().cpu().numpy()


def _kernel(values: np.ndarray) -> np.ndarray:
    """Returns the Gaussian kernel of rows, `[B, B]`, with the median distance of unequal rows as width."""
    squares = ((values[:, None] - values[None]) ** 2).sum(2)
    positive = squares[squares > 1e-12]
    return np.exp(-squares / (np.median(positive) if len(positive) else 1.0))
