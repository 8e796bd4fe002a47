"""Files of other projects: round trips, tolerance of what they really write, one line for what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpbench.circuits.graph import Graph
from interpbench.circuits.io import score_files
from interpbench.circuits.io.form import forms
from interpbench.circuits.io.score_files import read_scores, write_scores
from interpbench.circuits.naming import eap_name
from interpbench.circuits.scores import Scores, edges_from_nodes
from interpbench.core.errors import InterpBenchError, ScoresError

GRAPH = Graph(2, 2)
EDGES = [str(edge) for edge in GRAPH.edges]
FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
SUFFIX = {"eap_ig": "x.json", "acdc": "x.json", "csv": "x.csv"}


def scores(values: list[float], nodes: list[float] | None = None) -> Scores:
    edges = np.full(GRAPH.legal.shape, np.nan)
    edges[GRAPH.legal] = values
    return Scores(GRAPH, edges, None if nodes is None else np.array(nodes))


def random_circuit(seed: int = 0) -> np.ndarray:
    return GRAPH.legal & (np.random.default_rng(seed).random(GRAPH.legal.shape) < 0.4)


SOME = scores(np.linspace(-1, 1, len(EDGES)).tolist())


@given(
    values=st.lists(FINITE, min_size=len(EDGES), max_size=len(EDGES)), form=st.sampled_from(sorted(forms()))
)
def test_scores_are_read_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, values: list[float], form: str
) -> None:
    path = tmp_path_factory.mktemp("x") / SUFFIX[form]
    write_scores(path, GRAPH, form, scores=scores(values))
    found = read_scores(path, GRAPH)
    np.testing.assert_array_equal(found.scores.edges, scores(values).edges)
    assert found.form == form and (found.circuit is None) == (form != "acdc")


@pytest.mark.parametrize("form", sorted(forms()))
@pytest.mark.parametrize("seed", range(5))
def test_circuits_are_read_back(tmp_path: Path, form: str, seed: int) -> None:
    path, circuit = tmp_path / SUFFIX[form], random_circuit(seed)
    write_scores(path, GRAPH, form, circuit=circuit)
    found = read_scores(path, GRAPH)
    np.testing.assert_array_equal(found.circuit, circuit)
    np.testing.assert_array_equal(found.scores.edges[GRAPH.legal], circuit[GRAPH.legal])


@pytest.mark.parametrize("form", ["eap_ig", "csv"])
def test_node_scores_are_read_back(tmp_path: Path, form: str) -> None:
    nodes = np.linspace(3, 4, len(GRAPH.nodes))
    write_scores(tmp_path / SUFFIX[form], GRAPH, form, scores=Scores(GRAPH, SOME.edges, nodes))
    np.testing.assert_array_equal(read_scores(tmp_path / SUFFIX[form], GRAPH).scores.own_nodes, nodes)


def test_scores_and_circuit_in_one_file(tmp_path: Path) -> None:
    circuit = random_circuit()
    write_scores(tmp_path / "x.json", GRAPH, "eap_ig", scores=SOME, circuit=circuit, d_model=16)
    data = json.loads((tmp_path / "x.json").read_text())
    assert data["cfg"] == {"n_layers": 2, "n_heads": 2, "d_model": 16, "parallel_attn_mlp": False}
    assert set(data["nodes"]) == {*map(eap_name, GRAPH.nodes), "logits"}
    assert all(set(entry) == {"score", "in_graph"} for entry in data["edges"].values())
    found = read_scores(tmp_path / "x.json", GRAPH)
    np.testing.assert_array_equal(found.circuit, circuit)
    np.testing.assert_array_equal(found.scores.edges, SOME.edges)


def test_acdc_lists_leave_out_what_is_not_in_the_circuit(tmp_path: Path) -> None:
    circuit = random_circuit()
    write_scores(tmp_path / "x.json", GRAPH, "acdc", scores=SOME, circuit=circuit)
    found = read_scores(tmp_path / "x.json", GRAPH)
    np.testing.assert_array_equal(found.circuit, circuit)
    np.testing.assert_array_equal(found.scores.edges[circuit], SOME.edges[circuit])
    assert (found.scores.edges[GRAPH.legal & ~circuit] < SOME.edges[circuit].min()).all()


def given_file(tmp_path: Path, text: str, name: str = "x.json") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_acdc_as_it_is_written(tmp_path: Path) -> None:
    """Steps within a head or MLP are no edges here; token and position embeddings are one writer."""
    rows = [
        [["blocks.0.hook_q_input", [None, None, 1], "hook_embed", [None]], 0.2],
        [["blocks.0.hook_q_input", "[:, :, 1]", "hook_pos_embed", "[:]"], 0.5],
        [["blocks.0.attn.hook_q", "[:, :, 1]", "blocks.0.hook_q_input", "[:, :, 1]"], 0.9],
        [["blocks.0.attn.hook_result", "[:, :, 1]", "blocks.0.attn.hook_q", "[:, :, 1]"], None],
        [["blocks.0.hook_mlp_out", "[:]", "blocks.0.hook_mlp_in", "[:]"], None],
        [["blocks.1.hook_resid_post", "[:]", "blocks.0.attn.hook_result", "[:, :, 1]"], 0.1],
    ]
    found = read_scores(given_file(tmp_path, json.dumps(rows)), GRAPH)
    assert found.circuit is not None and found.circuit.sum() == 2
    named = {
        str(edge): found.scores.edges[at]
        for edge, at in zip(GRAPH.edges, map(tuple, np.argwhere(GRAPH.legal)))
    }
    assert (named["embed->a0.h1<q>"], named["a0.h1->logits"], named["m0->logits"]) == (0.5, 0.1, -0.9)


def test_a_head_edge_is_all_three_of_its_inputs(tmp_path: Path) -> None:
    heads = {name.split("<")[0]: float(place) for place, name in enumerate(EDGES)}
    found = read_scores(given_file(tmp_path, json.dumps(heads)), GRAPH).scores.edges
    for edge, value in zip(GRAPH.edges, found[GRAPH.legal]):
        assert value == heads[str(edge).split("<")[0]]


@pytest.mark.parametrize("separator", ["->", ","])
@pytest.mark.parametrize("header", [True, False])
def test_csv_has_two_or_three_columns(tmp_path: Path, separator: str, header: bool) -> None:
    top = ["edge,score" if separator == "->" else "source,target,score"] if header else []
    rows = [f"{name.replace('->', separator)}, {place}" for place, name in enumerate(EDGES)]
    found = read_scores(given_file(tmp_path, "\r\n".join([*top, *rows]), "x.csv"), GRAPH)
    assert found.scores.edges[GRAPH.legal].tolist() == list(range(len(EDGES)))


def test_node_scores_alone_make_edge_scores(tmp_path: Path) -> None:
    """What EAP-IG leaves without a score, NaN, it keeps in every circuit: it ranks first."""
    nodes = {"input": {"score": float("nan")}, "logits": {"in_graph": True}}
    nodes |= {
        str(node): {"score": float(place), "in_graph": False} for place, node in enumerate(GRAPH.nodes[1:])
    }
    edges = {eap_name(edge): {"in_graph": False} for edge in GRAPH.edges}
    found = read_scores(given_file(tmp_path, json.dumps({"nodes": nodes, "edges": edges})), GRAPH).scores
    assert found.own_nodes is not None and found.own_nodes.tolist() == [5, 0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(found.edges, edges_from_nodes(GRAPH, found.own_nodes))


def whole(**changes: Any) -> str:
    return json.dumps({**dict.fromkeys(EDGES, 0.5), **changes})


def without(name: str) -> str:
    return json.dumps({edge: 0.5 for edge in EDGES if edge != name})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('{"a": ' * 100_000, "cannot be read as JSON"),
        ("1" * 10_000, "cannot be read as JSON"),
        ("3", "neither a list of edges nor a graph of EAP-IG"),
        ("{}", "neither scores nor a circuit"),
        ("[]", "no edge of the residual stream"),
        (without("m0->logits"), "no score to 1 of 46 edges, such as m0->logits"),
        (
            whole(**{"m0->a0.h0<q>": 1}),
            "'m0->a0.h0<q>', an edge that this network does not have; did you mean",
        ),
        (whole(**{"m0->a7.h0<q>": 1}), "an edge that this network does not have"),
        (whole(**{"m0": 1}), "'m0' is not an edge"),
        (whole(**{"m0->embed": 1}), "the embedding reads nothing"),
        (whole(**{"m0->" + "x" * 1_000: 1}), "is not a name"),
        (whole(**{"m0->logits": "high"}), "'m0->logits': 'high' is not a score"),
        (whole(**{"m0->logits": True, "m1->logits": 1}), "no score to 1 of 46"),
        (whole(**{"m0->logits": float("nan")}), "the score is nan, not a finite number"),
        (whole(**{"m0->logits": float("-inf")}), "the score is -inf"),
        (whole(**{"m0->logits": 10**400}), "the score is inf"),
        (whole(**{"m0->logits": {"score": 1, "in_graph": 3}}), "in_graph is 3, not true or false"),
        (whole(**{"embed->a0.h0": 1}), "names embed->a0.h0<q> twice"),
        ('{"m0->logits": 1, "m0->logits": 2}', "names 'm0->logits' twice"),
        (json.dumps({"edges": [1]}), "its 'edges' is not a mapping"),
        (json.dumps({"cfg": {"n_layers": 12, "n_heads": 12}, "edges": {}}), "n_layers=12; this one has 2"),
        (json.dumps({"nodes": {"m0": 1}}), "gives scores to nodes, but none to a0.h0"),
        (json.dumps({"nodes": {"m7": 1}}), "names 'm7', which this network does not have"),
        (json.dumps([1]), "is not [child hook, index, parent hook, index]"),
        (json.dumps([["a", "[:]", "b", "[:]"]]), "'a' <- 'b' is not an edge of the residual stream"),
        (json.dumps([["blocks.0.hook_mlp_in", {}, "hook_embed", "[:]"]]), "is not a hook and an index"),
        (json.dumps([["blocks.0.hook_q_input", "[:]", "hook_embed", "[:]"]]), "needs the index of a head"),
        (json.dumps([["blocks.7.hook_resid_post", "[:]", "hook_embed", "[:]"]]), "is not the end of this"),
        (json.dumps([["blocks.0.hook_q_input", "[:, :, 9]", "hook_embed", "[:]"]]), "does not have"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = given_file(tmp_path, text)
    with pytest.raises(ScoresError) as caught:
        read_scores(path, GRAPH)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and said in message and "\n" not in message and len(message) < 400


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "neither scores nor a circuit"),
        ("m0->logits,high", "'high' is not a score"),
        ("m0->logits,nan", "not a finite number"),
        ("m0->logits,1\nm0->logits,1", "names m0->logits twice"),
        ("m0->logits,1\nm1->logits", "row 2 has 1 columns"),
        ("m0,logits,1,1", "row 1 has 4 columns"),
        ("m0->logits,1", "no score to 45 of 46 edges"),
        ('"' + "x" * 200_000, "cannot be read as CSV"),
    ],
)
def test_mistakes_in_csv(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ScoresError) as caught:
        read_scores(given_file(tmp_path, text, "x.csv"), GRAPH)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_pickles_giants_and_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[str, Callable[[Path], object], str]] = [
        ("x.pt", lambda path: path.write_bytes(b""), "a pickle, which could execute code"),
        ("x.json", lambda path: path.write_bytes(b"\xff\xfe"), "not a text file"),
        ("y.json", lambda path: None, "does not exist"),
        ("z.json", lambda path: path.mkdir(), "cannot read .*: Is a directory"),
        ("big.json", lambda path: path.write_text(" " * 101), "at most 100 are read"),
    ]
    monkeypatch.setattr(score_files, "MOST_BYTES", 100)
    for name, make, said in cases:
        make(tmp_path / name)
        with pytest.raises(ScoresError, match=said):
            read_scores(tmp_path / name, GRAPH)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats(allow_subnormal=False)
        | st.text(max_size=6)
        | st.sampled_from(EDGES),
        lambda x: (
            st.lists(x, max_size=4)
            | st.dictionaries(
                st.sampled_from([*EDGES, "cfg", "nodes", "edges", "score", "in_graph", "n_layers"]),
                x,
                max_size=4,
            )
        ),
    )
)
def test_no_json_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = given_file(tmp_path_factory.mktemp("x"), json.dumps(value))
    try:
        read_scores(path, GRAPH)
    except InterpBenchError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
