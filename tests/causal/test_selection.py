"""What attention selects in hand-written causal models, against loops over queries and keys."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from interpbench.causal.model import NONE
from interpbench.causal.selection import earlier, is_last, positions, selected

SIDES = st.tuples(st.integers(1, 3), st.integers(1, 4))


@given(st.data())
def test_the_value_of_all_that_match_is_selected(data: st.DataObject) -> None:
    rows, length = data.draw(SIDES)
    match = data.draw(arrays.arrays(bool, (rows, length, length)))
    values = data.draw(arrays.arrays(np.int16, (rows, length), elements=st.integers(NONE, 2)))
    found = selected(match, values)
    for row, query in np.ndindex(rows, length):
        there = {
            values[row, key] for key in range(length) if match[row, query, key] and values[row, key] >= 0
        }
        assert found[row, query] == (there.pop() if len(there) == 1 else NONE)


def test_positions_are_counted_and_earlier_ones_seen() -> None:
    assert positions(np.zeros((2, 3))).tolist() == [[0, 1, 2]] * 2
    assert earlier(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_the_last_token_of_a_row_is_that_before_padding() -> None:
    rows = np.array([[0, 1, 2], [1, 0, NONE], [2, NONE, NONE], [NONE, NONE, NONE]])
    assert is_last(rows).tolist() == [
        [False, False, True],
        [False, True, False],
        [True, False, False],
        [False, False, False],
    ]
