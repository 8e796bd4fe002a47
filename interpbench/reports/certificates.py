"""What a certificate says, for people: as a table in the terminal, as Markdown, in a sentence.

Everything here is what a reader with some `Standard` makes of its counts; by default with that of released
models.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from interpbench.circuits.certificate import (
    WHAT,
    AttackedKind,
    Certificate,
    Draw,
    Kind,
    Rates,
    VacuousKind,
    name_of,
)
from interpbench.circuits.grades import GRADES, RELEASED, Grade, Standard, grade, said_of
from interpbench.core.text import code, markdown, terminal
from interpbench.reports.labels import number, share

WORST = 4
"""How many places of a kind are listed, if there are more that miss something."""
FEW = 12
"""The largest number of places in a set that are named one by one."""
KINDS: tuple[Kind, ...] = tuple(WHAT)
COUNTED: dict[Kind, str] = {
    **{"effective": ", where that changes the answer", "positions": ", at one random position"},
    **{"effective_positions": ", at one random position, where that changes the answer"},
    **{"effective_edges": " required edges alone, where that changes the answer"},
    **{"nodes": " forbidden nodes alone", "edges": " inert edges alone"},
    **{"required_edges": " required edges alone, as in the program"},
}
"""What is said of all places of a kind together, after `each of` and their number."""
COLUMNS: dict[Draw, int] = {"pairs": 0, "task": 0, "strata": 1}
"""Where in the table draws are: rates are of all pairs, or of draws from the task and from its strata."""
HEADS: dict[Draw, str] = {"pairs": "all pairs", "task": "draws", "strata": "its strata"}
FIRST: tuple[Kind, ...] = ("variables", "nodes", "edges", "required_edges")
"""Kinds above which there is a line."""
LEGEND = """\
Grades, each of which asks for those before it: *behaviour*: the answers are the program's. *iit*: with the
variables of a node swapped, they are those of the program with these swapped, also where that changes the
answer. *siit*: swapping forbidden nodes, one or any set of them, changes nothing. *siit+edges*: nor does
patching inert edges, one or any set of them, and a required edge acts as the program's own. *adversarial*:
nor does the worst set that a search has found, but on few inputs. *positions*: variables can be swapped at
one position alone."""


@dataclass(frozen=True)
class CertificateRow:
    """A line of the table.

    Attributes:
        kind: what is intervened on.
        text: what was done, and where.
        cells: draw to wrong and rows, and to the lower bound.
        misses: whether a bound is too low.
    """

    kind: Kind
    text: str
    cells: Mapping[Draw, tuple[str, str]]
    misses: bool = False


def columns_of(certificate: Certificate) -> list[str]:
    """Returns what is above each pair of columns."""
    found = {draw for places in certificate.rates.values() for draws in places.values() for draw in draws}
    heads: dict[int, list[str]] = {}
    for draw, place in COLUMNS.items():
        if draw in found:
            heads.setdefault(place, []).append(HEADS[draw])
    return ["of " + " or ".join(names) for names in heads.values()]


def cells_of(row: "CertificateRow", columns: Sequence[str]) -> list[str]:
    """Returns the cells of a row, two a column."""
    placed = {COLUMNS[draw]: cells for draw, cells in row.cells.items()}
    return [cell for number in range(len(columns)) for cell in placed.get(number, ("", ""))]


def certificate_rows(certificate: Certificate, standard: Standard) -> list[CertificateRow]:
    """Returns the rates of a certificate, of each kind of places the worst, or one line if no row is wrong.

    Nodes that carry variables, and sets, are all listed.
    """
    rows: list[CertificateRow] = []
    for kind in KINDS:
        places = certificate.rates.get(kind)
        if places is None:
            unmeasured = f"{WHAT[kind].rstrip(':')}: not measured"
            rows.append(CertificateRow(kind, unmeasured, {}, standard.demands(kind)))
            continue
        lowest = {place: _lowest(draws, standard) for place, draws in places.items()}
        worst = sorted(places, key=lambda place: lowest[place])
        wrong = [place for place in worst if any(rate.wrong for rate in places[place].values())]
        if kind in ("accuracy", "variables", "node_sets", "edge_sets"):
            rows += [_row(kind, _text(certificate, kind, place), places[place], standard) for place in places]
        elif wrong:
            rows += [_row(kind, name_of(kind, place), places[place], standard) for place in wrong[:WORST]]
            if len(wrong) > WORST:
                more = f"{WHAT[kind]}: {len(wrong) - WORST:,} more with wrong rows, of {len(places):,}"
                rows.append(CertificateRow(kind, more, {}))
        elif worst:
            rows.append(_row(kind, f"each of {len(places):,}{COUNTED[kind]}", places[worst[0]], standard))
    return rows


def _lowest(draws: Rates, standard: Standard) -> float:
    """Returns the lowest bound of a place."""
    return min((rate.bound(standard.confidence) for rate in draws.values()), default=0.0)


def _row(kind: Kind, text: str, draws: Rates, standard: Standard) -> CertificateRow:
    """Returns the line of one place."""
    cells: dict[Draw, tuple[str, str]] = {
        draw: (f"{rate.wrong:,} / {rate.rows:,}", share(rate.bound(standard.confidence), 5))
        for draw, rate in draws.items()
    }
    low = any(rate.bound(standard.confidence) < standard.least(rate) for rate in draws.values())
    return CertificateRow(kind, text, cells, low and standard.demands(kind))


def _text(certificate: Certificate, kind: Kind, place: str) -> str:
    """Returns what was done at a place; of a node that carries variables, these too."""
    carried = f" = {', '.join(certificate.variables[place])}" if kind == "variables" else ""
    return name_of(kind, place) + carried


def certificate_table(certificate: Certificate, standard: Standard | None = None) -> Table:
    """Returns a certificate as a table of rates, with everything else that it says below; 100 columns do."""
    standard = standard or Standard()
    columns = columns_of(certificate)
    lines = [*notes(certificate, standard), *_missed(certificate, standard)]
    table = Table(
        title=f"{said_of(certificate, standard)}; asked for: {_asked(standard)}",
        title_justify="left",
        title_style=f"bold {'green' if grade(certificate, standard).reaches(RELEASED) else 'red'}",
        caption="\n".join(_escaped(line, terminal) for line in lines),
        caption_justify="left",
        caption_style="",
        padding=(0, 1),
    )
    table.add_column("intervention", overflow="fold")
    for column in columns:
        table.add_column(f"wrong / rows\n{column}", justify="right", no_wrap=True)
        table.add_column("right,\nat least", justify="right", no_wrap=True)
    last: Kind = "accuracy"
    for row in certificate_rows(certificate, standard):
        if row.kind != last and row.kind in FIRST:
            table.add_section()
        last = row.kind
        style = "red" if row.misses else None
        table.add_row(_escaped(row.text, terminal), *cells_of(row, columns), style=style)
    return table


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    """Escapes a line, however long, word by word: escaping cuts what is longer than a name."""
    return " ".join(escape(word) for word in text.split(" "))


def _asked(standard: Standard) -> str:
    """Returns a standard in words."""
    target, confidence, worst = (
        f"{100 * value:.6g}%" for value in (standard.target, standard.confidence, standard.worst)
    )
    positions = ", also at one position alone" if standard.positions else ""
    return f"{target} at {confidence} confidence, of the worst sets {worst}{positions}"


def notes(certificate: Certificate, standard: Standard) -> list[str]:
    """Returns what a certificate says besides rates, a sentence each."""
    return [
        *_attacks(certificate, standard),
        *_screen(certificate, standard),
        *_effects(certificate),
        *_inputs(certificate),
        f"{certificate.margin_kind.capitalize()}: {number(certificate.margin)}.",
        *_stress(certificate),
        *_sizes(certificate),
    ]


def _attacks(certificate: Certificate, standard: Standard) -> Iterator[str]:
    named: dict[AttackedKind, str] = {"nodes": "forbidden nodes", "edges": "inert edges"}
    for kind, what in named.items():
        attack = certificate.attacks.get(kind)
        if attack is None:
            known = certificate.rates.get(kind) == {}
            yield f"There are no {what}." if known else f"No attack on {what} was made."
            continue
        found = [
            f"{rate.wrong:,} of {rate.rows:,} {name} wrong, at least "
            f"{share(rate.bound(standard.confidence))} right"
            for name, rate in zip(("draws", "draws from strata"), attack.rates.values())
        ]
        yield (
            f"Worst set of {what} found ({attack.by}, {attack.candidates:,} tried on "
            f"{attack.searched_rows:,} rows): {len(attack.places)} of them, {'; '.join(found)}: "
            f"{_few(attack.places)}."
        )


def _screen(certificate: Certificate, standard: Standard) -> Iterator[str]:
    screen = certificate.screen
    if screen is not None:
        missed = certificate.may_miss(standard.confidence)
        _, most = certificate.may_miss_at_most(standard.confidence)
        rest, proved = screen.passed_over, screen.proved
        if not rest:
            yield f"Single edges: all {screen.items:,} (edge, row) were run, unless nothing is patched."
            return
        small = f"an estimated effect below {_percent(screen.share)} of what changes the answer"
        bounded = f"an effect that is bounded to be too small to change the answer ({proved or 0:,} of them)"
        why = bounded if proved == rest else f"{small}, or {bounded}" if proved else small
        yield (
            f"Single edges: {screen.run:,} of {screen.items:,} (edge, row) were run. The other {rest:,} have "
            f"{why}. Of these, {screen.sampled:,} were drawn at random and run, and {screen.wrong:,} were "
            f"wrong: at most {missed or 0.0:.2g} of all (edge, row) were missed, and of any one edge at most "
            f"{most:.2g} of its rows."
        )


def _effects(certificate: Certificate) -> Iterator[str]:
    swaps: dict[VacuousKind, str] = {"effective": "swap", "effective_positions": "swap at one position"}
    for kind, what in swaps.items():
        if vacuous := certificate.vacuous.get(kind):
            yield f"Vacuous, since no {what} changes an answer: {_few(vacuous)}."
    effects = certificate.required_effect
    if effects:
        weakest = min(effects, key=lambda name: effects[name])
        yield (
            f"Weakest of {len(effects)} required nodes and edges: {weakest}, which changes "
            f"{_percent(effects[weakest])} of the answers."
        )


def _inputs(certificate: Certificate) -> Iterator[str]:
    held_out = certificate.held_out
    if certificate.trained_on_all:
        yield "Training may draw every input."
    elif held_out is not None:
        yield (
            f"Training could not draw {_percent(held_out.bases)} of the bases, and "
            f"{_percent(held_out.sources)} of the sources."
        )
    if certificate.strata and not certificate.all_pairs:
        yield f"{len(certificate.strata)} strata: {_few(certificate.strata)}."
    if certificate.seed is not None:
        yield f"Drawn with seed {certificate.seed}."
    if certificate.attempts:
        yield f"{certificate.attempts} certificates were tried before, on pairs of their own."


def _stress(certificate: Certificate) -> Iterator[str]:
    if certificate.stress:
        said = ", ".join(f"{name} {share(value)}" for name, value in certificate.stress.items())
        yield f"Stress (accuracy with forbidden nodes set to): {said}."


def _sizes(certificate: Certificate) -> Iterator[str]:
    if (found := certificate.effects) is not None:
        moved = "margin" if certificate.margin_kind == "smallest logit margin" else "output"
        yield (
            f"Single patched edges move the {moved} by at least {found.signal:.2g} where they are required "
            f"({found.signal_at}), and by at most {found.noise:.2g} elsewhere ({found.noise_at}): "
            f"a signal of {found.ratio:.2g} times the noise, as means over {found.rows} rows."
        )
        if found.early is not None:
            yield (
                f"Patched as far as the task says that nothing moves, required edges move the {moved} by at "
                f"most {found.early:.2g} ({found.early_at})."
            )


def next_missed(certificate: Certificate, standard: Standard) -> tuple[Grade, list[str]] | None:
    """Returns the lowest grade that is not reached, and what misses it; None if all are."""
    failures = grade(certificate, standard).failures
    return next(((name, failures[name]) for name in GRADES if failures[name]), None)


def _missed(certificate: Certificate, standard: Standard) -> Iterator[str]:
    missed = next_missed(certificate, standard)
    if missed is not None:
        name, said = missed
        yield f"Not {name}: {'; '.join(said[:WORST])}{_more(said)}."


def _more(said: list[str]) -> str:
    return f"; and {len(said) - WORST:,} more" if len(said) > WORST else ""


def certificate_markdown(certificate: Certificate, standard: Standard | None = None) -> str:
    """Returns a certificate as Markdown: the grade, a table of rates, a list of everything else."""
    standard = standard or Standard()
    columns = columns_of(certificate)
    heads = "".join(f" wrong / rows {column} | right, at least |" for column in columns)
    lines = [f"| intervention |{heads}", f"|---|{'--:|--:|' * len(columns)}"]
    for row in certificate_rows(certificate, standard):
        lines.append(f"| {_escaped(row.text, markdown)} | {' | '.join(cells_of(row, columns))} |")
    listed = "\n".join(f"* {_escaped(note, markdown)}" for note in notes(certificate, standard))
    return f"{verdict_sentence(certificate, standard)}\n\n" + "\n".join(lines) + f"\n\n{listed}\n\n{LEGEND}"


def verdict_sentence(certificate: Certificate, standard: Standard | None = None) -> str:
    """Says in a few sentences what a certificate reaches, what came out wrong, and what misses more."""
    standard = standard or Standard()
    text = f"**{markdown(said_of(certificate, standard))}**; asked for: {_asked(standard)}. "
    if wrong := list(_wrong(certificate)):
        text += f"Rows that came out wrong: {'; '.join(wrong)}."
    else:
        text += "No row came out wrong, whatever was swapped."
    missed = next_missed(certificate, standard)
    if missed is None:
        return text
    name, said = missed
    return f"{text} Not *{name}*: {', '.join(map(code, said[:WORST]))}{_more(said)}."


def _wrong(certificate: Certificate) -> Iterator[str]:
    """Yields, for each kind with wrong rows, where the largest share of them is, and how many."""
    for kind in KINDS:
        rates = [
            (place, rate)
            for place, draws in certificate.rates.get(kind, {}).items()
            for rate in draws.values()
            if rate.wrong
        ]
        if rates:
            place, rate = min(rates, key=lambda found: found[1].share)
            yield f"{rate.wrong:,} of {rate.rows:,} with {markdown(name_of(kind, place))}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - FEW:,} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more


def _percent(value: float) -> str:
    """Returns a share in percent, rounded down, so that only what is 1 is 100%."""
    return f"{math.floor(value * 1e4) / 100:g}%"
