"""Rewrites are the same function, and let hypotheses be about parts and copies of nodes."""

import numpy as np
import pytest
import torch

from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.computational_graph import ComputationalGraph, Operation, scrub_graph
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.rewrites import copy_node, estimated, merge_nodes, projected, split_node
from tests.scrubbed_graphs import near

A = 0.5
DATA = torch.cartesian_prod(torch.tensor([-1.0, 1.0]), torch.tensor([-1.0, 1.0])).double()
"""All values of two independent variables of variance 1."""


def graph() -> ComputationalGraph:
    """Returns y = x0 + a x1, as the sum of the two parts of a node, twice."""
    return ComputationalGraph(
        {
            "x": Operation((), lambda x: x),
            "node": Operation(("x",), lambda x: torch.stack([x[:, 0], A * x[:, 1]], 1)),
            "half": Operation(("node",), lambda node: node / 2),
            "out": Operation(("node", "half"), lambda node, half: (node / 2 + half).sum(1)),
        },
        "out",
    )


def draws(samples: int = 40_000) -> PathDraws:
    return PathDraws(0, samples, Classes.of(np.zeros(len(DATA)), len(DATA)))


def hypothesis(*edges: tuple[str, str]) -> Hypothesis:
    names = {"x", "out", *(name for edge in edges for name in edge)}
    return Hypothesis({name: NodeClaim(name) for name in names}, edges, "x", "out")


def estimate_and_rest() -> ComputationalGraph:
    """Returns y as an estimate, x0, and a residual."""
    first = torch.tensor([1.0, 0.0]).double()
    parts = {"estimate": lambda node: node * first, "residual": lambda node: node * (1 - first)}
    return split_node(graph(), "node", parts, DATA)


def recovered(found: torch.Tensor, root: np.ndarray) -> float:
    labels = graph().run(DATA)["out"]
    lost = float((found - labels[root]).square().mean())
    return 100 * (1 - lost / (2 * float(labels.var(correction=0))))


def test_s10_a_residual_that_is_claimed_unimportant_is_resampled():
    made = estimate_and_rest()
    claimed = hypothesis(("x", "estimate"), ("estimate", "half"), ("half", "out"), ("estimate", "out"))
    drawn = draws()
    found = scrub_graph(made, claimed, DATA, drawn)
    # two independent draws of the residual, each in a half of the output, cost half as much as one
    variance = 1 + A**2
    assert recovered(found, drawn.root) == pytest.approx(100 * (1 - 0.75 * A**2 / variance), abs=0.6)


def test_s10_one_draw_of_the_residual_costs_what_theory_says_and_zero_costs_half():
    single = ComputationalGraph(
        {
            "x": Operation((), lambda x: x),
            "node": Operation(("x",), lambda x: torch.stack([x[:, 0], A * x[:, 1]], 1)),
            "out": Operation(("node",), lambda node: node.sum(1)),
        },
        "out",
    )
    basis = torch.tensor([[2.0, 0.0]]).double()
    made = split_node(single, "node", projected(basis), DATA)
    drawn = draws()
    found = scrub_graph(made, hypothesis(("x", "inside"), ("inside", "out")), DATA, drawn)
    variance = 1 + A**2
    assert recovered(found, drawn.root) == pytest.approx(100 * (1 - A**2 / variance), abs=0.6)
    zeroed = DATA[drawn.root, 0]
    assert recovered(zeroed, drawn.root) == pytest.approx(100 * (1 - A**2 / (2 * variance)), abs=0.6)


def test_s10_a_copy_is_scrubbed_apart():
    made = copy_node(graph(), "node", "again", ("half",), DATA)
    assert made.parents["half"] == ("again",) and made.parents["out"] == ("node", "half")
    drawn = draws(200)
    whole = hypothesis(("x", "node"), ("node", "out"), ("x", "again"), ("again", "half"), ("half", "out"))
    torch.testing.assert_close(scrub_graph(made, whole, DATA, drawn), graph().run(DATA)["out"][drawn.root])
    without = hypothesis(("x", "node"), ("node", "out"))
    assert recovered(scrub_graph(made, without, DATA, drawn), drawn.root) < 90


