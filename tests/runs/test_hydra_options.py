"""What the options of `train.py` and `evaluate.py` answer, through Hydra's public interfaces."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from interpbench.core.config import convert
from interpbench.discovery.known_methods import known_methods
from interpbench.runs import cli
from interpbench.runs.entry import contained
from interpbench.runs.hydra_options import NAMES
from interpbench.runs.train_settings import TrainConfig

OWN = '''"""Sizes."""

from pydantic.dataclasses import dataclass

from interpbench.discovery.method import MethodRecord, method


@method("sizes_helped")
@dataclass(frozen=True)
class Sizes:
    """Sizes.

    Attributes:
        power: how large sizes count.
    """

    power: float = 2.0

    record = MethodRecord(sign="larger: more", cost="nothing", granularity="edge")

    def __call__(self, problem):
        """Nothing."""
'''
Captured = pytest.CaptureFixture[str]


def asked(capsys: Captured, command: str, *arguments: str) -> str:
    """Returns what is printed; the command line of this process stays as it is."""
    typed = list(sys.argv)
    assert contained(lambda: cli.HYDRA[command](arguments)) == 0
    assert sys.argv == typed
    return capsys.readouterr().out


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_groups_and_settings_with_their_defaults(capsys: Captured, option: str) -> None:
    said = asked(capsys, "train", option)
    assert said.startswith("Train a transformer to have a known circuit")
    assert "objective: behaviour, iit, siit, siit_edges, unguided\n" in said
    assert "logger: jsonl, wandb\n" in said
    assert "  max_steps: null\n" in said and "task: ??? " in said and "Sweeps:     -m task=" in said
    assert "\nmethod:" not in said and "hydra/" not in said.split("Sweeps:")[0] and "$" not in said
    evaluation = asked(capsys, "evaluate", option)
    assert "\nmethod: acdc, activation_std, atp" in evaluation and "\nobjective:" not in evaluation


def test_help_is_of_the_settings_given(capsys: Captured) -> None:
    said = asked(capsys, "train", "--help", "task=hist", "-m", "trainer.max_steps=7")
    assert "  max_steps: 7\n" in said and "task: hist " in said


def unexplained(said: str) -> list[str]:
    """The settings of a help text that have a comment neither beside nor above them."""
    lines = ["", *said.split("Settings and their defaults:\n\n")[1].split("\n\n")[0].splitlines()]
    return [
        line
        for above, line in pairwise(lines)
        if "  # " not in line and not line.lstrip().startswith("# ") and not above.lstrip().startswith("# ")
    ]


def test_help_says_what_every_setting_means_and_what_it_can_be(capsys: Captured) -> None:
    said = asked(capsys, "train", "--help")
    assert unexplained(said) == []
    assert "# adamw, adam, muon: the optimizer; " in said
    assert "certificate: default" not in said, "a group with one choice is no choice"
    for method in known_methods():
        said = asked(capsys, "evaluate", "--help", f"method={method}")
        assert unexplained(said) == [f"  name: {method}"], method
    assert "data: stored          # stored, fresh: where pairs come from\n" in said


def test_help_says_what_settings_of_an_own_method_mean(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "own_method_helped.py"
    file.write_text(OWN)
    said = asked(capsys, "evaluate", "--help", f"method={file}")
    assert "  power: 2.0" in said and "# how large sizes count\n" in said


def test_help_of_hydra_lists_our_options_and_its_groups(capsys: Captured) -> None:
    said = asked(capsys, "train", "--hydra-help")
    assert all(name in said for name in NAMES)
    assert "hydra/launcher: basic, joblib, submitit_local, submitit_slurm\n" in said


@pytest.mark.parametrize("arguments", [["--cfg", "job"], ["-c", "job"], ["--cfg=job", "--resolve"]])
def test_the_configuration_that_a_run_would_have(capsys: Captured, arguments: list[str]) -> None:
    """With the experiment of the task, which comes by itself."""
    said = asked(capsys, "train", "task=ioi", *arguments, "seed=3")
    config = convert(TrainConfig, yaml.safe_load(said))
    assert (config.task, config.seed, config.objective.edge_strict) == ("ioi", 3, 2)


def test_the_configuration_of_hydra(capsys: Captured) -> None:
    hydra = yaml.safe_load(asked(capsys, "train", "--cfg", "hydra", "hydra/launcher=joblib"))
    assert list(hydra) == ["hydra"] and hydra["hydra"]["runtime"]["choices"]["hydra/launcher"] == "joblib"
    assert {"hydra", "task", "trainer"} < set(yaml.safe_load(asked(capsys, "train", "--cfg", "all")))


def test_where_the_configuration_comes_from(capsys: Captured) -> None:
    said = asked(capsys, "evaluate", "--info", "method=eap")
    assert "  main: file://" in said and "  method: eap\n" in said and "  JoblibLauncher\n" in said
    assert "interpbench " in (version := asked(capsys, "train", "--version")) and "Hydra 1." in version


def test_completion_of_settings(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "complete -c" in asked(capsys, "train", "-sc", "install=fish")
    line = "python train.py objective=s"
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    assert asked(capsys, "train", "--shell-completion", "query=bash").split() == [
        *("objective=siit", "objective=siit_edges")
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config-dir=x"], "unknown option '--config-dir'; did you mean "),
        (["--trainer.batch=3"], "unknown option '--trainer.batch'; did you mean "),
        (["--zqxjw=1"], "unknown option '--zqxjw'; settings are key=value"),
        (["--cfg", "jbo"], "argument -c/--cfg: invalid choice: 'jbo'"),
        (["--cfg"], "argument -c/--cfg: expected one argument"),
        (["-m", "--cfg", "job"], "a sweep takes settings, not the option '--cfg'"),
        (["-sc", "install=zhs"], "'install=zhs'; did you mean install=zsh"),
        (["--cfg", "job", "task=hsit"], "'hsit'; did you mean hist"),
        (["--info", "objective=sit"], "unknown objective 'sit'; did you mean siit"),
    ],
)
def test_mistakes_are_one_line(capsys: Captured, arguments: list[str], said: str) -> None:
    assert contained(lambda: cli.HYDRA["train"](arguments)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and err.startswith("error: ") and said in err
