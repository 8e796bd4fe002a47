"""The CSV format: a row `edge,score` or `source,target,score` for each edge, or a circuit without scores."""

import csv
from io import StringIO
from typing import ClassVar

from interpbench.circuits.io.form import Contents, form
from interpbench.circuits.io.found import FoundScores, finite_number, short
from interpbench.circuits.naming import edge_name, is_edge
from interpbench.core.errors import ScoresError


@form("csv")
class CsvEdges:
    """A table of edges, with or without a header. A row may also hold a node and its score."""

    title: ClassVar[str] = "a table of edges"
    suffix: ClassVar[str] = ".csv"

    def recognises(self, document: object) -> bool:
        """Returns whether a document is text."""
        return isinstance(document, str)

    def read(self, document: object, found: FoundScores) -> None:
        """Reads a table of edges and nodes."""
        assert isinstance(document, str)
        circuit = False
        for number, row in enumerate(_rows(document), 1):
            apart = not is_edge(row[0]) and len(row) > 1 and not _is_number(row[1])
            name, *rest = [edge_name(*row[:2]), *row[2:]] if apart else row
            if len(rest) > 1 or (number > 1 and circuit != (not rest)):
                raise ScoresError(
                    f"row {number} has {len(row)} columns; write edge,score or source,target,score in each"
                )
            circuit = not rest
            score = None if circuit else finite_number(name, _float(name, rest[0]))
            if is_edge(name):
                found.edge(name, score, True if circuit else None)
            else:
                found.node(name, score)
        if circuit:
            found.member[found.graph.legal & (found.member < 0)] = False

    def write(self, contents: Contents) -> str:
        """Returns a table of the edges in the circuit, then of the nodes that have scores of their own."""
        scores, text = contents.scores, StringIO()
        write = csv.writer(text, lineterminator="\n").writerow
        write(["edge"] if scores is None else ["edge", "score"])
        for edge, at in contents.kept.items():
            write([str(edge)] if scores is None else [str(edge), repr(float(scores.edges[at]))])
        if scores is not None and scores.own_nodes is not None:
            for node, score in zip(contents.graph.nodes, scores.own_nodes):
                write([str(node), repr(float(score))])
        return text.getvalue()


def _rows(text: str) -> list[list[str]]:
    """Returns the rows that are not empty, without a header."""
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(StringIO(text)) if row]
    except csv.Error as error:
        raise ScoresError(f"the file cannot be read as CSV: {error}") from None
    return rows[1:] if rows and rows[0][0].lower() in ("edge", "name", "source") else rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _float(name: str, text: str) -> float:
    if not _is_number(text):
        raise ScoresError(f"{short(name)}: {short(text)} is not a score")
    return float(text)
