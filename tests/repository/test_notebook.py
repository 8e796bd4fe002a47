"""The notebook in `docs/` runs, and prints what it was saved with."""

import contextlib
import io
import json
import re

import matplotlib
import pytest

from tests import ROOT

PATH = ROOT / "docs" / "known_circuit.ipynb"


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", text)]


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_prints_what_it_was_saved_with() -> None:
    matplotlib.use("agg")
    cells = [cell for cell in json.loads(PATH.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5 and sum("image/png" in str(cell["outputs"]) for cell in cells) == 2
    scope: dict[str, object] = {}
    for number, cell in enumerate(cells, 1):
        assert cell["execution_count"] == number
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), scope)
        saved = "".join("".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream")
        assert re.sub(r"[-\d.]+", "#", printed.getvalue()) == re.sub(r"[-\d.]+", "#", saved)
        assert numbers(printed.getvalue()) == pytest.approx(numbers(saved), abs=2e-3)
