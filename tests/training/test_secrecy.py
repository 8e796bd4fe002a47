"""Secrecy: the node of a share writes its share, and not the variable that the shares make up."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.shares import guessed, probed
from interpbench.alignment.alignment import align
from interpbench.causal.model import CausalModel
from interpbench.core import seeds
from interpbench.core.errors import ConfigError
from interpbench.core.progress import Display
from interpbench.runs.train_settings import TrainConfig, check_train
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training import trainer as training
from interpbench.training.curriculum import Curriculum
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.secrecy import KEPT, Secrecy, within
from tests.builders import QUICK, trainer

NAME = "differs_from_both_neighbours[regime=shares]"


def secrecy_of(name: str) -> Secrecy:
    task = get_task(name)
    return Secrecy(align(task, shape(task).graph))


def test_variance_within_equal_values_is_that_of_literal_sums() -> None:
    rng = np.random.default_rng(0)
    written, values = rng.normal(size=(3, 40)), rng.integers(0, 4, 40)
    there = rng.random(40) < 0.7
    samples = defaultdict[int, list[np.ndarray]](list)
    for sample, value, counts in zip(written.T, values, there):
        if counts:
            samples[value].append(sample)
    left = sum(float(((np.stack(some) - np.mean(some, 0)) ** 2).sum()) for some in samples.values())
    counted = written[:, there]
    total = float(((counted.T - counted.mean(1)) ** 2).sum())
    given = torch.from_numpy(written), torch.from_numpy(values), 6, torch.from_numpy(there)
    assert float(within(*given)) == pytest.approx(left / total)
    given[0][:, ~there] *= 1000
    assert float(within(*given)) == pytest.approx(left / total), "large where there is no value"


def test_a_node_that_writes_its_share_alone_has_no_loss_and_one_that_leaks_does() -> None:
    """The second would pass every swap, as its readers need not take what it writes besides."""
    task, secrecy = get_task(NAME), secrecy_of(NAME)
    tokens = task.domain.draw(seeds.generator(0, "test"), 200)
    trace = task.causal_model.run(tokens)
    values = {name: torch.from_numpy(trace[name].T[:, None]) for name in secrecy.names}
    rng = np.random.default_rng(0)

    def told(names: list[str]) -> torch.Tensor:
        """What a node writes, `[D, T, N]`, from an arbitrary direction of each value of some variables."""
        parts = [rng.normal(size=(6, 4))[:, np.clip(trace[name], -1, 2)] for name in names]
        return torch.from_numpy(np.pad(sum(parts).transpose(0, 2, 1), ((0, 0), (1, 0), (0, 0))))

    own = {node: told(list(sizes)) for node, sizes in secrecy.sizes.items()}
    assert float(secrecy.loss(own, values)) == pytest.approx(0, abs=1e-9)
    leaking = {node: told(secrecy.names) for node in secrecy.sizes}
    assert float(secrecy.loss(leaking, values)) > 0.1
    whole = task.base.causal_model.run(tokens)["differs_left"]
    there = whole >= 0
    first = next(iter(secrecy.sizes))
    guess = guessed(whole[there], np.zeros((there.sum(), 1)))
    probes = [
        probed(each[first][:, 1:].numpy().transpose(2, 1, 0)[there], whole[there]) for each in (own, leaking)
    ]
    assert probes[0] < guess + 0.05 and probes[1] > guess + 0.05


def test_shares_of_categories_are_secret_and_nothing_else_is() -> None:
    names = {"detect_abc[regime=shares]": ["ab_before#1", "ab_before#2"], "detect_abc[regime=redundant]": []}
    assert {name: secrecy_of(name).names for name in names} == names
    both = ["differs_left#1", "differs_right#1", "differs_left#2", "differs_right#2"]
    assert secrecy_of("differs_from_both_neighbours[regime=cancelling]").names == both
    assert secrecy_of(NAME[:-1] + ",regime=noisy]").names == both, "also in another regime besides"
    task = get_task("detect_abc[regime=shares]")
    variables = dict(task.causal_model.variables)
    variables["ab_before#1"] = replace(variables["ab_before#1"], values=None)
    output = task.causal_model.output
    numbers = replace(task, build=lambda: CausalModel(list(variables.values()), output))
    assert Secrecy(align(numbers, shape(task).graph)).names == ["ab_before#2"]


def test_the_task_says_what_is_secret_and_the_objective_follows() -> None:
    task = get_task(NAME)
    assert (Objective().of_task(task).secrecy, Objective().of_task(task.base).secrecy) == (1.0, 0.0)
    with pytest.raises(ConfigError, match=r"objective\.secrecy: no variable of hist is in shares"):
        check_train(TrainConfig(task="hist", objective=Objective(secrecy=1.0)))


@pytest.mark.parametrize("probe_until", [0, None])
def test_training_lowers_it_with_and_without_probes(probe_until: int | None) -> None:
    objective = Objective(secrecy=1.0, attention_supervision=0.0)
    made = trainer(None, Recipe(objective, curriculum=Curriculum(probe_until=probe_until)), QUICK, NAME)
    found = [made._step(made.sampler(step, made.device), 1e-3).others for step in range(40)]
    assert all(("probe" in others) == (probe_until is None) for others in found)
    unguided = made._step(made.sampler(40, made.device, guided=False), 0.0).others
    assert set(unguided) == {"secrecy"}
    told = [float(others["secrecy"]) for others in found]
    assert np.mean(told[-5:]) < np.mean(told[:5])


def test_no_certificate_is_tried_before_nodes_of_shares_keep_their_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Right answers to all swaps do not say so."""
    made, tried = trainer(None, Recipe(Objective(secrecy=2.0)), QUICK, NAME), list[float]()
    for name, value in {"tries_certificate": True, "broken": "", "hopeless": ""}.items():
        monkeypatch.setattr(training, name, lambda *_, value=value: value)
    for told in (1.1 * 2 * KEPT, 0.9 * 2 * KEPT):
        made.others = {"secrecy": torch.tensor(told)}
        monkeypatch.setattr(made, "_certified", lambda _, told=told: tried.append(told))
        assert made._after_validation(Display("", 1)) is None
    assert tried == [0.9 * 2 * KEPT]
    assert trainer()._step.keeps_secrets({}), "nothing is in shares"


def test_shares_that_are_numbers_are_trained_without() -> None:
    made = trainer(None, Recipe(Objective(secrecy=1.0)), QUICK, "two_brackets_balanced[regime=shares]")
    assert made.evaluation.task.secrets and made._step.secrecy is None
    made.step()
    assert "secrecy" not in made.others and made._step.keeps_secrets(made.others)
