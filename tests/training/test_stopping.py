"""Stopping rules: pure functions of settings and of validations made up here; no network is trained."""

import dataclasses
import math

import pytest
from pydantic import TypeAdapter, ValidationError

from interpbench.tasks.catalogue import get_task
from interpbench.training.curriculum import Curriculum
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.settings import TrainerSettings
from interpbench.training.stopping import (
    Line,
    broken,
    confirmed,
    guided_steps,
    hopeless,
    learning_rate,
    stale,
    tries_certificate,
    within_reach,
)
from interpbench.training.validation import Validation

SETTINGS = TrainerSettings(max_steps=1000, validate_every=100, patience=3, confirm=2, stop_at=0.9)


def line(step: int, rate: float, first: float = 1.0, siia: float | None = None) -> Line:
    validation = Validation(rate, rate, rate if siia is None else siia, rate, "node a0.h0")
    return Line(step, {"iit": first, "strict": 0.5}, validation, 1e-3)


def lines(*rates: float) -> list[Line]:
    return [line(100 * (number + 1), rate) for number, rate in enumerate(rates)]


def test_a_line_is_as_good_as_its_worst_rate_and_costs_all_its_losses() -> None:
    assert line(1, 0.9, siia=0.2).validation.lowest == 0.2
    assert line(1, 0.9).loss == 1.5


def test_a_line_names_losses_and_rates_side_by_side() -> None:
    kept = {
        **{"step": 7, "loss/iit": 1.0, "loss/strict": 0.5, "accuracy": 0.9, "iia": 0.9, "siia": 0.2},
        **{"edges": 0.9, "worst": "node a0.h0", "learning_rate": 1e-3},
    }
    made, lines = line(7, 0.9, siia=0.2), TypeAdapter(list[Line])
    assert made.to_json() == kept and list(made.to_json()) == list(kept)
    assert lines.dump_python([made], mode="json") == [kept] and lines.validate_python([kept]) == [made]
    for bad in ({**kept, "more": 1}, {**kept, "iia": 1.5}, {"step": 7}, {**kept, "loss/iit": "low"}, 7, {}):
        with pytest.raises(ValidationError):
            lines.validate_python([bad])


def test_what_is_no_better_than_the_best_is_stale() -> None:
    assert stale(lines(0.5, 0.6, 0.6, 0.55, 0.6 + 5e-5, 0.7, 0.1)) == [0, 0, 1, 2, 3, 0, 1]
    assert stale([]) == []


def test_progress_after_guidance_is_not_measured_against_guided_validations() -> None:
    found = lines(0.5, 0.9, 0.9, 0.4, 0.4, 0.5)
    guided = found[2].step
    assert stale(found, guided) == [0, 0, 1, 0, 1, 0]
    assert stale(found) == [0, 0, 1, 2, 3, 4]
    assert hopeless(SETTINGS, found, 16) and hopeless(SETTINGS, found, 16, guided) is None


def test_validations_in_a_row_confirm() -> None:
    assert confirmed(SETTINGS, lines(0.95, 0.5, 0.95, 0.9)) == 2
    assert confirmed(SETTINGS, lines(0.95, 0.95, 0.89)) == 0
    assert confirmed(SETTINGS, []) == 0


def test_a_certificate_is_tried_when_confirmed_but_not_soon_after_one_that_missed() -> None:
    good = lines(*[0.95] * 6)
    assert not tries_certificate(SETTINGS, good[:1], [])
    assert tries_certificate(SETTINGS, good[:2], [])
    assert not tries_certificate(SETTINGS, good[:2], [150])
    assert tries_certificate(SETTINGS, good[:3], [200])  # a tenth of the schedule later
    slow = TrainerSettings(max_steps=4000, validate_every=100, confirm=2, stop_at=0.9)
    assert not tries_certificate(slow, good[:5], [200]) and tries_certificate(slow, good, [200])
    assert not tries_certificate(SETTINGS, lines(*[0.95] * 10), [])  # the end has one anyway


def test_a_run_without_progress_is_given_up_unless_it_is_good_enough() -> None:
    assert hopeless(SETTINGS, lines(*[0.5] * 4), 16) is None
    said = hopeless(SETTINGS, lines(*[0.5] * 5), 16)
    assert said is not None and "no progress for 3 validations (worst: node a0.h0)" in said
    assert "try trainer.max_steps=8000" in said and "trainer.batch=128" in said and "model.d_model=32" in said
    assert "try objective.probe=1, " in str(hopeless(SETTINGS, lines(*[0.5] * 5), 16, 0, "objective.probe=1"))
    longer = dataclasses.replace(SETTINGS, max_steps=6000).longer
    assert longer == 12000, "twice as many, and no fewer than the default of 8,000"
    assert hopeless(SETTINGS, lines(*[0.95] * 6), 16) is None
    assert hopeless(SETTINGS, lines(*[0.89] * 6), 16) is None, "little is missing"


