"""What each method's theory says must hold: identities, limits, and literal loops."""

import numpy as np
import pytest
import torch

from interpbench.circuits.scores import Cost, edges_from_nodes
from interpbench.core.errors import ConfigError
from interpbench.discovery.method import ablation_values, clean_and_patch, get_method, methods
from interpbench.tasks.problem import Problem
from interpbench.transformer.backward_rules import Rules, with_rules
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record
from tests.builders import TRAINED, problem
from tests.oracles.contextual import reached, relevance
from tests.oracles.discovery import importance, path_effect, routes

SIGNED = {"metric": "logit_diff", "absolute": False}


def value(made, runs, interventions=None):
    """The metric of each example."""
    return runs.metric(made.network.run(made.network.embedding(made.clean), interventions))


class Nudge(Interventions):
    """Moves writers' outputs by `amount [W, B]` of the difference from the patch; holds a layer at clean."""

    def __init__(self, made, runs, amount, held=None):
        self.amount, self.runs, self.held = amount, runs, held
        self.layers = [node.layer for node in made.graph.nodes]

    def write(self, writers, outputs):
        chosen = list(writers)
        if self.layers[chosen[0]] == self.held:
            return self.runs.clean[chosen]
        return outputs + self.amount[chosen, None, None] * (self.runs.patch - self.runs.clean)[chosen]


def node_slopes(made, runs, held=None):
    amount = torch.zeros(len(made.graph.nodes), len(made.clean), dtype=torch.float64, requires_grad=True)
    total = value(made, runs, Nudge(made, runs, amount, held)).sum()
    return torch.autograd.grad(total, amount)[0]


def test_ablation_values():
    corrupted = torch.randn(3, 2, 4, 5, dtype=torch.float64)
    assert ablation_values(corrupted, "resample") is corrupted
    assert not ablation_values(corrupted, "zero").any()
    each, all_positions = ablation_values(corrupted, "mean_position"), ablation_values(corrupted, "mean")
    for w, d, t, b in np.ndindex(3, 2, 4, 5):
        torch.testing.assert_close(each[w, d, t, b], sum(corrupted[w, d, t]) / 5)
        torch.testing.assert_close(all_positions[w, d, t, b], corrupted[w, d].sum() / 20)


def test_edges_between_nodes_score_the_lesser_end():
    graph = problem().graph
    nodes = np.arange(len(graph.nodes), dtype=float)
    scores = edges_from_nodes(graph, nodes)
    for edge in graph.edges:
        r, w = graph.reader_index[edge.target], graph.node_index[edge.source]
        ends = [str(node) for node in graph.nodes if str(node) == edge.target.destination]
        assert scores[r, w] == (w if not ends else min(w, [str(n) for n in graph.nodes].index(ends[0])))


def test_activation_paths_are_complete_for_each_block():
    """Σ over the edges out of a block → M(block patched) − M(clean)."""
    made = problem(6)
    runs = clean_and_patch(made, "logit_diff", "resample", Cost())
    scores = get_method("eap_ig_activations", {**SIGNED, "steps": 300})(made).edges
    kinds = [(node.layer, node.head is None) for node in made.graph.nodes]
    for block in set(kinds):
        member = torch.tensor([kind == block for kind in kinds])
        with torch.no_grad():
            amount = member.double()[:, None].expand(-1, len(made.clean))
            change = value(made, runs, Nudge(made, runs, amount)).mean() - value(made, runs).mean()
        assert np.nansum(scores[:, member.numpy()]) == pytest.approx(float(change), rel=1e-3, abs=1e-6)


def test_mask_path_is_complete():
    """Σ over all edges → M(everything patched) − M(clean)."""
    made = problem(6)
    runs = clean_and_patch(made, "logit_diff", "resample", Cost())
    sums = [np.nansum(get_method("mask_ig", {**SIGNED, "steps": n})(made).edges) for n in (200, 400)]
    with torch.no_grad():
        corrupted = runs.metric(made.network.run(made.network.embedding(made.corrupted))).mean()
        change = float(corrupted - value(made, runs).mean())
    assert 2 * sums[1] - sums[0] == pytest.approx(change, rel=1e-3)


