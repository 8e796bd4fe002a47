"""The form of a certificate in its file: what is counted of many places stands in columns.

Of a network with hundreds of edges, `certificate.json` would be mostly names of keys. In format 3, `rates`
and the `edges` of `screen` are tables: the names of places once, then a column for each number, in their
order. A column whose numbers are all the same is that number. Everything else is as in format 2, which
`Certificate.to_json` returns and which is still read.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from interpbench.core.errors import CheckpointError

PACKED = 3
"""The version of the file format with columns."""
PLACES = "places"
COUNTED = ("wrong", "rows", "looks")
SCREENED = ("passed", "sampled", "wrong")
DRAWS = ("task", "strata", "pairs")
"""What the rows of a rate can be drawn from."""
MOST_PLACES = 50_000
"""The largest number of places in a table."""
Plain = dict[str, Any]


def packed(plain: Mapping[str, JsonValue]) -> Plain:
    """Returns a certificate of format 2, as `Certificate.to_json` returns it, in format 3."""
    data: Plain = {**plain, "format": PACKED}
    data["rates"] = {kind: _table_of_rates(places) for kind, places in data["rates"].items()}
    if data.get("screen") is not None:
        edges = data["screen"]["edges"]
        columns = {name: [counts[i] for counts in edges.values()] for i, name in enumerate(SCREENED)}
        table = {PLACES: list(edges), **{name: _shortened(column) for name, column in columns.items()}}
        data["screen"] = {**data["screen"], "edges": table}
    return data


def unpacked(data: Mapping[str, JsonValue]) -> Plain:
    """Returns a certificate of format 3 in format 2.

    Raises:
        CheckpointError: if a table is none, or its columns do not fit its places.
    """
    plain: Plain = {**data, "format": 2}
    rates = _mapping(plain.get("rates"), "rates")
    plain["rates"] = {
        kind: _rates_of(_mapping(table, f"rates.{kind}"), kind) for kind, table in rates.items()
    }
    if plain.get("screen") is not None:
        screen = _mapping(plain["screen"], "screen")
        table = _mapping(screen.get("edges"), "screen.edges")
        places = _places(table, "screen.edges")
        columns = _columns(table, SCREENED, len(places), "screen.edges")
        edges = {place: [columns[name][i] for name in SCREENED] for i, place in enumerate(places)}
        plain["screen"] = {**screen, "edges": edges}
    return plain


def text_of(value: object, depth: int = 0) -> str:
    """Returns JSON in which objects are indented, and each list and each innermost object is one line.

    Raises:
        ValueError: for NaN or infinity.
    """
    if isinstance(value, dict) and any(isinstance(one, dict | list) for one in value.values()):
        inner = " " * (depth + 1)
        lines = [f"{inner}{json.dumps(key)}: {text_of(one, depth + 1)}" for key, one in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"
    return json.dumps(value, allow_nan=False)


def _table_of_rates(places: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Plain:
    """Returns the table of a kind; a place without some draw has null in its columns."""
    draws = list(dict.fromkeys(draw for rates in places.values() for draw in rates))
    table: Plain = {PLACES: list(places)}
    for draw in draws:
        table[draw] = {
            name: _shortened([rates[draw][name] if draw in rates else None for rates in places.values()])
            for name in COUNTED
        }
    return table


def _rates_of(table: Plain, kind: str) -> dict[str, dict[str, Plain]]:
    places = _places(table, f"rates.{kind}")
    rates: dict[str, dict[str, Plain]] = {place: {} for place in places}
    for draw, given in table.items():
        if draw == PLACES:
            continue
        where = f"rates.{kind}.{draw}"
        if draw not in DRAWS:
            raise CheckpointError(f"{where}: draws are {', '.join(DRAWS)}")
        columns = _columns(_mapping(given, where), COUNTED, len(places), where, own=True)
        for i, place in enumerate(places):
            counts = {name: columns[name][i] for name in COUNTED}
            if any(count is not None for count in counts.values()):
                rates[place][draw] = counts
    return rates


def _shortened(column: list[int | None]) -> list[int | None] | int | None:
    return column[0] if len(set(column)) == 1 else column


def _places(table: Plain, where: str) -> list[str]:
    places = table.get(PLACES)
    if not isinstance(places, list) or not all(isinstance(place, str) for place in places):
        raise CheckpointError(f"{where}.{PLACES} is not a list of names")
    if len(set(places)) < len(places) or len(places) > MOST_PLACES:
        raise CheckpointError(f"{where}.{PLACES} names one twice, or more than {MOST_PLACES:,}")
    return places


def _columns(
    table: Plain, names: Sequence[str], length: int, where: str, own: bool = False
) -> dict[str, list[Any]]:
    """Returns the columns of a table, each as a list.

    Args:
        table: the table.
        names: the names of its columns.
        length: the number of places.
        where: the name of the table, for messages.
        own: whether places are not in this table itself.

    Raises:
        CheckpointError: if columns are missing, unknown, or of another length.
    """
    wanted = set(names) if own else {PLACES, *names}
    if table.keys() != wanted:
        raise CheckpointError(f"{where} has not the columns {', '.join(names)}")
    columns: dict[str, list[Any]] = {}
    for name in names:
        column = table[name]
        if isinstance(column, list) and len(column) != length:
            raise CheckpointError(f"{where}.{name} has {len(column)} numbers of {length} places")
        entries = column if isinstance(column, list) else [column]
        if any(not (one is None or isinstance(one, int)) for one in entries):
            raise CheckpointError(f"{where}.{name} is not made of whole numbers")
        columns[name] = column if isinstance(column, list) else [column] * length
    return columns


def _mapping(value: object, where: str) -> Plain:
    if not isinstance(value, dict):
        raise CheckpointError(f"{where} is not an object")
    return value
