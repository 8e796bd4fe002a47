"""`interpbench trace`: checks, runs, and mistakes in one line."""

import json
from pathlib import Path

import pytest

from interpbench.core.errors import ConfigError, InterpBenchError
from interpbench.runs.cli import run_subcommand
from tests.masked_models import facts, make, spec


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model"), "distilbert")


@pytest.fixture
def file(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    spec(tmp_path / "out", {"Tiny": model}, facts()[:2]).save(tmp_path / "spec.json")
    return tmp_path / "spec.json"


def test_a_run(file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "interpbench")
    assert run_subcommand(["trace", str(file), "--device", "cpu", "--no-heads"]) == 0
    assert f"wrote {tmp_path / 'out'}" in caplog.text and "8 to 12 are advised" in caplog.text
    found = json.loads((tmp_path / "out" / "trace_results.json").read_text())["Tiny"]
    assert len(found["mask_patch"]) == 3 and found["heads"] == []
    assert not (tmp_path / "out" / "fig6_heads.png").exists()
    assert run_subcommand(["trace", str(file), "--out", str(tmp_path / "other"), "--offline"]) == 0
    assert (tmp_path / "other" / "fig6_heads.png").is_file()


def test_a_check_traces_nothing(file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "interpbench")
    assert run_subcommand(["trace", str(file), "--check"]) == 0
    assert "advice: facts: 2 are few" in caplog.text and "nothing is wrong; 1 piece of advice" in caplog.text
    data = json.loads(file.read_text())
    data["facts"][1]["context_to"] = "germany"
    file.write_text(json.dumps(data))
    assert run_subcommand(["trace", str(file), "--check"]) == 1
    assert "wrong: fact 1" in caplog.text and "1 wrong, 1 piece of advice; nothing was traced" in caplog.text
    assert not (tmp_path / "out").exists()


def test_all_that_is_wrong_is_listed_by_a_check_and_the_first_by_a_run(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "interpbench")
    data = json.loads(file.read_text())
    for fact in data["facts"]:
        fact["template"] = "nothing"
    file.write_text(json.dumps(data))
    assert run_subcommand(["trace", str(file), "--check"]) == 1
    assert "wrong: fact 0" in caplog.text and "wrong: fact 1" in caplog.text
    with pytest.raises(ConfigError, match=r"spec\.json: fact 0 \('nothing'\): its template has 0 {}"):
        run_subcommand(["trace", str(file)])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.json"], "nothing.json does not exist"),
        (["nothing.json", "--device", "gpu"], "device=gpu: no such device"),
    ],
)
def test_wrong_calls(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InterpBenchError, match=said):
        run_subcommand(["trace", *arguments])


def test_a_model_that_is_not_there_is_one_line(file: Path) -> None:
    data = json.loads(file.read_text())
    data["models"][0]["huggingface_id"] = "nobody/nothing"
    file.write_text(json.dumps(data))
    with pytest.raises(InterpBenchError, match="cannot load the tokenizer nobody/nothing"):
        run_subcommand(["trace", str(file), "--offline"])
