"""The leaderboard of submissions: ranks them beside the project's own methods, and writes the page."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from interpbench.core.errors import ConfigError, ScoresError
from interpbench.core.files import write_text
from interpbench.core.text import code, markdown
from interpbench.reports.models_page import put
from interpbench.runs.leaderboard_files import read_board
from interpbench.runs.submissions import Submission, check_submissions, list_scored
from interpbench.scoring.exam_data import in_usual_direction
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import BOARD
from interpbench.scoring.ranked_entries import ENTRY_METRICS, EntryValues, RankedEntries, rank_entries
from interpbench.scoring.ranking_metrics import RANKING
from interpbench.tasks.catalogue import get_task

log = logging.getLogger(__name__)
EXAM = "exam"
"""The folder of the leaderboard of models in regimes."""
BEGIN = "<!-- made by `interpbench submissions --write` -->"


def rankings(
    found: Sequence[Submission], board: Board | None
) -> list[tuple[list[Submission], RankedEntries]]:
    """Returns the submissions for each set of models, ranked; sets that are still released come first.

    Args:
        found: the submissions.
        board: the leaderboard of the project's own methods, which are ranked beside those for models that are
            still released; None for none.
    """
    sets: dict[str, list[Submission]] = {}
    for one in sorted(found, key=lambda each: (not each.current, -len(each.record.models), each.record.name)):
        sets.setdefault(one.record.set_id, []).append(one)
    return [(members, _ranking(members, board)) for members in sets.values()]


def _ranking(members: Sequence[Submission], board: Board | None) -> RankedEntries:
    models = members[0].record.models
    entries: dict[str, EntryValues] = {one.record.name: one.values for one in members}
    if board is not None and members[0].current:
        entries |= _own(board, models)
    return rank_entries(entries, {name: get_task(name.partition("/")[0]).program_name for name in models})


def _own(board: Board, models: Mapping[str, str]) -> dict[str, EntryValues]:
    """Returns what the project's own methods reach on the same weights, of those that were run on all."""
    rows = [row for row in board.rows if models.get(row.task, "").startswith(row.checkpoint[:12])]
    mine = Board(tuple(rows))
    entries: dict[str, EntryValues] = {}
    for method in mine.methods:
        values = {
            name: {row.task: row.at("headline").metrics[name].value for row in rows if row.method == method}
            for name in ENTRY_METRICS
        }
        if all(len(on) == len(models) for on in values.values()):
            entries[method] = values
    return entries


def show_submissions(console: Console, folder: Path) -> bool:
    """Prints the ranked submissions of a folder; returns whether all are whole.

    Args:
        console: where to print.
        folder: the folder of submissions.
    """
    from interpbench.reports.tables import rows_table

    found, wrong = check_submissions(folder)
    for members, ranking in rankings(found, own_board(folder)):
        first = members[0].record
        names = {one.record.name for one in members}
        log.info("%d models, set %s", len(first.models), first.set_id[:12])
        console.print(rows_table([{**row, "submitted": row["entry"] in names} for row in ranking.rows()]))
    for line in wrong:
        log.error("%s", line)
    log.info("%d submissions are whole, %d are not", len(found), len(wrong))
    return not wrong


def submissions_table(found: Sequence[Submission], board: Board | None) -> str:
    """Returns the ranked submissions as Markdown, a table for each set of models."""
    parts: list[str] = []
    for members, ranking in rankings(found, board):
        known = {one.record.name: one for one in members}
        first = members[0].record
        said = "" if members[0].current else "; some have been replaced since, and cannot be scored again"
        parts.append(f"**{len(first.models)} models, set `{first.set_id[:12]}`**{said}\n")
        titles = [RANKING[metric].title for metric in ENTRY_METRICS]
        columns = ["rank", "entry", *titles, "better than the next", "seconds a model", "version"]
        parts.append(f"| {' | '.join(columns)} |\n|{' --: |'}{' --- |'}{' --: |' * (len(columns) - 2)}")
        for row in ranking.rows():
            name = str(row.pop("entry"))
            cells = [str(row.pop("rank")), _entry_cell(name, known), *(str(value) for value in row.values())]
            cells += [""] * (len(columns) - 2 - len(cells))
            parts.append(f"| {' | '.join([*cells, *_facts(name, known)])} |")
        parts.append("")
    return "\n".join(parts) if parts else "No method has been submitted yet."


def _entry_cell(name: str, known: Mapping[str, Submission]) -> str:
    """Returns the name of an entry with what is said of it; the project's own methods are in italics."""
    if name not in known:
        return f"*{markdown(name)}*"
    record = known[name].record
    text = f"[{markdown(name)}]({record.link})" if record.link else f"**{markdown(name)}**"
    return f"{text}: {markdown(record.about)}" if record.about else text


def _facts(name: str, known: Mapping[str, Submission]) -> list[str]:
    if name not in known:
        return ["", ""]
    record = known[name].record
    if record.cost is None:
        return ["–", code(record.version)]
    seconds = f"{record.cost.seconds / len(record.models):.2g}"
    return [seconds if record.cost.measured else f"{seconds} (as said)", code(record.version)]


def own_board(folder: Path) -> Board | None:
    """Returns the rows of the project's own methods beside a folder of submissions; None without.

    Methods patch the runs that their authors do: rows of other directions are left out.
    """
    paths = [folder.parent / BOARD, folder.parent / EXAM / BOARD]
    rows = [row for path in paths if path.is_file() for row in read_board(path).rows]
    return in_usual_direction(Board(tuple(rows))) if rows else None


def submissions_page(page: str, folder: Path) -> str:
    """Returns the page of submissions with its tables made anew.

    Args:
        page: the text of the page.
        folder: the folder of submissions.

    Raises:
        ScoresError: if a submission is damaged.
    """
    found, wrong = check_submissions(folder)
    if wrong:
        raise ScoresError(wrong[0])
    return put(page, submissions_table(found, own_board(folder)), BEGIN)


def write_submissions(folder: Path) -> None:
    """Writes the tables of docs/submissions.md.

    Raises:
        InterpBenchError: outside a checkout, which has no such page; or if a submission is damaged.
    """
    path = folder.with_suffix(".md")
    if not path.is_file():
        raise ConfigError(f"submissions --write is for a checkout of the project: there is no {path} here")
    write_text(path, submissions_page(path.read_text(), folder))
    list_scored(folder, check_submissions(folder)[0])
    log.info("wrote %s", path)
