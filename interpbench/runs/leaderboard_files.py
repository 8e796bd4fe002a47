"""Writes a leaderboard: the compact records, the page made of them, and its figures."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.checkpoints.model_groups import kinds_of
from interpbench.checkpoints.record import read_record
from interpbench.core.files import locked, write_text
from interpbench.reports.leaderboard import leaderboard_markdown
from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import BOARD, LeaderboardRow, board_text, read_rows
from interpbench.tasks.regimes.regime import regimes_of

NAME = "leaderboard"


def write_leaderboard(records: Sequence[EvaluationRecord], folder: Path, add: bool = False) -> Path:
    """Writes `leaderboard.json`, `leaderboard.md` and its figures; returns the page's path.

    Evaluations that write to one folder at the same time wait for each other.

    Args:
        records: results.
        folder: where to.
        add: whether rows that are there already stay, where there are no results of the same method on the
            same model.
    """
    with locked(folder, wait=True):
        models = in_regimes() if all(regimes_of(record.task) for record in records) else released()
        board = Board.of(records, models, rows_in(folder) if add else ())
        write_text(folder / BOARD, board_text(board.rows, board.missing))
        return write_page(folder, board)


def read_board(path: Path) -> Board:
    """Reads `leaderboard.json`; rows of earlier versions get the groups of the released model they are of.

    A file that has not changed is not read again: thousands of rows take seconds.

    Raises:
        ScoresError: if it is not one of ours, or damaged, naming the row and what is wrong with it.
    """
    found = path.stat() if path.is_file() else None
    return _read_board(path, found and (found.st_ino, found.st_mtime_ns, found.st_size))


@functools.lru_cache(maxsize=4)
def _read_board(path: Path, version: object) -> Board:
    """Reads a board; `version` tells files apart that were at this path one after the other."""
    rows, missing = read_rows(path)
    if not all(one.kinds for one in rows):
        known = {
            record.sha256[:12]: tuple(kinds_of(record)) for record in map(read_record, released().values())
        }
        rows = tuple(replace(one, kinds=one.kinds or known.get(one.checkpoint, ())) for one in rows)
    return Board(rows, missing)


def rows_in(folder: Path) -> tuple[LeaderboardRow, ...]:
    """Returns the rows of the leaderboard in a folder; none if there is none.

    Raises:
        ScoresError: if it is not one of ours.
    """
    path = folder / BOARD
    return read_board(path).rows if path.exists() else ()


def page(board: Board) -> str:
    """Returns the Markdown page of a board."""
    return leaderboard_markdown(board, lambda name: f"{NAME}-{name}.png")


def write_page(folder: Path, board: Board | None = None) -> Path:
    """Makes page and figures of a board, or of the `leaderboard.json` in a folder."""
    from interpbench.reports.leaderboard_figures import draw_figures

    board = board or read_board(folder / BOARD)
    write_text(folder / f"{NAME}.md", page(board))
    draw_figures(board, lambda name: folder / f"{NAME}-{name}.png")
    return folder / f"{NAME}.md"
