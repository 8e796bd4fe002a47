"""Nothing that is measured changes when code is rearranged."""

import numpy as np
import pytest

from tests.golden import FILE, measured


def test_steps_and_scores_are_what_they_were():
    kept = np.load(FILE, allow_pickle=False)
    names = set[str]()
    for name, array in measured():
        names.add(name)
        scale = np.abs(kept[name])[np.isfinite(kept[name])].max()
        assert array == pytest.approx(kept[name], rel=1e-3, abs=1e-4 * scale, nan_ok=True), name
    assert names == set(kept.files)
