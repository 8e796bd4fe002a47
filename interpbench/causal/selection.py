"""Functions of attention for hand-written causal models."""

import numpy as np

from interpbench.causal.model import NONE


def selected(match: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the value at all keys that match, `[row, query]`; None if there is no key or values differ.

    Args:
        match: bool `[row, query, key]`, the keys that each query attends to; keys with value None are left
            out.
        values: the codes of the keys' values, int16 `[row, key]`.
    """
    match = match & (values >= 0)[:, None, :]
    highest = np.where(match, values[:, None, :], NONE).max(2)
    lowest = np.where(match, values[:, None, :], np.iinfo(np.int16).max).min(2)
    return np.where(highest == lowest, highest, NONE).astype(np.int16)


def positions(tokens: np.ndarray) -> np.ndarray:
    """Returns the index of every position, `[row, pos]`, for tokens `[row, pos]`."""
    return np.broadcast_to(np.arange(tokens.shape[1], dtype=np.int16), tokens.shape)


def earlier(length: int) -> np.ndarray:
    """Returns bool `[query, key]`, whether a key is at the query's position or before it."""
    return np.tri(length, dtype=bool)


def is_last(tokens: np.ndarray) -> np.ndarray:
    """Returns bool `[row, pos]`, whether a position has the last token of its row."""
    following = np.concatenate([tokens[:, 1:], np.full_like(tokens[:, :1], NONE)], 1)
    return (tokens >= 0) & (following < 0)
