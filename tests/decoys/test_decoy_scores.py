"""Every cell of the table is exactly what theory says, and the gate notices when one is not."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from interpbench.core.errors import ConfigError, DiscoveryError, UnknownNameError
from interpbench.decoys import decoy_circuits, decoy_scores
from interpbench.decoys.decoy_circuits import DECOY_CIRCUITS, ORDER, decoy_circuit
from interpbench.decoys.decoy_scores import (
    Cell,
    Cells,
    attribute,
    measure_cells,
    over_seeds,
    ranking_auroc,
    scrambled_labels,
)
from interpbench.decoys.dissociation import FOOLED, NULL_SPREAD, missed_cells, stated
from interpbench.decoys.feature_methods import ATTRIBUTIONS, METHODS, FeatureMethod
from interpbench.decoys.hidden_layer import FEATURES
from tests import ROOT

PUBLISHED = {
    **{
        ("correlation", "clean"): 1.0,
        ("correlation", "confounded"): 0.75,
        ("correlation", "suppressor"): 1.0,
    },
    **{("gradient", "clean"): 1.0, ("gradient", "confounded"): 1.0, ("gradient", "suppressor"): 0.75},
    **{("integrated_gradients", circuit): 1.0 for circuit in ("clean", "confounded", "suppressor")},
    **{("patching", circuit): 1.0 for circuit in ("clean", "confounded", "suppressor")},
}
"""The published table, but for its random scores, whose generator is not published."""
DIGEST = "629e5fdd2b859af0253921db652cbcc7d7645711f86710d6da3b792aa0cc5ffe"
"""The SHA-256 of all scores of four seeds, and of their AUROCs: the same to the bit on Python 3.11 and 3.12.

It depends on numpy's generator PCG64 and on its tanh alone, whose last bit is that of processors with fused
multiplication and addition (x86 since 2013, ARM)."""
DIGESTS = """
import hashlib
from interpbench.decoys.decoy_scores import measure_cells
digest = hashlib.sha256()
for (method, circuit), cell in sorted(measure_cells(4).items()):
    digest.update(f"{method} {circuit} {cell.aurocs} {cell.null}".encode() + cell.scores.tobytes())
