"""Groups of released models, and models of other seeds."""

import json
import shutil
from pathlib import Path

import pytest

from interpbench.checkpoints.checkpoint_files import RECORD, in_regimes, released, seeds
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.record import read_record
from interpbench.core.errors import CheckpointError
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.task_records import records


def names(group: str) -> set[str]:
    return {path.name for path in find_checkpoints(group)}


def test_halves_are_those_of_the_task_records() -> None:
    assert names("trivial") | names("nontrivial") == set(released())
    assert names("trivial") == {name for name in released() if records()[name].trivial}
    assert names("numerical") & names("categorical") == set()
    assert {"frac_prevs", "paren_balance"} <= names("numerical")


def test_groups_are_bounded_by_depth_and_size() -> None:
    depths = {name: read_record(path).shape.n_layers for name, path in released().items()}
    assert names("depth:2") == {name for name, depth in depths.items() if depth == 2}
    assert names("depth:3-") == {name for name, depth in depths.items() if depth >= 3}
    assert names("depth:-3") == {name for name, depth in depths.items() if depth <= 3}
    assert names("depth:3-4") == names("depth:3-") & names("depth:-4")
    assert names("edges:1000-") >= {"ioi"} and "hist" in names("required:4")


def test_terms_hold_together() -> None:
    assert names("all+depth:2") == names("depth:2")
    assert names("nontrivial+categorical+depth:2") == (
        names("nontrivial") & names("categorical") & names("depth:2")
    )
    assert {get_task(name).group for name in names("counting")} == {"counting"} and "hist" in names(
        "counting"
    )


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ("dpth:3", "dpth:3 is no group; did you mean depth?"),
        ("depth:", "depth: is no group"),
        ("depth:two", "depth is bounded by numbers, as in depth:2,"),
        ("nontrivial+", "'nontrivial+': a + stands between two groups"),
        ("nontrivial+hist", "hist is a task, and no group of them"),
        ("trivial+nontrivial", "is in the group trivial+nontrivial, of which all terms have to hold"),
        ("regime:redundant+noisy", "noisy is no group; did you mean regime:noisy?"),
        ("hist[regime=redundent]", "'redundent' is no regime; did you mean redundant"),
        ("hist,frac_prevs", "; names are separated by spaces"),
        ("depth:5-3", "depth:5-3: 5 is more than 3; depth:3-5 is a group"),
        ("nontrivial+depth:90-", ", of which all terms have to hold; depth is 2 to 8"),
        ("no/such", "no checkpoint 'no/such': not a folder, and not in models"),
        (
            "nontrivail",
            "no checkpoint 'nontrivail': not a folder, and not in models; did you mean nontrivial",
        ),
    ],
)
def test_what_is_no_group_is_refused_in_one_line(group: str, said: str) -> None:
    with pytest.raises(CheckpointError) as refused:
        find_checkpoints(group)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_models_of_other_seeds_have_names_and_a_group(tmp_path: Path) -> None:
    shutil.copytree(released()["hist"], tmp_path / "hist")
    shutil.copytree(released()["hist"], tmp_path / "hist" / "seed1")
    assert list(seeds(tmp_path)) == ["hist/seed1"] and list(released(tmp_path)) == ["hist"]
    assert find_checkpoints("hist/seed1", tmp_path) == [tmp_path / "hist" / "seed1"]
    assert find_checkpoints("seeds", tmp_path) == [tmp_path / "hist" / "seed1"]
    assert find_checkpoints("all", tmp_path) == [tmp_path / "hist"], "one a task"


def test_a_folder_of_a_groups_name_is_meant_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(released()["hist"], tmp_path / "counting")
    monkeypatch.chdir(tmp_path)
    assert find_checkpoints("counting") == [Path("counting")]


LIVING = "hist[regime=normed,regime=wide,times=2]"


def in_folder(folder: Path, task: str) -> Path:
    """Copies the released hist to where a model of another task is, by its record's word."""
    place = folder / "regimes" / task
    shutil.copytree(released()["hist"], place)
    record = json.loads((place / RECORD).read_text())
    (place / RECORD).write_text(json.dumps({**record, "task": task}))
    return place


def test_models_in_regimes_have_names_and_groups(tmp_path: Path) -> None:
    shutil.copytree(released()["hist"], tmp_path / "hist")
    place = in_folder(tmp_path, LIVING)
    assert in_regimes(tmp_path) == {LIVING: place} and list(released(tmp_path)) == ["hist"]
    for name in (LIVING, "regimes", "regime:normed", "regime:wide+counting", "regime:normed+regime:wide"):
        assert find_checkpoints(name, tmp_path) == [place], name
    for name in ("all", "counting", "depth:2", "7"):
        assert find_checkpoints(name, tmp_path) == [tmp_path / "hist"], name
    with pytest.raises(CheckpointError, match="in the group regime:alive"):
        find_checkpoints("regime:alive", tmp_path)
    with pytest.raises(CheckpointError, match="alife is no group; did you mean regime:alive"):
        find_checkpoints("regime:alife", tmp_path)
    with pytest.raises(CheckpointError, match="there are no seeds in"):
        find_checkpoints("seeds", tmp_path)
    shutil.copytree(place, tmp_path / "hist" / "seed1")
    with pytest.raises(CheckpointError, match="did you mean hist/seed1"):
        find_checkpoints("hist/seed2", tmp_path)
