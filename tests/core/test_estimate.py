"""Numbers with their intervals."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from interpbench.core.estimate import Estimate


@pytest.mark.parametrize(
    "made", [Estimate(0.5), Estimate(0.5, 0.25, 0.75, "exact"), Estimate(0.5, 0.6, 0.7, "bootstrap")]
)
def test_estimates_survive_being_written(made: Estimate) -> None:
    adapter = TypeAdapter(Estimate)
    assert adapter.validate_json(json.dumps(adapter.dump_python(made))) == made


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ((0.5, 0.6, 0.7, "exact"), "out of order"),
        ((0.5, 0.7, 0.6, "bootstrap"), "out of order"),
        ((0.5, 0.4, None, "exact"), "needs two ends"),
        ((0.5, None, None, "exact"), "needs two ends"),
        ((0.5, 0.4, 0.6, "none"), "has no kind"),
        ((0.5, 0.4, 0.6, "guess"), "Input should be"),
        ((float("nan"), None, None, "none"), "finite number"),
    ],
)
def test_what_is_no_estimate_is_refused(numbers: tuple[object, ...], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Estimate(*numbers)  # type: ignore[arg-type]


def test_a_number_without_an_interval_stands_at_both_ends() -> None:
    assert Estimate(0.5).ends == (0.5, 0.5) and Estimate(0.5, 0.25, 1, "null").ends == (0.25, 1)
