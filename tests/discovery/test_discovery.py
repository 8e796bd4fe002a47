"""Contracts of every discovery method, and the conformance tests of the methods' theory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from interpbench.circuits.scores import Cost
from interpbench.core.errors import ConfigError, DiscoveryError, UnknownNameError
from interpbench.discovery.attribution import attribute, clean_gradients
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.known_methods import known_methods
from interpbench.discovery.method import clean_and_patch, get_method, methods
from interpbench.scoring.curves import score
from interpbench.tasks.metrics import METRICS
from interpbench.tasks.problem import Problem
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.model import Transformer
from tests.builders import problem, quick
from tests.oracles.acdc import acdc as literal_acdc
from tests.oracles.transformer import run as literal_run

METHODS = sorted(methods())
FIRST_ORDER = [name for name, made in methods().items() if made.record.first_order]
SLOPED = [
    name for name in METHODS if known_methods()[name].settings.get("metric", {}).get("enum") == ["logit_diff"]
]
"""Methods that take the gradient at the clean point alone."""
ORDER_MATTERS = {
    "random": "it draws one score after the other, whatever the examples are",
    "ugs": "batches are drawn by the examples' places",
}
"""Methods whose scores depend on the order of the examples, and why they may."""
BLIND = {"random": "it looks at nothing"}
"""Methods that need not find a planted circuit, and why."""
CURVED = {
    "atp_star_grad_drop": "GradDrop leaves out paths through each layer in turn",
    "gim": "gradients by values are halved, also where attention patterns are constants",
    "mask_ig": "masks multiply along paths, so that half-patched edges weaken those before and after them",
}
"""First-order methods that need not equal exact patching in a linear network, and why."""


def linear_problem():
    """Attention that ignores queries and keys, and MLPs in the linear range of ReLU."""
    made = problem(3)
    network = Transformer(
        TransformerConfig(2, 2, 8, 4, 12, 7, 5, 4, activation="relu", init_std=0.3), 3
    ).double()
    with torch.no_grad():
        for block in network.blocks:
            block.attn.W_Q.zero_()
            block.mlp.b_in.fill_(100.0)
            block.mlp.b_out.copy_(-100.0 * block.mlp.W_out.sum(0))
    return Problem(network, made.clean, made.corrupted, made.scored)


@pytest.mark.parametrize("name", METHODS)
class TestContract:
    def test_scores_every_legal_edge_and_nothing_else(self, name):
        made = problem()
        scores = quick(name)(made)
        legal = made.graph.legal
        assert np.isfinite(scores.edges[legal]).all() and np.isnan(scores.edges[~legal]).all()

    def test_declares_itself(self, name):
        made = methods()[name]
        assert made.__doc__
        assert made.record.source and made.record.looks_at and made.record.units and made.record.test

    def test_leaves_model_and_inputs_alone(self, name):
        made = problem()
        before = {key: value.clone() for key, value in made.network.state_dict().items()}
        clean, corrupted = made.clean.clone(), made.corrupted.clone()
        quick(name)(made)
        assert all(torch.equal(value, before[key]) for key, value in made.network.state_dict().items())
        assert torch.equal(made.clean, clean) and torch.equal(made.corrupted, corrupted)
        assert all(p.grad is None for p in made.network.parameters())

    def test_same_seed_same_bits(self, name):
        first, second = (quick(name)(problem()).edges for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_depends_on_the_seed_only_if_it_says_so(self, name):
        first, second = (quick(name)(replace(problem(), seed=seed)).edges for seed in (0, 1))
        changed = not np.array_equal(first, second, equal_nan=True)
        assert changed == methods()[name].record.stochastic

    def test_does_not_depend_on_how_the_batch_is_cut(self, name, monkeypatch):
        whole = quick(name)(problem()).edges
        monkeypatch.setattr("interpbench.transformer.fast.run_circuits.LEAST_ROWS", 1)
        monkeypatch.setattr("interpbench.transformer.fast.run_circuits.NUMBERS_PER_CALL", 2000)
        np.testing.assert_allclose(quick(name)(problem()).edges, whole, atol=1e-12)

    def test_refuses_unknown_settings(self, name):
        with pytest.raises(ConfigError, match="unknown key"):
            get_method(name, {"treshold": 1})

    def test_numerical_outputs_and_layer_norm(self, name):
        for made in (problem(d_out=1), problem(normalization="LN")):
            assert np.isfinite(quick(name)(made).edges[made.graph.legal]).all()


def test_no_waiver_is_of_a_method_that_is_not_there():
    assert {*ORDER_MATTERS, *BLIND} <= set(METHODS) and set(CURVED) <= set(FIRST_ORDER)


@pytest.mark.parametrize("name", METHODS)
def test_does_not_depend_on_the_order_of_examples(name):
    made = problem()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    other = Problem(made.network, made.clean[order], made.corrupted[order], made.scored[:, order])
    same = np.allclose(quick(name)(other).edges, quick(name)(made).edges, 1e-7, 1e-10, equal_nan=True)
    assert same == (name not in ORDER_MATTERS), "a waiver that is not needed is none"


@pytest.mark.parametrize("name", [name for name in METHODS if name not in BLIND])
def test_finds_a_planted_circuit(name):
    """Only embed → m0 → logits carries anything: everything else writes nothing."""
    made = problem(1)
    with torch.no_grad():
        for block in made.network.blocks:
            block.attn.W_O.zero_()
        made.network.blocks[1].mlp.W_out.zero_()
        made.network.unembed.W_U.mul_(3)
    graph = made.graph
    truth = np.zeros(graph.legal.shape, bool)
    for edge in [("embed", "m0"), ("m0", "logits"), ("embed", "logits")]:
        reader = [str(r) for r in graph.readers].index(edge[1])
        truth[reader, [str(n) for n in graph.nodes].index(edge[0])] = True
    scores = quick(name, 60)(made).edges
    assert score(truth[graph.legal], scores[graph.legal]).auroc == 1.0


ARCHITECTURES = {
    "RMSNorm": {"normalization": "RMS"},
    "rotary positions": {"positions": "rotary"},
    "gated MLP": {"mlp": "gated", "activation": "silu"},
}


PAIRS = [(name, part) for name in METHODS for part in ARCHITECTURES]
UNSUPPORTED = [(name, part) for name, part in PAIRS if part in methods()[name].record.unsupported]


@pytest.mark.parametrize("part", ARCHITECTURES)
def test_architectures_have_the_part_that_they_are_named_after(part):
    assert problem(**ARCHITECTURES[part]).network.cfg.features == (part,)


@pytest.mark.parametrize(("name", "part"), UNSUPPORTED)
def test_an_architecture_without_a_rule_is_refused_by_name(name, part):
    with pytest.raises(DiscoveryError, match=f"method {name} does not support {part}"):
        apply(quick(name), problem(**ARCHITECTURES[part]), name)


@pytest.mark.parametrize(("name", "part"), [pair for pair in PAIRS if pair not in UNSUPPORTED])
def test_every_other_architecture_is_scored(name, part):
    made = problem(**ARCHITECTURES[part])
    scores = apply(quick(name), made, name).edges
    legal = made.graph.legal
    assert np.isfinite(scores[legal]).all() and np.isnan(scores[~legal]).all()
    assert len(np.unique(scores[legal])) > 1


def test_unknown_method_names_the_nearest():
    with pytest.raises(UnknownNameError, match="acdc"):
        get_method("adcc")


@pytest.mark.parametrize("ablation", ["resample", "mean", "mean_position", "zero"])
def test_first_order_methods_are_exact_on_a_linear_network(ablation):
    made = linear_problem()
    settings = {"metric": "logit_diff", "ablation": ablation}
    exact = get_method("exact", settings)(made).edges
    curved = set()
    for name in FIRST_ORDER:
        got = get_method(name, {**settings, "absolute": False})(made).edges
        if not np.allclose(got, exact, 1e-7, 1e-9, equal_nan=True):
            curved.add(name)
    assert curved == set(CURVED), "a waiver that is not needed is none"
    assert np.nanmax(np.abs(exact)) > 0.1


def test_exact_equals_the_literal_transformer():
    made = problem(2, rows=2)
    scores = get_method("exact", {"metric": "logit_diff"})(made)
    graph, network = made.graph, made.network
    cost = Cost()
    metric = clean_and_patch(made, "logit_diff", "resample", cost).metric
    with torch.no_grad():
        patches = [literal_run(network, row.tolist())[1] for row in made.corrupted]

        def measure(edges):
            rows = [
                torch.stack(literal_run(network, row.tolist(), edges, (), patch)[0])
                for row, patch in zip(made.clean, patches)
            ]
            return float(metric(torch.stack(rows).permute(2, 1, 0)).mean())

        clean = measure(set())
        for r, w in np.argwhere(graph.legal)[::5]:
            expected = measure({(str(graph.nodes[w]), str(graph.readers[r]))}) - clean
            assert scores.edges[r, w] == pytest.approx(expected, abs=1e-9)


def test_eap_equals_finite_differences():
    """The score is the derivative of the metric when an edge is patched a little."""
    made = problem(4)
    runs = clean_and_patch(made, "logit_diff", "resample", Cost())
    scores = get_method("eap", {"absolute": False})(made).edges
    graph, step = made.graph, 1e-5
    for r, w in np.argwhere(graph.legal)[::7]:
        masks = torch.zeros(2, *graph.legal.shape, dtype=torch.float64)
        masks[0, r, w], masks[1, r, w] = step, -step
        with torch.no_grad():
            logits = frozen_run(made.network, runs.clean[0], Circuits(masks, runs.patch))
        up, down = runs.metric(logits).mean(1).tolist()
        assert scores[r, w] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-7)


def test_eap_runs_each_side_once():
    made = problem(4)
    examples = len(made.clean)
    for name in ("eap", "atp", "hisp", "relp", "gim"):
        assert get_method(name)(made).cost == Cost(2, 2 * examples, 1, examples)


def test_eap_edges_of_a_node_sum_to_its_node_attribution():
    """Σ over readers of score(u→v) is the node attribution ⟨ã_u − a_u, ∂M/∂a_u⟩."""
    made = problem(5, normalization="LNPre")
    runs = clean_and_patch(made, "logit_diff", "resample", Cost())
    scores = get_method("eap", {"absolute": False})(made).edges

    class Nudge(Interventions):
        def __init__(self, amount):
            self.amount = amount

        def write(self, writers, outputs):
            moved = self.amount[list(writers), None, None, None]
            return outputs + moved * (runs.patch - runs.clean)[list(writers)]

    amount = torch.zeros(len(made.graph.nodes), dtype=torch.float64, requires_grad=True)
    runs.metric(made.network.run(made.network.embedding(made.clean), Nudge(amount))).mean().backward()
    np.testing.assert_allclose(np.nansum(scores, 0), amount.grad.numpy(), atol=1e-9)


def test_eap_ig_is_complete_at_the_input():
    """With many points, Σ_v score(input→v) → M(corrupted) − M(clean)."""
    made = problem(6)
    runs = clean_and_patch(made, "logit_diff", "resample", Cost())
    scores = get_method("eap_ig", {"steps": 400, "absolute": False})(made).edges
    with torch.no_grad():
        clean, corrupted = (
            float(runs.metric(made.network.run(made.network.embedding(tokens))).mean())
            for tokens in (made.clean, made.corrupted)
        )
    assert np.nansum(scores[:, 0]) == pytest.approx(corrupted - clean, rel=1e-3)


def test_divergences_have_no_gradient_at_the_clean_point_and_are_refused():
    made = problem(7)
    for metric in (name for name, kind in METRICS.items() if kind.flat):
        for name in SLOPED:
            with pytest.raises(
                ConfigError, match=f"metric: the gradient of {metric} vanishes on the clean run"
            ):
                get_method(name, {"metric": metric})
    assert {"atp", "atp_star", "eap", "gim", "hisp", "relp"} <= set(SLOPED)
    assert attribute(made, clean_gradients(made, "kl", "resample", Cost())).abs().max() < 1e-12


@pytest.mark.parametrize("normalization", [None, "LN"])
@pytest.mark.parametrize("seed", [0, 1])
def test_acdc_decides_as_the_sequential_algorithm(normalization, seed):
    made = problem(seed, rows=2, normalization=normalization, n_ctx=4)
    thresholds = (1e-3, 0.03, 0.3)
    scores = get_method("acdc", {"thresholds": thresholds})(made)
    graph = made.graph
    for threshold in thresholds:
        kept, _ = literal_acdc(made, threshold)
        mine = {
            (str(graph.nodes[w]), str(graph.readers[r])) for r, w in np.argwhere(scores.circuits[threshold])
        }
        assert mine == kept
        removed = graph.legal & ~scores.circuits[threshold]
        assert (scores.edges[removed] <= threshold).all()


def test_acdc_width_changes_nothing_but_the_number_of_calls():
    wide, narrow = (
        get_method("acdc", {"max_width": width, "thresholds": (0.5,)})(problem(8)) for width in (32, 1)
    )
    np.testing.assert_array_equal(wide.edges, narrow.edges)
    assert wide.cost.forward_calls < narrow.cost.forward_calls


def test_acdc_refuses_thresholds_that_are_not_positive():
    with pytest.raises(ConfigError, match=r"thresholds\.0: input should be greater than 0"):
        get_method("acdc", {"thresholds": (0.0, 1.0)})


@pytest.mark.gpu
def test_scores_do_not_depend_on_the_device():
    made = problem()
    on_gpu = Problem(made.network.cuda(), made.clean.cuda(), made.corrupted.cuda(), made.scored.cuda())
    for name in METHODS:
        on_cpu = quick(name)(problem()).edges
        np.testing.assert_allclose(quick(name)(on_gpu).edges, on_cpu, atol=1e-8)
