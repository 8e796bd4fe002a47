"""A whole run into a folder: its files, and how it goes on after it was killed or something has changed."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from interpbench.core.errors import InterpBenchError, TraceError
from interpbench.masked_lm import DatasetSpec, load_results, trace_run
from interpbench.masked_lm.causal_tracer import CausalTracer
from interpbench.masked_lm.trace_report import FIGURES, draw_figures
from interpbench.masked_lm.trace_run import TraceSettings, check_spec, trace_spec
from tests.masked_models import facts, make, spec

FolderOf = Callable[[str], Path]
FILES = {
    *("dataset.json", "run_config.json", "trace_results.json", "report.md", "report.html", "facts", ".lock"),
    *("fig1_mask_patch.png", "fig2_context_patch.png", "fig3_flow.png", "fig4_heatmap.png", "fig5_peaks.png"),
    "fig6_heads.png",
}


@pytest.fixture
def two(random_model: FolderOf, tmp_path: Path) -> DatasetSpec:
    """A specification of three facts in two models."""
    folders = {"First": random_model("bert"), "<b>Second</b>": random_model("albert")}
    return spec(tmp_path / "out", folders, facts()[:3])


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs draw no figures, which take most of their time."""
    monkeypatch.setattr(trace_run, "write_reports", lambda spec, results, folder: None)


class Counted:
    """Counts the facts that are traced, and ends the process at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last: int = -1):
        self.count, traced = 0, CausalTracer.trace_fact

        def trace_fact(tracer: CausalTracer, *arguments: object, **named: object) -> object:
            if self.count == last:
                os._exit(9)
            self.count += 1
            return traced(tracer, *arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(CausalTracer, "trace_fact", trace_fact)


def test_a_run_writes_what_is_published(two: DatasetSpec) -> None:
    folder = Path(two.output_dir)
    results = trace_spec(two)
    assert {path.name for path in folder.iterdir()} == FILES
    assert load_results(folder / "trace_results.json") == results
    assert [one.model_name for one in results] == ["First", "<b>Second</b>"]
    report = (folder / "report.md").read_text()
    assert all(f"({name})" in report for name in FIGURES)
    assert "## First" in report and "## Models against each other" in report and "<b>" not in report
    assert len(json.loads((folder / "dataset.json").read_text())) == 3

    page = (folder / "report.html").read_text()  # self-contained
    assert "<script" not in page and not re.search(r"(src|href)=\"(?!data:image/png)", page)
    assert page.count("data:image/png;base64,") == 6 and "default-src 'none'" in page
    assert "&lt;b&gt;Second&lt;/b&gt;" in page and "<b>" not in page
    draw_figures(
        [replace(one, facts=[replace(fact, heads=[]) for fact in one.facts]) for one in results], folder
    )
    assert not (folder / "fig6_heads.png").exists(), "heads are no longer in the results"


@pytest.mark.usefixtures("undrawn")
def test_results_are_those_of_the_tracer(two: DatasetSpec) -> None:
    (first, _) = trace_spec(two)
    dataset = json.loads((Path(two.output_dir) / "dataset.json").read_text())
    assert CausalTracer("First", two.models[0].huggingface_id).trace(dataset) == first


def trace_until(spec: DatasetSpec, last: int) -> None:
    """Run, in a process of its own, which ends at fact `last` as a killed one would."""
    Counted(pytest.MonkeyPatch(), last)
    trace_spec(spec)


@pytest.mark.parametrize("last", [2, pytest.param(4, marks=pytest.mark.exhaustive)])
@pytest.mark.usefixtures("undrawn")
def test_a_run_that_is_killed_goes_on_where_it_was(
    two: DatasetSpec, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By model and by fact; and ends with the same bytes."""
    whole = replace(two, output_dir=str(tmp_path / "whole"))
    trace_spec(whole)
    process = get_context("spawn").Process(target=trace_until, args=(two, last))
    process.start()
    process.join()
    assert process.exitcode == 9
    killed = Path(two.output_dir)
    assert len(list((killed / "facts").glob("*"))) == last and not (killed / "trace_results.json").exists()
    counted = Counted(monkeypatch)
    trace_spec(two)
    assert counted.count == 6 - last
    for name in ("dataset.json", "trace_results.json"):
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert {path.name for path in (killed / "facts").iterdir()} == {
        path.name for path in (tmp_path / "whole" / "facts").iterdir()
    }


@pytest.mark.usefixtures("undrawn")
def test_what_has_changed_is_traced_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(tmp_path / "model", "bert", seed=3)
    mine = spec(tmp_path / "out", {"Mine": model}, facts()[:2])
    counted = Counted(monkeypatch)

    def traced(changed: DatasetSpec, heads: bool = True) -> int:
        before = counted.count
        trace_spec(changed, TraceSettings(heads=heads))
        return counted.count - before

    assert traced(mine) == 2 and traced(mine) == 0
    assert traced(replace(mine, facts=facts()[:3])) == 1, "one fact more"
    assert traced(replace(mine, variants=[("we know: ", "")])) == 2, "other prompts"
    assert traced(mine, heads=False) == 2, "without heads"
    before = load_results(tmp_path / "out" / "trace_results.json")
    make(model, "bert", seed=4)
    assert traced(mine, heads=False) == 2, "other weights in the same folder"
    assert load_results(tmp_path / "out" / "trace_results.json") != before


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("damage", ['"prompts": "one"', "{"])
def test_a_damaged_fact_is_traced_anew(
    two: DatasetSpec, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    trace_spec(two)
    results = Path(two.output_dir) / "trace_results.json"
    before = results.read_text()
    path = sorted((Path(two.output_dir) / "facts").iterdir())[0]
    whole = path.read_text()
    path.write_text(whole.replace('"prompts": 1', damage))
    trace_spec(two)
    assert f"{path.name} is " in caplog.text and "it is traced anew" in caplog.text
    assert path.read_text() == whole and results.read_text() == before


def test_what_any_model_cannot_do_is_said_before_anything_is_traced(
    two: DatasetSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    wrong = replace(two, facts=[*two.facts, replace(facts()[0], context_to="germany")])
    with pytest.raises(TraceError, match=r"fact 3 .*, First: 'germany' is unknown to the tokenizer"):
        trace_spec(wrong)
    models = [two.models[0], replace(two.models[1], huggingface_id="nobody/nothing")]
    with pytest.raises(TraceError, match="cannot load the tokenizer nobody/nothing"):
        trace_spec(replace(two, models=models))
    assert counted.count == 0 and not Path(two.output_dir).exists()


def test_a_check_lists_everything(two: DatasetSpec) -> None:
    models = [*two.models, replace(two.models[1], name="gone", huggingface_id="nobody/nothing")]
    wrong = [replace(facts()[0], context_to="germany"), replace(facts()[1], target="klingon")]
    found = [
        str(one) for one in check_spec(replace(two, models=models, facts=[*two.facts, *wrong])) if one.wrong
    ]
    assert len(found) == 5 and sum("'germany' is unknown" in one for one in found) == 2
    assert "model gone: cannot load" in found[-1]
    assert [one.wrong for one in check_spec(two)] == [False], "few facts are advised against"


def test_two_runs_do_not_share_a_folder(two: DatasetSpec) -> None:
    from interpbench.core.files import locked

    with locked(Path(two.output_dir)), pytest.raises(InterpBenchError, match="in use by another run"):
        trace_spec(two)
