"""The console to which tables are written."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDTH, WIDE = 120, 140
"""The numbers of columns of text that is written to a file or a pipe: by default, and for wide tables."""


def console(width: int = WIDTH) -> "Console":
    """Returns a console of rich on standard output, as wide as the terminal; `width` if it is no terminal."""
    from rich.console import Console  # rich takes a tenth of a second to import

    return Console(width=None if sys.stdout.isatty() else width)
