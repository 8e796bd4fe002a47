"""Runs the notebooks of `docs/` anew, and saves them with what their cells print and draw.

Cells run in one process, as in Jupyter; figures are what is open in Matplotlib after a cell.

Run: `python docs/tools/run_notebooks.py docs/studies/polysemantic.ipynb`.
"""

import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # the backend is chosen first

DOTS = 110
"""The dots per inch of figures."""


def run(notebook: dict[str, Any]) -> None:
    """Runs the code cells of a notebook, and puts what they print and draw into it."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), scope)
        text = printed.getvalue().splitlines(keepends=True)
        outputs: list[dict[str, Any]] = []
        if text:
            outputs.append({"name": "stdout", "output_type": "stream", "text": text})
        outputs += [_drawn(figure) for figure in map(plt.figure, plt.get_fignums())]
        plt.close("all")
        cell |= {"execution_count": number, "outputs": outputs}


def _drawn(figure: Any) -> dict[str, Any]:
    """Returns the output that shows a figure."""
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=DOTS)
    data = {"image/png": base64.b64encode(png.getvalue()).decode(), "text/plain": ["<Figure>"]}
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def main() -> None:
    """Runs the notebooks that are named."""
    for name in sys.argv[1:]:
        path = Path(name)
        notebook = json.loads(path.read_text())
        run(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        print(path)


if __name__ == "__main__":
    main()
