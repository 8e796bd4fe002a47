"""Exact bounds of a rate: Clopper and Pearson 1934. A count may be a mean over the orders of ties."""

from functools import lru_cache


@lru_cache(1 << 16)
def lower_bound(right: float, rows: int, miss: float) -> float:
    """Returns the lower bound of a rate, which is too high with probability `miss`."""
    from scipy.special import betaincinv  # not above: names are looked up without it

    return float(betaincinv(right, rows - right + 1, miss)) if right else 0.0


@lru_cache(1 << 16)
def upper_bound(wrong: float, rows: int, miss: float) -> float:
    """Returns the upper bound, which is too low with probability `miss`."""
    from scipy.special import betainccinv

    return float(betainccinv(wrong + 1, rows - wrong, miss)) if wrong < rows else 1.0
