"""S16: the adversary finds what a hypothesis has left out, also where the hypothesis scores well."""

import numpy as np
import pytest
import torch

from interpbench.core.errors import TaskError
from interpbench.scrubbing.computational_graph import ComputationalGraph, scrub_graph
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.network_graph import network_graph
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.program_claims import structure_hypothesis
from interpbench.scrubbing.residual import ScrubbedNetwork
from interpbench.scrubbing.scrub_adversary import EVERYTHING, Refinement, Score, refinements
from tests.builders import SHAPES, inputs, network
from tests.scrubbed_graphs import draws, graph, hypothesis

LABEL = torch.tensor([0.0] * 10 + [1.0] * 10)
FIRES = torch.tensor([0.0] * 15 + [1.0] * 5)
INPUTS = torch.stack([LABEL, FIRES], 1)
INHIBITED = graph(
    x=(lambda x: x,),
    label=(lambda x: x[:, 0], "x"),
    inhibitor=(lambda x: x[:, 1], "x"),
    out=(lambda label, inhibitor: label * (1 - inhibitor), "label", "inhibitor"),
)
"""A network that answers with a label but where an inhibitor fires, on a quarter of all inputs."""
BANK = {"label": LABEL.numpy(), "fires": FIRES.numpy(), "parity": np.arange(20) % 2, "constant": np.ones(20)}


def accuracy(made: ComputationalGraph, inputs: torch.Tensor, labels: torch.Tensor) -> Score:
    def score(claimed: Hypothesis, drawn: PathDraws) -> np.ndarray:
        found = scrub_graph(made, claimed, inputs, drawn)
        return (found == labels[drawn.root]).double().numpy()

    return score


def adversary(claimed: Hypothesis, sampling="node") -> list[Refinement]:
    score = accuracy(INHIBITED, INPUTS, LABEL)
    return refinements(score, INHIBITED.parents, claimed, BANK, draws(20, sampling))


@pytest.mark.parametrize("sampling", ["node", "edge", "global"])
def test_s16_an_inhibitor_that_was_left_out_is_found(sampling):
    """Accuracy is 1 - q / 2 without the inhibitor and 1 - q with it, q = 1/4 the share on which it fires."""
    found = adversary(hypothesis("x to label", "label to out", label=LABEL.numpy()), sampling)
    of_nodes = {one.feature: one for one in found if one.kind == "node"}
    for one in (of_nodes[EVERYTHING], of_nodes["fires"]):
        assert one.claim == "inhibitor" and one.change.value == pytest.approx(-1 / 8, abs=0.01)
        assert one.change.ends[0] < one.change.value < one.change.ends[1] < 0
    assert (of_nodes[EVERYTHING].alone, of_nodes["fires"].alone) == (1, 0)
    assert abs(of_nodes["parity"].change.value) < 0.03, "it does not fire with it"
    assert found[0].kind == "node" and set(of_nodes) == {EVERYTHING, "label", "fires", "parity"}


def test_s16_nothing_is_found_where_nothing_was_left_out():
    whole = hypothesis(
        *("x to label", "label to out", "x to inhibitor", "inhibitor to out"),
        label=LABEL.numpy(),
        inhibitor=FIRES.numpy(),
    )
    found = adversary(whole)
    assert found and {one.kind for one in found} == {"feature"}
    assert all(one.change.value == 0 for one in found)


GAMES = torch.cartesian_prod(torch.tensor([0.0, 1.0]), torch.tensor([-1.0, 1.0]))
"""Whether a game is hard, and which of two moves wins it."""


