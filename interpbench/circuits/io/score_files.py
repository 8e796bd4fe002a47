"""Reads and writes files of scores and circuits in any of the registered formats (forms)."""

from pathlib import Path

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.io.form import JSON, Contents, forms
from interpbench.circuits.io.found import FoundScores, Imported
from interpbench.circuits.scores import Scores
from interpbench.core.errors import InterpBenchError, ScoresError
from interpbench.core.files import MOST_SCORES, JsonError, parse_json, read_bytes, write_text

MOST_BYTES = MOST_SCORES
"""The size of the largest file that is read, in bytes: far more than any network of this project needs."""
DEFAULT = "eap_ig"
"""The format of files whose suffix belongs to no other format."""


def read_scores(path: Path, graph: Graph) -> Imported:
    """Reads scores or a circuit from a file in any of the formats; the format is recognised.

    Args:
        path: the file.
        graph: the graph of the network that the scores are of.

    Raises:
        ScoresError: if the file is missing, too large, damaged, incomplete, or does not fit the graph.
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
        raise ScoresError(f"the file is neither {' nor '.join(form.title for _, form in near)}")
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
    """Writes scores, a circuit, or both; with both, ACDC's format and CSV hold only scores in the circuit.

    Args:
        path: the file.
        graph: the network's graph.
        form: the name of a registered format.
        scores: the scores; None to write a circuit without scores.
        circuit: the edges in the circuit, bool `[reader, writer]`; None to write scores without a circuit.
        d_model: the width of the network's residual stream, which is written in EAP-IG's format.
    """
    write_text(path, forms()[form].write(Contents(graph, scores, circuit, d_model)))


def form_for(path: Path) -> str:
    """Returns the format in which a file is written, by its suffix; `DEFAULT` if the suffix decides none."""
    suffix = path.suffix.lower()
    return next((name for name, form in forms().items() if form.suffix == suffix != JSON), DEFAULT)


def _text(path: Path) -> str:
    if path.suffix.lower() in (".pt", ".pth", ".pkl", ".pickle"):
        raise ScoresError(
            f"{path}: the file is a pickle, which could execute code, and is not read; save it as JSON "
            "(in EAP-IG with Graph.to_json)"
        )
    try:
        return read_bytes(path, MOST_BYTES, ScoresError).decode()
    except UnicodeDecodeError:
        raise ScoresError(f"{path}: the file is not a text file") from None


def _parsed(text: str) -> object:
    try:
        return parse_json(text, constants=True)
    except JsonError as error:
        raise ScoresError(str(error)) from None
    except ValueError:
        raise ScoresError("the file cannot be read as JSON") from None
