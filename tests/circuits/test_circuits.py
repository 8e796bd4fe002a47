"""The vocabulary of circuits: graphs, names, truth, scores."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import LEVELS, State, Truth
from interpbench.circuits.naming import EMBED, SLOTS, Node, Reader, parse_node
from interpbench.circuits.scores import Scores
from interpbench.core.errors import CheckpointError, InterpBenchError

graphs = st.builds(Graph, st.integers(1, 4), st.integers(1, 4))
seeds = st.integers(0, 2**32 - 1)
SMALL = Graph(2, 2)


def is_before(node: Node, reader: Reader) -> bool:
    """The rule, literally: attention reads what lower layers wrote, an MLP also its own layer's heads."""
    same_layer_head = node.layer == reader.layer and node.head is not None
    return node.layer < reader.layer or (same_layer_head and reader.slot == "mlp")


def random_truth(graph: Graph, seed: int) -> Truth:
    rng = np.random.default_rng(seed)
    nodes = rng.integers(0, 3, len(graph.nodes)).astype(np.int8)
    heads, slots = (
        np.where(legal, rng.integers(0, 3, legal.shape), State.ILLEGAL).astype(np.int8)
        for legal in (graph.legal_head_edges, graph.legal)
    )
    return Truth(graph, nodes, heads, slots)


def random_scores(graph: Graph, seed: int) -> np.ndarray:
    return np.where(graph.legal, np.random.default_rng(seed).normal(size=graph.legal.shape), np.nan)


@pytest.mark.parametrize(("layers", "heads", "edges"), [(12, 12, 32_491), (6, 4, 1_108), (2, 4, 110)])
def test_edge_counts_are_the_published_ones(layers: int, heads: int, edges: int) -> None:
    graph = Graph(layers, heads)
    assert graph.legal.sum() == edges
    assert len(set(map(str, graph.edges))) == edges


@given(graphs)
def test_legal_edges_are_those_from_earlier_writers(graph: Graph) -> None:
    for (r, reader), (w, node) in itertools.product(enumerate(graph.readers), enumerate(graph.nodes)):
        assert graph.legal[r, w] == is_before(node, reader)


@given(graphs)
def test_writers_before_is_a_prefix_of_the_nodes(graph: Graph) -> None:
    for reader in graph.readers:
        count = graph.writers_before(reader)
        assert list(graph.nodes[:count]) == [node for node in graph.nodes if is_before(node, reader)]


@given(graphs)
def test_node_names_parse_and_print_both_ways(graph: Graph) -> None:
    assert [parse_node(str(node)) for node in graph.nodes] == list(graph.nodes)
    assert len(set(map(str, graph.nodes))) == len(graph.nodes)
    assert len(set(map(str, graph.readers))) == len(graph.readers)
    assert parse_node("input") == parse_node("embed") == EMBED


def test_names_are_those_of_eap_ig_and_mib() -> None:
    assert list(map(str, Graph(1, 2).nodes)) == ["embed", "a0.h0", "a0.h1", "m0"]
    wanted = "a0.h0<q> a0.h1<q> a0.h0<k> a0.h1<k> a0.h0<v> a0.h1<v> m0 logits"
    assert list(map(str, Graph(1, 2).readers)) == wanted.split()
    assert Graph(1, 2).destinations == ("a0.h0", "a0.h1", "m0", "logits")


@pytest.mark.parametrize("text", ["", "a0", "h1", "m", "a0.h1<q>", "a-1.h0", "a0.h1 ", "logits", "A0.H1"])
def test_what_is_no_node_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(InterpBenchError, match="is not a node; write embed, ") as error:
        parse_node(text)
    assert repr(text) in str(error.value)


@given(graphs)
def test_readers_of_a_layer_are_its_q_k_v(graph: Graph) -> None:
    for layer in range(graph.n_layers):
        wanted = {Reader(layer, slot, head) for slot in SLOTS for head in range(graph.n_heads)}
        assert set(graph.readers[graph.readers_of_layer(layer)]) == wanted


