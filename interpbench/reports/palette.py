"""Colours that stay apart for colour-blind readers (Okabe & Ito 2008), and how figures are saved."""

from io import BytesIO
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from interpbench.core.files import write_bytes

BLUE, SKY, VERMILLION, GREEN = "#0072B2", "#56B4E9", "#D55E00", "#009E73"
COLOURS = (BLUE, "#E69F00", GREEN, "#CC79A7", "#000000", VERMILLION, SKY, "#8C6D31")


class Picture(Figure):
    """A figure that Jupyter shows without `pyplot`: as the last value of a cell, it is drawn."""

    def _repr_png_(self) -> bytes:
        return png(self, 110)


def png(figure: Figure, dpi: int = 150) -> bytes:
    """Returns a figure as PNG, the same bytes for the same figure."""
    buffer = BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def save(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Writes a figure as PNG, the same bytes for the same figure.

    Args:
        figure: what to write.
        path: the file.
        dpi: pixels in an inch of the figure.
    """
    write_bytes(path, png(figure, dpi))
