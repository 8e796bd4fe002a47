"""The tables of docs/decoys.md: AUROC of methods on circuits, their nulls, and the same in transformers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from interpbench.core.estimate import Estimate
from interpbench.core.text import code
from interpbench.decoys.decoy_circuits import ORDER
from interpbench.decoys.decoy_scores import Cells, over_seeds
from interpbench.decoys.dissociation import FOOLED, stated
from interpbench.decoys.feature_methods import ATTRIBUTIONS, METHODS
from interpbench.reports.labels import NOTHING
from interpbench.scoring.exam_data import RegimeEffect

PUBLISHED_CIRCUITS = ("clean", "confounded", "suppressor")
"""The circuits of the published table."""
PUBLISHED_RANDOM = 0.496
"""The AUROC of random scores in each column of the published table; all other cells are as stated."""
COUNTERPARTS = {
    "correlation": ("activation_std", "fitted_features"),
    "gradient": ("eap", "atp"),
    "integrated_gradients": ("eap_ig", "eap_ig+steps=4", "mask_ig"),
    "patching": ("exact", "acdc"),
}
"""The methods of circuit discovery that look at a transformer as each method here looks at its network."""
REGIMES = {
    "confounded": ("alive",),
    "suppressor": ("noisy", "saturated", "saturated + noisy"),
    "baseline": ("baseline + noisy",),
}
"""The regimes of networks in the exam that plant what a circuit does, for each circuit that has one."""


class CarriedOver(NamedTuple):
    """A method in a regime, beside its counterpart on a circuit.

    Attributes:
        method: the method here.
        counterpart: the method of circuit discovery.
        circuit: the circuit.
        effect: what the regime does to the counterpart.
    """

    method: str
    counterpart: str
    circuit: str
    effect: RegimeEffect

    @property
    def fooled(self) -> bool:
        """Whether the circuit fools the method."""
        return (self.method, self.circuit) in FOOLED

    @property
    def worse(self) -> bool:
        """Whether the counterpart is worse than on the clean twins, by an interval that is wholly below 0."""
        return self.effect.difference.ends[1] < 0

    @property
    def agrees(self) -> bool:
        """Whether both worlds say the same."""
        return self.fooled == self.worse


def carried_over(effects: Sequence[RegimeEffect]) -> list[CarriedOver]:
    """Returns every pair of a circuit and a regime, and of methods, of which the exam has a row."""
    known = {(one.regimes, one.method): one for one in effects}
    return [
        CarriedOver(method, counterpart, circuit, known[regimes, counterpart])
        for method, counterparts in COUNTERPARTS.items()
        for counterpart in counterparts
        for circuit, several in REGIMES.items()
        for regimes in several
        if (regimes, counterpart) in known
    ]


def auroc_table(cells: Cells) -> str:
    """Returns the mean AUROC of each method on each circuit, with its interval where seeds differ."""
    rows = [
        [code(method), ATTRIBUTIONS[method].family, *(_mean(cells[method, name].aurocs) for name in ORDER)]
        for method in METHODS
    ]
    return _table(["method", "family", *map(code, ORDER)], rows, 2)


def null_table(cells: Cells) -> str:
    """Returns the mean AUROC of each method on each circuit with scrambled labels, and over all circuits."""
    rows: list[list[str]] = []
    for method in METHODS:
        nulls = [cells[method, name].null for name in ORDER]
        every = [auroc for null in nulls for auroc in null]
        rows.append([code(method), *map(_mean, nulls), _mean(every)])
    return _table(["scrambled labels", *map(code, ORDER), "all"], rows, 1)


def differences(cells: Cells) -> str:
    """Returns what differs from the published printout, in a sentence."""
    off: dict[str, list[str]] = {}
    for method in METHODS:
        for name in PUBLISHED_CIRCUITS:
            wanted, found = stated(method, name) or PUBLISHED_RANDOM, np.mean(cells[method, name].aurocs)
            if f"{found:.3f}" != f"{wanted:.3f}":
                said = f"{code(method)} has {found:.3f} instead of {wanted:.3f}"
                off.setdefault(said, []).append(code(name))
    count, missed = len(METHODS) * len(PUBLISHED_CIRCUITS), sum(map(len, off.values()))
    if not off:
        return f"All {count} published cells are the same to three digits."
    lines = "; ".join(f"{said} on {', '.join(names)}" for said, names in off.items())
    return f"{count - missed} of the {count} published cells are the same to three digits; {lines}."


def worlds_table(cells: Cells, effects: Sequence[RegimeEffect]) -> str:
    """Returns methods × (circuits and the regimes that plant the same).

    Args:
        cells: the table of decoys.
        effects: the AUROC of methods in regimes, and on clean twins.
    """
    found = carried_over(effects)
    known: Mapping[tuple[str, str], CarriedOver] = {
        (one.effect.regimes, one.counterpart): one for one in found
    }
    networks = {one.effect.regimes: one.effect.models for one in found}
    head = ["decoys", "transformers"]
    for circuit, several in REGIMES.items():
        head += [code(circuit), *(f"{regimes} ({networks.get(regimes, 0)})" for regimes in several)]
    rows: list[list[str]] = []
    for method, counterparts in COUNTERPARTS.items():
        for counterpart in counterparts:
            row = [code(method), code(counterpart)]
            for circuit, several in REGIMES.items():
                row.append(_mean(cells[method, circuit].aurocs))
                row += [_carried(known.get((regimes, counterpart))) for regimes in several]
            rows.append(row)
    return _table(head, rows, 2)


def agreement_of(effects: Sequence[RegimeEffect]) -> str:
    """Returns in how many cells of the table of both worlds they agree, and where they do not."""
    found = carried_over(effects)
    against = [one for one in found if not one.agrees]
    said = "; ".join(
        f"{code(one.counterpart)} in {one.effect.regimes} {'falls' if one.worse else 'does not fall'}"
        for one in against
    )
    fooled = [one for one in found if one.fooled]
    fallen, spared = sum(one.worse for one in fooled), len(found) - len(fooled)
    count = (
        f"Of {len(fooled)} cells whose circuit fools the method, {fallen} are worse in transformers; of the "
        f"{spared} others, {sum(one.worse for one in found) - fallen}."
    )
    return f"{count} The worlds disagree (✗) where {said}." if said else count


def _carried(one: CarriedOver | None) -> str:
    if one is None:
        return NOTHING
    low, high = (_signed(end) for end in one.effect.difference.ends)
    change = f"{_signed(one.effect.difference.value)} [{low}, {high}]"
    return f"{one.effect.inside.value:.3f} ({change}) {'✓' if one.agrees else '✗'}"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−") if abs(value) >= 5e-4 else "0"


def _mean(aurocs: Sequence[float]) -> str:
    found: Estimate = over_seeds(aurocs)
    low, high = found.ends
    return f"{found.value:.3f}" if high - low < 1e-9 else f"{found.value:.3f} [{low:.3f}, {high:.3f}]"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], names: int) -> str:
    """Returns a Markdown table.

    Args:
        head: the names of the columns.
        rows: the cells.
        names: the number of columns of names, which are aligned to the left.
    """
    lines = [head, [*["---"] * names, *["--:"] * (len(head) - names)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
