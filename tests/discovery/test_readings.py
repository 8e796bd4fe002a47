"""What is read of nodes without patching, against scikit-learn, scipy and literal loops."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import kurtosis
from sklearn.linear_model import Ridge

from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.discovery.features import weight_matrices
from interpbench.discovery.readings import READINGS, RIDGE, readings
from interpbench.tasks.catalogue import get_task
from interpbench.transformer.recording import AttentionPatterns, record

ANSWER, ENTROPY, KURTOSIS, SHARE = READINGS
NUMERICAL = "frac_prevs"


def opened(name: str, pairs: int):
    folder = released().get(name) or in_regimes()[name]
    network = load_checkpoint(folder).network
    return network, load_pairs(folder).problem(network, pairs)


def at_scored(values, problem):
    """Returns `[M, D]`, input by input, from `[D, T, N]`."""
    there = [
        values[:, position, row]
        for row in range(problem.scored.shape[1])
        for position in range(problem.scored.shape[0])
        if problem.scored[position, row]
    ]
    return torch.stack(there).double().numpy()


@pytest.mark.parametrize("name", ["hist", NUMERICAL, "hist[regime=alive]"])
@torch.no_grad()
def test_the_answer_probe_is_a_ridge_regression_tested_on_the_other_half(name):
    network, problem = opened(name, 60)
    logits, cache = record(network, problem.clean)
    answers = at_scored(logits, problem)
    if not problem.numerical:
        answers = np.eye(answers.shape[1])[answers.argmax(1)]
    half = int(problem.scored[:, :30].sum())
    for place, found in enumerate(readings(problem)[ANSWER]):
        inputs = at_scored(cache.stack[place], problem)
        centred = inputs - inputs[:half].mean(0)
        alpha = RIDGE * max(float((centred[:half] ** 2).mean()), 1e-12) * half
        read = Ridge(alpha=alpha).fit(inputs[:half], answers[:half]).predict(inputs[half:])
        mean = answers[:half].mean(0)
        wanted = (
            1
            - ((read.reshape(answers[half:].shape) - answers[half:]) ** 2).sum()
            / ((answers[half:] - mean) ** 2).sum()
        )
        assert found == pytest.approx(wanted, abs=1e-6)


@torch.no_grad()
def test_the_probe_reads_the_answer_where_it_is_written():
    network, problem = opened(NUMERICAL, 200)
    checkpoint, found = load_checkpoint(released()[NUMERICAL]), readings(problem)[ANSWER]
    output = get_task(NUMERICAL).causal_model.output
    (carrier,) = [node for node, names in checkpoint.variables.items() if output in names]
    assert found.argmax() == network.cfg.graph.node_index[carrier] and found.max() > 0.999


@torch.no_grad()
def test_entropy_is_that_of_each_head_and_of_nothing_else():
    network, problem = opened("hist", 20)
    patterns = AttentionPatterns()
    network.run(network.embedding(problem.clean), patterns)
    found = readings(problem)[ENTROPY]
    for place, node in enumerate(network.cfg.graph.nodes):
        if node.head is None:
            assert np.isnan(found[place])
            continue
        pattern = patterns.each[node.layer][node.head].double()
        entropies = [
            -sum(p * math.log(p) for p in pattern[query, :, row].tolist() if p > 0)
            for query in range(1, pattern.shape[0])
            for row in range(pattern.shape[2])
        ]
        assert found[place] == pytest.approx(np.mean(entropies), abs=1e-9)


@torch.no_grad()
def test_kurtosis_and_spectrum_are_those_of_scipy_and_numpy():
    network, problem = opened("hist", 40)
    found, (_, cache) = readings(problem), record(network, problem.clean)
    matrices = weight_matrices(network).writes.double().numpy()
    for place in range(len(cache.stack)):
        written = at_scored(cache.stack[place], problem)
        varies = written.var(0) > 1e-12 * written.var(0).max()
        wanted = kurtosis(written[:, varies], fisher=False).mean() if varies.any() else 0
        assert found[KURTOSIS][place] == pytest.approx(wanted, rel=1e-6)
        values = np.linalg.svd(matrices[place], compute_uv=False)
        assert found[SHARE][place] == pytest.approx(values[0] ** 2 / (values**2).sum(), rel=1e-6)
