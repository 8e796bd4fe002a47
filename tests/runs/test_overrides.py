"""Parameters of tasks on the command line, also of a family in a user's own file."""

import subprocess
import sys
from pathlib import Path

import pytest
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser

from interpbench.core.config import config_folder
from interpbench.core.errors import ConfigError
from interpbench.runs.entry import Command, RunOutcome, compose_run
from interpbench.runs.evaluate_settings import EvaluateConfig, MethodChoice
from interpbench.runs.method_lists import expand
from interpbench.runs.overrides import hydra_overrides
from interpbench.runs.train_settings import own_experiment, train_config
from tests.builders import run_script

FAMILY = '''
from pydantic.dataclasses import dataclass
from interpbench.tasks.catalogue import task_family
from interpbench.tasks.programs.ops import rasp, tokens
from interpbench.tasks.task import RaspTask


@dataclass(frozen=True)
class Letter:
    """Which letter is looked for.

    Attributes:
        letter: the letter; None for the first.
        length: how many letters there are.
    """

    letter: str | None = None
    length: int = 3


@task_family("is_letter", Letter)
def is_letter(chosen: Letter) -> RaspTask:
    """Whether each letter is the one that is looked for."""
    wanted = chosen.letter or "a"
    return RaspTask(
        build=lambda: rasp.Map(lambda letter: letter == wanted, tokens).named("found"),
        vocab=("a", "b", "c/d"),
        length=chosen.length,
        attention="causal",
    )
'''


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "my_tasks.py").write_text(FAMILY)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (["task=ioi", "seed=1"], ["task=ioi", "seed=1"]),
        (
            ["task=ioi,ioi_next_token", "task.tokenizer=a/b", "seed=1"],
            ["task='ioi[tokenizer=a--b]','ioi_next_token[tokenizer=a--b]'", "seed=1"],
        ),
        (["task=f", "task.a=1,2", "task.b=x"], ["task='f[a=1,b=x]','f[a=2,b=x]'"]),
        (["task=ioi[tokenizer=a/b]"], ["task='ioi[tokenizer=a/b]'"]),
        (["task='f[a=1,b=2]',f[a=2],hist"], ["task='f[a=1,b=2]','f[a=2]',hist"]),
        (["task=f[a=1,b=2]", "task.c=3"], ["task='f[a=1,b=2,c=3]'"]),
        (["task=x.py:f[a=1,b=2]"], ["task='x.py:f[a=1,b=2]'"]),
        (["task=ioi", "task.tokenizer=null"], ["task='ioi[tokenizer=null]'"]),
        (["task=ioi", "task.tokenizer='a,b=c d'"], ["task='ioi[tokenizer=a%2Cb%3Dc%20d]'"]),
        (["checkpoint=runs/f[a=1,b=2]/x"], ["checkpoint='runs/f[a=1,b=2]/x'"]),
        (["task=[hist,ioi]"], ["task=[hist,ioi]"]),
        (["task=ioi", "alignment.tokens=m0"], ["task=ioi", "+alignment.tokens=m0"]),
        (["task=hist", "regime=alive"], ["task='hist[regime=alive]'"]),
        (
            ["regime=alive,redundant+noisy", "task=hist,f[a=1]"],
            [
                "task='hist[regime=alive]','hist[regime=redundant,regime=noisy]',"
                "'f[a=1,regime=alive]','f[a=1,regime=redundant,regime=noisy]'"
            ],
        ),
        (
            ["regime.share=0.1,0.2", "task=f", "regime=rare", "task.a=1"],
            ["task='f[a=1,regime=rare,share=0.1]','f[a=1,regime=rare,share=0.2]'"],
        ),
    ],
)
def test_hydra_takes_what_becomes_of_them(given: list[str], taken: list[str]) -> None:
    assert hydra_overrides(given) == taken
    OverridesParser.create().parse_overrides(taken)


def test_checkpoints_in_folders_of_members_are_listed() -> None:
    given = hydra_overrides(["checkpoint=runs/f[a=1,b=2]/x,hist", "method=random"])
    assert expand(given) == ["checkpoint=['runs/f[a=1,b=2]/x',hist]", "method=random"]
    assert expand(hydra_overrides(["checkpoint=f[a=1,b=2]"])) == ["checkpoint='f[a=1,b=2]'"]


