"""A task in a user's own file is a task like any other, without touching the package."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import interpbench
from interpbench.checkpoints.record import task_of
from interpbench.core import user_code as core_own
from interpbench.core.errors import CheckpointError, TaskError, UnknownNameError
from interpbench.core.files import read_json, write_json
from interpbench.runs import api
from interpbench.runs.certify import certify_checkpoints
from interpbench.runs.train_settings import TrainConfig
from interpbench.tasks import catalogue as registry
from interpbench.tasks.catalogue import get_task

SOURCE = '''
from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import rasp, tokens


@task("{name}", vocab="abc", length=3, attention="causal")
def {name}():
    """Whether each letter is an a."""
    return rasp.Map(lambda letter: letter == "a", tokens).named("is_a")
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a file of one task and one of two; what they register is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = dict(registry._tasks._values)
    (tmp_path / "my_task.py").write_text(SOURCE.format(name="is_a"))
    (tmp_path / "my_two.py").write_text(SOURCE.format(name="one") + SOURCE.format(name="two"))
    yield tmp_path
    registry._tasks._values.clear()
    registry._tasks._values.update(before)
    core_own._import.cache_clear()
    for name in ("my_task", "my_two"):
        sys.modules.pop(name, None)


def test_a_file_a_file_and_name_and_a_module_are_tasks(own: Path) -> None:
    task = get_task("my_task.py:is_a")
    assert task is get_task("my_task.py") is get_task(str(own / "my_task.py:is_a")) is get_task("is_a")
    assert (task.name, task.group) == ("is_a", "my_task")
    assert get_task("my_two:two").name == "two"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my_tusk.py:is_a", "there is no file .*my_tusk.py; did you mean my_task.py"),
        ("my_task.py:is_b", "unknown task in my_task.py 'is_b'; did you mean is_a"),
        ("my_two.py", "my_two.py declares several tasks; say my_two.py:one or :two"),
        ("broken.py", "cannot import .*broken.py: broken.py:1: SyntaxError"),
        ("clash.py", "'hist' is registered twice"),
        ("no_such.module:x", "cannot import no_such.module: ModuleNotFoundError"),
    ],
)
def test_mistakes_are_one_line(own: Path, name: str, said: str) -> None:
    (own / "broken.py").write_text("def (")
    (own / "clash.py").write_text(SOURCE.format(name="hist"))
    with pytest.raises((TaskError, UnknownNameError), match=said) as caught:
        get_task(name)
    assert "\n" not in str(caught.value)


def test_train_certify_and_evaluate(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = interpbench.train("my_task.py:is_a", trainer={"max_steps": 400}, model={"n_layers": 1})
    assert outcome.certified
    record = read_json(outcome.folder / "model.json")
    record["training"]["objective"]["of_another_version"] = 1
    write_json(outcome.folder / "model.json", record)
    assert certify_checkpoints(str(outcome.folder), own_task="my_task.py:is_a")
    registry._tasks._values.pop("is_a")
    core_own._import.cache_clear()
    (own / "my_task.py").write_text(SOURCE.format(name="is_a").replace('== "a"', '== "b"'))
    edited = TrainConfig("my_task.py:is_a", trainer={"max_steps": 400}, model={"n_layers": 1})
    assert edited.folder.name.rpartition("-")[0] == outcome.folder.name.rpartition("-")[0]
    assert edited.folder.name != outcome.folder.name, "an edited program is another run"
    checkpoint = interpbench.load(outcome.folder)
    scores = interpbench.discover(checkpoint, "exact", examples=32)
    assert api.compare(checkpoint.truth, scores)["qkv_edge"].auroc == 1.0


def test_a_record_never_names_a_file_to_be_run(own: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'is_a' is not in the catalogue; .* path/to/file.py:is_a"):
        task_of("is_a")
