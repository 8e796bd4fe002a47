"""S16: an exchange is allowed by two hypotheses together if and only if each allows it."""

import numpy as np
import pytest
import torch

from interpbench.core.errors import TaskError
from interpbench.scrubbing.by_hand import circuit_hypothesis
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.computational_graph import ComputationalGraph, scrub_graph
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.refine import join, with_head_inputs
from interpbench.scrubbing.residual import ScrubbedNetwork, network_parents
from tests.builders import SHAPES, inputs, network
from tests.oracles.scrubbing import scrubbed_logits
from tests.scrubbed_graphs import draws, graph, hypothesis

DIGITS = torch.arange(10.0)
DATA = torch.cartesian_prod(DIGITS, DIGITS)
ROWS = 6


def read_twice() -> ComputationalGraph:
    """Returns two digits, tens and ones, as two readers of one node give them on."""
    return graph(
        x=(lambda x: x,),
        node=(lambda x: 10 * x[:, 0] + x[:, 1], "x"),
        first=(lambda node: node, "node"),
        second=(lambda node: node, "node"),
        out=(lambda first, second: torch.stack([first, second], 1), "first", "second"),
    )


TENS = hypothesis("x to node", "node to first", "first to out", node=DATA[:, 0])
ONES = hypothesis("x to node", "node to second", "second to out", node=DATA[:, 1])


def kept(claimed: Hypothesis) -> list[float]:
    """Returns how often the tens and ones of what the first reader gives on, and the second, are the same."""
    drawn = draws(len(DATA), samples=4000)
    found = scrub_graph(read_twice(), claimed, DATA, drawn)
    own = read_twice().run(DATA)["out"][drawn.root]
    same = [(found // 10 == own // 10), (found % 10 == own % 10)]
    return [float(one[:, reader].float().mean()) for reader in (0, 1) for one in same]


def test_s16_what_is_said_of_one_path_is_not_said_of_another():
    """One hypothesis keeps the tens of what the first reader reads, one the ones of the second's."""
    tenth = pytest.approx(0.1, abs=0.03)
    assert kept(TENS) == [1.0, tenth, tenth, tenth]
    assert kept(ONES) == [tenth, tenth, tenth, 1.0]
    together = join(TENS, ONES)
    assert kept(together) == [1.0, tenth, tenth, 1.0]
    about = [claim.image for claim in together.claims.values()]
    assert about.count("node") == 2 and together.copies and together.parents("first") == ("node",)
    both = join(together, hypothesis("x to node", "node to first", "first to out", node=DATA[:, 1]))
    assert kept(both) == [1.0, 1.0, tenth, 1.0]


@pytest.mark.parametrize("claimed", [TENS, ONES], ids=["tens", "ones"])
def test_s16_a_hypothesis_joined_with_itself_or_with_nothing_is_itself(claimed):
    for other in (claimed, hypothesis()):
        for pair in ((claimed, other), (other, claimed)):
            found = join(*pair)
            assert set(found.edges) == set(claimed.edges) and set(found.claims) == set(claimed.claims)
            assert kept(found) == pytest.approx(kept(claimed), abs=0.03)


def test_claims_about_one_node_that_one_claim_reads_are_refused():
    together = join(TENS, ONES)
    wrong = Hypothesis(together.claims, (*together.edges, ("node (2)", "first")), "x", "out", copies=True)
    with pytest.raises(TaskError, match=r"'node' and 'node \(2\)' are both about node"):
        scrub_graph(read_twice(), wrong, DATA, draws(len(DATA)))
    unmarked = Hypothesis(together.claims, together.edges, "x", "out")
    with pytest.raises(TaskError, match="are both about node; join their values"):
        scrub_graph(read_twice(), unmarked, DATA, draws(len(DATA)))


MERGED = circuit_hypothesis(
    ["embed->m0", "m0->a1.h0", "m0->a1.h1", "a1.h0->m1", "a1.h1->logits", "m1->logits"],
    {"m0": np.array([0, 0, 0, 1, 1, 1])},
)
SPLIT = circuit_hypothesis(
    ["embed->m0", "m0->a1.h0<v>", "embed->a1.h0<k>", "a1.h0->m1", "m1->logits"],
    {"m0": np.array([0, 1, 2, 0, 1, 2]), "m1": np.array([0, 0, 1, 1, 2, 2])},
)


@pytest.mark.parametrize("pair", [(MERGED, SPLIT), (SPLIT, MERGED)], ids=["merged first", "split first"])
def test_s16_inputs_of_heads_are_told_apart_if_either_hypothesis_does(pair):
    model, tokens = network(*SHAPES[0]), inputs(0, ROWS)
    together = join(*pair)
    together.check(network_parents(model.cfg.graph, True), "embed", "logits")
    assert {"a1.h0<q>", "a1.h0<k>", "a1.h0<v>", "a1.h1<q>"} <= set(together.claims)
    drawn = PathDraws(0, 4, Classes.of(np.zeros(ROWS), ROWS))
    with torch.no_grad():
        wanted = scrubbed_logits(model, tokens.tolist(), together, drawn, together.classes(ROWS))
    expected = torch.stack([torch.stack(logits) for logits in wanted]).permute(2, 1, 0)
    found = ScrubbedNetwork(model, tokens).scrub(together, drawn)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    read = {together.claims[one].image: together.claims[one].values for one in together.parents("a1.h0<v>")}
    assert read["m0"] is not None, "where both read m0, both its values are kept, which tell all inputs apart"
    assert len(np.unique(read["m0"], axis=0)) == ROWS
    (alone,) = (one for one in together.parents("a1.h1<q>"))
    assert Classes.of(together.claims[alone].values, ROWS).sizes.tolist() == [3, 3]


def test_s16_inputs_of_heads_that_say_nothing_change_nothing():
    """No-op nodes: with identities, a hypothesis without them and one with them keep the same inputs."""
    model, tokens = network(*SHAPES[0]), inputs(0, ROWS)
    edges = ["embed->m0", "m0->a1.h0", "embed->a1.h0", "a1.h0->logits"]
    merged = circuit_hypothesis(edges, {})
    split = with_head_inputs(merged)
    assert with_head_inputs(split) is split and sum(split.paths.values()) > sum(merged.paths.values())
    drawn = PathDraws(0, 50, Classes.of(np.zeros(ROWS), ROWS), "exact")
    scrubbed = ScrubbedNetwork(model, tokens)
    torch.testing.assert_close(scrubbed.scrub(split, drawn), scrubbed.scrub(merged, drawn))
