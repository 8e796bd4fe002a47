"""Families of tasks: one name a member, safe as a part of paths, read back to the same parameters."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, TaskName
from interpbench.core.errors import InterpBenchError, TaskError
from interpbench.tasks import catalogue as registry
from interpbench.tasks.catalogue import get_task, known_task, program_of, task_family
from interpbench.tasks.family import Family, split_name, with_parameters
from interpbench.tasks.programs.ops import rasp, tokens
from interpbench.tasks.task import RaspTask

TASK_NAME = TypeAdapter[str](TaskName)
finite = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
text = st.text(max_size=12) | st.from_regex(r"[a/\-.%~=,\[\]]{0,12}", fullmatch=True)


@dataclass(frozen=True, config=STRICT)
class Shift:
    """What is copied.

    Attributes:
        steps: how far back the token is.
        kind: what is given.
        share: a share.
        loud: whether it is loud.
        folder: where something is; None for nowhere.
    """

    steps: int = 1
    kind: Literal["token", "same"] = "token"
    share: float = 0.5
    loud: bool = False
    folder: str | None = None


def shift(chosen: Shift) -> RaspTask:
    """The token some positions earlier."""

    def build() -> Any:
        back = rasp.Map(lambda position: position - chosen.steps, rasp.indices)
        return rasp.Aggregate(rasp.Select(rasp.indices, back, rasp.Comparison.EQ), tokens).named("copied")

    return RaspTask(build=build, vocab=tuple("cab"), length=3 + chosen.steps, attention="causal")


FAMILY = Family("shift", Shift, shift, one_program=False)


@pytest.fixture
def declared() -> Iterator[None]:
    """The family, registered; forgotten afterwards."""
    before = dict(registry._tasks._values), dict(registry._families), dict(registry._members)
    task_family("shift", Shift)(shift)
    yield
    kept = (registry._tasks._values, registry._families, registry._members)
    for values, old in zip(kept, before):
        values.clear()
        values.update(old)


@given(st.none() | text.filter(lambda value: value != "null"), st.integers(), finite)
def test_a_name_is_read_back_and_is_a_part_of_a_path(folder: str | None, steps: int, share: float) -> None:
    chosen = Shift(steps=steps, share=share, folder=folder)
    told = {"steps": str(steps), "share": str(share), "folder": "null" if folder is None else folder}
    name = with_parameters("shift", told)
    base, inside = split_name(name)
    assert base == "shift" and inside is not None and FAMILY.read(inside) == chosen
    if len(name) < 200:
        canonical = FAMILY.name_of(chosen)
        assert FAMILY.read(split_name(canonical)[1] or "steps=1") == chosen
        assert TASK_NAME.validate_python(canonical) == canonical
        assert PurePosixPath(canonical).name == canonical


@given(text, text)
def test_no_two_members_share_a_name(first: str, second: str) -> None:
    names = {with_parameters("shift", {"folder": value}) for value in (first, second)}
    assert len(names) == len({first, second})


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("shift[steps=02]", "shift[steps=2]"),
        ("shift[kind=same,steps=2]", "shift[steps=2,kind=same]"),
        ("shift[steps=1,kind=token,share=0.50,loud=false,folder=null]", "shift"),
        ("shift[loud=true,share=1]", "shift[share=1.0,loud=true]"),
        ("shift[folder=a/b]", "shift[folder=a--b]"),
        ("shift[folder=a--b]", "shift[folder=a--b]"),
    ],
)
def test_equal_parameters_have_one_name(declared: None, said: str, name: str) -> None:
    task = get_task(said)
    assert task.name == name and task is get_task(name) is known_task(name)


def test_members_are_tasks(declared: None) -> None:
    task, member = get_task("shift"), get_task("shift[steps=2]")
    assert (task.length, member.length, member.vocab) == (4, 5, ("a", "b", "c"))
    assert member.description == "The token some positions earlier." and member.group == "test_family"
    inputs = member.domain.all()[:50]
    earlier = member.causal_model.outputs(inputs)[:, 2:]
    assert (earlier == inputs[:, :-2]).all()


def test_whose_program_a_member_has_is_known_by_its_name(declared: None) -> None:
    assert program_of("shift[steps=3]") == "shift[steps=3]" and program_of("shift") == "shift"
    assert known_task("shift[steps=3]") is None, "a name makes no task"
    registry._families["shift"] = FAMILY._replace(one_program=True)
    assert program_of("shift[steps=3]") == get_task("shift[steps=3]").program_name == "shift"
    assert program_of("nowhere[steps=3]") == "nowhere[steps=3]"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("shift[step=2]", "unknown parameter of task shift 'step'; did you mean steps"),
        ("shift[2]", "unknown parameter of task shift '2'; choose from folder, kind, loud, share, steps"),
        ("shift[]", "unknown parameter of task shift ''; choose from"),
        ("shift[steps=x]", "task shift: steps: input should be a valid integer"),
        ("shift[kind=tokn]", r"task shift: kind: input should be 'token' or 'same' \(got 'tokn'\)"),
        ("shift[steps=1,steps=2]", "task shift: parameter steps is given twice"),
        ("shift[folder=" + "x" * 300 + "]", "the name has 314 characters, more than 200"),
        ("shift[steps=0", r"task shift\[steps=0: the bracket is not closed; shift\[steps=0\] is meant"),
        ("shif[steps=2]", "unknown task 'shif'; did you mean shift"),
        ("hist[steps=2]", "task hist has no parameters; ioi, "),
        ("hist[redundant]", r"task hist has no parameter redundant; did you mean hist\[regime=redundant\]\?"),
        (
            "hist[copies=3]",
            r"no parameter copies=3; say which regime, as in hist\[regime=alive,copies=3\], of alive, r",
        ),
        (
            "hist[regime]",
            r"no parameter regime; say which regime, as in hist\[regime=alive\], of alive, baseline, ",
        ),
        ("hist[regime:alive]", r"did you mean hist\[regime=alive\]\?"),
        ("hist[regime=alive+noisy]", r"apart, as in hist\[regime=alive,regime=noisy\]"),
        ("9999", r"unknown task '9999'; did you mean \d+\?"),
    ],
)
def test_what_is_no_parameter_is_one_line(declared: None, said: str, answer: str) -> None:
    with pytest.raises(InterpBenchError, match=answer) as caught:
        get_task(said)
    assert "\n" not in str(caught.value)


def test_parameters_have_defaults_and_documentation() -> None:
    @dataclass(frozen=True)
    class Undocumented:
        """No attributes."""

        steps: int = 1

    @dataclass(frozen=True)
    class Open:
        """One.

        Attributes:
            steps: how far back.
        """

        steps: int

    for kind, said in ((Undocumented, "steps is not documented"), (Open, "steps has no default")):
        with pytest.raises(TaskError, match=said):
            task_family("shift", kind)
    with pytest.raises(TaskError, match="a task cannot be called"):
        task_family("shift/ed", Shift)(shift)
    with pytest.raises(TaskError, match="task shift: vocab is empty"):
        task_family("shift", Shift)(lambda chosen: replace(shift(chosen), vocab=()))
    assert "shift" not in registry.catalogue() and "shift" not in registry.families()


def test_parameters_are_listed() -> None:
    assert FAMILY.describe()[1:3] == ["kind=token (token, same: what is given)", "share=0.5 (a share)"]
    assert FAMILY.describe()[4] == "folder=null (where something is; null for nowhere)"
