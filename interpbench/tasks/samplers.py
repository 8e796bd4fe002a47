"""Samplers of inputs for tasks whose output is nearly always the same on uniformly drawn inputs.

A sampler is a mixture of uniform inputs, so that every input can occur, and of inputs that an *edit* has
changed, so that rare outputs, and inputs that barely miss these, are common.

An edit returns changed inputs `[row, pos]`.

Common arguments:
    rng: the random generator.
    rows: uniform inputs `[row, pos]`, which an edit may overwrite.
    size: the number of tokens of the vocabulary.
"""

from collections.abc import Callable, Sequence

import numpy as np

from interpbench.tasks.domain import InputSampler

Edit = Callable[[np.random.Generator, np.ndarray, int], np.ndarray]
"""A function that changes uniform inputs so that some output becomes frequent."""


def mixture(edits: Sequence[Edit], size: int, length: int) -> InputSampler:
    """Returns a sampler of inputs that are uniform or changed by one of the edits, all equally often.

    Args:
        edits: the edits.
        size: the number of tokens of the vocabulary.
        length: the number of tokens of an input.
    """

    def sample(rng: np.random.Generator, count: int) -> np.ndarray:
        rows = rng.integers(size, size=(count, length), dtype=np.int16)
        kind = rng.integers(len(edits) + 1, size=count)
        for number, edit in enumerate(edits, 1):
            rows[kind == number] = edit(rng, rows[kind == number], size)
        return rows

    return sample


def often(*codes: int) -> Edit:
    """Returns an edit that puts `codes` at a share of the positions, which differs from row to row."""

    def edit(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
        return np.where(
            rng.random(rows.shape) < rng.random((len(rows), 1)), rng.choice(codes, rows.shape), rows
        )

    return edit


def one_often(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns rows in which the first token fills a random share of the positions."""
    return np.where(rng.random(rows.shape) < rng.random((len(rows), 1)), rows[:, :1], rows)


def small(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns rows whose largest possible token differs from row to row."""
    return rows * rng.integers(1, size + 1, size=(len(rows), 1)) // size


def repeats(offset: int) -> Edit:
    """Returns an edit after which about every second token repeats the token `offset` positions before it."""

    def edit(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
        repeated = rng.random(rows.shape) < 0.5
        for place in range(offset, rows.shape[1]):
            rows[:, place] = np.where(repeated[:, place], rows[:, place - offset], rows[:, place])
        return rows

    return edit


def mirrored(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns rows in which about every second token equals the one as far from the other end."""
    half = np.arange(rows.shape[1]) < rows.shape[1] // 2
    return np.where(half & (rng.random(rows.shape) < 0.5), rows[:, ::-1], rows)


def last_repeated(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns rows whose last two tokens are equal."""
    rows[:, -2] = rows[:, -1]
    return rows


def containing(*pattern: int) -> Edit:
    """Returns an edit that writes the sequence `pattern` many times, with gaps."""

    def edit(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
        free = rng.integers(len(pattern), size=len(rows))
        for start in range(rows.shape[1] - len(pattern) + 1):
            here = (free <= start) & (rng.random(len(rows)) < 0.7)
            rows[here, start : start + len(pattern)] = pattern
            free[here] = start + len(pattern)
        return rows

    return edit


def rising(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns sorted rows: no token is smaller than the one before."""
    return np.sort(rows, 1)


def falling(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns rows sorted in reverse: no token is larger than the one before."""
    return np.sort(rows, 1)[:, ::-1]


def constant(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns rows that repeat their first token throughout."""
    return np.broadcast_to(rows[:, :1], rows.shape)


def distinct(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns rows in which no token occurs twice."""
    return rng.random((len(rows), size)).argsort(1)[:, : rows.shape[1]].astype(np.int16)


def even(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns rows of even codes."""
    return 2 * rng.integers((size + 1) // 2, size=rows.shape, dtype=np.int16)


def alternating(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns rows in which even and odd codes alternate; either of them is first."""
    odd = 1 + 2 * rng.integers(size // 2, size=rows.shape, dtype=np.int16)
    first = rng.integers(2, size=(len(rows), 1))
    return np.where((np.arange(rows.shape[1]) + first) % 2 == 0, even(rng, rows, size), odd)


def one_changed(of: Edit) -> Edit:
    """Returns an edit that applies another one, then replaces one token, for inputs that barely differ."""

    def edit(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
        rows = of(rng, rows, size).copy()
        rows[np.arange(len(rows)), rng.integers(rows.shape[1], size=len(rows))] = rng.integers(
            size, size=len(rows)
        )
        return rows

    return edit


def shuffled(of: Edit) -> Edit:
    """Returns an edit that applies another one, then permutes the tokens of each row."""
    return lambda rng, rows, size: rng.permuted(of(rng, rows, size), axis=1)


def balanced(brackets: Sequence[tuple[int, int]], filler: int) -> Edit:
    """Returns an edit that draws rows in which brackets are balanced; pairs of different kinds may cross.

    Args:
        brackets: the codes of the opening and the closing bracket of each kind.
        filler: the code of a token that is no bracket.
    """

    def edit(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
        everyone = np.arange(len(rows))
        still_open = np.zeros((len(rows), size), int)  # [row, closing bracket]
        for place in range(rows.shape[1]):
            left = rows.shape[1] - place - still_open.sum(1)
            legal = still_open > 0
            legal[:, filler] = left >= 1
            for opening, _ in brackets:
                legal[:, opening] = left >= 2
            chosen = (legal * rng.random(legal.shape)).argmax(1)
            for opening, closing in brackets:
                still_open[:, closing] += (chosen == opening).astype(int) - (chosen == closing)
            rows[everyone, place] = chosen
        return rows

    return edit