def test_both_ends_average_the_two_gradients():
    made = problem(9)
    ends = get_method("clean_corrupted", SIGNED)(made).edges
    clean = get_method("eap", SIGNED)(made).edges
    runs = clean_and_patch(made, "logit_diff", "resample", Cost())
    step, graph = 1e-5, made.graph

    with torch.no_grad():
        start = record(made.network, made.corrupted)[1]
        for r, w in np.argwhere(graph.legal)[::11]:
            masks = torch.zeros(2, *graph.legal.shape, dtype=torch.float64)
            masks[0, r, w], masks[1, r, w] = step, -step
            further = start.stack + (runs.patch - runs.clean)
            logits = frozen_run(made.network, start.residuals[0], Circuits(masks, further, start.stack))
            up, down = runs.metric(logits).mean(1).tolist()
            expected = (clean[r, w] + (up - down) / (2 * step)) / 2
            assert ends[r, w] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_atp_takes_sizes_pair_by_pair():
    made = problem(5, normalization="LN")
    runs = clean_and_patch(made, "logit_diff", "resample", Cost())
    own = get_method("atp")(made).own_nodes
    np.testing.assert_allclose(own, node_slopes(made, runs).abs().mean(1).numpy(), atol=1e-12)
    signed = get_method("atp", SIGNED)(made)
    np.testing.assert_allclose(signed.edges, get_method("eap", SIGNED)(made).edges, atol=1e-12)
    np.testing.assert_allclose(np.nansum(signed.edges, 0), signed.own_nodes, atol=1e-12)
    assert (get_method("atp")(made).edges >= np.abs(signed.edges) - 1e-12)[made.graph.legal].all()


@pytest.mark.parametrize("normalization", [None, "LNPre"])
@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_atp_star_is_exact_where_only_the_softmax_is_not_linear(normalization, attention):
    made = problem(3, n_layers=1, normalization=normalization, attention=attention)
    made.network.ln_final = torch.nn.Identity()
    with torch.no_grad():
        made.network.blocks[0].mlp.W_out.zero_()
    exact = get_method("exact", {"metric": "logit_diff"})(made).edges
    star = get_method("atp_star", SIGNED)(made).edges
    plain = get_method("atp", SIGNED)(made).edges
    softmax = slice(0, 2 * made.graph.n_heads)
    np.testing.assert_allclose(star[softmax], exact[softmax], atol=1e-10)
    assert np.nanmax(np.abs(plain[softmax] - exact[softmax])) > 1e-3


def test_grad_drop_averages_gradients_with_a_layer_held():
    made = problem(4, n_layers=3)
    runs = clean_and_patch(made, "logit_diff", "resample", Cost())
    got = get_method("atp_star_grad_drop", {"exact_softmax": False})(made).own_nodes
    held = torch.stack([node_slopes(made, runs, layer).abs().mean(1) for layer in range(3)])
    others = torch.tensor([[node.layer != layer for node in made.graph.nodes] for layer in range(3)])
    np.testing.assert_allclose(got, ((held * others).sum(0) / others.sum(0)).numpy(), atol=1e-12)
    plain, dropped = get_method("atp")(made), get_method("atp_star_grad_drop", {"exact_softmax": False})(made)
    np.testing.assert_allclose(dropped.edges[-1, 1:], plain.edges[-1, 1:], atol=1e-12)


def test_atp_star_without_its_corrections_is_atp():
    made = problem(4)
    off = get_method("atp_star", {"exact_softmax": False, "grad_drop": False})(made)
    np.testing.assert_allclose(off.edges, get_method("atp")(made).edges, atol=1e-12)
    one_layer = problem(4, n_layers=1)
    off = get_method("atp_star_grad_drop", {"exact_softmax": False})(one_layer)
    np.testing.assert_allclose(off.edges, get_method("atp")(one_layer).edges, atol=1e-12)


@pytest.mark.parametrize("layers", [2, 3, 4, 5])
def test_grad_drop_is_off_below_four_layers(layers):
    """With two layers, the only pass left for a layer's edges drops whatever goes through the other one."""
    made = problem(4, n_layers=layers)
    star, drop = get_method("atp_star")(made), get_method("atp_star_grad_drop")(made)
    plain = get_method("atp_star", {"grad_drop": False})(made)
    assert np.array_equal(star.edges, (drop if layers >= 4 else plain).edges, equal_nan=True)
    if layers == 2:
        through = made.graph.readers_of_layer(0)
        direct = get_method("atp_star_grad_drop", {"exact_softmax": False})(made).edges[through]
        whole = get_method("atp_star", {"exact_softmax": False})(made).edges[through]
        assert not np.allclose(direct, whole, equal_nan=True)


@pytest.mark.parametrize("normalization", [None, "LN", "LNPre"])
def test_rules_change_gradients_and_not_outputs(normalization):
    made = problem(2, normalization=normalization)
    rules = Rules(True, True, True, 2.0, (0.25, 0.25, 0.5))
    ruled = with_rules(made.network, rules)
    torch.testing.assert_close(ruled(made.clean), made.network(made.clean), atol=1e-12, rtol=0)
    assert type(made.network.blocks[0].attn).__name__ == "Attention"
    assert all(a is b for a, b in zip(ruled.parameters(), made.network.parameters()))


