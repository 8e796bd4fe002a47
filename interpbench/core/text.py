"""Escapes names that come from files, before they are shown. All escaping of names is done here.

A name in a checkpoint, a record or an index may be any text. It may contain control characters of a terminal,
markup of rich, syntax of Markdown or HTML, or the dollar signs of matplotlib's mathtext. (The JSON within
HTML pages is escaped by `reports/page.py`.)
"""

import html
import re

MOST_SHOWN = 200
"""The largest number of characters of a name that is shown."""
_MARKDOWN = re.compile(r"([\\`*{}\[\]|~$]|^[#+-]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
"""The characters with a meaning in Markdown; an underscore within a word has none."""


def printable(text: object, keep: str = "") -> str:
    r"""Returns text in which unprintable characters are replaced by escape sequences such as `\x1b`.

    Args:
        text: the text, or an object, of which `str` gives the text.
        keep: unprintable characters that are not replaced, for instance a newline.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def shown(text: object) -> str:
    """Returns a name for an error message or a table: printable, in one line, cut to `MOST_SHOWN`."""
    text = printable(text)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"


def terminal(text: object) -> str:
    """Returns a name escaped for rich, in which `[…]` is markup."""
    from rich.markup import escape

    return escape(shown(text))


def markdown(text: object) -> str:
    """Returns a name escaped for Markdown, and for the HTML that is made from it."""
    return _MARKDOWN.sub(r"\\\1", html.escape(shown(text), quote=False))


def code(text: object) -> str:
    """Returns a name as inline code in Markdown, which may stand in a table."""
    plain = shown(text).replace("|", "¦")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", plain)), default=0))
    pad = " " if "`" in plain else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def mathtext(text: object) -> str:
    """Returns a name escaped for matplotlib, in which text between two dollar signs is a formula."""
    return shown(text).replace("$", r"\$")