@given(graphs, seeds)
def test_merge_takes_the_maximum_over_q_k_v(graph: Graph, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=graph.legal.shape)
    merged = graph.merge(values, -np.inf)
    assert merged.shape == (len(graph.destinations), len(graph.nodes))
    for d, destination in enumerate(graph.destinations):
        rows = [r for r, reader in enumerate(graph.readers) if str(reader).split("<")[0] == destination]
        assert len(rows) == (3 if destination.startswith("a") else 1)
        np.testing.assert_array_equal(merged[d], values[rows].max(0))


@given(graphs, seeds)
def test_truth_round_trip(graph: Graph, seed: int) -> None:
    truth = random_truth(graph, seed)
    again = Truth.from_json(graph, truth.to_json())
    for level in LEVELS:
        np.testing.assert_array_equal(again.at(level), truth.at(level))
        assert sum(again.count(level, state) for state in State) == again.at(level).size


@pytest.mark.parametrize(
    ("level", "name"),
    [
        ("node", "a2.h0"),  # one layer too many
        ("node", "logits"),
        ("node", "embed->m0"),
        ("head_edge", "embed->a0.h0<q>"),  # of the other level
        ("qkv_edge", "embed->a0.h0"),
        ("qkv_edge", "m1->a0.h0<q>"),  # backwards
        ("qkv_edge", "m0->m0"),
    ],
)
@pytest.mark.parametrize("key", ["required", "allowed"])
def test_truth_refuses_names_of_another_network(level: str, key: str, name: str) -> None:
    data = random_truth(SMALL, 0).to_json()
    data[level][key].append(name)
    with pytest.raises(CheckpointError, match=f"truth names '{name}', which this network does not have"):
        Truth.from_json(SMALL, data)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_must_be_finite_on_legal_edges(value: float) -> None:
    values = random_scores(SMALL, 0)
    values[tuple(np.argwhere(SMALL.legal)[7])] = value
    with pytest.raises(ValueError, match=f"^the score of {SMALL.edges[7]} is {value}; .* must be finite"):
        Scores(SMALL, values)
    own = np.zeros(len(SMALL.nodes))
    own[2] = value
    with pytest.raises(ValueError, match=f"^the score of {SMALL.nodes[2]} is not finite; "):
        Scores(SMALL, random_scores(SMALL, 0), own)


def test_scores_must_be_nan_on_illegal_edges() -> None:
    values = random_scores(SMALL, 0)
    values[tuple(np.argwhere(~SMALL.legal)[3])] = 0
    with pytest.raises(ValueError, match="NaN elsewhere"):
        Scores(SMALL, values)


def test_scores_must_have_the_graph_s_shape() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(15, 7\)"):
        Scores(SMALL, np.zeros((2, 3)))


@given(graphs, seeds)
def test_head_edges_and_nodes_score_their_best_edge(graph: Graph, seed: int) -> None:
    scores = Scores(graph, random_scores(graph, seed))
    best: dict[tuple[str, str], float] = {}
    for edge in graph.edges:
        value = scores.edges[graph.reader_index[edge.target], graph.node_index[edge.source]]
        for key in ((str(edge.source), edge.target.destination), (str(edge.source), "any")):
            best[key] = max(value, best.get(key, -np.inf))
    nodes, heads = scores.at("node"), scores.at("head_edge")
    for w, node in enumerate(graph.nodes):
        assert nodes[w] == best[str(node), "any"]
        for d, destination in enumerate(graph.destinations):
            np.testing.assert_equal(heads[d, w], best.get((str(node), destination), np.nan))
    assert scores.at("qkv_edge") is scores.edges


def test_a_method_s_own_node_scores_come_first() -> None:
    own = np.arange(len(SMALL.nodes), dtype=float)
    np.testing.assert_array_equal(Scores(SMALL, random_scores(SMALL, 0), own).at("node"), own)