def test_s10_an_estimate_may_be_a_function_of_the_input():
    """Node = phi(x) + residual, with phi of the input alone, which the node's output does not tell."""
    single = ComputationalGraph(
        {
            "x": Operation((), lambda x: x),
            "node": Operation(("x",), lambda x: x[:, 0] + A * x[:, 1]),
            "out": Operation(("node",), lambda node: node),
        },
        "out",
    )
    parts = estimated(single, "node", Operation(("x",), lambda x: x[:, 0]))
    made = split_node(single, "node", parts, DATA)
    assert made.parents["residual"] == ("x", "x") and made.parents["out"] == ("estimate", "residual")
    drawn, variance = draws(), 1 + A**2
    found = scrub_graph(made, hypothesis(("x", "estimate"), ("estimate", "out")), DATA, drawn)
    assert recovered(found, drawn.root) == pytest.approx(100 * (1 - A**2 / variance), abs=0.6)
    whole = hypothesis(("x", "estimate"), ("estimate", "out"), ("x", "residual"), ("residual", "out"))
    torch.testing.assert_close(scrub_graph(made, whole, DATA, drawn), single.run(DATA)["out"][drawn.root])


def two_halves() -> ComputationalGraph:
    """Returns a digit and its negative, which cancel, and a node that is neither before nor after them."""
    return ComputationalGraph(
        {
            "x": Operation((), lambda x: x),
            "plus": Operation(("x",), lambda x: torch.stack([x, x], 1)),
            "doubled": Operation(("plus",), lambda plus: 2 * plus[:, 0]),
            "minus": Operation(("x",), lambda x: -x),
            "out": Operation(("plus", "minus", "doubled"), lambda p, m, d: p.sum(1) / 2 + m + d),
        },
        "out",
    )


@pytest.mark.parametrize(("merge", "wanted"), [(False, 3.3), (True, 0.0)], ids=["separately", "jointly"])
def test_s10_components_are_sampled_jointly_if_they_are_one_node(merge, wanted):
    digits = torch.arange(10.0)
    made = merge_nodes(two_halves(), ("plus", "minus"), "both", digits) if merge else two_halves()
    drawn = PathDraws(0, 20_000, Classes.of(np.zeros(10), 10), "edge")
    above = ("plus", "doubled") if not merge else ("both", "doubled")
    claimed = hypothesis(("x", above[0]), above, ("doubled", "out"))
    near((scrub_graph(made, claimed, digits, drawn) - 2 * digits[drawn.root]).abs(), wanted)


def test_nodes_that_are_merged_keep_their_shapes_and_are_listed_in_order():
    digits = torch.arange(10.0)
    made = merge_nodes(two_halves(), ("minus", "plus"), "both", digits)
    assert made.parents == {
        "x": (),
        "both": ("x",),
        "doubled": ("both",),
        "out": ("doubled", "both"),
    }
    assert made.run(digits)["both"].shape == (10, 3)


def test_a_rewrite_that_is_another_function_is_refused():
    with pytest.raises(TaskError, match=r"the rewrite is another function: outputs differ by 1\.5 on input"):
        split_node(graph(), "node", {"all": lambda node: node, "more": lambda node: node}, DATA)


@pytest.mark.parametrize(
    ("rewrite", "said"),
    [
        (lambda: split_node(graph(), "nod", {}, DATA), "there is no node 'nod'; did you mean node"),
        (lambda: split_node(graph(), "x", {}, DATA), "x is the input"),
        (lambda: split_node(graph(), "out", {}, DATA), "out is the output"),
        (lambda: split_node(graph(), "node", {"half": torch.clone}, DATA), "a node 'half' already"),
        (lambda: copy_node(graph(), "node", "half", ("out",), DATA), "a node 'half' already"),
        (lambda: copy_node(graph(), "half", "more", ("node",), DATA), "'node' does not read half"),
        (lambda: merge_nodes(graph(), ("node", "half"), "one", DATA), "one of node, half depends on another"),
        (
            lambda: merge_nodes(graph(), ("node", "hal"), "one", DATA),
            "there is no node 'hal'; did you mean half",
        ),
        (lambda: merge_nodes(graph(), ("node",), "half", DATA), "a node 'half' already"),
        (
            lambda: split_node(graph(), "node", {"a": Operation(("half",), torch.clone)}, DATA),
            "node 'a' reads 'half', which has to be listed before it",
        ),
    ],
)
def test_wrong_rewrites(rewrite, said):
    with pytest.raises(TaskError, match=said):
        rewrite()
