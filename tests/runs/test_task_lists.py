"""Groups of tasks in sweeps of trainings."""

import pytest

from interpbench.core.errors import ConfigError, UnknownNameError
from interpbench.runs.task_lists import expand_tasks
from interpbench.tasks.catalogue import catalogue
from interpbench.tasks.task_records import records


def test_all_is_the_catalogue_and_halves_are_its_halves() -> None:
    everything, trivial, rest = (
        expand_tasks(["-m", f"task={name}"])[1].removeprefix("task=").split(",")
        for name in ("all", "trivial", "nontrivial")
    )
    assert everything == sorted(task.name for task in catalogue().values())
    assert sorted([*trivial, *rest]) == everything and len(trivial) > 60 and "hist" in rest
    assert all(records()[name].trivial for name in trivial)


def test_a_group_is_its_tasks() -> None:
    expanded = expand_tasks(["--multirun", "seed=0,1", "task=counting"])
    assert expanded[:2] == ["--multirun", "seed=0,1"]
    names = expanded[2].removeprefix("task=").split(",")
    assert "hist" in names and {catalogue()[name].group for name in names} == {"counting"}


def test_groups_are_listed_with_each_other_and_with_tasks() -> None:
    (counting,) = expand_tasks(["-m", "task=counting"])[1:]
    (both,) = expand_tasks(["-m", "task=counting,sorting"])[1:]
    assert both.startswith(f"{counting},") and "sort_integers" in both
    assert expand_tasks(["-m", "task=counting,hist,induction"])[1] == f"{counting},induction"
    assert len(expand_tasks(["-m", "task=all,hist"])[1].split(",")) == len(catalogue())


@pytest.mark.parametrize("line", [["-m", "task=nontriv"], ["-m", "task=hist,countin"], ["task=sortin"]])
def test_a_name_near_a_group_says_so(line: list[str]) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean (nontrivial|counting|sorting)"):
        expand_tasks(line)


@pytest.mark.parametrize(
    "line",
    [
        *(["task=hist"], ["-m", "task=hist,ioi"], ["seed=1"], ["task="], ["task=7"], ["task=hst"]),
        *(["task=counting.py:one"], ["-m", "task=ioi[tokenizer=gpt2,a=all],hist"]),
    ],
)
def test_other_lines_stay(line: list[str]) -> None:
    assert expand_tasks(line) == line


def test_groups_are_bounded_and_joined_as_those_of_models_are() -> None:
    (deep,) = expand_tasks(["-m", "task=nontrivial+depth:3-"])[1:]
    names = deep.removeprefix("task=").split(",")
    assert {"ioi", "sort_digits"} <= set(names) and "hist" not in names
    assert all(records()[name].layers >= 3 and not records()[name].trivial for name in names)
    (numerical,) = expand_tasks(["-m", "task=numerical+required:3,hist"])[1:]
    assert numerical.endswith(",hist") and "frac_prevs" in numerical


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nontrivial+", "a + stands between two groups"),
        ("nontrivial+hist", "hist is a task, and no group of them"),
        (
            "nontrivial+depth:40-",
            "in the group nontrivial+depth:40-, of which all terms have to hold; depth is 2 to 8",
        ),
        ("depth:5-3", "depth:5-3: 5 is more than 3; depth:3-5 is a group"),
        ("regime:alive", "is in the group regime:alive; a task in a regime is written as hist[regime=alive]"),
        ("nontrivial+countin", "countin is no group; did you mean counting or"),
    ],
)
def test_what_is_no_group_is_refused_in_one_line(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        expand_tasks(["-m", f"task={name}"])
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_task_that_has_not_been_measured_is_in_the_group_of_its_file(monkeypatch) -> None:
    known = {name: record for name, record in records().items() if name != "hist"}
    monkeypatch.setattr("interpbench.tasks.groups.records", lambda: known)
    assert "hist" in expand_tasks(["-m", "task=counting"])[1]
    with pytest.raises(ConfigError, match="hist has not been measured; `interpbench tasks --write` does"):
        expand_tasks(["-m", "task=nontrivial"])


@pytest.mark.parametrize("name", ["small:is_vowel", "counting:one", "depth:is_vowel"])
def test_a_module_may_be_called_like_a_group(name: str) -> None:
    assert expand_tasks(["-m", f"task={name}"])[1] == f"task={name}"


def test_a_group_without_a_sweep_is_refused() -> None:
    with pytest.raises(ConfigError, match="task=all is 138 tasks; several are a sweep: -m task=all"):
        expand_tasks(["task=all"])
