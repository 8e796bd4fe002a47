"""Strata of sequences: by the number of different tokens, sorted ones, ties, palindromes.

Uniform draws hardly contain sequences of one or two different tokens; each number of them is a stratum.
"""

import numpy as np

from interpbench.tasks.stratum import Make, Split, Stratum, made, ranges, span

MOST_COUNTS = 40
"""The largest number of strata by the number of different tokens; more are grouped into ranges."""


def sequence_strata(domain: Split, size: int, length: int) -> list[Stratum]:
    """Returns the strata of a domain of sequences.

    Args:
        domain: the domain.
        size: the number of tokens of the vocabulary.
        length: the number of tokens of a sequence.
    """
    most = min(size, length)

    def of(low: int, high: int) -> Make:
        return lambda rng, count: different(rng, count, size, length, low, high)

    def any_number(rng: np.random.Generator, count: int) -> np.ndarray:
        return different(rng, count, size, length, min(2, most), most)

    spans = [(1, 1), *ranges(list(range(2, most)), MOST_COUNTS, 16), *([(most, most)] if most > 1 else [])]
    strata = [
        made(
            domain,
            f"different tokens: {span(low, high)}",
            lambda rows, low=low, high=high: _between(differing(rows), low, high),
            of(low, high),
        )
        for low, high in spans
    ]
    strata.append(
        made(
            domain,
            "extreme: the first or the last token only",
            lambda rows: ((rows == rows[:, :1]) & ((rows == 0) | (rows == size - 1))).all(1),
            lambda rng, count: np.repeat(rng.choice([0, size - 1], (count, 1)).astype(np.int16), length, 1),
        )
    )
    if most > 1:
        strata += [
            made(
                domain,
                "extreme: rising",
                _rising,
                lambda rng, count: np.sort(any_number(rng, count), 1),
            ),
            made(
                domain,
                "extreme: falling",
                lambda rows: _rising(rows[:, ::-1]),
                lambda rng, count: np.sort(any_number(rng, count), 1)[:, ::-1],
            ),
            made(
                domain,
                "ties: tokens equally often",
                _equally_often,
                lambda rng, count: equally_often(rng, count, size, length, min(2, most), most),
            ),
            made(
                domain,
                "ties: palindromes",
                lambda rows: (rows == rows[:, ::-1]).all(1),
                lambda rng, count: _mirrored(any_number(rng, count)),
            ),
        ]
    return strata


def differing(rows: np.ndarray) -> np.ndarray:
    """Returns the number of different tokens `[row]` of sequences `[row, pos]`."""
    ordered = np.sort(rows, 1)
    return 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(1)


def different(
    rng: np.random.Generator, count: int, size: int, length: int, low: int, high: int
) -> np.ndarray:
    """Draws sequences `[count, length]` with a limited number of different tokens.

    Tokens, their positions and the number of different ones are uniform. The frequencies of the tokens are
    drawn for each sequence, so that eight of one token and one of another are as common as four and five.

    Args:
        rng: the random generator.
        count: the number of sequences.
        size: the number of tokens of the vocabulary.
        length: the number of tokens of a sequence.
        low: the smallest number of different tokens.
        high: the largest number of different tokens.
    """
    number, tokens = _tokens(rng, count, size, low, high)
    weights = rng.exponential(size=(count, high)) ** rng.choice([0.25, 1, 3], size=(count, 1))
    weights *= np.arange(high) < number[:, None]
    bounds = weights.cumsum(1)
    bounds /= bounds[:, -1:]
    row = np.arange(count)[:, None]
    which = np.searchsorted((bounds + row).ravel(), rng.random((count, length)) + row) - high * row
    places = np.arange(length)
    which = np.where(places < number[:, None], places, which.clip(0, number[:, None] - 1))
    return rng.permuted(np.take_along_axis(tokens, which, 1), axis=1)


def equally_often(
    rng: np.random.Generator, count: int, size: int, length: int, low: int, high: int
) -> np.ndarray:
    """Draws sequences `[count, length]` whose different tokens occur equally often, or once more at most.

    Args:
        rng: the random generator.
        count: the number of sequences.
        size: the number of tokens of the vocabulary.
        length: the number of tokens of a sequence.
        low: the smallest number of different tokens.
        high: the largest number of different tokens.
    """
    number, tokens = _tokens(rng, count, size, low, high)
    which = np.arange(length) % number[:, None]
    return rng.permuted(np.take_along_axis(tokens, which, 1), axis=1)


def near(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns a similar sequence for each of `rows`, made in one of six ways.

    Some tokens are replaced, two are exchanged, one is renamed everywhere, or all are permuted, renamed or
    shifted by the same number of codes.

    Args:
        rng: the random generator.
        rows: sequences `[row, pos]`.
        size: the number of tokens of the vocabulary.
    """
    count, length = rows.shape
    everyone = np.arange(count)
    kind = rng.integers(6, size=count)
    new = rng.integers(size, size=rows.shape, dtype=np.int16)
    replaced = (rng.random(rows.shape) * length < rng.integers(1, 4, size=(count, 1))) & (kind == 0)[:, None]
    near = np.where(replaced, new, rows)
    first, second = rng.integers(length, size=(2, count))
    near[everyone, first], near[everyone, second] = (
        np.where(kind == 1, rows[everyone, second], near[everyone, first]),
        np.where(kind == 1, rows[everyone, first], near[everyone, second]),
    )
    renamed = (rows == rows[everyone, first][:, None]) & (kind == 2)[:, None]
    near = np.where(renamed, new[:, :1], near)
    near[kind == 3] = rng.permuted(rows[kind == 3], axis=1)
    names = rng.random((np.count_nonzero(kind == 4), size)).argsort(1).astype(np.int16)
    near[kind == 4] = np.take_along_axis(names, rows[kind == 4].astype(np.intp), 1)
    shifted = (rows + new[:, :1].astype(np.int64)) % size
    return np.where((kind == 5)[:, None], shifted, near).astype(np.int16)


def _tokens(
    rng: np.random.Generator, count: int, size: int, low: int, high: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws the number of different tokens `[row]` and `high` different tokens `[row, high]` of each row."""
    number = rng.integers(low, high + 1, size=count)
    order = rng.random((count, size), np.float32)
    if high * 2 > size:
        return number, order.argsort(1)[:, :high].astype(np.int16)
    return number, rng.permuted(np.argpartition(order, high, 1)[:, :high].astype(np.int16), axis=1)


def _between(values: np.ndarray, low: int, high: int) -> np.ndarray:
    return (values >= low) & (values <= high)


def _rising(rows: np.ndarray) -> np.ndarray:
    return np.diff(rows).min(1) >= 0


def _equally_often(rows: np.ndarray) -> np.ndarray:
    """Returns bool `[row]`, whether the frequencies of the tokens that occur differ by one at most."""
    ordered = np.sort(rows, 1)
    other = np.ones(rows.shape, bool)
    other[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = other.ravel().cumsum() - 1
    times = np.bincount(run)[run].reshape(rows.shape)
    return times.max(1) - times.min(1) <= 1


def _mirrored(rows: np.ndarray) -> np.ndarray:
    """Returns palindromes that begin like `rows`."""
    places = np.arange(rows.shape[1])
    return rows[:, np.minimum(places, places[::-1])]
