"""What Jupyter shows of a checkpoint and of a truth: a few lines, and the circuit drawn."""

from base64 import b64encode
from html import escape

from interpbench.checkpoints.format import Checkpoint
from interpbench.circuits.ground_truth import Truth
from interpbench.core.text import printable
from interpbench.reports.drawing import circuit_figure
from interpbench.reports.palette import Picture


def checkpoint_html(checkpoint: Checkpoint) -> str:
    """Returns what is known of a checkpoint, and its circuit with the variables that nodes carry."""
    figure = circuit_figure(checkpoint.truth, checkpoint.variables, title=checkpoint.task)
    return _html(repr(checkpoint), figure)


def truth_html(truth: Truth) -> str:
    """Returns how many nodes and edges are in each state, and the circuit."""
    return _html(repr(truth), circuit_figure(truth))


def _html(text: str, figure: Picture) -> str:
    image = b64encode(figure._repr_png_()).decode()  # pyright: ignore[reportPrivateUsage]
    said = escape(printable(text, keep="\n"))
    return f'<pre>{said}</pre><img alt="the circuit" src="data:image/png;base64,{image}">'
