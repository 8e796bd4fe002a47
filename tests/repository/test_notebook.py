"""The notebooks in `docs/` run, and print what they were saved with."""

import contextlib
import io
import json
import re

import matplotlib
import pytest

from tests import ROOT

FIGURES = {
    "known_circuit": 2,
    "studies/brackets": 1,
    "studies/false_hypotheses": 1,
    "studies/induction": 1,
    "studies/interchange_training": 1,
    "studies/parts": 1,
    "studies/polysemantic": 1,
}
"""The number of figures of each notebook."""
LONG = ("studies/brackets", "studies/interchange_training")
"""Those that take longer than all others together."""


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", text)]


def test_every_notebook_is_tested() -> None:
    found = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in ROOT.glob("docs/**/*.ipynb")}
    assert found == FIGURES.keys()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive if name in LONG else ()) for name in FIGURES]
)
def test_the_notebook_prints_what_it_was_saved_with(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib.use("agg")
    monkeypatch.chdir(ROOT)
    path = ROOT / "docs" / f"{name}.ipynb"
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert sum("image/png" in str(cell["outputs"]) for cell in cells) == FIGURES[name]
    scope: dict[str, object] = {}
    for number, cell in enumerate(cells, 1):
        assert cell["execution_count"] == number
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), scope)
        saved = "".join("".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream")
        assert re.sub(r"[-\d.]+", "#", printed.getvalue()) == re.sub(r"[-\d.]+", "#", saved)
        assert numbers(printed.getvalue()) == pytest.approx(numbers(saved), abs=2e-3)
