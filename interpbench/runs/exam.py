"""The exam: what regimes do to methods, and whether that is what theory says."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich.console import Console

from interpbench.core.errors import ConfigError, ScoresError
from interpbench.core.files import write_text
from interpbench.reports.exam_table import (
    circuits_table,
    directions_table,
    draw_exam,
    exam_table,
    orders_table,
    thresholds_table,
)
from interpbench.reports.labels import NOTHING
from interpbench.reports.models_page import put
from interpbench.reports.tables import rows_table
from interpbench.runs.leaderboard_files import read_board
from interpbench.scoring.exam_data import (
    BEST,
    METRICS,
    OF_CHOSEN,
    OF_CIRCUITS,
    OrderEffect,
    RegimeEffect,
    direction_of,
    in_usual_direction,
    order_effects,
    regime_effects,
    threshold_effects,
)
from interpbench.scoring.leaderboard_rows import BOARD
from interpbench.scoring.metric import ScoreMetric

PAGE, FIGURE = Path("docs/exam.md"), Path("docs/exam.png")
"""The page whose table `--write` makes, and its figure."""
BEGIN = "<!-- made by `interpbench exam --write` -->"
"""The line after which the page holds the table."""
CIRCUITS = "<!-- circuits, made by `interpbench exam --write` -->"
"""The line after which it holds the table of circuits of the true size."""
CHOSEN = "<!-- chosen sizes, made by `interpbench exam --write` -->"
"""The line after which it holds the table of circuits whose size is chosen without the truth."""
DIRECTIONS = "<!-- directions, made by `interpbench exam --write` -->"
"""The line after which it holds the table of methods that patch clean runs, corrupted runs, and both."""
ORDERS = "<!-- orders, made by `interpbench exam --write` -->"
"""The line after which it holds the table of what is found of each order."""
OWN = "<!-- thresholds, made by `interpbench exam --write` -->"
"""The line after which it holds the table of circuits that methods return at thresholds of their own."""


@dataclass(frozen=True)
class Dissociation:
    """What theory says of some methods in a combination of regimes: they do worse than on the clean twins.

    Attributes:
        regimes: the combination.
        methods: the methods.
        why: the derivation, in a sentence.
    """

    regimes: str
    methods: tuple[str, ...]
    why: str


DISSOCIATIONS = (
    Dissociation(
        "redundant + noisy",
        ("exact", "path_patching"),
        "a patch of one voter changes no answer, nor does noise: the KL divergence of both is almost zero",
    ),
    Dissociation(
        "rare",
        ("exact", "exact+metric=logit_diff", "path_patching"),
        "a path that acts on one input in a hundred acts on hardly any of 64 pairs",
    ),
    Dissociation(
        "saturated + noisy",
        ("eap", "atp", "clean_corrupted"),
        "where readers are flat around both inputs, gradients there are smaller than those of the noise",
    ),
    Dissociation(
        "baseline + noisy",
        ("eap", "atp", "clean_corrupted", "eap_ig+steps=4"),
        "all points of the gradients lie where readers are flat, so that the noise has larger ones",
    ),
    Dissociation(
        "alive",
        ("weight_norm", "fitted_features"),
        "the copies of a circuit are made alike, and only what reads the output's tells it from them",
    ),
)
"""What the gate asserts of methods on networks in regimes and on their twins; docs/exam.md derives it."""

LOST = tuple(
    Dissociation(
        regimes,
        ("exact", "path_patching"),
        "a patch of one voter changes no answer, and one of any other required edge does",
    )
    for regimes in ("redundant", "redundant + noisy", "redundant + noisy + alive")
)
"""What it asserts of edges: that methods find fewer of order 1 than of order 0, in the same networks."""


MOST_SHOWN = 2
"""How many combinations of regimes are named in which a method loses most."""
ALONE = "one program, which says nothing of others"
"""What is said of a number of programs whose interval is a point; no assertion holds on it."""


@dataclass(frozen=True)
class Asserted:
    """What became of one assertion of the gate.

    Attributes:
        held: whether the method is worse, as theory says.
        said: the method, the regimes, the difference from the twins with its interval, and the number of
            programs; if it did not hold, also why it should.
    """

    held: bool
    said: str


def effects_in(folder: Path, clean: Path, metric: str) -> list[RegimeEffect]:
    """Returns what regimes do to methods.

    Args:
        folder: the folder with the `leaderboard.json` of networks in regimes.
        clean: that of their clean twins.
        metric: the name of one of `METRICS`.

    Raises:
        ScoresError: if one is damaged, or no network has a twin.
    """
    boards = read_board(folder / BOARD), read_board(clean / BOARD)
    found = regime_effects(*boards, METRICS[metric])
    if not found and regime_effects(*boards, METRICS["precision"]):
        raise ScoresError(f"{metric} is not measured in these rows of an earlier version; evaluate anew")
    if not found:
        raise ScoresError(f"no network in {folder} has a clean twin in {clean} with the same method")
    return found


def orders_in(folder: Path) -> list[OrderEffect]:
    """Returns what methods find of each order in the networks of a folder with a `leaderboard.json`."""
    return order_effects(read_board(folder / BOARD))


def show_exam(
    console: Console, effects: Sequence[RegimeEffect], metric: ScoreMetric, each: bool = False
) -> None:
    """Prints in which combinations of regimes each method does worse than on the twins.

    Args:
        console: where to print.
        effects: what regimes do to methods.
        metric: what is compared.
        each: whether to print every method in every combination instead, other directions too.
    """
    if each:
        console.print(rows_table([_effect_row(one, metric.title) for one in effects]))
        return
    found: dict[str, list[RegimeEffect]] = {}
    for one in effects:
        if direction_of(one.method)[1] is None:
            found.setdefault(one.method, []).append(one)

    def off(value: float) -> float:
        return abs(value - BEST[metric.name]) if metric.name in BEST else -value

    means = {method: fmean(one.inside.value for one in those) for method, those in found.items()}
    rows: list[dict[str, object]] = []
    for method in sorted(means, key=lambda method: off(means[method])):
        those = found[method]
        lost = {place: off(one.inside.value) - off(one.twin.value) for place, one in enumerate(those)}
        worse = [
            those[place] for place in sorted(lost, key=lambda at: -lost[at]) if round(lost[place], 2) > 0
        ]
        most = [f"{one.regimes} ({one.models}) {one.difference.value:+.2f}" for one in worse[:MOST_SHOWN]]
        rows.append(
            {
                "method": method,
                metric.title: round(means[method], 3),
                "twins": round(fmean(one.twin.value for one in those), 3),
                "worse in": f"{len(worse)} of {len(those)}",
                "by most in (models)": ", ".join(most) or NOTHING,
            }
        )
    console.print(rows_table(rows))
    said = (
        "Means over the combinations of regimes in which a method was run, some of one model; --each prints "
        "every one, with its interval and p-value."
    )
    console.print(said, highlight=False)


def _effect_row(one: RegimeEffect, title: str) -> dict[str, object]:
    """Returns the cells of what a combination of regimes does to a method."""
    return {
        "regimes": one.regimes,
        "method": one.method,
        "models": one.models,
        title: round(one.inside.value, 3),
        "twins": round(one.twin.value, 3),
        "difference": round(one.difference.value, 3),
        "interval": "{:.3f} to {:.3f}".format(*one.difference.ends),
        "p (Holm)": float(f"{one.adjusted:.2g}"),
    }


def write_exam(folder: Path, clean: Path, metric: str) -> None:
    """Writes the tables of docs/exam.md, and the figure.

    Args:
        folder: the folder with the `leaderboard.json` of networks in regimes.
        clean: that of their clean twins.
        metric: the name of one of `METRICS`, of which the first table and the figure are.

    Raises:
        ConfigError: outside a checkout, which has no such page.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / PAGE).is_file():
        raise ConfigError(f"exam --write is for a checkout of the project: there is no {PAGE} here")
    effects = effects_in(folder, clean, metric)
    usual = [one for one in effects if direction_of(one.method)[1] is None]
    page = put((root / PAGE).read_text(), exam_table(usual), BEGIN)
    page = put(page, directions_table(effects), DIRECTIONS)
    boards = in_usual_direction(read_board(folder / BOARD)), in_usual_direction(read_board(clean / BOARD))
    for names, begin in ((OF_CIRCUITS, CIRCUITS), (OF_CHOSEN, CHOSEN)):
        page = put(page, circuits_table(*(regime_effects(*boards, METRICS[name]) for name in names)), begin)
    page = put(page, orders_table(order_effects(boards[0])), ORDERS)
    write_text(root / PAGE, put(page, thresholds_table(threshold_effects(*boards)), OWN))
    draw_exam(usual, METRICS[metric].title, root / FIGURE)


