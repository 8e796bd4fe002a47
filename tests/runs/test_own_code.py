"""Methods and tasks of a user's own that do harm, fail or exit: no other score and no command suffers."""

import json
import logging
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import interpbench
from interpbench.checkpoints.load import load_checkpoint
from interpbench.core import user_code as core_own
from interpbench.core.errors import DiscoveryError
from interpbench.core.process import _umask
from interpbench.discovery import method as registry
from tests import ROOT
from tests.builders import run_script
from tests.forks import run_python

RELEASED = ROOT / "models"


# A method gets a copy, and the process is put back after it.

METHODS = """
import logging
import os, random, sys
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import torch
from interpbench.circuits.scores import Scores
from interpbench.discovery.method import MethodRecord, method


class Base:
    record: ClassVar[MethodRecord] = MethodRecord(sign="none", cost="none", granularity="edge")

    def __call__(self, problem):
        self.harm(problem)
        scores = np.where(problem.graph.legal, np.random.rand(*problem.graph.legal.shape), np.nan)
        return Scores(problem.graph, scores)


@method("weights")
@dataclass(frozen=True)
class Weights(Base):
    def harm(self, problem):
        with torch.no_grad():
            problem.network.blocks[0].mlp.W_in.zero_()


@method("inputs")
@dataclass(frozen=True)
class Inputs(Base):
    def harm(self, problem):
        problem.clean.fill_(0)


@method("positions")
@dataclass(frozen=True)
class Positions(Base):
    def harm(self, problem):
        problem.scored[:] = False


@method("process")
@dataclass(frozen=True)
class Process(Base):
    def harm(self, problem):
        os.chdir("/")
        os.environ["INTERPBENCH_HUB"] = "me/models@main"
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        torch.set_num_threads(2)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.set_default_device("meta")
        torch.use_deterministic_algorithms(True)
        torch.set_float32_matmul_precision("medium")
        np.seterr(all="ignore")
        os.umask(0o777)
        sys.setrecursionlimit(500)
        logging.disable(logging.CRITICAL)
        sys.stdout = sys.stderr


@method("leaves")
@dataclass(frozen=True)
class Leaves(Base):
    def harm(self, problem):
        sys.exit(0)


@method("raises")
@dataclass(frozen=True)
class Raises(Base):
    def harm(self, problem):
        raise KeyError("no such thing")  # line 76


@method("classes")
@dataclass(frozen=True)
class Classes(Base):
    def harm(self, problem):
        type(problem.network).run = lambda self, *_, **__: torch.zeros(1)


@method("hooks")
@dataclass(frozen=True)
class Hooks(Base):
    def harm(self, problem):
        torch.nn.modules.module.register_module_forward_hook(lambda *_: None)


@method("original")
@dataclass(frozen=True)
class Original(Base):
    def harm(self, problem):
        import gc
        own = problem.network.blocks[0].mlp.W_in
        for found in gc.get_objects():  # other tests' networks, of other weights, are left alone
            if type(found) is type(problem.network) and found is not problem.network:
                weight = found.blocks[0].mlp.W_in
                if torch.equal(weight, own):
                    with torch.no_grad():
                        weight.zero_()


@method("complex")
@dataclass(frozen=True)
class Complex(Base):
    def __call__(self, problem):
        return Scores(problem.graph, np.where(problem.graph.legal, 1j, np.nan))


@method("costly")
@dataclass(frozen=True)
class Costly(Base):
    def __call__(self, problem):
        scores = Scores(problem.graph, np.where(problem.graph.legal, 1.0, np.nan))
        scores.cost.forward_examples = "many"
        return scores


@method("nothing")
@dataclass(frozen=True)
class Nothing(Base):
    def __call__(self, problem):
        return None


@method("quiet")
@dataclass(frozen=True)
class Quiet(Base):
    def harm(self, problem):
        pass
"""


@pytest.fixture
def harmful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    before = dict(registry.methods()._values)
    (tmp_path / "mine.py").write_text(METHODS)
    (tmp_path / "models").symlink_to(RELEASED)
    yield tmp_path / "mine.py"
    registry._methods._values.clear()
    registry._methods._values.update(before)
    core_own._import.cache_clear()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("weights", r"method weights alters the network's blocks\.0\.mlp\.W_in"),
        ("inputs", "method inputs alters the clean inputs"),
        ("positions", "method positions alters which positions are scored"),
        ("leaves", r"method leaves fails: mine\.py:\d+: it calls sys\.exit\(0\)"),
        ("raises", r"method raises fails: mine\.py:\d+: KeyError: 'no such thing'"),
        ("nothing", "method nothing returns NoneType instead of Scores"),
        ("classes", r"method classes alters interpbench\.transformer\.model\.Transformer\.run"),
        ("hooks", r"method hooks alters torch\.nn\.modules\.module\._global_forward_hooks"),
        ("original", r"method original alters the network's blocks\.0\.mlp\.W_in"),
        ("complex", "method complex returns scores of type complex"),
        ("costly", "method costly returns a Cost whose numbers of passes are"),
    ],
)
def test_what_a_method_does_wrong_is_said_by_name(harmful: Path, name: str, said: str) -> None:
    checkpoint = interpbench.load("hist")
    with pytest.raises(DiscoveryError, match=said):
        interpbench.discover(checkpoint, f"{harmful}:{name}")


