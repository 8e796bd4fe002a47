"""Tables, figures, drawings of circuits, the HTML page and Markdown reports of evaluations."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.reports.drawing import circuit_figure, draw_circuit
    from interpbench.reports.palette import Picture
    from interpbench.reports.plots import roc_curves, roc_figure
    from interpbench.reports.tables import records_table

__all__ = ["Picture", "circuit_figure", "draw_circuit", "records_table", "roc_curves", "roc_figure"]
__getattr__, __dir__ = exports(
    __name__,
    {
        **dict.fromkeys(("circuit_figure", "draw_circuit"), "interpbench.reports.drawing"),
        **dict.fromkeys(("roc_curves", "roc_figure"), "interpbench.reports.plots"),
        "Picture": "interpbench.reports.palette",
        "records_table": "interpbench.reports.tables",
    },
)
