"""Old names of settings are read: with one warning where a user writes them, silently in what is stored."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from interpbench.checkpoints.load import load_checkpoint
from interpbench.checkpoints.record import read_record
from interpbench.circuits.ground_truth import LEVELS, Level
from interpbench.circuits.ordered_scores import OrderedScores
from interpbench.core import old_names
from interpbench.core.config import convert
from interpbench.core.old_names import KEYS, VALUES, renamed, renamed_overrides, renamed_record
from interpbench.core.registry import Registry
from interpbench.discovery.method import get_method, methods
from interpbench.runs.evaluate_settings import evaluate_config
from interpbench.runs.train_settings import TrainConfig, train_config
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.leaderboard_rows import read_rows
from interpbench.scoring.results import LevelScores
from interpbench.tasks import catalogue
from interpbench.tasks.domain import Sequences
from interpbench.training.curriculum import Curriculum
from interpbench.training.draws import Draws
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from tests import ROOT
from tests.builders import composed


@pytest.fixture(autouse=True)
def forgetful() -> None:
    old_names._warn.cache_clear()


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [r.getMessage() for r in caplog.records if r.name == "interpbench.core.old_names"]
    assert all("\n" not in line for line in lines)
    return lines


def test_new_names_are_settings_and_old_ones_are_not() -> None:
    of_methods = {key for made in methods() for key in getattr(methods()[made], "__dataclass_fields__", {})}
    known = {f"method.{key}" for key in of_methods}
    for section, kind in {"objective": Objective, "draws": Draws, "curriculum": Curriculum}.items():
        known |= {f"{section}.{key}" for key in asdict(kind())}
    assert {*KEYS.values(), *VALUES} <= known and not set(KEYS) & known


def test_a_command_line_is_read_with_one_warning_a_name(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        found = renamed_overrides(
            ["method=exact", "method.metric=shift,divergence", "method.replacement=mean", "-m"]
        )
        assert found == ["method=exact", "method.metric=logit_diff,kl", "method.ablation=mean", "-m"]
    assert warned(caplog) == [
        "method.metric=shift is now method.metric=logit_diff; only this version reads the old name",
        "method.metric=divergence is now method.metric=kl; only this version reads the old name",
        "method.replacement is now method.ablation; only this version reads the old name",
    ]


def test_training_is_read_from_a_command_line_a_yaml_and_a_call(caplog: pytest.LogCaptureFixture) -> None:
    old = {"readout": 1.0, "readout_until": 20, "attention": 0.5, "slack": 0.1, "quiet": 3.0}
    old |= {"swaps": "deep", "strict_after": 7}
    new = Recipe(
        Objective(
            probe=1.0,
            attention_supervision=0.5,
            bos_slack=0.1,
            variance_penalty=3.0,
            imitation=0.0,
            noise=0.0,
            flatness=0.0,
            secrecy=0.0,
        ),
        Draws(swaps="deep", edges_alone=0.0),
        Curriculum(probe_until=20, strict_after=7, supervise_to_end=False),
    )
    given = renamed_overrides([f"objective.{key}={value}" for key, value in old.items()])
    assert convert(TrainConfig, composed("train", "task=frac_prevs", "experiment=none", *given)).recipe == new
    assert renamed_overrides(["+objective.readout=0,1", "++objective.quiet=0"]) == [
        "+objective.probe=0,1",
        "++objective.variance_penalty=0",
    ]
    assert len(warned(caplog)) == len(old)
    data = composed("train", "task=frac_prevs", "experiment=none")
    data["objective"] |= old
    assert train_config(data).recipe == new
    assert (
        warned(caplog)[0] == "objective.readout is now objective.probe; only this version reads the old name"
    )


def test_settings_of_a_users_own_method_are_theirs(caplog: pytest.LogCaptureFixture) -> None:
    overrides = ["method=my_method.py:mine", "method.metric=shift", "method.replacement=mean"]
    assert renamed_overrides(overrides) == overrides
    record = {"settings": {"metric": "shift"}, "conditions": {"source": "0"}}
    assert renamed_record(record) == record
    assert not warned(caplog)


def test_a_users_yaml_is_read_with_one_warning_a_name(caplog: pytest.LogCaptureFixture) -> None:
    data = composed("evaluate", "method=eap_ig", "checkpoint=hist")
    data["method"]["metric"] = "divergence"
    for _ in range(2):
        assert evaluate_config(data).method["metric"] == "kl"
    assert len(warned(caplog)) == 1


def test_a_call_is_read_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert getattr(get_method("exact", {"metric": "shift"}), "metric") == "logit_diff"  # noqa: B009
    assert len(warned(caplog)) == 1


def test_a_users_own_task_is_read_with_a_warning_an_argument(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "_tasks", Registry("task"))
    for name, words in (("old", ("inputs", "placement")), ("new", ("domain", "alignment"))):
        given = dict(zip(words, (Sequences(2, 3), {"output": "m0"})))
        catalogue.causal_task(name, vocab=("a", "b"), length=3, **given)(lambda: None)  # pyright: ignore
    old, new = (catalogue._tasks[name] for name in ("old", "new"))
    assert old.domain == new.domain and old.alignment == new.alignment == {"output": "m0"}
    assert warned(caplog) == [
        "causal_task(inputs=...) is now causal_task(domain=...); only this version reads the old name",
        "causal_task(placement=...) is now causal_task(alignment=...); only this version reads the old name",
    ]


def test_a_checkpoints_model_is_its_network() -> None:
    checkpoint = load_checkpoint(ROOT / "models" / "hist", certificate=False)
    with pytest.warns(DeprecationWarning, match=r"checkpoint\.network"):
        assert checkpoint.model is checkpoint.network


def test_what_is_stored_is_read_silently(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    levels: dict[Level, LevelScores] = dict.fromkeys(LEVELS, LevelScores(1, 1))
    settings, none = {"metric": "shift", "replacement": "zero"}, OrderedScores.of((), ())
    record = EvaluationRecord("task", "hash", "eap", settings, 0, False, levels, None, 0.1, none)
    assert EvaluationRecord.from_json(json.loads(json.dumps(record.to_json()))).settings == {
        "metric": "logit_diff",
        "ablation": "zero",
    }
    folder = tmp_path / "hist"
    folder.mkdir()
    made = json.loads((ROOT / "models" / "hist" / "model.json").read_text())
    made["training"]["objective"] = {"readout": 1.0, "quiet": 0.5}
    (folder / "model.json").write_text(json.dumps(made))
    assert read_record(folder).training["objective"] == {"probe": 1.0, "variance_penalty": 0.5}
    board = json.loads((ROOT / "docs" / "leaderboard.json").read_text())
    board["rows"] = [{**board["rows"][0], "settings": {"metric": "shift"}}]
    (tmp_path / "leaderboard.json").write_text(json.dumps(board))
    ((row,), _) = read_rows(tmp_path / "leaderboard.json")
    assert row.settings == {"metric": "logit_diff"}
    assert renamed_record("damaged") == "damaged"
    assert renamed({"method": None, "metric": "shift"}, stored=True) == {"method": None, "metric": "shift"}
    assert not warned(caplog)
