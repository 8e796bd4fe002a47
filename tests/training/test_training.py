"""Training: what is drawn, what is learned from it, how runs stop and go on."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from interpbench.circuits.certificate import Certificate
from interpbench.circuits.grades import Verdict
from interpbench.core.errors import CheckpointError, TrainingError
from interpbench.core.metric_sinks import JsonLines, Wandb
from interpbench.core.threads import threads
from interpbench.training.curriculum import Curriculum
from interpbench.training.linear_probes import Probes
from interpbench.training.losses import position_losses
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from interpbench.transformer.worlds import Worlds
from tests.builders import CPU, QUICK, setting, trainer
from tests.made_up_certificates import proof_of


@pytest.mark.parametrize("name", ["first_occurrences", "frac_prevs", "ioi_published_prompts"])
def test_probe_losses_are_position_by_position(name):
    """Against a loop over positions: half the weight on None, half on the rest."""
    _, alignment, truth = setting(name)
    batch = Sampler(alignment, truth, Recipe(Objective(probe=1.0)), 8, 0)(1, CPU)
    probes = Probes(alignment, 12, 0)
    length, rows = batch.tokens.shape[2], batch.tokens.shape[:2].numel()
    written = {node: torch.randn(12, length, rows) for node in set(probes.nodes.values())}
    losses = probes.losses(written, batch.values)
    for number, (name, node) in enumerate(probes.nodes.items()):
        parts = {"none": [], "some": [], "number": []}
        values = batch.values[name].flatten(1)
        for position, row in np.ndindex(*values.shape):
            value = values[position, row].item()
            read = probes.weights[number] @ written[node][:, 1 + position, row]
            read = (read + probes.biases[number][:, 0]).detach()
            if values.dtype.is_floating_point:
                parts["number"] += [] if np.isnan(value) else [(read[0].item() - value) ** 2]
            else:
                place = len(read) - 1 if value == -1 else int(value)
                parts["none" if value == -1 else "some"].append(-read.log_softmax(0)[place].item())
        if values.dtype.is_floating_point:
            expected = np.mean(parts["number"])
        else:
            expected = sum(np.mean(part) / 2 for part in (parts["none"], parts["some"]) if part)
        assert losses[number].item() == pytest.approx(expected, rel=1e-4)


def test_probes_train_the_network_and_leave_no_trace(tmp_path):
    """They change what is learned, are resumed with it, and are in no checkpoint."""
    recipe = Recipe(Objective(probe=1.0))
    without = Recipe(Objective(probe=0.0))
    whole, plain, broken = trainer(recipe=recipe), trainer(recipe=without), trainer(tmp_path, recipe)
    for _ in range(12):
        whole.step()
        plain.step()
    for _ in range(7):
        broken.step()
    broken.save()
    resumed = trainer(tmp_path, recipe)
    assert resumed.resume() and not whole.resume()
    for _ in range(5):
        resumed.step()
    states = [made.network.state_dict() for made in (whole, resumed, plain)]
    assert states[0].keys() == states[2].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not all(torch.equal(states[0][name], states[2][name]) for name in states[0])


def test_each_weight_acts_once():
    """Doubling a weight doubles that term of the loss and no other."""
    network, alignment, truth = setting()

    def terms(recipe):
        batch = Sampler(alignment, truth, recipe, 32, 0)(0, CPU)
        logits = network.run(network.embedding(batch.tokens.flatten(0, 1)), Worlds(batch.nodes, batch.edges))
        losses = position_losses(logits, batch.targets.flatten(1)) * batch.weights.flatten(1)
        return losses.view(batch.weights.shape).sum((0, 2)).detach()

    plain, doubled = terms(Recipe()), terms(Recipe(Objective(strict=2.0)))
    factors = torch.tensor([1.0, 1.0, 2.0, 1.0])
    torch.testing.assert_close(doubled, plain * factors)


@pytest.mark.parametrize(
    ("recipe", "worlds"),
    [
        (Recipe(Objective(edge_strict=0)), ("iit", "strict")),
        (Recipe(Objective(edge_strict=0, strict=0)), ("iit",)),
        (Recipe(Objective(edge_strict=0, strict=0, iit=0)), ()),
    ],
)
def test_terms_without_weight_cost_nothing(recipe, worlds):
    made = trainer(recipe=recipe)
    assert made.sampler.worlds(0) == ("source", *worlds)
    made.step()
    made.step()
    assert recipe.objective.grade == {"iit": "iit", "strict": "siit"}.get(
        (*worlds, "")[max(0, len(worlds) - 1)], "behaviour"
    )


def test_strict_terms_can_begin_later():
    made = trainer(
        recipe=Recipe(curriculum=Curriculum(strict_after=70)), settings=dataclasses.replace(QUICK, batch=128)
    )
    assert made.sampler.steps == 32
    assert made.sampler.worlds(95) == ("source", "iit") and made.sampler(95, CPU).edges is None
    worlds = ("source", "iit", "strict", "edge_strict")
    assert made.sampler.worlds(96) == made.sampler(96, CPU).worlds == worlds


def test_same_seed_same_bits_and_resumption(tmp_path):
    whole = trainer()
    for _ in range(60):
        whole.step()
    broken = trainer(tmp_path)
    for _ in range(25):
        broken.step()
    broken.save()
    resumed = trainer(tmp_path)
    assert resumed.progress.step == 0 and resumed.resume() and resumed.progress.step == 25
    for _ in range(35):
        resumed.step()
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, resumed.network.state_dict()[name]), name
    resumed.save()
    assert all(0 < before < after for before, after in zip(broken.progress.spent, resumed.progress.spent))


def test_a_damaged_state_is_refused_in_one_line(tmp_path):
    made = trainer(tmp_path)
    made.step()
    made.save()
    made.state_file.write_bytes(made.state_file.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="delete it to start anew"):
        trainer(tmp_path).resume()


def test_training_learns_and_writes_metrics(tmp_path):
    made = trainer(settings=dataclasses.replace(QUICK, max_steps=300, learning_rate=1e-2, validate_every=100))
    sink = JsonLines(tmp_path / "metrics.jsonl")
    result = made.train([sink])
    sink.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines][-1] == result.steps
    assert lines[-1]["accuracy"] > 0.9 and lines[-1]["iia"] > 0.7
    assert {"loss/behaviour", "loss/iit", "loss/strict", "loss/edge_strict", "worst"} <= set(lines[0])


def test_steps_have_their_own_number_of_threads(monkeypatch):
    made = trainer(settings=dataclasses.replace(QUICK, max_steps=1))
    step, certify, seen = made.step, made.certify, []

    def noted(call):
        seen.append(torch.get_num_threads())
        return call()

    monkeypatch.setattr(made, "step", lambda: noted(step))
    monkeypatch.setattr(made, "certify", lambda *args, **more: noted(lambda: certify(*args, **more)))
    with threads(2):
        made.train(step_threads=1)
    assert seen == [1, 2] and torch.get_num_threads() == 1


def test_nan_divergence_and_no_progress_stop_with_advice():
    broken = trainer()
    with torch.no_grad():
        broken.network.unembed.W_U.fill_(torch.nan)
    with pytest.raises(TrainingError, match=r"loss is nan.*trainer.learning_rate"):
        broken.train()
    wild = trainer(
        settings=dataclasses.replace(QUICK, learning_rate=30.0, clip=1e9, max_steps=400, schedule="none")
    )
    with pytest.raises(TrainingError, match=r"try\s+trainer.learning_rate"):
        wild.train()
    stuck = trainer(settings=dataclasses.replace(QUICK, learning_rate=1e-9, patience=2, validate_every=5))
    with pytest.raises(TrainingError, match=r"no progress.*model.d_model="):
        stuck.train()


def test_an_interrupted_certificate_is_made_when_the_run_goes_on(tmp_path, monkeypatch):
    """A run that would have ended at step 40 ends there all the same."""
    settings = dataclasses.replace(QUICK, stop_at=0.0, confirm=1, validate_every=40)
    unguided = Recipe(Objective(probe=0.0, attention_supervision=0.0))
    _, alignment, truth = setting()
    places = {variable: str(node) for variable, node in alignment.nodes.items()}
    certificate = Certificate.from_json(proof_of(truth, places))
    answers = iter([KeyboardInterrupt, certificate])

    def attempt(*unused, **more):
        answer = next(answers)
        if answer is KeyboardInterrupt:
            raise KeyboardInterrupt
        return answer

    good = Verdict("adversarial", {}, True)
    monkeypatch.setattr("interpbench.training.trainer.grade", lambda *unused: good)
    monkeypatch.setattr("interpbench.training.trainer.certify", attempt)
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path, unguided, settings=settings).train()
    assert trainer(tmp_path, unguided, settings=settings).train().steps == 40
    ended = trainer(tmp_path, unguided, settings=settings)
    assert ended.resume() and ended.progress.certificate == certificate
    weights = ended.network.state_dict().values()
    assert all(torch.equal(value, value.half().float()) for value in weights), (
        "what is certified is what is kept"
    )


@pytest.mark.parametrize("schedule", ["plateau", "none", "one_cycle", "restart"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
def test_schedules_and_optimizers(schedule, optimizer):
    settings = dataclasses.replace(
        QUICK, max_steps=20, validate_every=5, schedule=schedule, optimizer=optimizer
    )
    assert trainer(settings=settings).train().steps == 20


def test_a_failing_wandb_never_stops_a_run(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "wandb", None)
    sink = Wandb("project", "run", {}, tmp_path)
    sink.write(1, {"loss": 1.0})
    sink.close()