def test_the_process_is_as_before(harmful: Path) -> None:
    def state() -> list[Any]:
        return [
            *(Path.cwd(), dict(os.environ), random.getstate(), sys.stdout, torch.is_grad_enabled()),
            *(str(np.random.get_state()), torch.get_num_threads()),  # noqa: NPY002
            torch.get_rng_state().tolist(),
            *(torch.get_default_dtype(), torch.get_default_device(), np.geterr(), sys.getrecursionlimit()),
            *(torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()),
            *(logging.root.manager.disable, _umask()),
        ]

    before = state()
    first = interpbench.discover("hist", f"{harmful}:process")
    assert state() == before
    random.random(), torch.rand(3)
    again = interpbench.discover("hist", f"{harmful}:process")
    assert np.array_equal(first.edges, again.edges, equal_nan=True)


def test_no_method_spoils_the_scores_of_another(harmful: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`exact` after each of them is as it is alone; what they do wrong is a line each."""
    bad = ["weights", "inputs", "positions", "process", "leaves", "raises", "nothing", "classes", "hooks"]
    bad += ["original", "complex", "costly"]
    names = ",".join([*(f"mine.py:{name}" for name in bad), "exact", "mine.py:quiet"])
    done = run_script(
        harmful.parent,
        "evaluate.py",
        *(f"method={names}", "checkpoint=hist", "examples=16", "thorough=false", "pictures=false"),
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    failed = [line for line in done.stderr.splitlines() if line.startswith("failed: ")]
    assert [line.split()[1] for line in failed] == [name for name in bad if name != "process"]
    records = {path.stem: json.loads(path.read_text()) for path in Path("runs").glob("**/hist/*.json")}
    alone = interpbench.compare(
        load_checkpoint(RELEASED / "hist").truth, interpbench.discover("hist", "exact", examples=16)
    )
    (exact,) = [record for name, record in records.items() if name.startswith("exact")]
    assert exact["levels"]["qkv_edge"]["metrics"]["auroc"][0] == alone["qkv_edge"].auroc == 1.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nsys.exit(0)\n", "bad.py:2: it calls sys.exit(0)"),
        ("1 / 0\n", "bad.py:1: ZeroDivisionError: division by zero"),
        ("def (", "bad.py:1: SyntaxError: invalid syntax"),
        ("raise KeyboardInterrupt\n", "interrupted"),
    ],
)
@pytest.mark.parametrize("argument", ["task=bad.py", "method=bad.py"])
def test_a_file_of_one_s_own_that_fails_is_one_line(
    tmp_path: Path, text: str, said: str, argument: str
) -> None:
    (tmp_path / "bad.py").write_text(text)
    done = run_script(tmp_path, "train.py" if "task" in argument else "evaluate.py", argument)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("error: ") and said in done.stderr
    assert done.returncode == (130 if "Interrupt" in text else 2)


TASK = """
import sys
from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import rasp, tokens


@task("mine", vocab="abc", length=3, attention="causal")
def mine():
    "Something."
    {}
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(3)", "mine.py:10: it calls sys.exit(3)"),
        ("raise ValueError('no')", "mine.py:10: ValueError: no"),
        ("return rasp.Map(lambda t: {}[t], tokens).named('mine')", "mine.py:10: KeyError: 'a'"),
    ],
)
def test_a_task_of_one_s_own_that_fails_is_one_line(tmp_path: Path, body: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(TASK.replace("{}", body, 1))
    for script, arguments in (("train.py", ["task=mine.py"]), ("-c", [])):
        if script == "-c":
            line = (
                "import sys; from interpbench.runs import cli\nsys.argv[1:] = ['show', 'mine.py']\ncli.main()"
            )
            done = run_python(tmp_path, "-c", line)
        else:
            done = run_script(tmp_path, script, *arguments)
        assert (done.returncode, done.stderr) == (2, f"error: {said}\n")
