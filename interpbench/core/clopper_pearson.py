"""Exact bounds of a rate (Clopper and Pearson 1934). Counts may be fractions, if they are means over ties."""

from functools import lru_cache


@lru_cache(1 << 16)
def lower_bound(right: float, rows: int, miss: float) -> float:
    """Returns a lower bound of the rate of right rows.

    Args:
        right: the number of right rows.
        rows: the number of rows.
        miss: the probability with which the bound may be above the rate.
    """
    from scipy.special import betaincinv  # imported here, as many commands do not need scipy

    return float(betaincinv(right, rows - right + 1, miss)) if right else 0.0


@lru_cache(1 << 16)
def upper_bound(wrong: float, rows: int, miss: float) -> float:
    """Returns an upper bound of the rate of wrong rows.

    Args:
        wrong: the number of wrong rows.
        rows: the number of rows.
        miss: the probability with which the bound may be below the rate.
    """
    from scipy.special import betainccinv

    return float(betainccinv(wrong + 1, rows - wrong, miss)) if wrong < rows else 1.0
