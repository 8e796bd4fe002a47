"""Contests: made by a secret, checked by entrants, scored, and revealed so that anyone can verify them."""

import json
import logging
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from interpbench.alignment.peers import copies_of_circuit
from interpbench.checkpoints.blind import read_problem
from interpbench.checkpoints.contests import (
    drawn_task,
    private_of,
    read_contest,
    read_secret,
)
from interpbench.circuits.ground_truth import Truth
from interpbench.circuits.io.form import Contents, forms
from interpbench.circuits.scores import Scores
from interpbench.core.errors import (
    CheckpointError,
    ConfigError,
    InterpBenchError,
    ScoresError,
)
from interpbench.core.files import sha256, write_bytes, write_text
from interpbench.runs.cli import run_subcommand
from interpbench.runs.contest import (
    RESULTS,
    answer_contest,
    check_contest,
    make_contest,
    reveal_contest,
    score_contest,
)
from interpbench.tasks.catalogue import get_task
from tests.made_contests import compiled, untrained

MODELS = 3


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A contest that two processes made, which no test may change."""
    folder = tmp_path_factory.mktemp("contest") / "contest"
    folder.with_name("secret").write_text("7" * 64)
    folder.with_name("secret").chmod(0o600)
    make_contest(folder, MODELS, folder.with_name("secret"), ["random_rasp[depth=2,spread=0]"], compiled, 2)
    return folder


@pytest.fixture
def contest(original: Path, tmp_path: Path) -> Path:
    """A copy of the contest with its private folder."""
    shutil.copytree(private_of(original), private_of(tmp_path / "contest"))
    return Path(shutil.copytree(original, tmp_path / "contest"))


def test_a_contest_gives_away_neither_programs_nor_circuits(original: Path) -> None:
    private = private_of(original)
    assert sorted(path.name for path in original.iterdir()) == ["01", "02", "03", "README.md", "contest.json"]
    public = b"".join(path.read_bytes() for path in sorted(original.rglob("*")) if path.is_file())
    secret = read_secret(original.with_name("secret"), original)
    for given_away in (secret, "random_rasp", str(int(secret, 16))):
        assert given_away.encode() not in public
    for path in (original.with_name("secret"), private / "sealed.json", *(private / "keys").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    sealed = json.loads((private / "sealed.json").read_text())
    tasks = {json.loads(path.read_text())["task"] for path in (private / "keys").iterdir()}
    assert tasks == {
        get_task(drawn_task(secret, *sealed["tasks"], name, 0)).name for name in ("01", "02", "03")
    }
    assert len(tasks) == MODELS


def test_entries_are_ranked(contest: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    answers = tmp_path / "answers"
    for method in ("eap_ig", "random"):
        assert (
            run_subcommand(["contest", "answer", str(contest), method, "--out", str(answers / method)]) == 0
        )
    for name in read_contest(contest).problems:  # an entrant that knows the truth
        key = json.loads((private_of(contest) / "keys" / f"{name}.key.json").read_text())
        rows = (answers / "random" / f"{name}.csv").read_text().splitlines()
        edges = [row.rpartition(",")[0] for row in rows[1:] if "->" in row]
        required = set(key["truth"]["qkv_edge"]["required"])
        told = ["edge,score", *(f"{edge},{int(edge in required)}" for edge in edges)]
        (answers / "oracle").mkdir(exist_ok=True)
        (answers / "oracle" / f"{name}.csv").write_text("\n".join(told))
    (answers / "lazy").mkdir()
    found = score_contest(contest, answers)
    assert set(found.entries) == {"eap_ig", "oracle", "random"} and [*found.entries][2] == "random"
    oracle = found.entries["oracle"]
    assert oracle.means["auroc"].value == 1 and set(oracle.values["auroc"]) == {"01", "02", "03"}
    assert "no answer to problem 01" in found.refused["lazy"]
    assert oracle.answers["02"] == sha256((answers / "oracle" / "02.csv").read_bytes())
    assert json.loads((answers / RESULTS).read_text())["contest"] == found.contest
    assert len(found.comparisons) == 3 and found.comparisons[0].programs == MODELS
    assert run_subcommand(["contest", "score", str(contest), str(answers)]) == 1, "one was refused"
    assert "oracle" in capsys.readouterr().out


def test_what_is_revealed_is_what_was_sealed(contest: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    check_contest(contest)
    assert "not revealed" in caplog.text
    reveal_contest(contest)
    assert "every circuit is the one that was sealed (3 programs drawn, 0 given up)" in caplog.text
    shutil.rmtree(private_of(contest))
    assert run_subcommand(["contest", "check", str(contest)]) == 0


def _another_answer(contest: Path) -> None:
    path = private_of(contest) / "keys" / "01.key.json"
    key = json.loads(path.read_text())
    key["truth"]["qkv_edge"]["required"].pop()
    path.write_text(json.dumps(key))


def _another_secret(contest: Path) -> None:
    path = private_of(contest) / "sealed.json"
    path.write_text(path.read_text().replace('"03": 0', '"03": 1'))


def _another_network(contest: Path) -> None:
    path = contest / "02" / "model.safetensors"
    weights = load_file(path)
    weights["embed.W_E"] = weights["embed.W_E"] + np.float32(1e-3)
    save_file(weights, path)


def _another_problem(contest: Path) -> None:
    shutil.rmtree(contest / "02")
    shutil.copytree(contest / "01", contest / "02")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_another_answer, "is not the key that this problem was committed to"),
        (_another_secret, "is not what this contest was committed to"),
        (_another_network, "is damaged or changed"),
        (_another_problem, "is not the problem 02 of this contest"),
    ],
)
def test_nothing_can_be_changed_afterwards(contest: Path, change, said: str) -> None:
    change(contest)
    with pytest.raises(CheckpointError, match=said):
        reveal_contest(contest)


def test_a_host_that_seals_another_circuit_is_found_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All hashes are right, as the host made them; the circuit is not that of the program it drew."""

    def another(task: str, seed: int, out: Path) -> Path:
        return compiled("random_rasp[seed=1]" if "seed=1," not in task else "random_rasp[seed=2]", seed, out)

    make_contest(tmp_path / "c", 1, tmp_path / "secret", ["random_rasp[spread=0]"], another)
    check_contest(tmp_path / "c")
    with pytest.raises(
        CheckpointError, match="problem 01: its key is not of the program that the secret draws"
    ):
        reveal_contest(tmp_path / "c")


