"""What theory says of each cell of the table, and whether it holds: the gate."""

import numpy as np

from interpbench.decoys.decoy_circuits import ORDER
from interpbench.decoys.decoy_scores import Cells
from interpbench.decoys.feature_methods import METHODS

FOOLED = {
    ("correlation", "confounded"): 0.75,
    ("gradient", "suppressor"): 0.75,
    ("gradient", "baseline"): 0.75,
    ("integrated_gradients", "baseline"): 0.75,
    ("correlation", "interaction"): 30 / 36,
    ("patching", "interaction"): 33 / 36,
    ("patching", "off_manifold"): 0.75,
}
"""The AUROC of each method on each circuit that fools it; it is 1 on all others, but for random scores.

Two decoys above all four causal features of twelve leave 24 of 32 pairs in order. In `interaction` one of six
causal features is below six others (correlation, 30 of 36 pairs) or level with them (patching, 33 of 36)."""
CLOSE = 1e-9
"""The largest difference from a stated AUROC that is an error of rounding."""
NULL_SPREAD = 0.184
"""The standard deviation √(13 / (12 · 32)) of the AUROC of random rankings of 4 features and 8 others."""
NULL_DEVIATIONS = 5.0
"""The number of standard errors by which the mean of a null may differ from one half."""


def stated(method: str, circuit: str) -> float | None:
    """Returns the AUROC that theory states for a method on a circuit; None for random scores."""
    return None if method == "random" else FOOLED.get((method, circuit), 1.0)


def missed_cells(cells: Cells) -> list[str]:
    """Returns a line for each statement that does not hold.

    The statements are: the dissociation, that on every seed each method is fooled as `FOOLED` says and by
    nothing else; the controls, that the clean circuit fools none, and random scores are at one half; and the
    null, that with scrambled labels every method is at one half, as a mean over circuits and seeds.

    Args:
        cells: the table.
    """
    lines: list[str] = []
    for name in ORDER:
        kind = "control" if name == "clean" else "dissociation"
        for method in METHODS:
            wanted = stated(method, name)
            found = np.array(cells[method, name].aurocs)
            if wanted is not None and (wrong := np.abs(found - wanted) > CLOSE).any():
                seed = int(np.argmax(wrong))
                said = f"AUROC {found[seed]:.4f} with seed {seed}, not {wanted:.4f}"
                lines.append(f"{kind}: {method} on {name} has {said} ({wrong.sum()} of {len(wrong)} seeds)")
    lines += _off_one_half("control: random on clean", cells["random", "clean"].aurocs)
    for method in METHODS:
        null = [auroc for name in ORDER for auroc in cells[method, name].null]
        lines += _off_one_half(f"null: {method} with scrambled labels", null)
    return lines


def _off_one_half(what: str, aurocs: list[float]) -> list[str]:
    """Returns a line if the mean of independent AUROCs of random rankings is too far from one half."""
    mean, allowed = float(np.mean(aurocs)), NULL_DEVIATIONS * NULL_SPREAD / len(aurocs) ** 0.5
    if abs(mean - 0.5) <= allowed:
        return []
    return [f"{what} has a mean AUROC of {mean:.3f}, which is more than {allowed:.3f} from 0.5"]
