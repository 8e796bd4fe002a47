"""One self-contained HTML page of the decoys: controls on top, and a ranking that moves.

Its script (`decoys_page.js`) has the same networks, methods and integrals as `interpbench.decoys`, from the
weights that are put into it, and random numbers of its own: a seed there is another sample than in Python.
"""

import json
from importlib.resources import files

from interpbench.decoys.decoy_circuits import GATES, ORDER, PLANTED, DecoyCircuit, decoy_circuit, summary
from interpbench.decoys.expectations import REACH, RESOLUTION
from interpbench.decoys.feature_methods import METHODS, MIDPOINTS
from interpbench.decoys.hidden_layer import FEATURES


def decoys_page() -> str:
    """Returns the page."""
    data = {
        "features": FEATURES,
        "midpoints": MIDPOINTS,
        "reach": REACH,
        "resolution": RESOLUTION,
        "methods": METHODS,
        "order": ORDER,
        "causalGates": list(range(len(GATES))),
        "circuits": {name: _circuit(decoy_circuit(name)) for name in ORDER},
    }
    page = _asset("html")
    for place, content in (
        ("/*STYLE*/", _asset("css")),
        ("/*DATA*/", json.dumps(data, separators=(",", ":"))),
        ("/*SCRIPT*/", _asset("js")),
    ):
        page = page.replace(place, content, 1)
    return page


def _circuit(circuit: DecoyCircuit) -> dict[str, object]:
    """Returns a circuit of full strength; the page scales correlations, and what planted units write."""
    units = [
        {
            "reads": list(unit.reads.items()),
            "bias": unit.bias,
            "weight": unit.output_weight,
            "planted": any(feature in PLANTED for feature in unit.reads),
        }
        for unit in circuit.network.units
    ]
    return {
        "says": summary(circuit.name),
        "causal": circuit.causal,
        "planted": [] if circuit.name == "clean" else PLANTED,
        "units": units,
        "correlated": list(circuit.correlated.items()),
        "constant": list(circuit.constant.items()),
        "copied": list(circuit.copied.items()),
    }


def _asset(kind: str) -> str:
    name = f"decoys_page.{kind}"
    return files("interpbench.reports").joinpath(name).read_text(encoding="utf-8").strip()
