"""Submissions: made of anyone's scores on released models, scored again by whoever reads them."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from interpbench.checkpoints.submission_files import ENTRY_SCORES, SUBMISSION, read_submission
from interpbench.core.errors import CheckpointError, ConfigError, InterpBenchError, ScoresError
from interpbench.core.files import sha256
from interpbench.runs.cli import HYDRA, run_subcommand
from interpbench.runs.score import convert_file
from interpbench.runs.submissions import (
    SCORED,
    check_submission,
    check_submissions,
    list_scored,
    scored_before,
    submit,
)
from interpbench.runs.submissions_page import (
    BEGIN,
    own_board,
    rankings,
    submissions_page,
    submissions_table,
)

ROOT = Path(__file__).parents[2]
MODELS = ("add_next", "count_a")


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """The truth of two models as files of scores of two kinds."""
    (tmp_path / "answers").mkdir()
    convert_file("truth", tmp_path / "answers" / f"{MODELS[0]}.json", MODELS[0])
    convert_file("truth", tmp_path / "answers" / f"{MODELS[1]}.csv", MODELS[1])
    return tmp_path / "answers"


@pytest.fixture(autouse=True)
def two_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """`two` stands for the two models."""
    from interpbench.checkpoints.find import find_checkpoints

    def find(name: str) -> list[Path]:
        names = MODELS if name == "two" else (name,)
        return [folder for each in names for folder in find_checkpoints(each)]

    monkeypatch.setattr("interpbench.runs.submissions.find_checkpoints", find)


@pytest.fixture
def made(answers: Path, tmp_path: Path) -> Path:
    """The submission of both."""
    return submit(answers, "oracle", "two", about="it knows", seconds=3.0, out=tmp_path / "docs/submissions")


def changed(folder: Path, **fields: object) -> Path:
    """Writes other fields into a submission, and returns it."""
    path = folder / SUBMISSION
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return folder


def test_a_submission_is_scored_again_by_whoever_reads_it(made: Path, answers: Path) -> None:
    found = check_submission(made)
    assert found.current and found.values["auroc"] == dict.fromkeys(MODELS, 1.0)
    assert found.record.answers[MODELS[1]] == sha256((answers / f"{MODELS[1]}.csv").read_bytes())
    assert found.record.cost is not None and not found.record.cost.measured
    ((members, ranking),) = rankings([found], own_board(ROOT / "docs/submissions"))
    assert [one.record.name for one in members] == ["oracle"]
    assert {"oracle", "acdc", "random"} <= set(ranking.means), "the project's methods are ranked beside it"
    assert ranking.means["oracle"]["auroc"].value == 1.0 > ranking.means["weight_norm"]["auroc"].value


def test_records_of_evaluations_say_what_they_cost(tmp_path: Path) -> None:
    name = MODELS[0]
    command = ["method=eap", f"checkpoint={name}", f"out={tmp_path}/runs", "pictures=false", "thorough=false"]
    assert HYDRA["evaluate"](command) == 0
    folder = submit(tmp_path / "runs", "my_eap", name, out=tmp_path / "submissions")
    cost = check_submission(folder).record.cost
    assert cost is not None and cost.measured and cost.seconds > 0
    record = next((tmp_path / "runs" / name).glob("*.json"))
    record.write_text(record.read_text().replace('"checkpoint": "', '"checkpoint": "0'))
    with pytest.raises(ScoresError, match="other weights than the released"):
        submit(tmp_path / "runs", "another", name, out=tmp_path / "submissions")


def test_a_submission_that_says_more_than_its_scores_reach_is_refused(made: Path) -> None:
    results = json.loads((made / SUBMISSION).read_text())["results"]
    results[MODELS[0]]["auroc"] = 0.5
    with pytest.raises(CheckpointError, match=r"auroc of add_next is 1\.000000, and not 0\.5"):
        check_submission(changed(made, results=results))
    results[MODELS[0]] = {}
    with pytest.raises(CheckpointError, match="results of add_next are not auroc and average_precision"):
        check_submission(changed(made, results=results))


def test_scores_that_were_changed_afterwards_are_refused(made: Path) -> None:
    scores = load_file(made / ENTRY_SCORES)
    scores[MODELS[0]] = -scores[MODELS[0]]
    (made / ENTRY_SCORES).write_bytes(save(scores))
    with pytest.raises(CheckpointError, match="its SHA-256 differs"):
        check_submission(made)
    hashed = sha256((made / ENTRY_SCORES).read_bytes())
    with pytest.raises(CheckpointError, match=r"auroc of add_next is 0\.0"):
        check_submission(changed(made, scores=hashed))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array([1.0, np.nan], np.float32), "no list of finite scores"),
        (np.ones((2, 2), np.float32), "no list of finite scores"),
        (np.ones(3, np.int32), "no list of finite scores"),
        (np.ones(3, np.float32), "3 scores for the"),
    ],
)
def test_scores_that_are_none_are_refused(made: Path, values: np.ndarray, said: str) -> None:
    (made / ENTRY_SCORES).write_bytes(save({**load_file(made / ENTRY_SCORES), MODELS[0]: values}))
    with pytest.raises(InterpBenchError, match=said):
        check_submission(changed(made, scores=sha256((made / ENTRY_SCORES).read_bytes())))


def test_models_that_were_replaced_are_a_set_of_their_own(made: Path) -> None:
    before = check_submission(made).record.set_id
    models = json.loads((made / SUBMISSION).read_text())["models"]
    changed(made, models={**models, MODELS[0]: "0" * 64})
    (made.parent / SCORED).write_text(json.dumps({made.name: sha256((made / SUBMISSION).read_bytes())}))
    old = check_submission(made)
    assert not old.current and old.record.set_id != before
    ((_, ranking),) = rankings([old], own_board(ROOT / "docs/submissions"))
    assert list(ranking.means) == ["oracle"], "the project's methods were run on other weights"
    assert "some have been replaced since" in submissions_table([old], None)


def test_weights_that_were_never_released_are_refused(made: Path) -> None:
    """Else anyone could say anything: nothing of it can be scored again."""
    models = json.loads((made / SUBMISSION).read_text())["models"]
    for wrong in ({**models, MODELS[0]: "0" * 64}, {"no_such_model": "0" * 64}):
        results = {name: {"auroc": 1.0, "average_precision": 1.0} for name in wrong}
        changed(made, models=wrong, results=results, answers=dict.fromkeys(wrong, "0" * 64))
        scores = save(dict.fromkeys(wrong, np.ones(3, np.float32)))
        (made / ENTRY_SCORES).write_bytes(scores)
        changed(made, scores=sha256(scores))
        with pytest.raises(CheckpointError, match="no released weights of"):
            check_submission(made)
        list_scored(made.parent, [])  # what is listed is what was scored
        assert not check_submissions(made.parent)[0]


def test_no_submission_is_called_as_a_method_of_the_project(made: Path) -> None:
    for name in ("acdc", "Exact"):
        folder = made.rename(made.with_name(name))
        with pytest.raises(ScoresError, match=f"{name} is a method of the project"):
            check_submission(changed(folder, name=name))
        made = folder


def test_one_that_is_damaged_hides_no_other(made: Path, answers: Path) -> None:
    submit(answers, "another", "two", out=made.parent)
    changed(made, results={name: {} for name in MODELS})
    good, wrong = check_submissions(made.parent)
    assert [one.record.name for one in good] == ["another"] and len(wrong) == 1
    list_scored(made.parent, good)
    assert set(scored_before(made.parent)) == {"another"}


def test_what_is_left_of_an_old_set_is_scored_again(made: Path) -> None:
    """One replaced model is no licence to say anything of the others."""
    said = json.loads((made / SUBMISSION).read_text())
    said["models"][MODELS[0]] = "0" * 64
    said["results"][MODELS[1]]["auroc"] = 0.75
    changed(made, **said)
    (made.parent / SCORED).write_text(json.dumps({made.name: sha256((made / SUBMISSION).read_bytes())}))
    with pytest.raises(CheckpointError, match=r"auroc of count_a is 1\.000000, and not 0\.75"):
        check_submission(made)


def test_what_an_entrant_says_is_no_markup(made: Path) -> None:
    found = check_submission(changed(made, about="a | b <script>alert(1)</script> [x](javascript:1)"))
    (line,) = [line for line in submissions_table([found], None).splitlines() if "oracle" in line]
    assert "<script" not in line and r"a \| b" in line and r"\[x\]" in line
    for field, value in {"link": "javascript:alert(1)", "about": "two\nlines", "name": "a/b"}.items():
        folder = made.with_name("copy")
        shutil.copytree(made, folder)
        with pytest.raises(CheckpointError, match=field):
            check_submission(changed(folder, **{field: value}))
        shutil.rmtree(folder)


def test_a_folder_is_called_as_its_submission_is(made: Path) -> None:
    with pytest.raises(CheckpointError, match="its folder has to be called so"):
        read_submission(made.rename(made.with_name("another")))


def test_one_damaged_submission_does_not_hide_the_others(made: Path) -> None:
    (made.with_name("empty")).mkdir()
    good, wrong = check_submissions(made.parent)
    assert [one.record.name for one in good] == ["oracle"] and len(wrong) == 1
    assert run_subcommand(["submissions", str(made.parent)]) == 1
    with pytest.raises(InterpBenchError, match="empty"):
        submissions_page(BEGIN, made.parent)


@pytest.mark.parametrize(
    ("name", "checkpoint", "said"),
    [
        ("acdc", "two", "acdc is a method of the project"),
        ("a/b", "two", "letters, digits"),
        ("mine", "hist", "has no scores for 1 of 1 models, such as hist.json"),
        ("mine", "identity", "all methods score alike"),
        ("mine", "hsit", "did you mean hist"),
    ],
)
def test_wrong_submissions(answers: Path, tmp_path: Path, name: str, checkpoint: str, said: str) -> None:
    with pytest.raises(InterpBenchError, match=said):
        submit(answers, name, checkpoint, out=tmp_path / "submissions")
    assert not (tmp_path / "submissions").exists(), "nothing is written"


def test_submissions_are_for_released_models(answers: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "models" / MODELS[0], tmp_path / MODELS[0])
    with pytest.raises(CheckpointError, match="is no released model"):
        submit(answers, "mine", str(tmp_path / MODELS[0]), out=tmp_path / "submissions")


def test_nothing_is_overwritten_or_guessed(made: Path, answers: Path) -> None:
    with pytest.raises(ConfigError, match="is there already"):
        submit(answers, "oracle", "two", out=made.parent)
    shutil.copy(answers / f"{MODELS[1]}.csv", answers / f"{MODELS[1]}.json")
    with pytest.raises(ScoresError, match="2 files have scores for count_a"):
        submit(answers, "another", "two", out=made.parent)


def test_models_on_which_all_methods_score_alike_are_left_out(
    answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "interpbench.runs.submissions.find_checkpoints",
        lambda _: [ROOT / "models" / name for name in (*MODELS, "identity")],
    )
    with caplog.at_level(logging.INFO):
        made = submit(answers, "mine", "all", out=tmp_path / "submissions")
    assert "1 models are left out, on which all methods score alike, such as identity" in caplog.text
    assert set(check_submission(made).record.models) == set(MODELS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--link", "http://a.b"], "no address; it begins with https://"),
        (["--about", "two\nlines"], "is not one line"),
        (["--seconds", "-1"], "--seconds -1.0 is no amount of time"),
    ],
)
def test_wrong_words(arguments: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        run_subcommand(["submit", str(tmp_path), "--name", "mine", *arguments])


def test_what_was_submitted_is_whole_and_the_page_says_what_it_reaches() -> None:
    page = (ROOT / "docs/submissions.md").read_text()
    assert page == submissions_page(page, ROOT / "docs/submissions"), "interpbench submissions --write"