@pytest.mark.parametrize("normalization", [None, "LNPre"])
def test_relevance_is_conserved(normalization):
    """Without biases and with constant attention the ruled network is linear: ⟨a, ∂M/∂a⟩ = M."""
    shape = TransformerConfig(2, 2, 8, 4, 12, 7, 5, 4, normalization, "gelu", "causal", False, init_std=0.5)
    made = problem(2)
    made = Problem(Transformer(shape, 2).double(), made.clean, made.corrupted, made.scored)
    settings = {**SIGNED, "constant_attention": True, "ablation": "zero"}
    scores = get_method("relp", settings)(made).edges
    runs = clean_and_patch(made, "logit_diff", "zero", Cost())
    with torch.no_grad():
        assert np.nansum(scores[:, 0]) == pytest.approx(-float(value(made, runs).mean()), abs=1e-10)


def test_relp_and_gim_are_eap_where_their_rules_are_empty():
    made = problem(3)
    with torch.no_grad():
        for block in made.network.blocks:
            block.mlp.b_in.fill_(50.0)  # the activation is the identity here
            block.mlp.b_out.copy_(-50.0 * block.mlp.W_out.sum(0))
    eap = get_method("eap", SIGNED)(made).edges
    np.testing.assert_allclose(get_method("relp", SIGNED)(made).edges, eap, atol=1e-9)
    gim = get_method("gim", {**SIGNED, "temperature": 1.0, "divide": False})(made).edges
    np.testing.assert_allclose(gim, eap, atol=1e-12)


def test_gim_divides_gradients_among_factors():
    made = problem(3)
    eap = get_method("eap", SIGNED)(made).edges
    gim = get_method("gim", {**SIGNED, "temperature": 1.0})(made).edges
    last = made.graph.readers_of_layer(1)
    factors = np.repeat([0.25, 0.25, 0.5], made.graph.n_heads)[:, None]
    np.testing.assert_allclose(gim[last], factors * eap[last], atol=1e-12)


