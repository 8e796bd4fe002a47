"""`interpbench shortcuts`: how well circuits can be guessed from sizes of weights and activations."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.ground_truth import State
from interpbench.discovery.features import spectral, weight_matrices
from interpbench.discovery.fitted_features import fit_without
from interpbench.discovery.readings import READINGS
from interpbench.runs.cli import main
from interpbench.runs.shortcuts import ALL, SAID, Shortcuts, _auroc, _tells, by_model, shortcuts_of, summary
from interpbench.tasks.catalogue import program_of

NORM = ("nodes", "spectral norm of what it writes with")


def test_shortcuts_are_the_features_ranked_by_scikit_learn():
    folder = released()["frac_prevs"]
    found, checkpoint = shortcuts_of(folder), load_checkpoint(folder)
    norms = spectral(weight_matrices(checkpoint.network).writes).detach().numpy()[1:]
    states = checkpoint.truth.nodes[1:]
    counts = np.isin(states, (State.REQUIRED, State.FORBIDDEN))
    wanted = roc_auc_score(states[counts] == State.REQUIRED, norms[counts])
    assert found.auroc[NORM][0] == pytest.approx(wanted) and found.program == "frac_prevs"
    assert found.auroc["nodes", ALL][0] > 0.9 and found.auroc["edges", ALL][0] > 0.9


def test_ties_count_half_and_what_is_neither_counts_not():
    rng = np.random.default_rng(0)
    states, values = rng.integers(0, 3, 60), rng.integers(0, 5, 60).astype(float)
    counts = states != State.ALLOWED
    wanted = roc_auc_score(states[counts] == State.REQUIRED, values[counts])
    assert _auroc(states, values)[0] == pytest.approx(wanted)
    assert _auroc(states, np.ones(60))[0] == 0.5, "what is the same everywhere tells nothing"
    assert _auroc(np.full(4, State.FORBIDDEN), values[:4]) is None


def test_distance_by_chance_against_random_rankings():
    rng = np.random.default_rng(1)
    states = np.array([State.REQUIRED] * 4 + [State.FORBIDDEN] * 9)
    drawn = [_auroc(states, rng.permutation(13).astype(float)) for _ in range(3000)]
    assert np.mean([abs(value - 0.5) for value, _ in drawn]) == pytest.approx(drawn[0][1], rel=0.05)


def test_a_shortcut_that_is_inverted_on_half_of_the_models_is_one():
    """Its mean is 0.5, and it tells every circuit."""
    (row,) = summary([Shortcuts(name, {NORM: (value, 0.1)}) for name, value in (("a", 0.9), ("b", 0.1))])
    assert row["AUROC"] == 0.5 and row["from 0.5"] == 0.4
    assert _tells(row) == pytest.approx(0.3) and _tells({**row, "from 0.5": 0.1}) == 0


def test_the_regression_has_not_seen_the_clean_twin_of_a_regime():
    assert fit_without(program_of("hist[regime=alive]"))["program"] == "hist"
    assert fit_without("no_such_program")["program"] is None


def test_means_are_over_programs_and_what_tells_most_is_first():
    models = [
        Shortcuts("a", {("nodes", "size"): (1.0, 0.1), ("edges", "size"): (0.5, 0.1)}),
        Shortcuts("a", {("nodes", "size"): (0.8, 0.1), ("edges", "size"): (0.5, 0.1)}),
        Shortcuts("b", {("nodes", "size"): (0.1, 0.1), ("nodes", "other"): (0.2, 0.1)}),
    ]
    rows = summary(models)
    assert [(row["of"], row["shortcut"]) for row in rows] == [
        ("nodes", "other"),
        ("nodes", "size"),
        ("edges", "size"),
    ], "inverted ones tell as much"
    assert rows[1]["AUROC"] == 0.5 and rows[1]["programs"] == 2
    assert rows[0]["interval"] == "–" and " to " in str(rows[1]["interval"])


def test_each_model_has_what_tells_it_best():
    aurocs = {("nodes", ALL): (0.6, 0.1), ("nodes", "size"): (0.9, 0.1), ("nodes", "share"): (0.05, 0.1)}
    (row,) = by_model([Shortcuts("a", aurocs, "a[regime=alive]")])
    assert row == {
        "model": "a[regime=alive]",
        "nodes: regression": 0.6,
        "nodes: the best one": "0.050 share",
    }


def command(monkeypatch, *arguments):
    """Returns the exit status of the command."""
    monkeypatch.setattr("sys.argv", ["interpbench", "shortcuts", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_command_fails_where_there_is_a_shortcut(monkeypatch, capsys):
    assert command(monkeypatch, "frac_prevs", "hist", "--within", "0.1") == 1
    said = capsys.readouterr().out
    assert "a shortcut: spectral norm of what it writes with of nodes" in said and "programs" in said
    assert command(monkeypatch, "frac_prevs", "--within", "0.5") in (0, None)
    assert command(monkeypatch, "frac_prevs") in (0, None)
    capsys.readouterr()
    assert command(monkeypatch, "frac_prevs", "--within", "0.7") == 2
    assert "0.7: a number from 0 to 0.5 is wanted" in capsys.readouterr().err


def test_among_peers_only_these_are_counted(monkeypatch, capsys):
    folder = find_checkpoint("trend_to_next[regime=alive]")
    found, every = shortcuts_of(folder, among_peers=True), shortcuts_of(folder)
    chances = [one.auroc["edges", "virtual weights"][1] for one in (found, every)]
    assert chances[0] > chances[1], "fewer are compared"
    assert command(monkeypatch, "trend_to_next[regime=alive]", "--peers") == 0
    assert "virtual weights" in capsys.readouterr().out
    assert command(monkeypatch, "hist", "--peers") == 2
    assert "task hist has no copies of its circuit; regime=alive makes them" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_no_size_tells_circuits_of_living_networks_from_their_copies(monkeypatch, capsys):
    """Of all released ones, as a mean over programs; the page on the exam says it."""
    assert command(monkeypatch, "regime:alive", "--peers", "--within", "0.15") == 0
    assert "fitted_features" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_shortcuts_of_the_exam_are_no_better_than_its_page_says(monkeypatch):
    """Over all nodes and edges they do tell, which no training can change; these are the figures reached."""
    assert command(monkeypatch, "regime:alive", "--within", "0.22") == 0
    assert command(monkeypatch, "regimes", "--within", "0.34") == 0


def test_what_is_read_of_nodes_counts_as_a_shortcut_and_what_is_constant_does_not():
    found = shortcuts_of(released()["hist"])
    assert {("nodes", name) for name in READINGS} <= set(found.auroc)
    assert not {name for _, name in found.auroc} & set(SAID)
    assert len([key for key in found.auroc if key[0] == "nodes"]) == 16, (
        "ten sizes, five more, the regression"
    )
