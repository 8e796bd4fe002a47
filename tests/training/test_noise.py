"""Noise: what is outside the circuit moves the logits by a share of the margin, and never the answer."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.ground_truth import State
from interpbench.core.errors import TaskError
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training.noise import LEAST, Noise, deviations
from interpbench.training.objective import Objective
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_deviations_are_those_of_differences_of_logits(classes: int) -> None:
    rng = torch.Generator().manual_seed(classes)
    outputs = torch.randn(3, 4, 6, 7, generator=rng)
    unembed = torch.randn(4, classes, generator=rng)
    wanted: list[float] = []
    for output in outputs:
        added = torch.einsum("dtb,dv->vtb", output[:, 1:], unembed).numpy()
        pairs = [(i, j) for i in range(classes) for j in range(i)]
        squares = [np.var(added[i] - added[j]) for i, j in pairs] or [np.var(added)]
        wanted.append(float(np.sqrt(np.mean(squares))))
    assert np.allclose(deviations(outputs, unembed).numpy(), wanted, rtol=1e-5)


def test_the_loss_is_zero_where_every_forbidden_edge_brings_the_share_of_the_margin() -> None:
    task = get_task("trend_to_next[regime=noisy,noise=0.25]")
    alignment = align(task, shape(task).graph)
    truth, network = find_truth(alignment), Transformer(shape(task), 0)
    noise = Noise(task, truth, torch.device("cpu"))
    logits_row = truth.qkv_edges[len(truth.graph.readers) - 1]
    assert noise.writers.tolist() == np.flatnonzero(logits_row == State.FORBIDDEN).tolist()
    tokens = torch.from_numpy(task.token_ids(task.domain.all()[:64]))
    with torch.no_grad():
        logits, cache = record(network, tokens)
        first, second = logits[:, 1:].sort(0, descending=True).values[:2]
        wanted = 0.25 * (first - second).mean()
        moved = deviations(cache.stack, network.unembed.W_U)[noise.writers]
        literal = float(((moved + LEAST).log() - (wanted + LEAST).log()).square().mean())
        twice = torch.cat([logits, 100 * logits], -1)  # the rows of other worlds come later
        assert float(noise.loss(network, [cache.stack], twice)) == pytest.approx(literal, rel=1e-5)
        assert literal > 0.01
        louder = cache.stack.clone()
        factor = (wanted / moved)[:, None, None, None]
        louder[noise.writers] *= factor
        assert float(noise.loss(network, [louder], logits)) == pytest.approx(0, abs=1e-4)


def test_a_task_says_how_loud_it_is_and_the_objective_follows() -> None:
    noisy, clean = get_task("trend_to_next[regime=noisy]"), get_task("trend_to_next")
    assert (noisy.noise, clean.noise) == (0.1, 0.0)
    assert (Objective().of_task(noisy).noise, Objective().of_task(clean).noise) == (0.1, 0.0)
    assert replace(Objective(), noise=3.0).of_task(noisy).noise == 3.0
    later = get_task("trend_to_next[regime=noisy,regime=alive]")
    assert later.noise == 0.1 and later.crowd is not None
    with pytest.raises(TaskError, match="is noisy already"):
        get_task("trend_to_next[regime=noisy,regime=noisy]")
    for both in ("regime=noisy,regime=normed", "regime=normed,regime=noisy"):
        with pytest.raises(TaskError, match="how loud noise is cannot be said"):
            get_task(f"trend_to_next[{both}]")
