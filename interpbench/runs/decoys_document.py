"""What `interpbench decoys table` writes: the tables of docs/decoys.md, and its figures."""

from pathlib import Path
from textwrap import fill

from interpbench.core.errors import ConfigError
from interpbench.core.estimate import Estimate
from interpbench.core.files import write_text
from interpbench.decoys.decoy_scores import SAMPLES, SEEDS, Cells, measure_cells
from interpbench.reports.decoys_figures import draw_circuits, draw_scores
from interpbench.reports.decoys_tables import agreement_of, auroc_table, differences, null_table, worlds_table
from interpbench.reports.models_page import put
from interpbench.runs.exam import effects_in

PAGE = Path("docs/decoys.md")
"""The page whose tables are made here."""
CIRCUITS, SCORES = Path("docs/decoys-circuits.png"), Path("docs/decoys-scores.png")
"""The figures of the page: the circuits, and the scores of all features."""
ROWS, TWINS = Path("docs/exam"), Path("docs/exam/twins")
"""The folders with the records of transformers in regimes, and of their clean twins."""
TABLE = "<!-- made by `interpbench decoys table` -->"
"""The line after which the page holds the table of decoys and its nulls."""
WORLDS = "<!-- both worlds, made by `interpbench decoys table` -->"
"""The line after which it holds the table of decoys beside transformers."""


WIDTH = 120
"""The number of characters in a line of prose."""


def document(page: str, cells: Cells, root: Path) -> str:
    """Returns the page with its tables as they are now.

    Args:
        page: the text of the page.
        cells: the table of decoys.
        root: the folder of the checkout.
    """
    low, _ = Estimate.share(SEEDS, SEEDS).ends
    said = (
        f"Means over {SEEDS} seeds of {SAMPLES} inputs, with the interval of a bootstrap of seeds. "
        f"Where there is none, all {SEEDS} have the same AUROC, so that at least {low:.0%} of all seeds do "
        "(exact interval)."
    )
    made = [fill(said, WIDTH), auroc_table(cells), fill(differences(cells), WIDTH), null_table(cells)]
    effects = effects_in(root / ROWS, root / TWINS, "auroc")
    agreement = fill(agreement_of(effects), WIDTH)
    return put(put(page, "\n\n".join(made), TABLE), f"{worlds_table(cells, effects)}\n\n{agreement}", WORLDS)


def write_document() -> Path:
    """Writes the tables and figures of the page, and returns its path.

    Raises:
        ConfigError: outside a checkout, which has no such page.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / PAGE).is_file():
        raise ConfigError(f"decoys table is for a checkout of the project: there is no {PAGE} here")
    cells = measure_cells()
    write_text(root / PAGE, document((root / PAGE).read_text(), cells, root))
    draw_circuits(root / CIRCUITS)
    draw_scores(cells, root / SCORES)
    return root / PAGE
