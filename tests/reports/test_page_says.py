"""What the HTML page of a folder of evaluations says of them besides scores."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

import interpbench
from interpbench.circuits.ordered_scores import edge_scores
from interpbench.circuits.scores import Scores
from interpbench.core.files import write_json
from interpbench.runs.evaluations_page import write_folder_page
from interpbench.scoring.curves import compare
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.results import Conditions, RunCost
from tests.browser import chromium, executable


@pytest.mark.parametrize("name", ["trend_to_next[regime=redundant]", "all_equal/seed1"])
def test_every_released_network_is_found(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those of tasks in regimes and of other seeds, too, wherever the record was made."""
    checkpoint = interpbench.load(name)
    scores = Scores(checkpoint.truth.graph, np.where(checkpoint.truth.graph.legal, 0.0, np.nan))
    levels, edges = compare(checkpoint.truth, scores), edge_scores(scores)
    made = EvaluationRecord(
        *(checkpoint.task, checkpoint.record.sha256, "eap", {}, 0, False, levels, RunCost(1, 1, 0, 0), 1.5),
        edges,
    )
    write_json(tmp_path / "one" / "eap.json", made.to_json())
    assert checkpoint.task in write_folder_page(tmp_path).read_text()
    write_json(tmp_path / "other" / "eap.json", replace(made, checkpoint="f" * 64).to_json())
    write_folder_page(tmp_path)
    assert f"interpbench report {tmp_path} --checkpoint FOLDER" in caplog.text


@pytest.mark.skipif(executable() is None, reason="no Chromium is installed: apt-get install chromium")
def test_it_says_task_certificate_settings_date_and_version(tmp_path: Path) -> None:
    checkpoint = interpbench.load("hist")
    scores = Scores(checkpoint.truth.graph, np.where(checkpoint.truth.graph.legal, 0.0, np.nan))
    levels, edges = compare(checkpoint.truth, scores), edge_scores(scores)
    made = EvaluationRecord(
        *("hist", checkpoint.record.sha256, "eap_ig", {"steps": 5}, 3, False, levels, RunCost(1, 1, 0, 0)),
        *(1.5, edges),
        conditions=Conditions(examples=64, data="stored"),
    )
    write_json(tmp_path / "hist" / "eap_ig.json", made.to_json())
    page = write_folder_page(tmp_path)
    with chromium() as browser:
        browser.open(page)
        text = browser.run("document.body.innerText")
    assert f"written on {date.today()} by interpbench {interpbench.__version__}." in text
    assert (
        "How often each token occurs in the whole sequence." in text
        and "Its certificate: adversarial" in text
    )
    assert "eap_ig: steps=5, examples=64, data=stored, seed=3" in text
    assert browser.complaints == []
