"""What Jupyter shows of values: `reports` draws them, and what draws is registered here."""

from collections.abc import Callable
from typing import Any

_DRAWERS: dict[str, Callable[[Any], str]] = {}


def shows(kind: str, draw: Callable[[Any], str]) -> None:
    """Registers what returns the HTML of every value of a class.

    Args:
        kind: the name of the class, which need not be imported.
        draw: from a value to HTML.
    """
    _DRAWERS[kind] = draw


def html_of(value: object) -> str | None:
    """Returns a value as HTML, or None where nothing draws it: Jupyter then shows its `repr`."""
    draw = _DRAWERS.get(type(value).__name__)
    return None if draw is None else draw(value)


def data_frame(columns: dict[str, Any]) -> Any:
    """Returns columns as a `pandas.DataFrame`.

    Raises:
        ImportError: if pandas, which nothing else here needs, is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas() needs pandas, which is not installed: pip install pandas") from None
    return pandas.DataFrame(columns)
