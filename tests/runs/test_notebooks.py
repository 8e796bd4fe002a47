"""What a notebook shows: values in a few lines, circuits drawn, tables; and what compare refuses."""

import re
import sys
from base64 import b64decode

import numpy as np
import pytest

import interpbench
from interpbench.checkpoints.load import load_pairs
from interpbench.circuits.grades import Standard
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import LEVELS, State
from interpbench.circuits.scores import Scores
from interpbench.core.errors import ConfigError, ScoresError
from interpbench.runs.train import TrainOutcome
from tests.evaluation_records import GRAPH, REQUIRED, TRUTH, scores

PNG = b"\x89PNG"
FOUND = scores(np.where(REQUIRED, 2.0, 0.0))


@pytest.fixture(scope="module")
def checkpoint() -> interpbench.Checkpoint:
    return interpbench.load("frac_prevs")


def test_values_are_shown_in_a_few_lines(checkpoint: interpbench.Checkpoint) -> None:
    assert checkpoint.certificate is not None
    for value, said in (
        (checkpoint, ("Checkpoint frac_prevs: 2 layers of 4 heads", "required; certificate: ")),
        (checkpoint.truth, ("Truth", "q/k/v edges: ", "required: embed->m0")),
        (FOUND, ("the highest first", "2  embed->m0", "more; top(n) and to_pandas() have them")),
        (interpbench.compare(TRUTH, FOUND), ("AUROC 1.000, average precision 1.000; 3 required",)),
        (TrainOutcome(checkpoint, checkpoint.certificate, "siit", Standard()), ("frac_prevs: certified",)),
        (
            load_pairs(checkpoint.folder).problem(checkpoint.network, 8),
            ("Problem: 110 ", "8 pairs of inputs"),
        ),
    ):
        text = repr(value)
        assert len(text.splitlines()) <= 7 and len(text) < 700, text
        assert all(part in text for part in said), text
    assert repr(Scores(Graph(1, 1), np.where(Graph(1, 1).legal, 1.0, np.nan))).count("\n") == 6


def test_jupyter_shows_circuits(checkpoint: interpbench.Checkpoint) -> None:
    for value in (checkpoint, checkpoint.truth):
        html = value._repr_html_()
        assert html is not None and html.startswith("<pre>") and "required" in html
        found = re.search(r'src="data:image/png;base64,([^"]+)"', html)
        assert found and b64decode(found[1]).startswith(PNG)
    assert "<" not in repr(checkpoint)


def test_plots_are_functions_that_return_figures(checkpoint: interpbench.Checkpoint) -> None:
    graph = checkpoint.truth.graph
    found = {"flat": Scores(graph, np.where(graph.legal, 0.0, np.nan))}
    roc, circuit = interpbench.plot_roc("frac_prevs", found), interpbench.plot_circuit(checkpoint, found)
    assert [axes.get_title() for axes in roc.axes] == ["nodes", "head edges", "q/k/v edges"]
    assert roc.axes[0].get_legend() is not None and len(circuit.axes) == 2
    for figure in (roc, circuit, interpbench.plot_circuit("frac_prevs")):
        assert figure._repr_png_().startswith(PNG)


def test_the_best_scores_come_first() -> None:
    best = FOUND.top(4)
    assert [score for _, score in best] == [2, 2, 2, 0]
    assert (
        {name for name, _ in best[:3]} == set(TRUTH.required) == set(TRUTH.names("qkv_edge", State.REQUIRED))
    )
    assert len(FOUND.top()) == 10 and len(FOUND.top(10**6)) == len(GRAPH.edges)
    heads = FOUND.top(3, "head_edge")
    assert {name for name, _ in heads} == set(TRUTH.names("head_edge", State.REQUIRED))


def test_head_edges_are_required_where_single_inputs_are_free() -> None:
    truth = interpbench.load("ioi").truth
    assert len(truth.required) == 6 == truth.count("head_edge", State.REQUIRED)


@pytest.mark.parametrize("level", LEVELS)
def test_tables_are_data_frames(level: str) -> None:
    pytest.importorskip("pandas")
    states, values = TRUTH.to_pandas(level), FOUND.to_pandas(level)  # type: ignore[arg-type]
    assert list(states.columns) == ["name", "state"] and list(values.columns) == ["name", "score"]
    assert set(states["name"]) == set(values["name"]) and values["score"].is_monotonic_decreasing
    required = set(states[states["state"] == "required"]["name"])
    assert required == set(TRUTH.names(level, State.REQUIRED))  # type: ignore[arg-type]


def test_without_pandas_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas, which is not installed: pip install pandas"):
        FOUND.to_pandas()


def test_swapped_arguments_are_an_error() -> None:
    with pytest.raises(ScoresError, match=r"compare\(checkpoint.truth, scores\); got Scores and Truth"):
        interpbench.compare(FOUND, TRUTH)  # type: ignore[arg-type]
    with pytest.raises(ScoresError, match="got str and Scores"):
        interpbench.compare("hist", FOUND)  # type: ignore[arg-type]
    with pytest.raises(ScoresError, match=r"network of Graph\(n_layers=2, n_heads=2\), the scores"):
        interpbench.compare(TRUTH, Scores(Graph(1, 1), np.where(Graph(1, 1).legal, 1.0, np.nan)))


@pytest.mark.parametrize("examples", [0, -1])
def test_a_method_needs_a_pair(examples: int) -> None:
    with pytest.raises(ConfigError, match="a method needs one pair"):
        interpbench.discover("hist", "eap", examples=examples)


def test_more_pairs_than_there_are_is_said(caplog: pytest.LogCaptureFixture) -> None:
    interpbench.discover("hist", "random", examples=100_000)
    assert "examples=100000, but there are 512 pairs of inputs: all are used" in caplog.text


def test_plots_refuse_scores_without_a_name() -> None:
    found = interpbench.discover("hist", "random")
    for plot in (interpbench.plot_roc, interpbench.plot_circuit):
        with pytest.raises(ScoresError, match=r"takes names and scores, .* got Scores"):
            plot("hist", found)  # type: ignore[arg-type]
