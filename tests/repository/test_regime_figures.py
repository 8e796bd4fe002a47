"""The figures of regimes measure what they say."""

import numpy as np
import pytest

from benchmarks.regime_figures import FLAT, along_the_way, cosines, edge_effects
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.ground_truth import State


def loaded(name: str) -> Checkpoint:
    return load_checkpoint(find_checkpoint(name))


@pytest.mark.parametrize("name", ["trend_to_next", "trend_to_next[regime=noisy]"])
def test_every_required_and_forbidden_edge_is_there_once(name: str) -> None:
    checkpoint = loaded(name)
    effects, states = edge_effects(checkpoint), checkpoint.truth
    forbidden = len(effects["forbidden, into the logits"]) + len(effects["other forbidden"])
    assert (len(effects["required"]), forbidden) == (
        len(states.required),
        states.count("qkv_edge", State.FORBIDDEN),
    )
    assert effects["required"].min() > 5 * max(effects["other forbidden"].max(), 1)


def test_a_way_begins_at_nothing_and_is_flat_where_the_task_says() -> None:
    ends = {}
    for name in FLAT:
        shares, moved = along_the_way(loaded(name))
        assert (moved[0], moved[-1]) == (0.0, 1.0) and np.all(np.diff(shares) > 0)
        ends[name] = np.interp([0.2, 0.4], shares, moved)
    clean, saturated, _, baseline = ends.values()
    assert clean[0] > 0.15 and saturated[0] < 0.1, "a quarter of the way brings nothing"
    assert saturated[1] > 0.3 and baseline[1] < 0.15, "nearly half of it brings nothing"


def test_directions_are_compared_without_their_mean() -> None:
    found = cosines(loaded("equals_two_back[regime=superposed]"))
    assert found.shape == (14, 14), "of five tokens and nine positions"
    assert np.allclose(np.diag(found), 1, atol=1e-5) and np.allclose(found, found.T, atol=1e-6)
    assert np.abs(found[:5, 5:]).max() < 0.5 < np.abs(found[5:, 5:] - np.eye(9)).max()