def test_a_run_that_goes_on_from_another_may_get_worse_until_the_learning_rate_is_at_its_peak() -> None:
    found = lines(0.8, 0.4, 0.45, 0.5, 0.55)  # the peak is after 100 of 1,000 steps
    assert hopeless(SETTINGS, found, 16) is None
    assert hopeless(dataclasses.replace(SETTINGS, schedule="none"), found, 16)


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (math.nan, "the loss is nan at step 200"),
        (math.inf, "the loss is inf"),
        (40.0, "grew from 1.5 to 40.5"),
    ],
)
def test_a_loss_that_explodes_ends_the_run_with_what_to_try(last: float, said: str) -> None:
    why = broken(SETTINGS, [line(100, 0.5), line(200, 0.5, last)])
    assert why is not None and said in why and "trainer.learning_rate=0.001" in why


def test_a_loss_may_grow_a_little() -> None:
    assert broken(SETTINGS, [line(100, 0.5), line(200, 0.5, 29.0)]) is None


def test_schedules() -> None:
    rates = [learning_rate(SETTINGS, step, []) for step in range(1000)]
    assert (
        max(rates) == pytest.approx(SETTINGS.learning_rate, rel=0.02) and 95 <= rates.index(max(rates)) <= 105
    )
    assert rates[0] < 0.05 * max(rates) and rates[-1] < 0.01 * max(rates)
    constant = TrainerSettings(schedule="none")
    assert learning_rate(constant, 7, lines(0.5, 0.5, 0.5)) == constant.learning_rate
    plateau = TrainerSettings(schedule="plateau", plateau_patience=2)
    halvings = [
        learning_rate(plateau, 0, lines(*[0.5] * count)) / plateau.learning_rate for count in range(1, 7)
    ]
    assert halvings == [1, 1, 0.5, 0.5, 0.25, 0.25]


def test_a_restart_is_a_cycle_of_low_rates_after_guidance() -> None:
    restart = dataclasses.replace(SETTINGS, schedule="restart")
    rates = [learning_rate(restart, step, []) for step in range(1000)]
    first = dataclasses.replace(SETTINGS, max_steps=750)
    assert rates[:750] == [learning_rate(first, step, []) for step in range(750)]
    again = dataclasses.replace(SETTINGS, max_steps=250, learning_rate=SETTINGS.learning_rate / 10)
    assert rates[750:] == pytest.approx([learning_rate(again, step, []) for step in range(250)])
    assert guided_steps(restart, recipe(0.8), []) == 600 and guided_steps(restart, recipe(1.0), []) == 1000
    found = lines(0.8, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.4, 0.4)
    assert hopeless(restart, found, 16) is None, "after the restart, progress is measured anew"


def test_only_many_keys_have_a_restart() -> None:
    many = TrainerSettings().of_task(get_task("sort_digits"))
    assert (many.schedule, many.steps, many.cycles) == ("restart", 11_000, (0, 8250))
    few = TrainerSettings().of_task(get_task("hist"))
    assert (few.schedule, few.steps, few.cycles) == ("one_cycle", 8000, (0,))
    assert TrainerSettings(schedule="none").of_task(get_task("sort_digits")).cycles == ()


def recipe(guided: float, probe: float = 1.0) -> Recipe:
    return Recipe(Objective(probe=probe, attention_supervision=0.0), curriculum=Curriculum(guided=guided))


def test_guidance_ends_with_its_share_or_with_the_first_good_validation() -> None:
    assert guided_steps(SETTINGS, recipe(0.75), []) == 750
    assert guided_steps(SETTINGS, recipe(0.75), lines(0.5, 0.6)) == 750
    assert guided_steps(SETTINGS, recipe(0.75), lines(0.5, 0.95, 0.5)) == 200, "and does not come back"
    assert guided_steps(SETTINGS, recipe(0.1), lines(0.5, 0.95)) == 100
    assert guided_steps(SETTINGS, recipe(0.0), lines(0.95)) == 0
    assert guided_steps(SETTINGS, recipe(0.75, probe=0.0), []) == 0, "nothing guides"
    assert guided_steps(SETTINGS, recipe(1.0), lines(0.95)) == 1000, "to the end"


def test_no_certificate_is_tried_before_a_validation_counts() -> None:
    assert not tries_certificate(SETTINGS, [], [])


@pytest.mark.parametrize(
    ("rates", "grade"),
    [
        ((1.0, 1.0, 1.0, 1.0), "adversarial"),
        ((1.0, 1.0, 1.0, 0.996), "adversarial"),  # validations have few rows
        ((1.0, 1.0, 1.0, 0.98), "siit"),
        ((1.0, 1.0, 0.98, 1.0), "iit"),
        ((1.0, 0.5, 0.4, 0.3), "behaviour"),
        ((0.5, 1.0, 1.0, 1.0), "behaviour"),
    ],
)
def test_a_last_certificate_measures_what_is_within_reach(rates: tuple[float, ...], grade: str) -> None:
    accuracy, iia, siia, edges = rates
    assert within_reach(0.999, Validation(accuracy, iia, siia, edges, "node a0.h0")) == grade
