"""False hypotheses that pass, and what tells (Chan et al. 2022, appendix)."""

import pytest
import torch

from interpbench.scrubbing.computational_graph import ComputationalGraph, scrub_graph
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.refine import join
from tests.scrubbed_graphs import draws, graph, hypothesis, near

GAMES = torch.cartesian_prod(torch.tensor([0.0, 1.0]), torch.tensor([-1.0, 1.0]))
"""Whether a game is hard, and which of two moves wins it."""
WON = torch.tensor([0.5, 10.0])
LOST = torch.tensor([-0.5, -19.0])
"""The rewards of easy and hard games; who passes gets none."""


def player() -> ComputationalGraph:
    """Returns a player who knows the winning move, and makes it in easy games alone."""
    return graph(
        x=(lambda x: x,),
        move=(lambda x: x[:, 1], "x"),
        dares=(lambda x: 1 - x[:, 0], "x"),
        out=(lambda move, dares: move * dares, "move", "dares"),
    )


def rewards(moves: torch.Tensor, games: torch.Tensor) -> torch.Tensor:
    """Returns the reward of each move, -1, 0 (pass) or 1, in each game."""
    hard, right = games[:, 0].long(), games[:, 1]
    return torch.where(moves == 0, 0.0, torch.where(moves == right, WON[hard], LOST[hard]))


FALSE = hypothesis("x to move", "move to out", move=GAMES[:, 1].numpy())
"""The player makes the winning move, and whether the game is hard does not matter."""
HONEST = hypothesis(
    *("x to move", "x to dares", "move to out", "dares to out"),
    move=GAMES[:, 1].numpy(),
    dares=GAMES[:, 0].numpy(),
)
MODE = hypothesis("x to dares", "dares to out", dares=GAMES[:, 0].numpy())
"""Only whether the game is hard matters."""


def test_s15_the_player_has_the_reward_that_it_should():
    made = rewards(player().run(GAMES)["out"], GAMES)
    assert [made[GAMES[:, 0] == hard].mean().item() for hard in (0, 1)] == [0.5, 0.0]
    assert made.mean().item() == 0.25


def test_s15_a_false_hypothesis_recovers_more_than_all():
    """It is right that moves win, and lets the player make them where passing is wiser."""
    drawn = draws(len(GAMES), samples=40_000)
    played = rewards(scrub_graph(player(), FALSE, GAMES, drawn), GAMES[drawn.root])
    hard = GAMES[drawn.root, 0] == 1
    near(played[~hard], 0.25)
    near(played[hard], 5.0)
    near(played, 2.625)
    own = player().run(GAMES)["out"]
    shuffled = torch.stack([rewards(own.roll(by), GAMES).mean() for by in range(4)]).mean().item()
    assert shuffled == -1.125
    assert 100 * (2.625 - shuffled) / (0.25 - shuffled) == pytest.approx(272.7, abs=0.05)


@pytest.mark.parametrize(
    "stricter", [HONEST, join(FALSE, HONEST), join(FALSE, MODE)], ids=["honest", "with honest", "with mode"]
)
def test_s16_what_a_hypothesis_ignored_comes_out_when_it_is_joined(stricter: Hypothesis):
    drawn = draws(len(GAMES), samples=4000)
    played = rewards(scrub_graph(player(), stricter, GAMES, drawn), GAMES[drawn.root])
    assert played.mean().item() == 0.25


SIGNS = torch.tensor([-1.0, 1.0])


@pytest.mark.parametrize("by", ["zero", "mean", "resample"])
def test_s13_a_backup_hides_a_part_from_ablation_by_zero_and_mean(by: str):
    """The output is what M1 writes, or M2's copy where M1 is silent: resampled, M1 is wrong half the time."""
    made = graph(
        x=(lambda x: x,),
        m1=(lambda x: x, "x"),
        m2=(lambda x: x, "x"),
        out=(lambda m1, m2: torch.where(m1 != 0, m1, m2), "m1", "m2"),
    )
    if by == "resample":
        drawn = draws(2)
        found = scrub_graph(made, hypothesis("x to m2", "m2 to out", m2=SIGNS.numpy()), SIGNS, drawn)
        near((found - SIGNS[drawn.root]).square(), 2.0)
    else:
        ablated = {"zero": 0 * SIGNS, "mean": SIGNS.mean().expand(2)}[by]
        assert (made.operations["out"].compute(ablated, SIGNS) == SIGNS).all()


@pytest.mark.parametrize(("bias", "ablated"), [(-1.0, 0.25), (1.0, 2.25)])
def test_s13_the_mean_may_be_an_activation_that_never_occurs(bias: float, ablated: float):
    """An output reads the square of a sign: it is 1 on all inputs, and anything at the mean, 0."""
    made = graph(
        x=(lambda x: x,),
        sign=(lambda x: x, "x"),
        out=(lambda sign: (1 + bias * 0.5 * (1 - sign**2)) ** 2, "sign"),
    )
    assert made.operations["out"].compute(SIGNS.mean()).item() == ablated
    near(scrub_graph(made, hypothesis(), SIGNS, draws(2)), 1.0)
