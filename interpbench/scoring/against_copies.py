"""Scores of a circuit against copies of it that were made alike: what nobody can guess.

Where a circuit can be follows from the shape of most networks: edges out of the embedding are required more
often than others, and those from heads into queries seldom. Between copies that differ only in which of them
was drawn to be the circuit, no such knowledge tells anything.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import mannwhitneyu


def auroc_against_copies(values: np.ndarray, copies: Sequence[np.ndarray]) -> float | None:
    """Returns how often what is of the circuit alone scores higher than what is of another copy alone.

    It is the AUROC, as a mean over the other copies. For scores that do not depend on which copy was drawn to
    be the circuit, its mean over draws is exactly 0.5: the two AUROC of a pair of copies, of which either one
    is the circuit, add up to 1.

    Args:
        values: the scores.
        copies: bool, of the same shape: what belongs to each copy, the circuit first.

    Returns:
        None if no copy has anything of its own.
    """
    circuit, *others = copies
    found: list[float] = []
    for other in others:
        own, theirs = values[circuit & ~other], values[other & ~circuit]
        if len(own) and len(theirs):
            wins = mannwhitneyu(own, theirs, method="asymptotic").statistic
            found.append(float(wins) / (len(own) * len(theirs)))
    return float(np.mean(found)) if found else None
