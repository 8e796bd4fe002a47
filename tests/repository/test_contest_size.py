"""The simulation of contests: methods that always differ are told apart, and those that never do are not."""

import numpy as np
import pytest

from benchmarks.contest_size import BEGIN, PAGE, simulate, table
from interpbench.scoring.intervals import percentiles


def test_methods_that_differ_on_every_program_are_told_apart_from_six_networks_on() -> None:
    values = np.array([[0.9, 0.95, 0.92], [0.7, 0.75, 0.71], [0.65, 0.7, 0.67]])
    few, enough = simulate(values, 5, draws=50), simulate(values, 6, draws=50)
    assert few.power == {"0.1 or more": 0.0, "0.03 to 0.1": 0.0}, "the exact test cannot reach 0.05 with five"
    assert enough.power == {"0.1 or more": 1.0, "0.03 to 0.1": 1.0}
    assert (enough.tau == 1).all()


def test_methods_that_differ_by_chance_are_told_apart_as_often_as_the_test_allows() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0.8, 0.1, (2, 400))
    noise[1] += noise[0].mean() - noise[1].mean() + 0.011  # nearly equal in the mean, unrelated on programs
    found = simulate(noise, 20, draws=400)
    assert found.power["0.01 to 0.03"] == pytest.approx(0.05, abs=0.04)
    low, high = percentiles(found.tau)
    assert (low, high) == (-1, 1), "two methods alone agree or do not"


def test_the_table_says_what_was_simulated() -> None:
    values = np.array([[0.9, 0.95, 0.92], [0.7, 0.75, 0.71]])
    line = table({"made up": [simulate(values, 10, draws=20)]}).splitlines()[-1]
    assert line == "| made up | 10 | 1.00 (1.00 to 1.00) | 100% | – | – |"
    assert BEGIN in PAGE.read_text()
