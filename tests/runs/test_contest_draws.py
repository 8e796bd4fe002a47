"""How contests are made: what the secret draws, and what is refused."""

import json
from pathlib import Path

import pytest

from interpbench.checkpoints.contests import (
    ATTEMPTS,
    drawn_task,
    fitting_task,
    private_of,
    task_in_turn,
)
from interpbench.core.errors import (
    ConfigError,
    InterpBenchError,
    TaskError,
    TrainingError,
)
from interpbench.runs.cli import run_subcommand
from interpbench.runs.contest import (
    make_contest,
    reveal_contest,
)
from interpbench.tasks.catalogue import get_task
from tests.made_contests import compiled, failed, killed


def test_the_whole_secret_decides_what_is_drawn() -> None:
    one = drawn_task("0" * 64, "random_rasp[depth=3,regime=alive]", "01", 0)
    assert one == drawn_task("0" * 64, "random_rasp[depth=3,regime=alive]", "01", 0)
    others = [
        drawn_task("0" * 63 + "1", "random_rasp[depth=3,regime=alive]", "01", 0),
        drawn_task("1" + "0" * 63, "random_rasp[depth=3,regime=alive]", "01", 0),
        drawn_task("0" * 64, "random_rasp[depth=3,regime=alive]", "02", 0),
        drawn_task("0" * 64, "random_rasp[depth=3,regime=alive]", "01", 1),
    ]
    assert len({one, *others}) == 5
    homes = {
        tuple(map(str, get_task(drawn_task("0" * 64, "random_rasp[regime=alive]", name, 0)).homes.values()))
        for name in ("01", "02", "03", "04", "05", "06")
    }
    assert len(homes) > 4, "where the circuit is depends on the secret, too"


