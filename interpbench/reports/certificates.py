"""What a certificate says, for people: as a table in the terminal, as Markdown, in a sentence.

Everything here is what a reader with some `Standard` makes of its counts; by default with that of released
models.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from interpbench.circuits.certificate_counts import WHAT, Kind, name_of, passed_over, share_of
from interpbench.circuits.grades import (
    GRADES,
    RELEASED,
    Standard,
    bound,
    grade,
    is_demanded,
    may_miss,
    may_miss_at_most,
    said_of,
    wanted,
)
from interpbench.core.text import code, markdown, terminal
from interpbench.reports.labels import number, share

WORST = 4
"""How many places of a kind are listed, if there are more that miss something."""
FEW = 12
"""Of more places in a set, only so many are named."""
KINDS: tuple[Kind, ...] = tuple(WHAT)
COUNTED: dict[Kind, str] = {
    **{"effective": ", where that changes the answer", "positions": ", at one random position"},
    **{"effective_positions": ", at one random position, where that changes the answer"},
    **{"effective_edges": " required edges alone, where that changes the answer"},
    **{"nodes": " forbidden nodes alone", "edges": " inert edges alone"},
    **{"required_edges": " required edges alone, as in the program"},
}
"""What is said of all places of a kind together, after `each of` and their number."""
COLUMNS = {"pairs": 0, "task": 0, "strata": 1}
"""Where in the table draws are: rates are of all pairs, or of draws from the task and from its strata."""
HEADS = {"pairs": "all pairs", "task": "draws", "strata": "its strata"}
FIRST = ("variables", "nodes", "edges", "required_edges")
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
    cells: Mapping[str, tuple[str, str]]
    misses: bool = False


def columns_of(proof: Any) -> list[str]:
    """Returns what is above each pair of columns."""
    found = {draw for places in proof["rates"].values() for draws in places.values() for draw in draws}
    heads: dict[int, list[str]] = {}
    for draw, place in COLUMNS.items():
        if draw in found:
            heads.setdefault(place, []).append(HEADS[draw])
    return ["of " + " or ".join(names) for names in heads.values()]


def cells_of(row: "CertificateRow", columns: Sequence[str]) -> list[str]:
    """Returns the cells of a row, two a column."""
    placed = {COLUMNS[draw]: cells for draw, cells in row.cells.items()}
    return [cell for number in range(len(columns)) for cell in placed.get(number, ("", ""))]


def certificate_rows(proof: Any, standard: Standard) -> list[CertificateRow]:
    """Returns the rates of a certificate, of each kind of places the worst, or one line if no row is wrong.

    Nodes that carry variables, and sets, are all listed.
    """
    rows: list[CertificateRow] = []
    for kind in KINDS:
        places: dict[str, Any] | None = proof["rates"].get(kind)
        if places is None:
            unmeasured = f"{WHAT[kind].rstrip(':')}: not measured"
            rows.append(CertificateRow(kind, unmeasured, {}, is_demanded(kind, standard)))
            continue
        lowest = {place: _lowest(draws, standard) for place, draws in places.items()}
        worst = sorted(places, key=lambda place: lowest[place])
        wrong = [place for place in worst if any(rate["wrong"] for rate in places[place].values())]
        if kind in ("accuracy", "variables", "node_sets", "edge_sets"):
            rows += [_row(kind, _text(proof, kind, place), places[place], standard) for place in places]
        elif wrong:
            rows += [_row(kind, name_of(kind, place), places[place], standard) for place in wrong[:WORST]]
            if len(wrong) > WORST:
                more = f"{WHAT[kind]}: {len(wrong) - WORST:,} more with wrong rows, of {len(places):,}"
                rows.append(CertificateRow(kind, more, {}))
        elif worst:
            rows.append(_row(kind, f"each of {len(places):,}{COUNTED[kind]}", places[worst[0]], standard))
    return rows


def _lowest(draws: Mapping[str, Any], standard: Standard) -> float:
    """Returns the lowest bound of a place."""
    return min((bound(rate, standard.confidence) for rate in draws.values()), default=0.0)


def _row(kind: Kind, text: str, draws: Mapping[str, Any], standard: Standard) -> CertificateRow:
    """Returns the line of one place."""
    cells = {
        draw: (f"{rate['wrong']:,} / {rate['rows']:,}", share(bound(rate, standard.confidence), 5))
        for draw, rate in draws.items()
    }
    low = any(bound(rate, standard.confidence) < wanted(rate, standard) for rate in draws.values())
    return CertificateRow(kind, text, cells, low and is_demanded(kind, standard))


def _text(proof: Any, kind: Kind, place: str) -> str:
    """Returns what was done at a place; of a node that carries variables, these too."""
    carried = f" = {', '.join(proof['variables'][place])}" if kind == "variables" else ""
    return name_of(kind, place) + carried


def certificate_table(proof: Any, standard: Standard | None = None) -> Table:
    """Returns a certificate as a table of rates, with everything else that it says below; 100 columns do."""
    standard = standard or Standard()
    columns = columns_of(proof)
    lines = [*notes(proof, standard), *_missed(proof, standard)]
    table = Table(
        title=f"{said_of(proof, standard)}; asked for: {_asked(standard)}",
        title_justify="left",
        title_style=f"bold {'green' if grade(proof, standard).reaches(RELEASED) else 'red'}",
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
    for row in certificate_rows(proof, standard):
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


def notes(proof: Any, standard: Standard) -> list[str]:
    """Returns what a certificate says besides rates, a sentence each."""
    return [
        *_attacks(proof, standard),
        *_screen(proof, standard),
        *_effects(proof),
        *_inputs(proof),
        f"{proof['margin_kind'].capitalize()}: {number(proof['margin'])}.",
        *_stress(proof),
    ]


def _attacks(proof: Any, standard: Standard) -> Iterator[str]:
    for kind, what in (("nodes", "forbidden nodes"), ("edges", "inert edges")):
        attack = proof["attacks"].get(kind)
        if attack is None:
            known = proof["rates"].get(kind) == {}
            yield f"There are no {what}." if known else f"No attack on {what} was made."
            continue
        found = [
            f"{rate['wrong']:,} of {rate['rows']:,} {name} wrong, at least "
            f"{share(bound(rate, standard.confidence))} right"
            for name, rate in zip(("draws", "draws from strata"), attack["rates"].values())
        ]
        yield (
            f"Worst set of {what} found ({attack['by']}, {attack['candidates']:,} tried on "
            f"{attack['searched_rows']:,} rows): {len(attack['places'])} of them, {'; '.join(found)}: "
            f"{_few(attack['places'])}."
        )


def _screen(proof: Any, standard: Standard) -> Iterator[str]:
    screen = proof["screen"]
    if screen is not None:
        missed = may_miss(proof, standard.confidence)
        _, most = may_miss_at_most(proof, standard.confidence)
        rest, proved = passed_over(screen), screen.get("proved", 0)
        if not rest:
            yield f"Single edges: all {screen['items']:,} (edge, row) were run, unless nothing is patched."
            return
        bounded = f" or, of {proved:,}, below a bound" if proved else ""
        yield (
            f"Single edges: of {screen['items']:,} (edge, row), {screen['run']:,} were run; of the other "
            f"{rest:,}, whose effect is estimated to be below {_percent(screen['share'])} of what changes "
            f"the answer{bounded}, {screen['sampled']:,} drawn at random, {screen['wrong']:,} of them "
            f"wrong: at most {missed or 0.0:.2g} of all (edge, row) were missed, and of any one edge at "
            f"most {most:.2g} of its rows."
        )


def _effects(proof: Any) -> Iterator[str]:
    for kind, what in (("effective", "swap"), ("effective_positions", "swap at one position")):
        if vacuous := proof["vacuous"].get(kind):
            yield f"Vacuous, since no {what} changes an answer: {_few(vacuous)}."
    effects: dict[str, float] = proof["required_effect"]
    if effects:
        weakest = min(effects, key=lambda name: effects[name])
        yield (
            f"Weakest of {len(effects)} required nodes and edges: {weakest}, which changes "
            f"{_percent(effects[weakest])} of the answers."
        )


def _inputs(proof: Any) -> Iterator[str]:
    held_out = proof["held_out"]
    if proof["trained_on_all"]:
        yield "Training may draw every input."
    elif held_out is not None:
        yield (
            f"Training could not draw {_percent(held_out['bases'])} of the bases, and "
            f"{_percent(held_out['sources'])} of the sources."
        )
    if proof["strata"] and not proof["all_pairs"]:
        yield f"{len(proof['strata'])} strata: {_few(proof['strata'])}."
    if (seed := proof.get("seed")) is not None:
        yield f"Drawn with seed {seed}."
    if proof["attempts"]:
        yield f"{proof['attempts']} certificates were tried before, on pairs of their own."


def _stress(proof: Any) -> Iterator[str]:
    if proof["stress"]:
        said = ", ".join(f"{name} {share(value)}" for name, value in proof["stress"].items())
        yield f"Stress (accuracy with forbidden nodes set to): {said}."


def next_missed(proof: Any, standard: Standard) -> tuple[str, list[str]] | None:
    """Returns the lowest grade that is not reached, and what misses it; None if all are."""
    failures = grade(proof, standard).failures
    return next(((name, failures[name]) for name in GRADES if failures[name]), None)


def _missed(proof: Any, standard: Standard) -> Iterator[str]:
    missed = next_missed(proof, standard)
    if missed is not None:
        name, said = missed
        yield f"Not {name}: {'; '.join(said[:WORST])}{_more(said)}."


def _more(said: list[str]) -> str:
    return f"; and {len(said) - WORST:,} more" if len(said) > WORST else ""


def certificate_markdown(proof: Any, standard: Standard | None = None) -> str:
    """Returns a certificate as Markdown: the grade, a table of rates, a list of everything else."""
    standard = standard or Standard()
    columns = columns_of(proof)
    heads = "".join(f" wrong / rows {column} | right, at least |" for column in columns)
    lines = [f"| intervention |{heads}", f"|---|{'--:|--:|' * len(columns)}"]
    for row in certificate_rows(proof, standard):
        lines.append(f"| {_escaped(row.text, markdown)} | {' | '.join(cells_of(row, columns))} |")
    listed = "\n".join(f"* {_escaped(note, markdown)}" for note in notes(proof, standard))
    return f"{verdict_sentence(proof, standard)}\n\n" + "\n".join(lines) + f"\n\n{listed}\n\n{LEGEND}"


def verdict_sentence(proof: Any, standard: Standard | None = None) -> str:
    """Says in a few sentences what a certificate reaches, what came out wrong, and what misses more."""
    standard = standard or Standard()
    text = f"**{markdown(said_of(proof, standard))}**; asked for: {_asked(standard)}. "
    if wrong := list(_wrong(proof)):
        text += f"Rows that came out wrong: {'; '.join(wrong)}."
    else:
        text += "No row came out wrong, whatever was swapped."
    missed = next_missed(proof, standard)
    if missed is None:
        return text
    name, said = missed
    return f"{text} Not *{name}*: {', '.join(map(code, said[:WORST]))}{_more(said)}."


def _wrong(proof: Any) -> Iterator[str]:
    """Yields, for each kind with wrong rows, where the largest share of them is, and how many."""
    for kind in KINDS:
        rates = [
            (share_of(rate), place, rate)
            for place, draws in (proof["rates"].get(kind) or {}).items()
            for rate in draws.values()
            if rate["wrong"]
        ]
        if rates:
            _, place, rate = min(rates, key=lambda found: found[0])
            yield f"{rate['wrong']:,} of {rate['rows']:,} with {markdown(name_of(kind, place))}"


def _few(names: list[str]) -> str:
    more = f" and {len(names) - FEW:,} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more


def _percent(value: float) -> str:
    """Returns a share in percent, rounded down, so that only what is 1 is 100%."""
    return f"{math.floor(value * 1e4) / 100:g}%"
