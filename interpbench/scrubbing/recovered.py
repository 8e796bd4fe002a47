"""What a scrubbed network keeps of its behaviour: the percentage of the loss that is recovered.

It is 100 (E_scrubbed - E_shuffled) / (E_network - E_shuffled), where E_shuffled is the loss of the network's
outputs on other inputs of the same length (Chan et al. 2022, section 4). It may be above 100, or negative. A
network can lose more than the best constant output does and still "recover" most of its loss, so that one is
always given.

Shapes: V outputs, T positions with BOS, P = T - 1 without it (`pos`), N inputs, S samples.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interpbench.core import seeds
from interpbench.core.errors import TaskError
from interpbench.core.estimate import MISS, Estimate

SHUFFLES = 16
"""The number of permutations over which the loss of shuffled outputs is a mean."""
RESAMPLES = 1000
"""The number of samples of a bootstrap."""
EQUAL = 1e-9
"""The difference of losses below which they are equal."""
SampleMetric = Callable[[Tensor, np.ndarray], np.ndarray]
"""The type of functions of logits `[V, T, S]` and of the input that each sample is about `[S]`, which return
the metric of each sample, `[S]`."""


@dataclass(frozen=True, eq=False)
class ScoredLabels:
    """What outputs are compared with: the labels of inputs.

    Attributes:
        labels: the right outputs, class codes or numbers, `[N, pos]`.
        scored: bool `[N, pos]`, where there is one, and at least one on each input.
        numerical: whether outputs are numbers.
        tolerance: the largest difference of numbers that counts as none.
        metric: what counts instead of the loss; None for the loss. Then no best constant is known.
    """

    labels: np.ndarray
    scored: np.ndarray
    numerical: bool
    tolerance: float = 0.0
    metric: SampleMetric | None = None

    def losses(self, logits: Tensor, inputs: np.ndarray) -> np.ndarray:
        """Returns the loss of each sample, `[S]`, the mean over scored positions.

        It is the cross-entropy, in nats, or the squared error of numbers, or the metric.

        Args:
            logits: the logits, `[V, T, S]`.
            inputs: the input that each sample is about, `[S]`.
        """
        if self.metric is not None:
            return self.metric(logits, inputs)
        values = logits[:, 1:].double()
        labels = torch.from_numpy(np.where(self.scored, self.labels, 0)[inputs].T).to(values.device)
        if self.numerical:
            each = (values[0] - labels).square()
        else:
            each = -values.log_softmax(0).gather(0, labels.long()[None])[0]
        return self._mean(each.cpu().numpy().T, inputs)

    def _mean(self, each: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Returns the mean over scored positions of `[S, pos]`, `[S]`."""
        scored = self.scored[inputs]
        return np.where(scored, each, 0).sum(1) / scored.sum(1)

    def changed(self, logits: Tensor, others: Tensor, inputs: np.ndarray) -> np.ndarray:
        """Returns bool `[S]`, whether any scored answer differs between two outputs.

        Args:
            logits: the logits, `[V, T, S]`.
            others: other logits, `[V, T, S]`.
            inputs: the input that each sample is about, `[S]`.
        """
        if self.numerical:
            differ = (logits - others)[0, 1:].abs() > self.tolerance
        else:
            differ = logits[:, 1:].argmax(0) != others[:, 1:].argmax(0)
        return np.any(differ.cpu().numpy().T & self.scored[inputs], axis=1)

    def distances(self, logits: Tensor, others: Tensor, inputs: np.ndarray) -> np.ndarray:
        """Returns the distance of outputs from others, `[S]`, the mean over scored positions.

        It is the KL divergence from the others, in nats, or the squared difference of numbers.

        Args:
            logits: the logits, `[V, T, S]`.
            others: the logits that they are compared with, `[V, T, S]`.
            inputs: the input that each sample is about, `[S]`.
        """
        mine, theirs = logits[:, 1:].double(), others[:, 1:].double()
        if self.numerical:
            each = (mine - theirs)[0].square()
        else:
            wanted = theirs.log_softmax(0)
            each = (wanted.exp() * (wanted - mine.log_softmax(0))).sum(0)
        return self._mean(each.cpu().numpy().T, inputs)

    def euclidean(self, logits: Tensor, others: Tensor, inputs: np.ndarray) -> np.ndarray:
        """Returns the Euclidean distance of logits from others, `[S]`, the mean over scored positions.

        Args:
            logits: the logits, `[V, T, S]`.
            others: the logits that they are compared with, `[V, T, S]`.
            inputs: the input that each sample is about, `[S]`.
        """
        each = (logits - others)[:, 1:].double().norm(dim=0)
        return self._mean(each.cpu().numpy().T, inputs)

    def best_constant(self, inputs: np.ndarray) -> float:
        """Returns the least loss of an output that is the same on all inputs and at all positions.

        Args:
            inputs: the input that each sample is about, `[S]`.

        Returns:
            NaN of a metric of one's own, of which it is not known.
        """
        if self.metric is not None:
            return float("nan")
        scored, labels = self.scored[inputs], self.labels[inputs]
        weights = scored / scored.sum(1, keepdims=True) / len(inputs)
        if self.numerical:
            values = np.where(scored, labels, 0)
            mean = (weights * values).sum()
            return float((weights * (values - mean) ** 2).sum())
        shares = np.bincount(np.where(scored, labels, 0).reshape(-1), weights.reshape(-1))
        shares = shares[shares > 0]
        return max(0.0, float(-(shares * np.log(shares)).sum()))


