"""The representation of values in notebooks: `reports` registers functions here that draw them as HTML."""

from collections.abc import Callable
from typing import Any

_DRAWERS: dict[str, Callable[[Any], str]] = {}
"""The function that draws the values of each class, by the class's name."""


def shows(kind: str, draw: Callable[[Any], str]) -> None:
    """Registers the function that draws all values of a class.

    Args:
        kind: the name of the class, which need not be imported.
        draw: a function from a value to HTML.
    """
    _DRAWERS[kind] = draw


def html_of(value: object) -> str | None:
    """Returns a value as HTML; None if no function draws it, so that Jupyter shows its `repr`."""
    draw = _DRAWERS.get(type(value).__name__)
    return None if draw is None else draw(value)


def data_frame(columns: dict[str, Any]) -> Any:
    """Returns columns as a `pandas.DataFrame`.

    Raises:
        ImportError: if pandas is not installed; nothing else in this project needs it.
    """
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas() needs pandas, which is not installed: pip install pandas") from None
    return pandas.DataFrame(columns)
