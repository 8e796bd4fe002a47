"""Causal scrubbing of a circuit that a method found, as one of its scores."""

import numpy as np
import torch

from interpbench.core.estimate import Estimate
from interpbench.scoring.behaviour import Behaviour
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.program_claims import structure_hypothesis
from interpbench.scrubbing.recovered import Recovered, ScoredLabels, recovered
from interpbench.scrubbing.residual import ScrubbedNetwork

SAMPLES = 512
"""The number of samples of a circuit that is scrubbed."""


def scrubbed_circuit(behaviour: Behaviour, circuit: np.ndarray, seed: int = 0) -> Recovered:
    """Returns what a network keeps of its own answers if all outside a circuit is resampled, on every path.

    Nodes of the circuit may compute anything. Inputs are the clean ones of the pairs, which are drawn for
    each other where they have one length. If the circuit has too many paths, they draw from pools.

    Args:
        behaviour: the network on pairs that discovery did not see.
        circuit: the edges of the circuit, bool `[R, W]`.
        seed: the seed of draws.
    """
    problem = behaviour.problem
    outputs = behaviour.logits[:, 1:]
    labels = (outputs[0] if problem.numerical else outputs.argmax(0)).T.cpu().numpy()
    scored = problem.scored[1:].T.cpu().numpy()
    known = ScoredLabels(labels, scored, problem.numerical)
    hypothesis = structure_hypothesis(problem.graph, circuit, split=True)
    pad = problem.clean[:, :1] + 1  # the id after that of BOS (`Task.token_ids`)
    lengths = (problem.clean != pad).sum(1).cpu().numpy()
    draws = PathDraws(seed, SAMPLES, Classes.of(lengths, len(lengths)))
    with torch.no_grad():
        scrubbed = ScrubbedNetwork(problem.network, problem.clean)
        logits = scrubbed.scrub(hypothesis, draws)
    pool = scrubbed.pool(hypothesis)
    return recovered(known, logits, scrubbed.logits, draws.root, seed, lengths=lengths, pool=pool)


def percent_recovered(behaviour: Behaviour, circuit: np.ndarray, seed: int = 0) -> Estimate | None:
    """Returns the percentage of the loss that is recovered; None if it is not defined.

    Args:
        behaviour: the network on pairs that discovery did not see.
        circuit: the edges of the circuit, bool `[R, W]`.
        seed: the seed of draws.
    """
    return scrubbed_circuit(behaviour, circuit, seed).percent
