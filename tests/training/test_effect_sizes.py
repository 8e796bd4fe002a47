"""Effect sizes: the least that is signal and the most that is noise, against a literal run of each edge."""

from dataclasses import replace

import numpy as np
import pytest

from interpbench.circuits.certificate import Certificate, Effects
from interpbench.circuits.grades import Standard
from interpbench.circuits.ground_truth import State
from interpbench.circuits.naming import edge_name
from interpbench.core.errors import CheckpointError
from interpbench.reports.certificates import notes
from interpbench.training.effect_sizes import effects_of, mean_effects
from tests import ROOT
from tests.builders import released_tests
from tests.made_up_certificates import certificate_of
from tests.oracles.transformer import run

HIST = ROOT / "models" / "hist"
FOUND = Effects(16.0, "embed->m0", 0.25, "a0.h1->m1", 256)


def certificate() -> Certificate:
    return Certificate.from_json(certificate_of(HIST))


@pytest.mark.parametrize("name", ["trend_to_next", "frac_prevs"])
def test_effects_are_those_of_literal_runs_with_one_edge_patched(name: str) -> None:
    tests = released_tests(name)
    evaluation, graph, task = tests.evaluation, tests.truth.graph, tests.evaluation.task
    tokens = task.domain.draw(np.random.default_rng(0), 4, True)
    base, source = map(evaluation.activations, (tokens[:2], tokens[2:]))
    edges = np.argwhere(tests.truth.qkv_edges == State.REQUIRED)
    edges = np.concatenate([edges, np.argwhere(tests.truth.qkv_edges == State.FORBIDDEN)[::9]])
    wanted = base.trace[evaluation.causal_model.output]

    def signal(logits: list[np.ndarray], row: int, at: int) -> float:
        """Returns the number, or the margin of the right class."""
        values = [float(value) for value in logits[1 + at]]
        if len(values) == 1:
            return values[0]
        right = values.pop(int(wanted[row, at]))
        return right - max(values)

    literal: list[float] = []
    for reader, writer in edges:
        moves: list[float] = []
        for row in range(2):
            ids = task.token_ids(tokens)[[row, 2 + row]].tolist()
            clean, _ = run(evaluation.network, ids[0])
            _, other = run(evaluation.network, ids[1])
            edge = (str(graph.nodes[writer]), str(graph.readers[reader]))
            patched, _ = run(evaluation.network, ids[0], [edge], patch=other)
            places = np.flatnonzero(task.scored(wanted[row : row + 1])[0])
            moves += [abs(signal(patched, row, at) - signal(clean, row, at)) for at in places]
        literal.append(float(np.mean(moves)))
    assert np.allclose(mean_effects(evaluation, base, source, edges), literal, rtol=1e-3, atol=1e-4)
    found = effects_of(evaluation, tests.truth, 0)
    assert found is not None and found.ratio > 5
    readers = {edge_name(graph.nodes[w], graph.readers[r]): (r, w) for r, w in np.argwhere(graph.legal)}
    assert tests.truth.qkv_edges[readers[found.signal_at]] == State.REQUIRED
    assert tests.truth.qkv_edges[readers[found.noise_at]] == State.FORBIDDEN


def test_a_certificate_states_the_ratio_and_may_lack_it() -> None:
    without = certificate()
    stated = replace(without, effects=FOUND)
    assert Certificate.from_json(stated.to_json()) == stated
    assert "effects" not in without.to_json()
    said = " ".join(notes(stated, Standard()))
    moved = "output" if stated.margin_kind == "largest error" else "margin"
    assert f"move the {moved} by at least 16 where they are required (embed->m0)" in said
    assert "a signal of 64 times the noise" in said and "the noise" not in " ".join(
        notes(without, Standard())
    )


@pytest.mark.parametrize("change", [{"signal": -1.0}, {"noise": float("inf")}, {"rows": -1}])
def test_wrong_effects_are_refused(change: dict[str, float]) -> None:
    data = replace(certificate(), effects=FOUND).to_json()
    assert isinstance(data["effects"], dict)
    data["effects"] |= change
    with pytest.raises(CheckpointError, match="effects"):
        Certificate.from_json(data)
