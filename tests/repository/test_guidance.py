"""What guidance is worth: the page says what was measured, and a study that has begun keeps its tasks."""

import json
from collections import Counter

import pytest

from benchmarks import guidance
from benchmarks.guidance import ARMS, RESULTS, STEPS, collected, draw
from tests import ROOT

RUNS = json.loads((ROOT / RESULTS).read_text())["runs"]
PAGE = " ".join((ROOT / "docs" / "training.md").read_text().split())
ALL, UNTOLD, UNFOLLOWED = "all of it", "heads are not told where to look", "draws do not follow failures"


def total(arm: str) -> str:
    """Returns the steps of all networks of an arm, as the page writes it; without a certificate, all."""
    return f"{sum(run['steps'] or STEPS for run in RUNS if run['arm'] == arm):,}"


def certified(arm: str) -> set[tuple[str, int]]:
    return {(run["task"], run["seed"]) for run in RUNS if run["arm"] == arm and run["steps"] is not None}


def test_the_page_says_what_was_measured() -> None:
    each = Counter(run["arm"] for run in RUNS)
    assert set(each) == set(ARMS) and len(set(each.values())) == 1
    count = each[ALL]
    assert f"{count} networks in each of five ways" in PAGE
    assert f"{total(UNFOLLOWED)} steps without it and {total(ALL)} with" in PAGE
    some, every = len(certified(UNTOLD)), len(certified(ALL))
    assert f"{some} of {count} are certified without it, {every} with all" in PAGE
    assert f"they take {total(UNTOLD)} steps instead of {total(ALL)}" in PAGE
    both = certified(ALL) & certified("no probes")
    steps = {(run["task"], run["seed"], run["arm"]): run["steps"] for run in RUNS}
    with_, without = (sum(steps[*place, arm] for place in both) for arm in (ALL, "no probes"))
    said = f"The {len(both)} networks that are certified either way"
    assert f"{said} take {with_:,} steps with them and {without:,}" in PAGE


def test_runs_count_once_all_ways_of_a_task_and_seed_are_there(monkeypatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    stored = [{"task": "a", "seed": 0, "arm": arm, "steps": 500} for arm in ARMS]
    monkeypatch.setattr(guidance, "OUT", str(tmp_path))
    monkeypatch.setattr(guidance, "RESULTS", tmp_path / "guidance.json")
    monkeypatch.setattr(guidance, "FIGURE", tmp_path / "guidance.png")
    (tmp_path / "guidance.json").write_text(json.dumps({"tasks": ["a", "b"], "runs": stored}))
    assert guidance.chosen() == ["a", "b"]
    (tmp_path / "steps").mkdir()
    made = [{"task": "b", "seed": 0, "arm": arm, "steps": None} for arm in ARMS]
    for number, run in enumerate(made[:-1]):
        (tmp_path / "steps" / f"{number}.json").write_text(json.dumps(run))
    assert collected() == sorted(stored, key=lambda run: run["arm"])
    (tmp_path / "steps" / "last.json").write_text(json.dumps(made[-1]))
    assert len(collected()) == 2 * len(ARMS)
    draw(collected())
    assert (tmp_path / "guidance.png").stat().st_size > 5_000


@pytest.mark.parametrize("task", json.loads((ROOT / RESULTS).read_text())["tasks"])
def test_a_task_has_all_ways_of_a_seed(task: str) -> None:
    seeds = Counter(run["seed"] for run in RUNS if run["task"] == task)
    assert {0, 1} <= set(seeds) and set(seeds.values()) == {len(ARMS)}
