"""Reads and writes files of scores and circuits in any of the registered forms."""

from pathlib import Path

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.io.form import JSON, Contents, forms
from interpbench.circuits.io.found import FoundScores, Imported
from interpbench.circuits.scores import Scores
from interpbench.core.errors import InterpBenchError, ScoresError
from interpbench.core.files import MOST_SCORES, JsonError, parse_json, read_bytes, write_text

MOST_BYTES = MOST_SCORES
"""The largest file that is read: far more than any network of this project needs."""
DEFAULT = "eap_ig"
"""The form of files whose name does not say another."""


def read_scores(path: Path, graph: Graph) -> Imported:
    """Reads scores or a circuit from a file of any of the forms; which one it is shows in the file.

    Raises:
        ScoresError: in one line, for a file that is missing, too large, damaged, incomplete, or not of this
            graph.
    """
    text = _text(path)
    try:
        suffix = path.suffix.lower()
        known = suffix in {form.suffix for form in forms().values()}
        suffix = suffix if known else JSON
        document = _parsed(text) if suffix == JSON else text
        near = [(name, form) for name, form in forms().items() if form.suffix == suffix]
        found = FoundScores(graph)
        for name, form in near:
            if form.recognises(document):
                form.read(document, found)
                return found.finish(name)
        raise ScoresError(f"neither {' nor '.join(form.title for _, form in near)}")
    except InterpBenchError as error:
        raise ScoresError(f"{path}: {error}") from None


def write_scores(
    path: Path,
    graph: Graph,
    form: str,
    *,
    scores: Scores | None = None,
    circuit: np.ndarray | None = None,
    d_model: int = 1,
) -> None:
    """Writes scores, a circuit, or both; ACDC's list and CSV then hold the circuit's edges only.

    Args:
        path: the file.
        graph: of the network.
        form: the name of a registered form.
        scores: what to write; without, edges are only in the circuit or not.
        circuit: `[reader, writer]` bool.
        d_model: the network's width, which EAP-IG wants to know.
    """
    write_text(path, forms()[form].write(Contents(graph, scores, circuit, d_model)))


def form_for(path: Path) -> str:
    """Returns the form in which a file of that name is written: that of its suffix, else `DEFAULT`."""
    suffix = path.suffix.lower()
    return next((name for name, form in forms().items() if form.suffix == suffix != JSON), DEFAULT)


def _text(path: Path) -> str:
    if path.suffix.lower() in (".pt", ".pth", ".pkl", ".pickle"):
        raise ScoresError(
            f"{path}: a pickle, which could execute code, is not read; save JSON (EAP-IG: Graph.to_json)"
        )
    try:
        return read_bytes(path, MOST_BYTES, ScoresError).decode()
    except UnicodeDecodeError:
        raise ScoresError(f"{path}: not a text file") from None


def _parsed(text: str) -> object:
    try:
        return parse_json(text, constants=True)
    except JsonError as error:
        raise ScoresError(str(error)) from None
    except ValueError:
        raise ScoresError("not readable as JSON") from None
