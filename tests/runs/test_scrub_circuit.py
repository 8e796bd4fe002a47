"""What a circuit recovers as a score, with more paths than are run one by one, too."""

from collections.abc import Iterator

import numpy as np
import pytest

from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.core.errors import TaskError
from interpbench.runs.scrub_circuit import percent_recovered, scrubbed_circuit
from interpbench.scoring.behaviour import Behaviour
from interpbench.scrubbing import residual


@pytest.fixture(scope="module", autouse=True)
def small_pools() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("interpbench.scrubbing.pools.ENTRIES", 1024)
        yield


@pytest.fixture(scope="module")
def behaviour() -> Behaviour:
    checkpoint = load_checkpoint(find_checkpoint("detect_abc"), certificate=False)
    return Behaviour(load_pairs(checkpoint.folder).problem(checkpoint.network, 32))


def test_all_edges_of_a_network_draw_from_pools(behaviour: Behaviour) -> None:
    graph = behaviour.problem.graph
    found = scrubbed_circuit(behaviour, graph.legal)
    assert found.pool == 32 and found.percent is not None
    assert found.percent.value == pytest.approx(100, abs=1e-3)
    less = graph.legal.copy()
    less[-1, -1] = False  # the last MLP's outputs do not reach the logits
    broken = scrubbed_circuit(behaviour, less)
    assert broken.pool is not None and broken.percent is not None and broken.percent.value < 50


def test_pools_give_what_paths_do(behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = behaviour.problem.graph
    circuit = graph.legal & (np.random.default_rng(3).random(graph.legal.shape) < 0.4)
    circuit[-1, -1] = True
    paths = scrubbed_circuit(behaviour, circuit)
    monkeypatch.setattr("interpbench.scrubbing.hypothesis.MOST_PATHS", 0)
    pools = scrubbed_circuit(behaviour, circuit)
    assert paths.pool is None and pools.pool == 32
    assert paths.percent is not None and pools.percent is not None
    assert pools.percent.value == pytest.approx(paths.percent.value, abs=4)


def test_other_errors_are_not_hidden(behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise TaskError("values of another number of inputs")

    monkeypatch.setattr(residual.ScrubbedNetwork, "scrub", refused)
    with pytest.raises(TaskError, match="another number of inputs"):
        percent_recovered(behaviour, behaviour.problem.graph.legal)
