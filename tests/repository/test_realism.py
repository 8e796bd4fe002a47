"""The study of realism measures what it says, and can fail: it tells networks apart only if they differ."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.realism.comparison import Row, agreement, agreement_lost, apart
from benchmarks.realism.measurements import Measured, decodability, distances, effective, effects, spectra
from benchmarks.realism.networks import AGAIN, EVERY, GUIDED, NATURAL, TASKS
from benchmarks.realism.page import Study, split
from benchmarks.realism.rankings import METHODS, Ranked
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.tasks.task_records import records
from interpbench.transformer.model import Transformer


def test_effective_numbers():
    assert effective(np.array([3.0, 0, 0])) == pytest.approx(1)
    assert effective(np.ones(7)) == pytest.approx(7)
    assert effective(np.zeros(4)) == 0


def test_probes_find_what_a_node_writes_and_nothing_where_it_writes_noise():
    codes = np.random.default_rng(0).integers(3, size=4 * 500)
    table = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    written = table[torch.from_numpy(codes)].view(500, 4, 8).permute(2, 1, 0)
    noise = torch.randn(written.shape, generator=torch.Generator().manual_seed(1))
    stack = torch.nn.functional.pad(torch.stack([written, noise]), (0, 0, 1, 0))
    found = decodability(stack, [np.eye(4)[codes], codes[:, None].astype(float)])
    assert found[0] == pytest.approx([1, 1], abs=1e-3)
    assert (found[1] < 0.1).all()


def test_a_node_without_output_has_no_effect_and_the_start_is_no_distance_away():
    task = get_task("trend_to_next")
    network = Transformer(shape(task), 3)
    assert all(value == 0 for value in distances(network, network).values())
    network.state_dict()["blocks.0.attn.W_O"][2] = 0
    for lost in effects(task, network):
        assert abs(lost[2]) < 1e-6 < 0.01 < abs(lost).max()
    assert spectra(network)["OV spectrum: effective rank"] > 1


def _rows(shift: float) -> list[Row]:
    """Returns rows of six tasks with two features; the first is larger in guided networks by `shift`."""
    rng = np.random.default_rng(0)
    numbers = {name: float(place) for place, name in enumerate(METHODS)}
    reverse = {name: -number for name, number in numbers.items()}
    return [
        Row(
            f"task {task}",
            regime,
            {"first": rng.normal() + 3 * task + shift * (regime == "guided"), "second": rng.normal()},
            Ranked(numbers, numbers if regime == NATURAL else reverse, {}),
        )
        for task in range(6)
        for regime in (NATURAL, "guided")
        for _ in range(3)
    ]


@pytest.mark.exhaustive
def test_networks_are_told_apart_only_if_they_differ():
    same, other = apart(_rows(0), NATURAL, "guided"), apart(_rows(5), NATURAL, "guided")
    assert same.p > 0.05 and same.auroc.value < 0.8
    assert other.p < 0.01 and other.auroc.value > 0.9
    assert other.features["first"].value == pytest.approx(1) and other.features["first"].ends[0] > 0.5
    assert other.features["second"].value < 0.9
    named = [
        replace(row, features={"decodability of variables": row.features["first"], "second": 0.0})
        for row in _rows(5)
    ]
    found = apart(named, NATURAL, "guided")
    assert found.auroc.value > 0.9 and found.blind.value == pytest.approx(0.5)


def test_rankings_agree_or_not():
    found = agreement(_rows(0), NATURAL, "guided")
    assert found.cmd.value == pytest.approx(1) and found.cpr.value == pytest.approx(-1)
    undefined = [replace(row, ranked=Ranked({}, {}, {})) if row.task == "task 1" else row for row in _rows(0)]
    assert agreement(undefined, NATURAL, "guided").cmd.value == pytest.approx(1)


def test_what_agreement_is_lost_is_measured_within_tasks():
    rows = _rows(0)
    again = [replace(row, regime=AGAIN) for row in rows if row.regime == NATURAL]
    lost = agreement_lost([*rows, *again], NATURAL, "guided", AGAIN)
    assert lost.cmd.value == pytest.approx(0) and lost.cpr.value == pytest.approx(2)
    assert lost.cpr.ends[0] > 0


def test_the_study_is_of_ten_non_trivial_tasks():
    known = records()
    assert len(set(TASKS)) == 10 and not any(known[name].trivial for name in TASKS)
    assert len(EVERY) == 6


def test_required_nodes_are_compared_with_others_of_their_type():
    """Heads with heads and MLPs with MLPs, over the networks of one kind alone."""
    heads, numbers = [True, True, True, False], {"norm": [1.0, 2.0, 3.0, 4.0]}
    one = Measured(1.0, {}, numbers, [True, False, False, True], heads)
    other = replace(one, nodes={"norm": [9.0] * 4})
    rows = [Row("a", kind, {}, Ranked({}, {}, {})) for kind in (GUIDED, NATURAL, GUIDED)]
    study = Study(rows, [one, other, one], [], {}, {}, {}, {}, {})
    required, others = split(study, GUIDED, "norm", heads=True)
    assert required.tolist() == [1, 1] and others.tolist() == [2, 3, 2, 3]
    required, others = split(study, GUIDED, "norm", heads=False)
    assert required.tolist() == [4, 4] and others.size == 0
