"""Files made from classes are current; each setting stands once, with a comment."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from interpbench.core.config import config_folder
from interpbench.core.setting_docs import WIDTH, setting_docs
from interpbench.runs import generated_files as made
from interpbench.runs.generated_files import COMMANDS, generated_files, stale_files, write_files
from interpbench.runs.methods import package_methods

CONFIGS = Path(config_folder())


def classes() -> list[type[Any]]:
    found = [*package_methods().values(), *COMMANDS.values()]
    for kind in found:
        found += [doc.group for doc in setting_docs(kind) if doc.group and doc.group not in found]
    return found


def test_they_are_current() -> None:
    assert not stale_files(), "`make configs` writes them"


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_setting_is_documented(kind: type[Any]) -> None:
    assert not [doc.name for doc in setting_docs(kind) if not doc.meaning]


def test_every_setting_has_a_comment_that_fits() -> None:
    for path, text in generated_files().items():
        if path.suffix == ".yaml":
            assert all(len(line) <= WIDTH for line in text.splitlines()), path


def test_hand_written_choices_say_only_what_differs() -> None:
    for path in set(CONFIGS.glob("*/*.yaml")) - generated_files().keys():
        if path.parent.name != "experiment":
            said = yaml.safe_load(path.read_text())
            base, _ = said.pop("defaults")
            default = yaml.safe_load((path.parent / f"{base}.yaml").read_text())
            assert said and all(default[key] != value for key, value in said.items()), path


def test_what_is_edited_by_hand_is_found_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "configs"
    shutil.copytree(CONFIGS, folder)
    monkeypatch.setattr(made, "config_folder", lambda: str(folder))
    assert not stale_files()
    before = {path: path.read_text() for path in folder.glob("**/*.yaml")}
    (folder / "method" / "random.yaml").unlink()
    for name, old, new in (
        ("trainer/default", "max_steps: null", "max_steps: 3000"),
        ("evaluate", "seed: 0  ", "seed: 1  "),
    ):
        file = folder / f"{name}.yaml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
    stale = {path.relative_to(folder).as_posix() for path in stale_files()}
    assert stale == {"method/random.yaml", "trainer/default.yaml", "evaluate.yaml"}
    write_files()
    assert {path: path.read_text() for path in folder.glob("**/*.yaml")} == before
