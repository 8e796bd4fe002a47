"""Names from files as people are shown them: the one place that escapes what a name may contain.

A name in a checkpoint, a record or an index is anyone's text. It may hold the control characters of a
terminal, the markup of rich, the syntax of Markdown and HTML, or the dollar signs of matplotlib's mathtext.
Our own JSON in HTML pages is escaped by `reports/page.py`, and shown by its script as text, never as HTML.
"""

import html
import re

MOST_SHOWN = 200
"""The largest number of characters of a name that is shown."""
_MARKDOWN = re.compile(r"([\\`*{}\[\]|~$]|^[#+-]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
"""What Markdown reads as more than a letter; an underscore within a word is one."""


def printable(text: object, keep: str = "") -> str:
    r"""Returns text in which control and other unprintable characters are shown as `\x1b` is.

    Args:
        text: anything; `str` is taken of it.
        keep: unprintable characters that may stay, for instance a newline.
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
    """Returns a name for rich, which takes `[…]` for markup."""
    from rich.markup import escape

    return escape(shown(text))


def markdown(text: object) -> str:
    """Returns a name for Markdown, in which it has no meaning, nor in the HTML that becomes of it."""
    return _MARKDOWN.sub(r"\\\1", html.escape(shown(text), quote=False))


def code(text: object) -> str:
    """Returns a name as code in Markdown, also within a table."""
    plain = shown(text).replace("|", "¦")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", plain)), default=0))
    pad = " " if "`" in plain else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def mathtext(text: object) -> str:
    """Returns a name for matplotlib, which takes what is between two dollar signs for a formula."""
    return shown(text).replace("$", r"\$")
