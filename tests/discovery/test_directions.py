"""Noising, denoising, and both: what each sees of OR and of AND, and that every method takes them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from interpbench.circuits.naming import Edge, Node, Reader
from interpbench.core.errors import DiscoveryError
from interpbench.discovery.method import get_method, methods
from tests.builders import gate, problem, quick

DIRECTED = [name for name in sorted(methods()) if hasattr(get_method(name), "direction")]


@pytest.mark.parametrize(
    ("kind", "blind", "sees"), [("or", "noising", "denoising"), ("and", "denoising", "noising")]
)
def test_or_hides_from_noising_and_and_from_denoising(kind: str, blind: str, sees: str) -> None:
    made = gate(kind)
    places = [
        (made.graph.reader_index[edge.target], made.graph.node_index[edge.source])
        for edge in (Edge(Node(0, head), Reader(0, "mlp")) for head in (0, 1))
    ]
    found = {
        direction: [get_method("exact", {"direction": direction})(made).edges[place] for place in places]
        for direction in ("noising", "denoising", "both")
    }
    assert found[blind] == [0, 0]
    assert found[sees] == found["both"] == [1, 1]


@pytest.mark.parametrize("name", DIRECTED)
def test_denoising_is_the_method_with_the_runs_exchanged(name: str) -> None:
    made = problem()
    with_patches = {"ablation": "resample"} if hasattr(get_method(name), "ablation") else {}
    method = replace(quick(name), **with_patches)
    turned = problem().exchanged()
    assert torch.equal(turned.clean, made.corrupted) and torch.equal(turned.corrupted, made.clean)
    noised, denoised, both = (
        replace(method, direction=direction)(made) for direction in ("noising", "denoising", "both")
    )
    np.testing.assert_array_equal(denoised.edges, method(turned).edges)
    np.testing.assert_array_equal(both.edges, np.maximum(noised.edges, denoised.edges))
    assert both.cost.forward_examples == noised.cost.forward_examples + denoised.cost.forward_examples
    for key, kept in both.circuits.items():
        np.testing.assert_array_equal(kept, noised.circuits[key] | denoised.circuits[key])


def test_of_signed_effects_the_larger_in_size_counts() -> None:
    made, signed = problem(), {"absolute": False}
    noised, denoised, both = (
        get_method("eap", {**signed, "direction": direction})(made).edges
        for direction in ("noising", "denoising", "both")
    )
    expected = np.where(np.abs(denoised) > np.abs(noised), denoised, noised)
    np.testing.assert_array_equal(both, expected)
    assert (both[made.graph.legal] < 0).any()


@pytest.mark.parametrize("name", ["clean_corrupted", "eap_ig"])
def test_a_path_has_no_direction(name: str) -> None:
    there, back = (
        get_method(name, {"direction": direction})(problem()).edges for direction in ("noising", "denoising")
    )
    np.testing.assert_allclose(there, back, rtol=1e-5)


def test_denoising_patches_clean_activations_and_nothing_else() -> None:
    with pytest.raises(DiscoveryError, match="direction=both needs ablation=resample, not ablation=learned"):
        get_method("ugs", {"direction": "both"})(problem())
    with pytest.raises(
        DiscoveryError, match="direction=denoising needs ablation=resample, not ablation=mean"
    ):
        get_method("eap", {"direction": "denoising", "ablation": "mean"})(problem())


def test_methods_that_patch_take_a_direction_and_noise_by_default() -> None:
    others = {name for name in methods() if hasattr(get_method(name), "ablation")} - set(DIRECTED)
    assert others == {"cdt"}  # nothing is patched: it takes activations apart
    assert {get_method(name).direction for name in DIRECTED} == {"noising"}
