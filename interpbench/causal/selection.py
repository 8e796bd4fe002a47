"""What attention does in hand-written causal models."""

import numpy as np

from interpbench.causal.model import NONE


def selected(match: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns `[row, query]`: the value at all keys that match, None if there is none or they differ.

    Args:
        match: bool `[row, query, key]`; keys whose value is None never match.
        values: int16 `[row, key]`.
    """
    match = match & (values >= 0)[:, None, :]
    highest = np.where(match, values[:, None, :], NONE).max(2)
    lowest = np.where(match, values[:, None, :], np.iinfo(np.int16).max).min(2)
    return np.where(highest == lowest, highest, NONE).astype(np.int16)


def positions(tokens: np.ndarray) -> np.ndarray:
    """Returns the index of every position, in the shape of `tokens`."""
    return np.broadcast_to(np.arange(tokens.shape[1], dtype=np.int16), tokens.shape)


def earlier(length: int) -> np.ndarray:
    """Returns bool `[query, key]`: keys up to and including the query."""
    return np.tri(length, dtype=bool)


def is_last(tokens: np.ndarray) -> np.ndarray:
    """Returns `[row, pos]` bool: the last token of each row."""
    following = np.concatenate([tokens[:, 1:], np.full_like(tokens[:, :1], NONE)], 1)
    return (tokens >= 0) & (following < 0)
