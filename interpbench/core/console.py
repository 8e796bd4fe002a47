"""Where tables for people go."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDTH, WIDE = 120, 140
"""Columns of a table, and of one with long names, that is written to a file or a pipe."""


def console(width: int = WIDTH) -> "Console":
    """Returns standard output as rich writes to it: as wide as the terminal, else `width` columns."""
    from rich.console import Console  # rich takes a tenth of a second to import

    return Console(width=None if sys.stdout.isatty() else width)
