"""Items of a ranking, grouped by equal scores."""

import numpy as np


class Groups:
    """Items grouped by equal scores, `[N]`; the group with the highest scores comes first."""

    def __init__(self, scores: np.ndarray):
        self.order = np.argsort(-scores, kind="stable")
        ranked = scores[self.order]
        self.starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Returns the sums of weights `[K, N]` over each group, `[K, group]`."""
        return np.add.reduceat(weights[:, self.order], self.starts, axis=1)
