"""Nothing that is measured changes when code is rearranged."""

import numpy as np
import pytest

from tests.builders import TRAINED
from tests.golden import FILE, measured

FEW = 5
"""The first of the thirty steps, which a change of numbers changes as well."""


def test_steps_and_scores_are_what_they_were():
    kept = dict(np.load(FILE, allow_pickle=False))
    names = set[str]()
    for name, array in measured(FEW):
        names.add(name)
        if name.startswith("training"):
            kept[name] = kept[name][:FEW]
        scale = np.abs(kept[name])[np.isfinite(kept[name])].max()
        if name.startswith("scores") and name.rpartition("/")[2] in TRAINED:
            there = np.isfinite(kept[name])  # steps of learning make much of how sums are rounded
            assert (np.isfinite(array) == there).all()
            assert np.corrcoef(array[there], kept[name][there])[0, 1] > 0.98, name
            continue
        assert array == pytest.approx(kept[name], rel=1e-3, abs=1e-4 * scale, nan_ok=True), name
    assert names == kept.keys()