def test_entries_are_ranked_by_what_tells_the_circuit_from_its_copies(tmp_path: Path) -> None:
    """Where circuits are in such networks is known; which of the copies was drawn is not."""
    contest, answers = tmp_path / "c", tmp_path / "answers"
    write_bytes(tmp_path / "secret", b"7" * 64, 0o600)
    make_contest(contest, 2, tmp_path / "secret", ["random_rasp[regime=alive]"], untrained)
    for problem in read_contest(contest).problems:
        key = json.loads((private_of(contest) / "keys" / f"{problem}.key.json").read_text())
        graph = read_problem(contest / problem).shape.graph
        truth = Truth.from_json(graph, key["truth"])
        copies = [edges for _, edges in copies_of_circuit(get_task(key["task"]), truth)]
        anywhere = np.any(copies, axis=0)
        guesses = {
            "knows": 2.0 * copies[0] + anywhere,
            "guesses": 1.0 * anywhere,
            "wrong": anywhere - 2.0 * copies[0],
        }
        for name, scores in guesses.items():
            text = forms()["csv"].write(Contents(graph, Scores(graph, np.where(graph.legal, scores, np.nan))))
            write_text(answers / name / f"{problem}.csv", text)
    found = score_contest(contest, answers)
    assert list(found.entries) == ["knows", "guesses", "wrong"]
    means = {name: entry.means["against_copies"].value for name, entry in found.entries.items()}
    assert means == {"knows": 1.0, "guesses": 0.5, "wrong": 0.0}
    assert found.entries["guesses"].means["auroc"].value > 0.8, "copies are few of all edges"


def test_a_host_whose_networks_do_not_carry_the_circuit_is_found_out(tmp_path: Path) -> None:
    """All hashes and circuits are right, but the network has learned nothing."""
    make_contest(tmp_path / "c", 1, tmp_path / "secret", ["random_rasp[spread=0]"], untrained)
    with pytest.raises(CheckpointError, match="problem 01: its network does not carry the circuit: "):
        reveal_contest(tmp_path / "c")


def test_what_is_no_part_of_a_contest_is_refused(contest: Path) -> None:
    (contest / "01" / "setup.py").write_text("")
    with pytest.raises(CheckpointError, match=r"setup\.py is no part of a problem"):
        check_contest(contest)
    (contest / "01" / "setup.py").rename(contest / "setup.py")
    with pytest.raises(CheckpointError, match=r"setup\.py is no part of a contest"):
        check_contest(contest)


def test_answers_are_an_entrant_s_own(contest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is overwritten, and none is a link to another one's."""
    answers = tmp_path / "answers"
    monkeypatch.chdir(contest)
    assert run_subcommand(["contest", "answer", ".", "weight_norm", "--out", str(answers / "one")]) == 0
    with pytest.raises(ConfigError, match="is an answer already"):
        answer_contest(contest, "random", answers / "one")
    (answers / "two").symlink_to(answers / "one")
    (answers / "three").mkdir()
    for name in read_contest(contest).problems:
        (answers / "three" / f"{name}.csv").symlink_to(answers / "one" / f"{name}.csv")
    assert run_subcommand(["contest", "score", ".", str(answers), "--absolute"]) == 1
    found = json.loads((answers / RESULTS).read_text())
    assert set(found["entries"]) == {"one"} and found["absolute"]
    assert all("is a link" in said for said in found["refused"].values()) and len(found["refused"]) == 2
    with pytest.raises(ScoresError, match=f"these are answers of one: give {answers}"):
        score_contest(contest, answers / "one")
    assert run_subcommand(["contest", "reveal", "."]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["contest"], "contest needs one of answer, check, make, reveal, score"),
        (["contest", "chekc"], "did you mean check"),
        (["contest", "check", "nowhere"], "nowhere"),
        (["contest", "make", "--models", "0"], "--models 0 is not a number from 1 to 1000"),
        (["contest", "make", "--modles", "3"], "--models"),
        (["contest", "make", "--steps", "0"], "--steps 0 is not a number from 1 on"),
        (["contest", "make", "--jobs", "0"], "--jobs 0 is not a number from 1 on"),
        (["contest", "make", "--models", "1", *["--task", "random_rasp"] * 2], "a problem of each at least"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status = run_subcommand(arguments)
    except InterpBenchError as error:
        assert said in str(error)
    else:
        assert status == 2 and said in capsys.readouterr().err


def test_a_host_who_draws_until_a_program_suits_is_found_out(contest: Path) -> None:
    """The commitment is to what the host says; so many attempts are none that `contest make` makes."""
    place, path = private_of(contest), contest / "contest.json"
    (place / "sealed.json").write_text((place / "sealed.json").read_text().replace('"02": 0', '"02": 7'))
    record = json.loads(path.read_text())
    record["commitment"] = sha256((place / "sealed.json").read_bytes())
    path.write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=r"attempts.02: .*less than 5.*7"):
        reveal_contest(contest)
