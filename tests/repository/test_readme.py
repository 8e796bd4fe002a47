"""The README's snippets and commands are tests."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from interpbench.circuits.ground_truth import LEVELS
from interpbench.core.config import config_folder
from interpbench.discovery import method as methods
from interpbench.runs.method_lists import expand
from interpbench.runs.overrides import hydra_overrides
from interpbench.tasks import catalogue
from tests import ROOT

README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    line.split("#")[0].strip()
    for line in re.findall(r"^(?:python \w+\.py|interpbench|make) .*$", README, re.MULTILINE)
]


def snippet(part):
    (found,) = [text for text in SNIPPETS if part in text]
    return found


def run(code, tmp_path):
    path = tmp_path / "snippet.py"
    path.write_text(code)
    return runpy.run_path(str(path))


@pytest.mark.filterwarnings("ignore")
def test_the_library_snippet_runs(tmp_path, capsys):
    names = run(snippet("interpbench.load"), tmp_path)
    assert float(capsys.readouterr().out.split()[-1]) == 1.0
    assert names["logits"].shape == (1, 5, 1)


def test_a_task_can_be_added_in_one_function(tmp_path):
    from interpbench.alignment.alignment import align
    from interpbench.alignment.find_ground_truth import find_truth
    from interpbench.runs.train import TrainConfig, train
    from interpbench.tasks.shapes import shape

    try:
        run(snippet('@task("is_vowel"'), tmp_path)
        task = catalogue.get_task("is_vowel")
        truth = find_truth(align(task, shape(task).graph))
        assert truth.names("qkv_edge", 2) == ["embed->m0", "m0->logits"]
        settings = {"max_steps": 20, "validation_rows": 64}
        certificate = {"enumerate_up_to": 1, "pairs": 64}
        config = TrainConfig(task="is_vowel", out=str(tmp_path), trainer=settings, certificate=certificate)
        assert train(config).folder.is_dir()
    finally:
        catalogue._tasks._values.pop("is_vowel", None)


def test_a_family_of_tasks_can_be_added(tmp_path):
    try:
        run(snippet("@task_family("), tmp_path)
        task = catalogue.get_task("token_before[steps=2]")
        assert task.causal_model.outputs(task.domain.all())[-1].tolist() == [-1, -1, 2, 2]
    finally:
        for registered in (catalogue._tasks._values, catalogue._families, catalogue._members):
            for name in [name for name in registered if name.startswith("token_before")]:
                registered.pop(name)


def test_a_causal_model_can_be_written_by_hand(tmp_path):
    from interpbench.alignment.alignment import align
    from interpbench.alignment.find_ground_truth import find_truth
    from interpbench.tasks.shapes import shape

    try:
        run(snippet("@causal_task("), tmp_path)
        task = catalogue.get_task("repeats")
        truth = find_truth(align(task, shape(task).graph))
        assert truth.names("head_edge", 2) == ["embed->a0.h1", "embed->m0", "a0.h1->m0", "m0->logits"]
        assert truth.names("qkv_edge", 3) == [f"embed->a0.h1<{slot}>" for slot in "qkv"]
    finally:
        catalogue._tasks._values.pop("repeats", None)


def test_a_method_can_be_added_in_one_file(tmp_path):
    import interpbench

    try:
        run(snippet('@method("write_norm")'), tmp_path)
        checkpoint = interpbench.load("frac_prevs")
        scores = interpbench.discover(checkpoint, "write_norm", examples=16)
        assert set(interpbench.compare(checkpoint.truth, scores)) == set(LEVELS)
    finally:
        methods._methods._values.pop("write_norm", None)


OWN = [c for c in COMMANDS if "my_method.py" in c]
"""Run in test_own_methods.py: these import the README's file before Hydra composes."""


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python") and c not in OWN])
def test_hydra_commands_compose(command):
    _, script, *overrides = shlex.split(command)
    sweep = "-m" in overrides
    overrides = [o.split(",")[0] if sweep else o for o in expand(hydra_overrides(overrides)) if o != "-m"]
    with initialize_config_dir(config_folder(), version_base="1.3"):
        compose(Path(script).stem, [o for o in overrides if not o.startswith("--")])


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c.startswith(("interpbench tasks", "interpbench show"))]
)
def test_console_commands_run(command, tmp_path):
    arguments = [
        sys.executable,
        "-c",
        "from interpbench.runs.cli import main; main()",
        *shlex.split(command)[1:],
    ]
    assert subprocess.run(arguments, capture_output=True, check=False, cwd=tmp_path).returncode == 0


def test_make_targets_exist():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wanted = {word for c in COMMANDS if c.startswith("make") for word in c.split()[1:2]}
    assert wanted <= set(targets) and {"demo", "test"} <= wanted


def test_pictures_and_folders_exist():
    root = ROOT
    for path in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (root / path).is_file(), path
    for path in re.findall(r"`((?:interpbench|configs|models|benchmarks|tests)/[\w/]*)`", README):
        assert (root / path).exists(), path