def test_a_method_may_have_settings_in_a_list() -> None:
    assert expand(["method=exact,eap_ig+steps=3+direction=both"]) == [
        "methods=[exact,'eap_ig+steps=3+direction=both']"
    ]
    assert expand(["method=exact+direction=both"]) == ["method=exact", "method.direction=both"]
    OverridesParser.create().parse_overrides(expand(["method=exact,exact+direction=both"]))
    config = EvaluateConfig(method={}, methods=["exact", "exact+direction=both", "eap+direction=noising"])
    assert config.chosen == [
        MethodChoice("exact", {}),
        MethodChoice("exact", {"direction": "both"}),
        MethodChoice("eap", {}),
    ], "defaults are not told"
    again = [
        "eap_ig+steps=3+direction=both",
        "eap_ig+direction=both+steps=03",
        "eap+direction=noising",
        "eap",
    ]
    assert EvaluateConfig(method={}, methods=again).chosen == [
        MethodChoice("eap_ig", {"direction": "both", "steps": 3}),
        MethodChoice("eap", {}),
    ], "each once, however it is said"
    every = EvaluateConfig(method={}, methods=["all", "exact+direction=both"]).chosen
    assert MethodChoice("exact", {"direction": "both"}) in every and MethodChoice("exact", {}) in every
    assert expand(["method=all,exact+direction=both"]) == ["methods=[all,'exact+direction=both']"]
    assert expand(["methods=[exact,exact+direction=both]"]) == ["methods=[exact,'exact+direction=both']"]
    assert expand(["method='exact+direction=both'"]) == ["method=exact", "method.direction=both"]
    with pytest.raises(ConfigError, match=r"with -m say method=… method\.setting=a,b"):
        expand(["-m", "method=eap,eap+direction=both"])
    for words, said in (
        ("exact,exact+directon=both", "method exact: directon: unknown key; did you mean direction"),
        ("exact,eap+steps=3+steps=5", "method eap: steps is said twice"),
        ("all+direction=both", r"all\+direction=both: all is every method"),
        (
            "exact,eap+direction=bth",
            "method eap: direction: input should be 'noising', 'denoi",
        ),
    ):
        with pytest.raises(ConfigError, match=said):
            expand([f"method={words}"])


def test_parameters_are_of_a_task() -> None:
    with pytest.raises(ConfigError, match=r"task.depth is a parameter of a task: say which, as in task=ioi"):
        hydra_overrides(["task.depth=2"])
    with pytest.raises(ConfigError, match=r"^regime=alive is of a task: say which, as in task=hist"):
        hydra_overrides(["regime=alive"])
    with pytest.raises(
        ConfigError, match=r"^regime=alive is of a task: models are .* checkpoint=regime:alive,"
    ):
        hydra_overrides(["regime=alive", "checkpoint=hist"])
    with pytest.raises(
        ConfigError, match=r"^regime.share is a dial .* say which, as in regime=rare regime.sh"
    ):
        hydra_overrides(["task=hist", "regime.share=0.1"])
    with pytest.raises(ConfigError, match=r"^regime.copys is a dial of no regime; did you mean copies"):
        hydra_overrides(["task=hist", "regime.copys=5"])
    with pytest.raises(
        ConfigError, match=r"^regime.copies .* noisy, which has no copies; for redundant, write"
    ) as refused:
        hydra_overrides(["task=hist", "regime=redundant+noisy", "regime.copies=5"])
    assert "\"task='hist[regime=redundant,copies=5,regime=noisy]'\"" in str(refused.value)
    with pytest.raises(ConfigError, match=r"^regime is said twice; regime=alive\+rare is both"):
        hydra_overrides(["task=hist", "regime=alive", "regime=rare"])
    with pytest.raises(ConfigError, match=r"^'regime=alive\+' names no regime behind or before a \+"):
        hydra_overrides(["task=hist", "regime=alive+"])
    with pytest.raises(ConfigError, match=r"^'regime=alive,copies=3': the dial is regime.copies=3"):
        hydra_overrides(["task=hist", "regime=alive,copies=3"])


def test_a_family_of_one_s_own_goes_through_the_command_line(own: Path) -> None:
    file = "task=my_tasks.py:is_letter"
    written = run_script(own, "train.py", file, "task.letter=c/d", "task.length=02", "--cfg", "job")
    assert "task: my_tasks.py:is_letter[letter=c--d,length=02]\n" in written.stdout
    for words in (["task.lettr=b"], ["task.length=two"]):
        done = run_script(own, "train.py", file, *words)
        assert done.returncode == 2 and not done.stdout and done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "task is_letter: length: input should be a valid integer" in done.stderr
    line = "from interpbench.runs.cli import main; main()"
    show = [sys.executable, "-c", line, "show", "my_tasks.py:is_letter[length=2,letter=c/d]", "--png"]
    shown = subprocess.run(show, cwd=own, capture_output=True, text=True, check=True).stdout
    assert "is_letter[letter=c--d,length=2]: Whether each letter" in shown and "2 tokens from 3" in shown
    assert "letter=null (the letter; null for the first)" in shown
    assert (own / "runs" / "pictures" / "is_letter[letter=c--d,length=2].png").is_file()


def test_a_member_whose_parameters_are_defaults_is_trained_as_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = Command("train", lambda _: RunOutcome(), experiment=lambda data: own_experiment(data["task"]))
    with initialize_config_dir(config_folder(), version_base="1.3"):
        composed = compose_run(command, hydra_overrides(["task=ioi", "task.tokenizer=null"]))
    config = train_config(composed.data)
    assert composed.own == "ioi" and config.folder.parent.name == "ioi", "experiment and folder are ioi's"