def test_gim_softmax_passes_gradients_at_another_temperature():
    from interpbench.transformer.backward_rules import _Softmax

    scores = torch.randn(1, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    towards = torch.randn(1, 2, 3, 2, dtype=torch.float64)
    pattern = _Softmax.apply(scores, 2.0)
    torch.testing.assert_close(pattern, scores.softmax(2))
    (got,) = torch.autograd.grad(pattern, scores, towards)
    for q, n in np.ndindex(2, 2):
        p = (scores[0, q, :, n] / 2).softmax(0)
        jacobian = torch.diag(p) - p[:, None] * p[None]
        torch.testing.assert_close(got[0, q, :, n], jacobian @ towards[0, q, :, n])


def test_head_importance_is_the_size_of_scaling_each_output():
    made = problem(5)
    runs = clean_and_patch(made, "logit_diff", "zero", Cost())
    expected = node_slopes(made, runs).abs().mean(1).numpy()
    raw = get_method("hisp", {"normalise": False})(made).own_nodes
    np.testing.assert_allclose(raw, expected, atol=1e-12)
    layers = np.array([node.layer for node in made.graph.nodes])
    scaled = get_method("hisp")(made).own_nodes
    for layer in set(layers):
        assert np.linalg.norm(scaled[layers == layer]) == pytest.approx(1)


@pytest.mark.parametrize("normalization", [None, "LN"])
def test_information_flow_equals_the_literal_routes(normalization):
    made = problem(2, rows=3, normalization=normalization)
    expected = importance(made)
    got = get_method("ifr", {"routes": False})(made).edges
    np.testing.assert_allclose(got, expected, atol=1e-12)
    followed = get_method("ifr")(made).edges
    for threshold in np.unique(expected[made.graph.legal]):
        np.testing.assert_array_equal(
            np.nan_to_num(followed) >= threshold - 1e-12, routes(made.graph, expected, threshold - 1e-12)
        )


@pytest.mark.parametrize("frozen", ["heads", "all"])
def test_path_patching_equals_literal_paths(frozen):
    made = problem(2, rows=2, normalization="LN")
    scores = get_method("path_patching", {"frozen": frozen, "metric": "logit_diff"})(made).edges
    metric = clean_and_patch(made, "logit_diff", "resample", Cost()).metric
    for r, w in np.argwhere(made.graph.legal)[::6]:
        assert scores[r, w] == pytest.approx(path_effect(made, metric, int(r), int(w), frozen), abs=1e-9)


def test_paths_of_single_edges_are_exact_edge_patching():
    made = problem(3)
    exact = get_method("exact")(made).edges
    np.testing.assert_allclose(get_method("path_patching", {"frozen": "all"})(made).edges, exact, atol=1e-12)


ABLATING = [name for name, made in methods().items() if "ablation" in made.__dataclass_fields__]


@pytest.mark.parametrize("ablation", ["resample", "mean", "mean_position", "zero", "learned"])
def test_every_method_with_the_choice_takes_every_ablation(ablation):
    """Those that train gates can train ablation values too."""
    made = problem()
    chosen = TRAINED if ablation == "learned" else ABLATING
    for name in chosen:
        settings = {"ablation": ablation, **({"steps": 2} if name in TRAINED else {})}
        scores = get_method(name, settings)(made)
        assert np.isfinite(scores.edges[made.graph.legal]).all(), name


@pytest.mark.parametrize("name", [name for name in ABLATING if name not in TRAINED])
def test_a_method_that_trains_nothing_learns_no_ablation_values(name):
    said = "'resample', 'mean', 'mean_position' or 'zero' \\(got 'learned'\\)$"
    with pytest.raises(ConfigError, match=said):
        get_method(name, {"ablation": "learned"})


def biased_problem(**shape):
    """Biases and weights of LayerNorms are not 0 and 1."""
    made = problem(4, rows=2, **shape)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in made.network.named_parameters():
            if ".b" in name or ".w" in name:
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return made


@pytest.mark.parametrize(
    "shape",
    [
        {"normalization": None, "attention": "bidirectional"},
        {"normalization": "LN", "activation": "relu"},
        {"normalization": "LNPre", "d_out": 1},
    ],
    ids=str,
)
def test_contextual_decomposition_equals_the_literal_one(shape):
    made = biased_problem(**shape)
    graph = made.graph
    settings = {"absolute": False, "ablation": "resample"}
    scores, first = (get_method("cdt", {**settings, "iterate": iterate})(made) for iterate in (True, False))
    runs = clean_and_patch(made, "logit_diff", "resample", Cost())
    size = float(value(made, runs).detach().abs().mean())
    relevant, shares = [], []
    for w in range(len(graph.nodes)):
        total, passed = relevance(made, runs.metric, w)
        relevant.append(total)
        shares.append({t: size * share for t, share in passed.items()})
        assert first.own_nodes[w] == pytest.approx(total, abs=1e-9)
    for r, w in np.argwhere(graph.legal)[::9]:
        left = relevance(made, runs.metric, int(w), int(r))[0]
        assert scores.edges[r, w] == pytest.approx(relevant[w] - left, abs=1e-9)
    for threshold in scores.own_nodes:
        expected = reached(relevant, shares, threshold - 1e-9)
        assert set(np.flatnonzero(scores.own_nodes >= threshold - 1e-9)) == expected
    assert len(set(scores.own_nodes)) > 3 and (scores.own_nodes > first.own_nodes).any()


def test_queries_and_keys_that_carry_the_source_are_relevant():
    made = biased_problem(normalization="LN")
    scores = get_method("cdt")(made)
    for r, w in np.argwhere(made.graph.legal):
        if made.graph.readers[r].slot in "qk":
            assert scores.edges[r, w] > 1e-6


def test_without_the_only_reader_nothing_is_relevant():
    """A node that one reader alone reads scores as much as its edge, and its other edges nothing."""
    made = biased_problem(normalization=None)
    with torch.no_grad():
        made.network.blocks[1].attn.W_V.zero_()
        made.network.blocks[1].mlp.W_in.zero_()
        made.network.unembed.b_U.zero_()
    scores = get_method("cdt", {"absolute": False, "iterate": False})(made)
    node = [str(n) for n in made.graph.nodes].index("m0")
    assert abs(scores.own_nodes[node]) > 1e-3
    others = np.flatnonzero(made.graph.legal[:, node])[:-1]
    np.testing.assert_allclose(scores.edges[-1, node], scores.own_nodes[node], atol=1e-9)
    np.testing.assert_allclose(scores.edges[others, node], 0, atol=1e-9)


def test_decomposition_is_exact_on_linear_networks_without_biases():
    cfg = TransformerConfig(2, 2, 8, 4, 12, 7, 5, 4, None, "relu", "causal", False, init_std=0.5)
    made = problem(3)
    made = Problem(Transformer(cfg, 3).double(), made.clean, made.corrupted, made.scored)
    with torch.no_grad():
        for block in made.network.blocks:
            block.attn.W_Q.zero_()
            block.mlp.W_in.zero_()
    settings = {"opposite_signs": False, "absolute": False, "ablation": "resample"}
    exact = get_method("exact", {"metric": "logit_diff"})(made).edges
    np.testing.assert_allclose(get_method("cdt", settings)(made).edges, exact, atol=1e-7)