def test_the_same_command_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was certified before an interruption is not trained again; a program may fail, and is counted."""
    first, again = list[str](), list[str]()

    def interrupted(task: str, seed: int, out: Path) -> Path:
        first.append(task)
        if len(first) == 3:
            raise KeyboardInterrupt
        return compiled(task, seed, out) if len(first) == 2 else failed(task, seed, out)

    def whole(task: str, seed: int, out: Path) -> Path:
        again.append(task)
        return compiled(task, seed, out) if len(again) > 1 else failed(task, seed, out)

    with pytest.raises(KeyboardInterrupt):
        make_contest(tmp_path / "c", 2, tmp_path / "secret", ["random_rasp[spread=0]"], interrupted)
    assert not (tmp_path / "c").exists()
    with caplog.at_level("INFO"):
        make_contest(tmp_path / "c", 2, tmp_path / "secret", ["random_rasp[spread=0]"], whole)
    assert "problem 01: edges 0.98 < 0.99" in caplog.messages, "the host is told why a program was given up"
    assert first == again and len(set(first)) == 3
    private = private_of(tmp_path / "c")
    assert len(list((private / "runs").glob("*/*/certificate.json"))) == 2
    sealed = json.loads((private / "sealed.json").read_text())
    assert sealed["attempts"] == {"01": 1, "02": 0}


def test_problems_have_tasks_in_turn_and_programs_without_a_place_for_a_regime_are_drawn_again() -> None:
    """Few random programs have a variable that can be a sum of two nodes; which is drawn, anyone can tell."""
    tasks = ["random_rasp[regime=shares]", "random_rasp[depth=3]"]
    assert [task_in_turn(tasks, name) for name in ("01", "02", "03")] == [tasks[0], tasks[1], tasks[0]]
    first = [drawn_task("4" * 64, tasks[0], "01", 0, redrawn) for redrawn in range(40)]
    assert len(set(first)) == 40
    for attempt in range(3):
        found = fitting_task("4" * 64, tasks[0], "01", attempt)
        assert found == fitting_task("4" * 64, tasks[0], "01", attempt) and "regime=shares" in found
        assert get_task(found).causal_model.variables
    skipped = first[: first.index(fitting_task("4" * 64, tasks[0], "01", 0))]
    assert skipped, "this secret's first program has a place for the regime: take another secret"
    for name in skipped:
        with pytest.raises(TaskError, match="no variable for regime=shares"):
            get_task(name)
    with pytest.raises(ConfigError, match="copies"):
        fitting_task("4" * 64, "random_rasp[regime=redundant,copies=1]", "01", 0)


def test_the_secret_decides_where_the_circuit_is() -> None:
    """Else who knows the program knows its nodes, as Tracr always puts them at the same ones."""
    for task, said in [
        ("random_rasp", "spread=8]"),
        ("random_rasp[depth=3,regime=redundant]", "depth=3,spread=8,regime=redundant]"),
        ("random_rasp[spread=5]", "spread=5]"),
    ]:
        assert drawn_task("4" * 64, task, "01", 0).endswith(said)
    assert "spread" not in drawn_task("4" * 64, "random_rasp[regime=alive]", "01", 0)
    with pytest.raises(ConfigError, match="the secret decides what is drawn; leave draw= out"):
        drawn_task("4" * 64, "random_rasp[regime=alive,draw=3]", "01", 0)


def test_a_task_that_cannot_be_drawn_is_not_tried_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "interpbench.tasks.catalogue.get_task", lambda name: asked.append(name) or get_task(name)
    )
    with pytest.raises(TaskError, match="moves, counts and takes are all 0"):
        fitting_task("4" * 64, "random_rasp[moves=0,counts=0,takes=0]", "01", 0)
    assert len(asked) == 1


def test_a_secret_makes_one_contest(tmp_path: Path) -> None:
    """To reveal one contest would give away another of the same secret."""
    made, secret = tmp_path / "c", tmp_path / "secret"
    make_contest(made, 1, secret, ["random_rasp[spread=0]"], compiled)
    with pytest.raises(ConfigError, match=f"is the secret of {made}, which would give .*d away"):
        make_contest(tmp_path / "d", 1, secret, ["random_rasp[spread=0]"], compiled)
    keys = sorted(path.read_bytes() for path in (private_of(made) / "keys").iterdir())
    made.rename(tmp_path / "given_away")
    with pytest.raises(ConfigError, match="has the keys of a contest that was made"):
        make_contest(made, 1, secret, ["random_rasp[spread=0]"], compiled)
    assert keys == sorted(path.read_bytes() for path in (private_of(made) / "keys").iterdir())
    reveal_contest(tmp_path / "given_away", private_of(made))


def test_contests_are_refused_that_cannot_be_made(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    with pytest.raises(TrainingError, match=f"01: none of {ATTEMPTS} programs was certified.* edges 0.98"):
        make_contest(tmp_path / "c", 1, secret, ["random_rasp[spread=0]"], failed)
    (tmp_path / "link").symlink_to(tmp_path / "c")
    for inside in ("c/secret", "link/secret", "c.private/public/secret"):
        with pytest.raises(ConfigError, match=r"the secret cannot be in .*, which is given away"):
            make_contest(tmp_path / "c", 1, tmp_path / inside, ["random_rasp[spread=0]"], compiled)
    with pytest.raises(TrainingError, match=r"killed.* the same command goes on, and fewer --jobs take less"):
        make_contest(tmp_path / "c", 2, secret, ["random_rasp[spread=0]"], killed, 2)
    for task, said in [
        ("hist", "draws members of random_rasp"),
        ("random_rasp[seed=3]", "leave seed= out"),
        ("random_rasp[dept=3]", "depth"),
        ("random_rasp[regime=alife]", "alive"),
    ]:
        with pytest.raises(InterpBenchError, match=said):
            make_contest(tmp_path / "c", 1, secret, [task], compiled)
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        make_contest(tmp_path / "c", 1, secret, ["random_rasp[spread=0]"], compiled)
    secret.write_text("1234")
    secret.chmod(0o600)
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        make_contest(tmp_path / "c", 1, secret, ["random_rasp[spread=0]"], compiled)
    (tmp_path / "c").mkdir()
    with pytest.raises(ConfigError, match="is there already"):
        make_contest(tmp_path / "c", 1, tmp_path / "other", ["random_rasp[spread=0]"], compiled)


def test_a_schedule_may_have_other_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def trained(task: str, **settings: object) -> None:
        asked.append(settings)
        raise TrainingError("it was asked")

    monkeypatch.setattr("interpbench.runs.certified_training.train", trained)
    make = [
        "contest",
        "make",
        "--models",
        "1",
        "--out",
        str(tmp_path / "c"),
        "--seed-file",
        str(tmp_path / "s"),
    ]
    with pytest.raises(TrainingError, match="none of 5 programs"):
        run_subcommand([*make, "--task", "random_rasp", "--steps", "16000"])
    assert [each["trainer"] for each in asked] == [{"max_steps": 16000}] * ATTEMPTS
