"""Where q/k/v edges are free, a model's methods are compared at head edges, in tables, pages and boards."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.record import read_record
from interpbench.circuits.graph import Graph
from interpbench.circuits.ground_truth import Truth
from interpbench.circuits.ordered_scores import edge_scores
from interpbench.circuits.scores import Scores
from interpbench.reports.leaderboard import leaderboard_markdown
from interpbench.reports.page import Network, write_page
from interpbench.reports.tables import records_rows, records_table, sweep_facts
from interpbench.scoring.curves import compare
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import HEADLINE_LEVEL, row
from interpbench.scoring.ranking_metrics import HEADLINE, MIB_AUROC, auroc
from interpbench.scoring.results import RunCost
from tests.evaluation_records import PERFECT

GRAPH = Graph(1, 2)
OPEN = Truth.from_json(
    GRAPH,
    {
        "node": {"required": ["embed", "a0.h0"], "allowed": []},
        "head_edge": {"required": ["embed->a0.h0", "a0.h0->logits"], "allowed": []},
        "qkv_edge": {
            "required": ["a0.h0->logits"],
            "allowed": [],
            "free": [f"embed->a0.h0<{slot}>" for slot in "qkv"],
        },
    },
).consistent()


def found(task: str, said: bool = True) -> EvaluationRecord:
    """A method that finds what is read through the key alone, and misses the single edge that is required."""
    values = np.zeros(GRAPH.legal.shape)
    names = [str(reader) for reader in GRAPH.readers]
    values[names.index("a0.h0<k>"), 0] = 2
    values[names.index("m0"), 0] = 1
    scores = Scores(GRAPH, np.where(GRAPH.legal, values, np.nan))
    headline = OPEN.headline if said else None
    levels, cost = compare(OPEN, scores), RunCost(1, 64, 0, 0)
    edges = edge_scores(scores)
    return EvaluationRecord(task, "abc", "exact", {}, 0, False, levels, cost, 1.0, edges, headline=headline)


def test_released_models_say_at_which_level_methods_are_compared() -> None:
    levels = {name: read_record(folder).read_truth.headline for name, folder in released().items()}
    ioi = {"ioi", "ioi_next_token", "ioi_published_prompts"}
    assert {name for name, level in levels.items() if level == "head_edge"} == ioi


@pytest.mark.parametrize("said", [True, False], ids=["said", "of an earlier version"])
def test_the_headline_is_that_of_head_edges(said: bool) -> None:
    one = found("open", said)
    assert one.headline_level == "head_edge" and PERFECT.headline_level == "qkv_edge"
    assert one.levels["head_edge"].auroc != one.levels["qkv_edge"].auroc
    made = row(one)
    assert made.headline == "head_edge" and made.levels["head_edge"].roc and not made.levels["qkv_edge"].roc
    older = replace(made, headline=None)
    for kept in (made, older):
        assert kept.at(HEADLINE_LEVEL) is kept.levels["head_edge"]
        value, head = HEADLINE.of(kept), auroc.at("head_edge").of(kept)
        assert value == head and MIB_AUROC.at(HEADLINE_LEVEL).of(kept) == MIB_AUROC.at("qkv_edge").of(kept)


def test_boards_compare_each_model_at_its_own_level() -> None:
    board = Board.of([found("open"), replace(PERFECT, task="closed", method="exact")])
    assert board.with_free_edges == ["open"]
    values = board.values("exact", HEADLINE)
    assert values == {"closed": 1.0, "open": pytest.approx(found("open").levels["head_edge"].auroc, abs=1e-4)}
    assert board._sizes(HEADLINE_LEVEL)["open"][0] == 2 and board._sizes("qkv_edge")["open"][0] == 1
    page = leaderboard_markdown(board, str)
    assert "(open) they are head edges" in page and "AUROC at q/k/v edges" not in page
    assert "head edges. MIB" not in leaderboard_markdown(Board.of([PERFECT]), str)


def test_tables_put_what_is_not_the_headline_in_brackets_and_in_no_mean() -> None:
    records = [found("open"), replace(PERFECT, task="closed", method="exact")]
    assert records_rows(records)[0][4].startswith("(0.") and records_rows(records)[1][4] == "1.000 / 1.000"
    assert sweep_facts(records)["AUROC / AP, q/k/v edges"] == "1.000 / 1.000"
    console = Console(width=120, file=StringIO(), record=True)
    console.print(records_table(records))
    assert "compare methods on this model by their head edges" in console.export_text()
    console.print(records_table(records[1:]))
    assert "brackets" not in console.export_text()


def test_the_page_s_means_leave_it_out(tmp_path: Path) -> None:
    network = Network("open", OPEN, {})
    write_page(tmp_path / "page.html", [("exact", found("open"))], {"abc": network})
    text = (tmp_path / "page.html").read_text().split('id="data">')[1].split("</script>")[0]
    data = json.loads(text)
    assert data["models"][0]["headline"] == "head_edge"
    _, _, head_edges, edges, *_ = data["means"][0]
    assert edges == [None, None] and head_edges[0] == pytest.approx(found("open").levels["head_edge"].auroc)
