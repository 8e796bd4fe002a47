"""Templates of prompts: sentences in which the indirect object is the only name that comes once.

A template is a tuple of words in which `{io}`, `{s}` and `{t}` are replaced by names (`{t}` is a third one),
`{place}` by a place and `{object}` by an object. The word that follows each prompt is the name of `{io}`.
"""

from itertools import permutations, product

Template = tuple[str, ...]
IO, S, T, PLACE, OBJECT = "{io}", "{s}", "{t}", "{place}", "{object}"
SLOTS = (IO, S, T, PLACE, OBJECT)

OPENINGS = ("", "Then ,", "Today ,", "Yesterday ,", "One evening", "Last summer")
GATHERED = (
    "{0} and {1} went to the {place} .",
    "{0} and {1} met at the {place} .",
    "{0} and {1} sat near the {place} .",
    "{0} ran into {1} behind the {place} .",
    "at the {place} {0} talked to {1} .",
)
HANDED = (
    "{s} gave the {object} to",
    "{s} handed an old {object} to",
    "{s} sold the {object} to",
    "Later {s} lent the {object} to",
)
FOUND = (
    "{0} and {1} found the {object} .",
    "{0} and {1} bought an old {object} .",
    "near the {object} {0} sat with {1} .",
    "{0} showed {1} the {object} .",
)
PASSED = ("{s} gave it to", "Later {s} handed it to", "{s} decided to give it to", "{s} sent it back to")
GATHERED_THREE = (
    "{0} , {1} and {2} went out .",
    "{0} met {1} and {2} .",
    "{0} and {1} talked to {2} .",
)
HANDED_THREE = (
    "{s} and {t} gave the {object} to",
    "Later {s} and {t} sent it to",
    "{s} and {t} handed it to",
)


def _made(openings: tuple[str, ...], firsts: tuple[str, ...], seconds: tuple[str, ...]) -> list[Template]:
    """Returns templates of all combinations of the parts, with the names of the first sentence in any order.

    Args:
        openings: beginnings of the first sentence.
        firsts: first sentences, with the numbers of their names in braces.
        seconds: second sentences.
    """
    names = (IO, S, T) if any("{2}" in first for first in firsts) else (IO, S)
    templates: list[Template] = []
    for opening, first, second, order in product(openings, firsts, seconds, permutations(names)):
        for number, name in enumerate(order):
            first = first.replace(f"{{{number}}}", name)
        templates.append(tuple(f"{opening} {first} {second}".split()))
    return templates


PUBLISHED = _made(("Then ,",), ("{0} and {1} went to the {place} .",), ("{s} gave the {object} to",))
"""The templates of the published model; its four are these two, each with the names A and B in both roles."""

LARGE = (
    _made(OPENINGS, GATHERED, HANDED)  # the object comes late
    + _made(OPENINGS, FOUND, PASSED)  # the object comes early
    + _made(OPENINGS, GATHERED_THREE, HANDED_THREE)
)
"""The templates of `ioi`: two names with the subject first (BABA) or second (ABBA), or three names."""
