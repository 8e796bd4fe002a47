"""A method on a circuit: its scores and their AUROC, and the table of all methods, circuits and seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from interpbench.core import seeds
from interpbench.core.errors import DiscoveryError, InterpBenchError
from interpbench.core.estimate import Estimate
from interpbench.core.user_code import blamed, said
from interpbench.decoys.decoy_circuits import ORDER, DecoyCircuit, decoy_circuit
from interpbench.decoys.feature_methods import ATTRIBUTIONS, METHODS
from interpbench.decoys.hidden_layer import FEATURES

Labels = Literal["true", "scrambled"]
"""The choice of labels: which features are causal, or as many drawn at random (the null)."""
SAMPLES, SEEDS = 512, 16
"""The number of inputs, and of seeds, of the published table."""
MOST_SAMPLES = 100_000
"""The largest number of inputs of a run."""


@dataclass(frozen=True)
class Attribution:
    """What a method says of a circuit.

    Attributes:
        scores: the score of each feature, `[F]`.
        labels: whether each feature counts as causal, bool `[F]`.
        auroc: the probability that a causal feature has a higher score than another; ties count half.
    """

    scores: np.ndarray
    labels: np.ndarray
    auroc: float


def attribute(
    method: str, circuit: DecoyCircuit, labels: Labels = "true", samples: int = SAMPLES, seed: int = 0
) -> Attribution:
    """Runs a method on a circuit.

    Args:
        method: the name of a registered method.
        circuit: the circuit.
        labels: which features count as causal.
        samples: the number of inputs.
        seed: the seed of inputs, of what the method draws, and of scrambled labels.

    Raises:
        UnknownNameError: if there is no such method.
        DiscoveryError: if the method fails, or returns anything but a finite number for each feature.
    """
    scores = _checked_scores(method, circuit, circuit.draw(samples, seed), seed)
    causal = circuit.labels if labels == "true" else scrambled_labels(circuit, seed)
    return Attribution(scores, causal, ranking_auroc(scores, causal))


def scrambled_labels(circuit: DecoyCircuit, seed: int) -> np.ndarray:
    """Returns labels of a null, bool `[F]`: as many features as are causal, drawn at random."""
    return seeds.generator(seed, "decoys", "labels", circuit.name).permutation(circuit.labels)


def _checked_scores(method: str, circuit: DecoyCircuit, inputs: np.ndarray, seed: int) -> np.ndarray:
    inputs.setflags(write=False)
    registered = ATTRIBUTIONS[method]
    try:
        found = registered.scores(circuit.network, inputs, seeds.generator(seed, "decoys", "method"))
        scores = np.asarray(found, float)
    except InterpBenchError:
        raise
    except Exception as error:
        raise DiscoveryError(blamed(error) or f"{method}: {said(error)}") from error
    if scores.shape != (FEATURES,) or not np.isfinite(scores).all():
        what = "numbers that are not finite" if scores.shape == (FEATURES,) else f"shape {scores.shape}"
        raise DiscoveryError(f"{method} returns {what}; {FEATURES} finite numbers are wanted")
    return scores


def ranking_auroc(scores: np.ndarray, labels: np.ndarray) -> float:
    """Returns the AUROC of scores `[F]` against labels, bool `[F]`, by `scoring.ranking_metrics`."""
    from interpbench.scoring.metric import RankingCounts
    from interpbench.scoring.ranking_groups import Groups
    from interpbench.scoring.ranking_metrics import auroc  # imports scipy, for intervals

    hits, sizes = Groups(scores).sums(np.stack([labels.astype(float), np.ones(len(labels))]))
    assert auroc.compute is not None
    return float(auroc.compute(RankingCounts(hits[None], sizes[None]))[0])


@dataclass(frozen=True)
class Cell:
    """A method on a circuit over many seeds.

    Attributes:
        runs: what it says with the true labels, for each seed.
        null: the AUROC with scrambled labels, for each seed.
    """

    runs: Sequence[Attribution]
    null: Sequence[float]

    @property
    def aurocs(self) -> list[float]:
        """The AUROC for each seed."""
        return [run.auroc for run in self.runs]

    @property
    def scores(self) -> np.ndarray:
        """The scores of all features for each seed, `[seed, F]`."""
        return np.stack([run.scores for run in self.runs])


Cells = Mapping[tuple[str, str], Cell]
"""The table, by method and circuit."""


def measure_cells(seed_count: int = SEEDS, samples: int = SAMPLES, methods: Sequence[str] = METHODS) -> Cells:
    """Runs methods on all circuits.

    Args:
        seed_count: the number of seeds, from 0.
        samples: the number of inputs.
        methods: the names of the methods.
    """
    found: dict[tuple[str, str], Cell] = {}
    for name in ORDER:
        circuit = decoy_circuit(name)
        for method in methods:
            runs = [attribute(method, circuit, "true", samples, seed) for seed in range(seed_count)]
            null = [
                ranking_auroc(run.scores, scrambled_labels(circuit, seed)) for seed, run in enumerate(runs)
            ]
            found[method, name] = Cell(runs, null)
    return found


def over_seeds(values: Sequence[float]) -> Estimate:
    """Returns the mean over seeds, with the interval of a bootstrap of seeds."""
    from interpbench.scoring.comparison import mean_interval  # imports scipy

    return mean_interval(values, [f"{seed:06d}" for seed in range(len(values))])
