"""What we write loads in EAP-IG and in MIB, and what MIB's evaluation says of a ranking is what we say.

`make test-mib PUBLISHED=folder` makes an environment for their code, which is the user's to clone, and runs
the tests that need it; otherwise INTERPBENCH_MIB says where such a Python is, and INTERPBENCH_PUBLISHED in
which folder the clones are. Recorded: with EAP-IG at 795f560 and MIB-circuit-track at b759df3, with its
submodule EAP-IG at 7af394a, transformer-lens 2.18.0 and torch 2.13.0, everything agrees.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.published import mib
from benchmarks.published.exchange import Published
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.circuits.io.score_files import write_scores
from interpbench.circuits.naming import eap_name
from interpbench.circuits.scores import Scores
from interpbench.runs.score import convert_file
from tests.builders import SAMPLE

MODELS = released()
THEIRS = {
    "Graph.from_json": (["EAP-IG/src"], "from eap.graph import Graph; read = Graph.from_json"),
    "load_graph_from_json": (
        ["MIB-circuit-track", "MIB-circuit-track/EAP-IG/src"],
        "from MIB_circuit_track.circuit_loading import load_graph_from_json as read",
    ),
}
"""Their readers: where the code is, and what imports it."""
READ = """
import json, sys
for path in sys.argv[1:]:
    graph = read(path)
    edges = {name: [edge.score.item(), bool(edge.in_graph)] for name, edge in graph.edges.items()}
    nodes = {name: bool(node.in_graph) for name, node in graph.nodes.items()}
    graph.prune()
    kept = [name for name, edge in graph.edges.items() if edge.in_graph]
    print(json.dumps({"edges": edges, "nodes": nodes, "kept": kept}))
"""
needs_mib = pytest.mark.skipif(
    not {"INTERPBENCH_MIB", "INTERPBENCH_PUBLISHED"} <= os.environ.keys(),
    reason="needs clones of the published code: make test-mib",
)


@pytest.mark.parametrize("name", SAMPLE)
def test_every_edge_of_a_truth_has_a_score(name: str, tmp_path: Path) -> None:
    """Their reader takes `score` and `in_graph` of every edge, and `in_graph` of every node."""
    convert_file("truth", tmp_path / "truth.json", str(MODELS[name]))
    data, truth = json.loads((tmp_path / "truth.json").read_text()), load_checkpoint(MODELS[name]).truth
    assert {"n_layers", "n_heads", "d_model", "parallel_attn_mlp"} <= data["cfg"].keys()
    assert len(data["edges"]) == truth.graph.legal.sum()
    for entry in data["edges"].values():
        assert entry == {"score": float(entry["in_graph"]), "in_graph": entry["in_graph"]}
    assert all(type(entry["in_graph"]) is bool for entry in data["nodes"].values())


def read_there(reader: str, paths: list[Path]) -> list[dict[str, dict[str, list[float]]]]:
    """Returns what a reader of theirs makes of files."""
    folders, imports = THEIRS[reader]
    places = [str(Path(os.environ["INTERPBENCH_PUBLISHED"], folder)) for folder in folders]
    done = subprocess.run(
        [os.environ["INTERPBENCH_MIB"], "-c", imports + READ, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.mib
@needs_mib
@pytest.mark.parametrize("reader", THEIRS)
def test_their_reader_takes_every_truth(reader: str, tmp_path: Path) -> None:
    """The same edges and no other, the circuit's with 1, and nothing of it is loose enough to be pruned."""
    paths = [tmp_path / f"{name}.json" for name in MODELS]
    for name, path in zip(MODELS, paths):
        convert_file("truth", path, str(MODELS[name]))
    for folder, found in zip(MODELS.values(), read_there(reader, paths), strict=True):
        truth = load_checkpoint(folder).truth
        circuit = truth.circuit
        wanted = {
            eap_name(edge): [float(circuit[at]), bool(circuit[at])]
            for edge, at in zip(truth.graph.edges, zip(*np.nonzero(truth.graph.legal)))
        }
        assert found["edges"] == wanted
        assert set(found["kept"]) == {name for name, (_, inside) in wanted.items() if inside}
        sources = {name.split("->")[0] for name in found["kept"]}
        assert {name for name, inside in found["nodes"].items() if inside} == {*sources, "logits"}


@pytest.mark.mib
@needs_mib
@pytest.mark.parametrize("reader", THEIRS)
def test_their_reader_takes_scores_and_circuits_of_every_form(reader: str, tmp_path: Path) -> None:
    """Scores with nodes of their own, and circuits without scores that came as ACDC's list or as CSV."""
    graph = load_checkpoint(MODELS["hist"]).truth.graph
    rng = np.random.default_rng(0)
    values = np.where(graph.legal, rng.standard_normal(graph.legal.shape), np.nan)
    scores = Scores(graph, values, rng.standard_normal(len(graph.nodes)))
    paths = [tmp_path / name for name in ("scores.json", "acdc.json", "csv.json")]
    write_scores(paths[0], graph, "eap_ig", scores=scores, circuit=values > 0, d_model=8)
    for path in paths[1:]:
        source = tmp_path / f"of.{'csv' if path.stem == 'csv' else 'json'}"
        write_scores(source, graph, "csv" if path.stem == "csv" else "acdc", circuit=values > 0)
        convert_file(str(source), path, str(MODELS["hist"]))
    of_scores, *of_circuits = read_there(reader, paths)
    for edge, value in zip(graph.edges, values[graph.legal]):
        assert of_scores["edges"][eap_name(edge)] == [pytest.approx(value, rel=1e-6), value > 0]
        assert all(one["edges"][eap_name(edge)] == [value > 0, value > 0] for one in of_circuits)


@pytest.mark.mib
@needs_mib
@pytest.mark.parametrize("name", ["frac_prevs", "hist", "ioi"])
def test_their_evaluation_says_what_ours_says(name: str) -> None:
    """CPR, CMD and AUROC: of an output that is a number, of bidirectional attention, of LayerNorm."""
    folders = [Path(os.environ["INTERPBENCH_PUBLISHED"], path) for path in mib.PATHS]
    problem = load_pairs(MODELS[name]).problem(load_checkpoint(MODELS[name]).network, 16)
    with Published(os.environ["INTERPBENCH_MIB"], mib.WORKER, problem, folders) as theirs:
        rows = list(mib.compare(problem, theirs, name))
    assert len(rows) == 2 * len(mib.METHODS)
    assert all(row.agrees for row in rows), rows