def test_s16_who_dares_less_than_a_hypothesis_says_is_found():
    """The player of EASY/HARD passes in hard games: no feature of the moves tells, the node left out does."""
    player = graph(
        x=(lambda x: x,),
        move=(lambda x: x[:, 1], "x"),
        dares=(lambda x: 1 - x[:, 0], "x"),
        out=(lambda move, dares: move * dares, "move", "dares"),
    )

    def rewards(claimed: Hypothesis, drawn: PathDraws) -> np.ndarray:
        moves, games = scrub_graph(player, claimed, GAMES, drawn), GAMES[drawn.root]
        won, lost = 0.5 + 9.5 * games[:, 0], -0.5 - 18.5 * games[:, 0]
        return torch.where(moves == 0, 0.0, torch.where(moves == games[:, 1], won, lost)).double().numpy()

    false = hypothesis("x to move", "move to out", move=GAMES[:, 1].numpy())
    bank = {"hard": GAMES[:, 0].numpy(), "winning move": GAMES[:, 1].numpy()}
    found = refinements(rewards, player.parents, false, bank, draws(4))
    assert {one.feature for one in found[:2]} == {EVERYTHING, "hard"}
    assert all(one.claim == "dares" for one in found[:2])
    assert found[0].change.value == pytest.approx(0.25 - 2.625, abs=0.15)
    assert [one.change.value for one in found if one.kind == "feature"] == [0.0]


def test_s16_an_edge_that_was_left_out_is_found():
    made = graph(
        x=(lambda x: x,),
        a=(lambda x: x[:, 0], "x"),
        b=(lambda a, x: a * x[:, 1], "a", "x"),
        out=(lambda a, b: a - b, "a", "b"),
    )
    claimed = hypothesis("x to a", "a to b", "x to b", "b to out", a=LABEL.numpy())
    found = refinements(accuracy(made, INPUTS, LABEL * (1 - FIRES)), made.parents, claimed, {}, draws(20))
    assert (found[0].kind, found[0].claim, found[0].feature) == ("edges", "a", "")
    assert found[0].change.value > 0.1


@pytest.mark.parametrize("sampling", ["node", "edge", "global", "exact"])
@pytest.mark.parametrize("split", [False, True])
def test_refinements_of_a_transformer_are_those_of_its_graph_of_functions(split, sampling):
    model, tokens = network(*SHAPES[0]), inputs(0, 6)
    made, fast, drawn = network_graph(model, split), ScrubbedNetwork(model, tokens), draws(6, sampling, 20)
    circuit = np.zeros_like(model.cfg.graph.legal)
    circuit[-1, 1] = circuit[0, 0] = True
    claimed = structure_hypothesis(model.cfg.graph, circuit, split)

    def by_path(refined: Hypothesis, others: PathDraws) -> np.ndarray:
        with torch.no_grad():
            return scrub_graph(made, refined, tokens, others)[:, -1, 0].numpy()

    def batched(refined: Hypothesis, others: PathDraws) -> np.ndarray:
        return fast.scrub(refined, others)[0, -1].numpy()

    bank = {"parity": np.arange(6) % 2}
    slow, quick = (
        refinements(score, made.parents, claimed, bank, drawn, least=-1) for score in (by_path, batched)
    )
    found = {(one.kind, one.claim, one.feature): one.change.value for one in quick}
    assert len(found) > 6 and {kind for kind, _, _ in found} == {"node", "edges"}
    for one in slow:
        assert found[one.kind, one.claim, one.feature] == pytest.approx(one.change.value, abs=1e-9)
    assert sampling == "exact" or max(map(abs, found.values())) > 1e-3


def test_s16_nodes_that_matter_little_are_tried_once():
    claimed = hypothesis("x to label", "label to out", label=LABEL.numpy())
    score = accuracy(INHIBITED, INPUTS, LABEL)
    found = refinements(score, INHIBITED.parents, claimed, BANK, draws(20), least=0.5)
    assert [one.feature for one in found if one.kind == "node"] == [EVERYTHING]


def test_refinements_with_too_many_paths_are_left_out(monkeypatch, caplog):
    monkeypatch.setattr("interpbench.scrubbing.hypothesis.MOST_PATHS", 3)
    with caplog.at_level("INFO", "interpbench"):
        found = adversary(hypothesis("x to label", "label to out", label=LABEL.numpy()))
    assert not any(one.kind == "node" for one in found) and "are not tried" in caplog.text


def test_a_feature_of_the_wrong_length_is_refused():
    score = accuracy(INHIBITED, INPUTS, LABEL)
    with pytest.raises(TaskError, match="feature 'short'"):
        refinements(score, INHIBITED.parents, hypothesis(), {"short": np.ones(3)}, draws(20))
