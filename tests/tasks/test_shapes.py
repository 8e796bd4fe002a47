"""The networks that tasks get: by the own rule, wide enough; by the published one, as published."""

import pytest

from interpbench.causal.model import CausalModel
from interpbench.core.errors import ConfigError
from interpbench.tasks.catalogue import causal_task, get_task
from interpbench.tasks.domain import Sequences
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.shapes import MOST, shape
from tests.builders import RASP

PUBLISHED = ModelSettings(rule="published")


@pytest.mark.parametrize("name", RASP)
def test_every_task_gets_a_network_that_can_carry_it(name):
    task, cfg = get_task(name), shape(get_task(name))
    classes = 1 if task.causal_model.classes is None else len(task.causal_model.classes)
    assert cfg.d_model >= len(task.vocab) + min(task.length, MOST) + min(classes, MOST)
    assert cfg.d_head >= 4 and cfg.d_mlp == 4 * cfg.d_model
    nodes = {node for node in task.default_alignment.values() if node.layer >= 0}
    assert nodes <= set(cfg.graph.nodes)
    assert len(cfg.graph.nodes) - 1 - len(nodes) >= 1 + cfg.n_layers, "distractors"


@pytest.mark.parametrize(
    ("number", "n_layers", "d_model", "d_head", "init_std"),
    [(11, 2, 12, 3, 0.1461), (3, 2, 12, 3, 0.2219), (40, 2, 4, 1, 0.0985), (7, 2, 17, 4, 0.1569)],
)
def test_published_shapes(number, n_layers, d_model, d_head, init_std):
    """Task 11 as in its published configuration; 40 has heads of width 1; 7 compresses its stream."""
    task = get_task(number)
    cfg, own = shape(task, PUBLISHED), shape(task)
    assert (cfg.n_layers, cfg.n_heads, cfg.d_model, cfg.d_head) == (n_layers, 4, d_model, d_head)
    assert cfg.d_mlp == 4 * d_model and cfg.init_std == pytest.approx(init_std, abs=1e-4)
    assert cfg.graph.nodes == own.graph.nodes, "as many distractors"


def test_overrides_win_over_either_rule():
    for rule in ("own", "published"):
        cfg = shape(get_task("frac_prevs"), ModelSettings(rule=rule, d_model=20, n_layers=3))
        assert (cfg.d_model, cfg.n_layers) == (20, 3)


@pytest.mark.slow
def test_published_rule_has_56_tasks_with_heads_of_width_one():
    assert sum(shape(task, PUBLISHED).d_head == 1 for task in map(get_task, RASP)) == 56


def test_a_network_setting_that_there_is_not_is_refused() -> None:
    register = causal_task(
        "own",
        vocab=("a",),
        length=1,
        domain=Sequences(1, 1),
        alignment={},
        network={"d_modell": 8},
    )
    with pytest.raises(ConfigError, match=r"task own: network: d_modell: unknown key; did you mean d_model"):
        register(lambda: CausalModel([], ""))
