"""Training, certificates and evaluations on a GPU agree with those on the CPU, within stated tolerances.

Without a GPU the comparisons run all the same, with the CPU on both sides: what they compare is then equal.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from interpbench import train
from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.grades import Standard, grade
from interpbench.runs.evaluate import evaluate
from interpbench.runs.evaluate_settings import EvaluateConfig
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training import step
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.measure_certificate import certify
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.trainer import Trainer
from interpbench.transformer.model import Transformer

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
LOSS, WEIGHT, RATE, SCORE = 1e-3, 1e-3, 1e-3, 1e-6
"""How far losses (relative) and weights after ten steps, rates of certificates, and AUROC may differ."""


def trained(name: str, device: str) -> tuple[list[float], list[torch.Tensor]]:
    """Returns the losses of ten steps of training, and the weights after them."""
    task = get_task(name)
    cfg = shape(task)
    alignment = align(task, cfg.graph)
    made = Trainer(
        Transformer(cfg, 0).to(device),
        alignment,
        find_truth(alignment, pairs=200),
        Recipe(Objective()),
        TrainerSettings(batch=16),
        CertificateSettings(),
        seed=0,
    )
    losses = [float(made.step().sum()) for _ in range(10)]
    return losses, [weight.detach().cpu() for weight in made.network.parameters()]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["hist", "frac_prevs", "hist[regime=alive]"])
def test_steps_agree(name: str, device: str) -> None:
    (losses, weights), (on_cpu, weights_on_cpu) = trained(name, device), trained(name, "cpu")
    np.testing.assert_allclose(losses, on_cpu, rtol=LOSS)
    for one, other in zip(weights, weights_on_cpu, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=WEIGHT)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["hist", "frac_prevs", "hist[regime=alive]"])
def test_recorded_steps_are_the_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    losses, weights = trained(name, "cuda")
    monkeypatch.setattr(step, "EAGER", 100)
    called, expected = trained(name, "cuda")
    assert losses == called and all(map(torch.equal, weights, expected))


@pytest.mark.parametrize("device", DEVICES)
def test_certificates_agree(device: str) -> None:
    made = load_checkpoint(released()["trend_to_next"])
    alignment = align(get_task(made.task), made.network.cfg.graph)
    settings = CertificateSettings(pairs=500, looks=1, attacks=0, checks=500)
    found = [
        certify(Evaluation(made.network.to(where), alignment), made.truth, settings, Standard(), 0)
        for where in (device, "cpu")
    ]
    here, on_cpu = found
    assert grade(here).grade == grade(on_cpu).grade
    assert here.margin == pytest.approx(on_cpu.margin, abs=WEIGHT)
    for kind, places in on_cpu.rates.items():
        for place, draws in places.items():
            for draw, rate in draws.items():
                other = here.rates[kind][place][draw]
                assert other.rows == rate.rows and abs(other.wrong - rate.wrong) <= RATE * rate.rows


@pytest.mark.parametrize("device", DEVICES)
def test_commands_agree(device: str, tmp_path: Path) -> None:
    short = {
        "trainer": {"max_steps": 20},
        "certificate": {"pairs": 200, "looks": 1, "attacks": 0, "checks": 200},
    }
    outcome = train("frac_prevs", device=device, out=str(tmp_path / "runs"), **short)
    assert outcome.steps == 20
    aurocs: list[float] = []
    for where in (device, "cpu"):
        config = EvaluateConfig(
            method={"name": "eap_ig"},
            checkpoint="hist",
            device=where,
            out=str(tmp_path / where),
            pictures=False,
            examples=32,
        )
        (record, *_), failures = evaluate(config)
        assert not failures
        aurocs.append(record.levels["qkv_edge"].metrics["auroc"].value)
    assert aurocs[0] == pytest.approx(aurocs[1], abs=SCORE)