@dataclass(frozen=True)
class Recovered:
    """What a scrubbed network keeps of its behaviour.

    Attributes:
        percent: the percentage of the loss that is recovered, with the interval of a bootstrap of samples;
            None if it is not defined.
        why: why it is not defined; empty if it is.
        scrubbed: the loss of the scrubbed network.
        network: the loss of the network on the same inputs.
        shuffled: the loss of the network's outputs on other inputs.
        constant: the least loss of a constant output.
        changed: the share of samples with another answer than the network gives.
        distance: the mean distance of outputs from the network's.
        pool: the number of scrubbed values of each input from which paths draw, where there are too many to
            run them (`pools`, which states the bias); None if all are run.
    """

    percent: Estimate | None
    why: str
    scrubbed: Estimate
    network: Estimate
    shuffled: Estimate
    constant: float
    changed: Estimate
    distance: Estimate
    pool: int | None = None


@dataclass(frozen=True, eq=False)
class SampleScores:
    """What each sample of a scrubbed network says, beside the network on the same input.

    Attributes:
        scrubbed: the loss of the scrubbed network, `[S]`.
        network: the loss of the network, `[S]`.
        distance: the distance of outputs (`ScoredLabels.distances`), `[S]`.
        euclidean: the Euclidean distance (L2) of logits, `[S]`, the mean over scored positions.
        changed: bool `[S]`, whether any scored answer is another one.
    """

    scrubbed: np.ndarray
    network: np.ndarray
    distance: np.ndarray
    euclidean: np.ndarray
    changed: np.ndarray


def sample_scores(
    behaviour: ScoredLabels, scrubbed: Tensor, clean: Tensor, inputs: np.ndarray
) -> SampleScores:
    """Returns what each sample says.

    Args:
        behaviour: the behaviour.
        scrubbed: the logits of the scrubbed network on each sample, `[V, T, S]`.
        clean: the logits of the network on each input, `[V, T, N]`.
        inputs: the input that each sample is about, `[S]`.
    """
    own = clean[..., torch.from_numpy(inputs)]
    return SampleScores(
        behaviour.losses(scrubbed, inputs),
        behaviour.losses(own, inputs),
        behaviour.distances(scrubbed, own, inputs),
        behaviour.euclidean(scrubbed, own, inputs),
        behaviour.changed(scrubbed, own, inputs),
    )


def recovered(
    behaviour: ScoredLabels,
    scrubbed: Tensor,
    clean: Tensor,
    inputs: np.ndarray,
    seed: int = 0,
    *,
    lengths: np.ndarray | None = None,
    pool: int | None = None,
) -> Recovered:
    """Returns what is kept of a behaviour.

    Args:
        behaviour: the behaviour.
        scrubbed: the logits of the scrubbed network on each sample, `[V, T, S]`.
        clean: the logits of the network on each input, `[V, T, N]`.
        inputs: the input that each sample is about, `[S]`.
        seed: the seed of permutations and of the bootstrap.
        lengths: the length of each input, or its class, `[N]`, if they differ: outputs are shuffled among
            inputs of one length, as scrubbing exchanges these.
        pool: the size of pools, if samples are drawn from pools (`ScrubbedNetwork.pool`).

    Raises:
        TaskError: if there are fewer than two samples, of which no interval is known.
    """
    if len(inputs) < 2:
        raise TaskError(f"what is recovered needs two samples or more, not {len(inputs)}")
    rng = seeds.generator(seed, "recovered")
    each = sample_scores(behaviour, scrubbed, clean, inputs)
    own = clean[..., torch.from_numpy(inputs)]
    groups = np.zeros(len(inputs)) if lengths is None else np.asarray(lengths)[inputs]
    shuffles = [
        behaviour.losses(own[..., torch.from_numpy(_shuffled(rng, groups))], inputs) for _ in range(SHUFFLES)
    ]
    table = np.stack([each.scrubbed, each.network, np.mean(shuffles, 0), each.distance])
    means = table.mean(1)
    drawn = rng.multinomial(len(inputs), np.full(len(inputs), 1 / len(inputs)), RESAMPLES) / len(inputs)
    draws = table @ drawn.T  # [4, resample]
    known = [_estimate(value, some) for value, some in zip(means, draws)]
    percent, why = None, ""
    if abs(means[1] - means[2]) < EQUAL:
        why = "the network's loss is that of its outputs on other inputs"
    else:
        gaps = np.where(np.abs(draws[1] - draws[2]) < EQUAL, np.nan, draws[1] - draws[2])
        shares = 100 * (draws[0] - draws[2]) / gaps
        value = float(100 * (means[0] - means[2]) / (means[1] - means[2]))
        percent = _estimate(value, shares[np.isfinite(shares)])
    return Recovered(
        percent,
        why,
        known[0],
        known[1],
        known[2],
        behaviour.best_constant(inputs),
        Estimate.share(int(each.changed.sum()), len(inputs)),
        known[3],
        pool,
    )


def _shuffled(rng: np.random.Generator, groups: np.ndarray) -> np.ndarray:
    """Returns a permutation of samples, `[S]`, that keeps each in its group, `[S]`."""
    found = np.arange(len(groups))
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        found[members] = rng.permutation(members)
    return found


def _estimate(value: float, draws: np.ndarray) -> Estimate:
    low, high = np.quantile(draws, [MISS / 2, 1 - MISS / 2])
    return Estimate(float(value), float(low), float(high), "bootstrap")
