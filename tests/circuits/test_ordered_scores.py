"""Records hold scores as numbers in the order of a graph, and refuse those of another graph or order."""

from pathlib import Path

import numpy as np
import pytest

from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.graph import Graph
from interpbench.circuits.io.score_files import read_scores
from interpbench.circuits.ordered_scores import OrderedScores, edge_scores, node_scores, order_of, scores_of
from interpbench.circuits.scores import Scores
from interpbench.core.errors import ScoresError
from interpbench.core.files import write_json
from interpbench.scoring.evaluation_record import EvaluationRecord
from tests import ROOT
from tests.evaluation_records import GRAPH, record

NODES = np.arange(len(GRAPH.nodes)) / 7


def noise(graph: Graph = GRAPH) -> np.ndarray:
    return np.random.default_rng(0).random(graph.legal.shape)


def test_scores_come_back_to_the_bit_from_what_a_record_writes() -> None:
    made = Scores(GRAPH, np.where(GRAPH.legal, noise(), np.nan), NODES)
    written = EvaluationRecord.from_json(record("hist", "mine", noise()).to_json())
    found = scores_of(GRAPH, written.edges, node_scores(made))
    np.testing.assert_array_equal(found.edges, made.edges)
    np.testing.assert_array_equal(found.at("node"), NODES)
    assert written.edges == edge_scores(made)


@pytest.mark.parametrize("names", [list(reversed(GRAPH.edges)), [*GRAPH.edges[1:], GRAPH.edges[0]]])
def test_the_same_names_in_another_order_are_refused(names: list[object]) -> None:
    edges = OrderedScores.of(names, range(len(names)))
    assert edges.order != order_of(GRAPH.edges)
    with pytest.raises(ScoresError, match=f"{len(names)} scores are not of the {len(names)} nodes or edges"):
        scores_of(GRAPH, edges, None)


def test_nodes_in_another_order_or_of_another_graph_are_refused() -> None:
    edges = record("hist", "mine", noise()).edges
    for nodes in (
        OrderedScores.of(reversed(GRAPH.nodes), NODES),
        OrderedScores.of(GRAPH.nodes[1:], NODES[1:]),
        OrderedScores(order_of(GRAPH.nodes), (1.0,)),
    ):
        with pytest.raises(ScoresError, match="scores are not of the"):
            scores_of(GRAPH, edges, nodes)
    with pytest.raises(ScoresError, match="scores are not of the"):
        scores_of(Graph(2, 3), edges, None)


def test_a_record_in_another_order_is_no_file_of_scores(tmp_path: Path) -> None:
    graph = load_checkpoint(ROOT / "models" / "hist").record.shape.graph
    values = [float(n) for n in range(len(graph.edges))]
    good = OrderedScores.of(graph.edges, values)
    data = record("hist", "mine", noise()).to_json()
    for edges, refused in ((good, False), (OrderedScores.of(reversed(graph.edges), values), True)):
        path = tmp_path / "record.json"
        write_json(path, {**data, "edges": {"order": edges.order, "values": list(edges.values)}})
        if refused:
            with pytest.raises(ScoresError):
                read_scores(path, graph)
        else:
            np.testing.assert_array_equal(read_scores(path, graph).scores.edges[graph.legal], values)
