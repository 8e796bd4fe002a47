"""Names of nodes, readers and edges: every form is read back, and no other file writes them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import (
    EMBED,
    Edge,
    Node,
    Reader,
    acdc_hooks,
    eap_name,
    edge_ends,
    edge_name,
    head_edge_name,
    hook_name,
    index_name,
    is_edge,
    node_at_hook,
    parse_edges,
    parse_hooks,
    parse_index,
    parse_node,
    reader_at_hook,
)
from tests import ROOT

NUMBERS = st.integers(0, 999_999)
NODES = st.just(EMBED) | st.builds(Node, NUMBERS, st.none() | NUMBERS)
N_LAYERS = 1_000_000
READERS = (
    st.just(Reader(N_LAYERS, "logits"))
    | st.builds(Reader, NUMBERS, st.just("mlp"))
    | st.builds(Reader, NUMBERS, st.sampled_from(["q", "k", "v"]), NUMBERS)
)
EDGES = st.builds(Edge, NODES, READERS)


@given(NODES)
def test_every_name_of_a_node_is_read_back(node: Node) -> None:
    assert parse_node(str(node)) == parse_node(eap_name(node)) == node_at_hook(hook_name(node)) == node
    assert reader_at_hook(hook_name(node)) is None


@given(READERS)
def test_every_hook_of_a_reader_is_read_back(reader: Reader) -> None:
    assert reader_at_hook(hook_name(reader)) == reader and node_at_hook(hook_name(reader)) is None


@given(EDGES)
def test_every_name_of_an_edge_is_read_back(edge: Edge) -> None:
    names = (str(edge), eap_name(edge))
    assert all(parse_edges(name, N_LAYERS) == (edge,) and is_edge(name) for name in names)
    assert parse_hooks(*acdc_hooks(edge), N_LAYERS) == edge
    assert edge_ends(str(edge)) == (str(edge.source), str(edge.target))
    head_edge = edge_name(edge.source, edge.target.destination)
    assert {head_edge_name(name) for name in (*names, head_edge)} == {head_edge}
    assert edge in parse_edges(head_edge, N_LAYERS)


@given(st.lists(st.none() | NUMBERS, min_size=1).map(tuple))
def test_every_index_is_read_back(index: tuple[int | None, ...]) -> None:
    assert parse_index(index_name(index)) == index
    assert parse_index(index_name(index).replace(":", "COLON")) == index


@pytest.mark.parametrize("graph", [Graph(1, 1), Graph(2, 2), Graph(6, 4)])
def test_no_two_edges_have_one_name(graph: Graph) -> None:
    for name in (str, eap_name, acdc_hooks):
        assert len({name(edge) for edge in graph.edges}) == graph.legal.sum()


HOOKS = st.from_regex(
    r"blocks\.[0-9]\.(attn\.)?hook_(result|mlp_in|q_input|resid_post)(\[[0-9]\])?", fullmatch=True
)


@given(st.text(max_size=40) | HOOKS)
def test_other_text_is_nothing(text: str) -> None:
    """Whatever is read has one name of each form, and that is the text: nothing is read by halves."""
    if node := node_at_hook(text):
        assert hook_name(node) == text or (node == EMBED and "hook" in text)
    if reader := reader_at_hook(text):
        assert hook_name(reader) == text


def test_the_hooks_of_a_small_network() -> None:
    """What TransformerLens calls the places; token and position embeddings have hooks of their own."""
    assert hook_name(EMBED) == "blocks.0.hook_resid_pre"
    assert node_at_hook("hook_embed") == node_at_hook("hook_pos_embed") == EMBED
    assert hook_name(Node(1, 2)) == "blocks.1.attn.hook_result[2]"
    assert hook_name(Node(1)) == "blocks.1.hook_mlp_out"
    assert hook_name(Reader(0, "v", 3)) == "blocks.0.hook_v_input[3]"
    assert hook_name(Reader(0, "mlp")) == "blocks.0.hook_mlp_in"
    assert hook_name(Reader(2, "logits")) == "blocks.1.hook_resid_post"


@pytest.mark.parametrize(
    "pattern",
    [r'f"[^"]*\}->\{', r'"->"', r'f"[am]\{', r"hook_(result|mlp|resid|embed|pos|[qkv]_input)", r'\("<"\)'],
)
def test_no_other_file_writes_names(pattern: str) -> None:
    files = (ROOT / "interpbench").rglob("*.py")
    assert [file.name for file in files if re.search(pattern, file.read_text())] in (["naming.py"], [])