def asserted(effects: Sequence[RegimeEffect], orders: Sequence[OrderEffect]) -> list[Asserted]:
    """Returns what became of each assertion of `DISSOCIATIONS` and of `LOST`; what was not run does not hold.

    A method is worse if its mean over at least two programs is lower, and the interval of the difference does
    not reach above 0. That interval is a bootstrap of programs: of one it is a point, of two or three it
    reaches up to the best one, so that none may gain.

    Args:
        effects: what regimes do to methods.
        orders: what methods find of each order.
    """
    return [
        *_asserted(DISSOCIATIONS, effects, "against the twins"),
        *_asserted(LOST, orders, "of order 1 against order 0"),
    ]


def _asserted(
    claims: Sequence[Dissociation], effects: Sequence[RegimeEffect | OrderEffect], against: str
) -> list[Asserted]:
    """Returns what became of each assertion of some list."""
    known = {(one.regimes, one.method): one for one in effects}
    found: list[Asserted] = []
    for each in claims:
        for method in each.methods:
            one, where = known.get((each.regimes, method)), f"{method} in {each.regimes}"
            if one is None:
                found.append(Asserted(False, f"{where}: not run"))
                continue
            low, high = one.difference.ends
            held = one.difference.value < 0 and high <= 0 and one.programs > 1
            many = f"{one.programs} programs" if one.programs > 1 else ALONE
            said = f"{where}: {one.difference.value:+.3f} ({low:+.3f} to {high:+.3f}) {against}, {many}"
            found.append(Asserted(held, said if held else f"{said}; though {each.why}"))
    return found