print(digest.hexdigest())
"""


@pytest.fixture(scope="module")
def cells() -> Cells:
    return measure_cells(16)


def test_the_published_table_is_reproduced_on_each_of_its_seeds(cells: Cells) -> None:
    assert all(set(cells[key].aurocs) == {value} for key, value in PUBLISHED.items())
    assert len(PUBLISHED) == 12 and all(len(cell.runs) == 16 for cell in cells.values())


@pytest.mark.parametrize("method", [method for method in METHODS if method != "random"])
@pytest.mark.parametrize("circuit", ORDER)
def test_every_cell_is_exact_on_64_seeds(method: str, circuit: str) -> None:
    (found,) = {attribute(method, decoy_circuit(circuit), seed=seed).auroc for seed in range(64)}
    assert found == pytest.approx(stated(method, circuit), abs=1e-12)
    assert found == PUBLISHED.get((method, circuit), found)


def test_random_scores_know_nothing_of_the_circuit(cells: Cells) -> None:
    """Published: 0.496 in every column, of one generator a seed; another generator gives another number."""
    first = cells["random", "clean"]
    assert all((cells["random", name].scores == first.scores).all() for name in ORDER)
    low, high = over_seeds(first.aurocs).ends
    assert low < 0.5 < high and abs(np.mean(first.aurocs) - 0.496) < 3 * NULL_SPREAD / 4


@pytest.mark.parametrize("method", METHODS)
def test_scrambled_labels_bring_every_method_to_one_half(cells: Cells, method: str) -> None:
    null = [auroc for name in ORDER for auroc in cells[method, name].null]
    assert abs(np.mean(null) - 0.5) < 0.06 and 0.1 < np.std(null) < 0.25
    assert np.mean(cells[method, "clean"].null) < 0.65


def test_scrambled_labels_are_as_many_and_differ_from_seed_to_seed_and_circuit_to_circuit() -> None:
    drawn = {name: [scrambled_labels(decoy_circuit(name), seed) for seed in range(50)] for name in ORDER}
    assert all(labels.sum() == decoy_circuit(name).labels.sum() for name in ORDER for labels in drawn[name])
    assert 0.25 < np.mean([labels[0] for labels in drawn["clean"]]) < 0.45
    assert any((one != two).any() for one, two in zip(drawn["clean"], drawn["baseline"]))
    run = attribute("gradient", decoy_circuit("clean"), "scrambled", seed=7)
    assert (run.labels == drawn["clean"][7]).all() and run.auroc == ranking_auroc(run.scores, run.labels)


def test_an_auroc_counts_ties_as_half() -> None:
    labels = np.array([True, True, False, False])
    assert ranking_auroc(np.array([3.0, 2.0, 1.0, 0.0]), labels) == 1
    assert ranking_auroc(np.array([0.0, 0.0, 0.0, 0.0]), labels) == 0.5
    assert ranking_auroc(np.array([1.0, 0.0, 1.0, 0.0]), labels) == 0.5
    assert ranking_auroc(np.array([2.0, 0.0, 1.0, 0.0]), labels) == 0.625


def test_the_standard_deviation_of_the_null_is_that_of_all_rankings() -> None:
    rng = np.random.default_rng(0)
    labels = decoy_circuit("clean").labels
    drawn = [ranking_auroc(rng.random(FEATURES), labels) for _ in range(4000)]
    assert np.std(drawn) == pytest.approx(NULL_SPREAD, abs=0.006)


@pytest.mark.parametrize(("hash_seed", "threads"), [("0", "1"), ("1", "2")])
def test_results_are_the_same_to_the_bit(hash_seed: str, threads: str) -> None:
    more = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == DIGEST


def test_importing_the_package_imports_numpy_and_nothing_that_is_large() -> None:
    program = (
        "import sys; from interpbench.decoys import *; "
        "from interpbench.decoys.dissociation import missed_cells; "
        "from interpbench.decoys.expectations import expected_scores; "
        "assert not {'torch', 'scipy', 'matplotlib', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_the_gate_is_silent_about_the_table(cells: Cells) -> None:
    assert missed_cells(cells) == []
    assert {circuit for _, circuit in FOOLED} == {*ORDER} - {"clean"}


WRONG = {
    "gradient": ("patching", "dissociation: gradient on suppressor has AUROC 1.0000 with seed 0, not 0.7500"),
    "patching": ("gradient", "dissociation: patching on suppressor has AUROC 0.7500 with seed 0, not 1.0000"),
    "integrated_gradients": ("patching", "dissociation: integrated_gradients on baseline has AUROC 1.0000"),
    "correlation": ("gradient", "dissociation: correlation on confounded has AUROC 1.0000"),
}


@pytest.mark.parametrize("method", WRONG)
def test_the_gate_notices_a_method_that_is_another(cells: Cells, method: str) -> None:
    other, said = WRONG[method]
    swapped = {(name, circuit): cells[other if name == method else name, circuit] for name, circuit in cells}
    assert any(line.startswith(said) for line in missed_cells(swapped))


def test_the_gate_notices_one_seed_a_failing_control_and_labels_that_are_not_scrambled(cells: Cells) -> None:
    runs = list(cells["gradient", "clean"].runs)
    runs[5] = replace(runs[5], auroc=0.96875)
    one = missed_cells({**cells, ("gradient", "clean"): Cell(runs, cells["gradient", "clean"].null)})
    said = "control: gradient on clean has AUROC 0.9688 with seed 5, not 1.0000 (1 of 16 seeds)"
    assert one == [said]
    knowing = {**cells, ("random", "clean"): cells["gradient", "clean"]}
    assert any(
        line.startswith("control: random on clean has a mean AUROC of 1.000")
        for line in missed_cells(knowing)
    )
    kept = {key: Cell(cell.runs, cell.aurocs) for key, cell in cells.items()}
    nulls = [line for line in missed_cells(kept) if line.startswith("null: ")]
    assert len(nulls) == 4 and not any("random" in line for line in nulls)


def test_weights_that_do_nothing_or_decoys_that_are_too_small_fail_the_gate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weak = {name: DECOY_CIRCUITS[name] for name in ORDER}
    monkeypatch.setattr(decoy_scores, "decoy_circuit", lambda name: weak[name](0.3))
    lines = missed_cells(measure_cells(2))
    said = {line.split(" has ")[0] for line in lines}
    assert {
        f"dissociation: {m} on {c}" for m, c in FOOLED if c not in ("interaction", "off_manifold")
    } <= said


def test_every_circuit_and_method_is_listed_once() -> None:
    assert sorted(ORDER) == sorted(DECOY_CIRCUITS) and sorted(METHODS) == sorted(ATTRIBUTIONS)
    assert [ATTRIBUTIONS[name].family for name in METHODS] == [
        "baseline",
        "proxy",
        "proxy",
        "causal",
        "causal",
    ]
    assert all(decoy_circuits.summary(name).endswith(".") for name in ORDER)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (np.ones(8), r"mine returns shape \(8,\); 12 finite numbers are wanted"),
        (np.full(12, np.nan), "mine returns numbers that are not finite; 12 finite numbers are wanted"),
        ("text", "mine: ValueError: could not convert string"),
    ],
)
def test_what_is_no_score_is_refused(returned: object, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = FeatureMethod(lambda *_: returned, "causal")  # type: ignore[arg-type, return-value]
    monkeypatch.setitem(ATTRIBUTIONS._values, "mine", made)
    with pytest.raises(DiscoveryError, match=said):
        attribute("mine", decoy_circuit("clean"))


def test_a_method_cannot_change_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(network: object, inputs: np.ndarray, rng: object) -> np.ndarray:
        inputs[:] = 0
        return np.zeros(FEATURES)

    monkeypatch.setitem(ATTRIBUTIONS._values, "greedy", FeatureMethod(greedy, "causal"))
    with pytest.raises(DiscoveryError, match="read-only"):
        attribute("greedy", decoy_circuit("clean"))


def test_unknown_names_and_strengths_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown circuit 'supressor'; did you mean suppressor"):
        decoy_circuit("supressor")
    with pytest.raises(UnknownNameError, match="unknown attribution 'gradeint'; did you mean gradient"):
        attribute("gradeint", decoy_circuit("clean"))
    for strength in (0.0, 1.1, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="above 0 and at most 1"):
            decoy_circuit("clean", strength)
