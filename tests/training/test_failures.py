"""Draws that follow failures: targets and strata that were wrong are drawn more, and nothing else changes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from interpbench.circuits.certificate import Rate
from interpbench.training.draws import Draws
from interpbench.training.failures import LEAST, Failures, missed_by, pick, prefer, target
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from tests.builders import CPU, setting


def test_failures_fade_when_they_are_no_longer_seen() -> None:
    first = Failures({"variables a0.h0": 0.4}, {"output: 0": 0.2}, {})
    second = first.then(Failures({"variables a0.h0": 0.1, "nodes m1": 0.5}, {}, {"output: 1": 0.3}))
    assert second.targets == {"nodes m1": 0.5, "variables a0.h0": 0.3}
    assert second.bases == {"output: 0": 0.1} and second.sources == {"output: 1": 0.3}
    for _ in range(17):
        second = second.then(Failures())
    assert second == Failures(), "and are forgotten"
    assert Failures({"edges x": 0.9}).then(Failures({"edges x": 0.9})).targets == {"edges x": 1.0}


def test_failures_are_of_kinds_that_were_wrong_far_more_often_than_others() -> None:
    made = Failures({"nodes m1": 0.01, "edges a0.h0->m1": 0.05})
    assert made.are_of("edges") and not made.are_of("nodes") and made.are_of("nodes", "edges")
    assert not Failures({"nodes m1": 0.01, "edges a0.h0->m1": 0.04}).are_of("edges"), "four times is not far"
    assert not Failures().are_of("edges"), "nothing was wrong"


def test_a_missed_certificate_is_followed_until_the_next_one() -> None:
    rates = {
        "nodes": {"m1": {"task": Rate(0, 8, 1), "strata": Rate(0, 8, 1)}},
        "required_edges": {"a0.h0->m0": {"task": Rate(1, 8, 1), "strata": Rate(2, 8, 1)}},
    }
    missed = missed_by(SimpleNamespace(rates=rates))  # type: ignore[arg-type]
    assert missed == Failures({"required_edges a0.h0->m0": 0.25})
    both = Failures({"nodes m1": 0.1, "required_edges a0.h0->m0": 0.5}).besides(missed)
    assert both.targets == {"nodes m1": 0.1, "required_edges a0.h0->m0": 0.5}


def test_failures_are_saved_as_plain_data() -> None:
    made, adapter = Failures({"nodes m1": 0.5}, {"output: 0": 0.25}), TypeAdapter(Failures)
    assert adapter.validate_json(adapter.dump_json(made)) == made


def test_targets_are_picked_in_proportion_to_their_failures() -> None:
    rng, failed = np.random.default_rng(0), np.array([0.0, 0.3, 0.0, 0.1])
    shares = np.bincount(pick(rng, failed, 40_000, 0.5), minlength=4) / 40_000
    np.testing.assert_allclose(shares, 0.5 / 4 + 0.5 * failed / failed.sum(), atol=0.01)
    for follow, wrong in ((0.0, failed), (0.5, np.zeros(4))):
        same = pick(np.random.default_rng(1), wrong, 100, follow)
        np.testing.assert_array_equal(same, np.random.default_rng(1).integers(4, size=100))


def test_rows_are_preferred_by_their_strata_without_repetition() -> None:
    labels = np.zeros((1000, 2), bool)
    labels[:100, 1] = True
    chosen = prefer(np.random.default_rng(0), labels, np.array([0.0, 0.5]), 100)
    assert len(set(chosen.tolist())) == 100 and labels[chosen, 1].mean() > 0.7
    assert LEAST > 0, "rows of other strata still occur"


@pytest.mark.parametrize("follow", [0.0, 0.5])
def test_a_pool_follows_failures(follow: float) -> None:
    _, alignment, truth = setting("all_equal")
    graph, node = alignment.graph, next(iter(alignment.aligned_nodes))
    forbidden = alignment.unaligned_nodes[3]
    builder = Sampler(alignment, truth, Recipe(), 64, 0).builders["edge_strict"]
    edge = builder.required_names[1]  # type: ignore[attr-defined]
    failures = Failures(
        {
            target("variables", str(node)): 0.5,
            target("nodes", str(forbidden)): 0.5,
            target("required_edges", edge): 0.5,
        },
        {},
        {"different tokens: 3": 0.9},
    )

    def counted(given: Failures) -> list[float]:
        sampler = Sampler(alignment, truth, Recipe(draws=Draws(follow=follow)), 64, 0)
        batches = [sampler(step, CPU, True, given) for step in range(64)]
        nodes = torch.cat([batch.nodes for batch in batches], 2) > 0
        edges = torch.cat([batch.edges for batch in batches if batch.edges is not None], 2)
        sources = torch.cat([batch.tokens[0, :, 1:] for batch in batches])
        mask = torch.from_numpy(builder.required_edges[1])  # type: ignore[attr-defined]
        swapped = nodes[[graph.node_index[one] for one in alignment.aligned_nodes], 1]
        return [
            float((swapped[0] & (swapped.sum(0) == 1)).float().mean()),
            float((nodes[graph.node_index[forbidden], 2] & (nodes[:, 2].sum(0) == 1)).float().mean()),
            float(edges[mask].amax(0).mean()),
            float(np.mean([len(set(row)) == 3 for row in sources.tolist()])),
        ]

    plain, following = counted(Failures()), counted(failures)
    if follow:
        assert all(more > 1.5 * less for less, more in zip(plain, following, strict=True)), (plain, following)
    else:
        assert plain == following
