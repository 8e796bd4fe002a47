"""Queries, keys, values and patterns that are kept and patched, against the literal transformer."""

import itertools

import pytest
import torch

from interpbench.transformer.head_parts import HeadParts
from interpbench.transformer.interventions import Together
from interpbench.transformer.recording import record
from interpbench.transformer.routes import Replaced
from tests.builders import SHAPES, inputs, network
from tests.oracles import transformer as oracle

HEADS = (1, 3, 6)
"""Two heads of the first layer and one of the second, by their places among the nodes."""
PLACES = list(itertools.product(HEADS, ("q", "k", "v", "pattern")))


def run(model, tokens, *interventions):
    with torch.no_grad():
        return model.run(model.embedding(tokens), Together(*interventions))


@pytest.mark.parametrize("part", ["q", "k", "v", "pattern"])
def test_patched_parts_equal_the_oracle(model, part):
    tokens, other, names = inputs(1), inputs(2), list(map(str, model.cfg.graph.nodes))
    source = HeadParts(keep=PLACES)
    run(model, other, source)
    patch = {(head, part): source.kept[head, part] for head in HEADS}
    logits = run(model, tokens, HeadParts(patch))
    for row, base in enumerate(tokens.tolist()):
        by_position = {
            (names[head], part): [
                values.movedim(-2 if part != "pattern" else 0, 0)[t, :, row] for t in range(4)
            ]
            for (head, _), values in patch.items()
        }
        expected = torch.stack(oracle.run(model, base, parts=by_position)[0]).T
        torch.testing.assert_close(logits[:, :, row], expected)
    torch.testing.assert_close(
        run(model, tokens, HeadParts(patch, rows=torch.tensor([True, False, True])))[..., 1],
        run(model, tokens)[..., 1],
    )


def test_patching_a_part_with_its_own_value_changes_nothing(model):
    kept = HeadParts(keep=PLACES)
    clean = run(model, inputs(1), kept)
    torch.testing.assert_close(run(model, inputs(1), HeadParts(kept.kept)), clean)


def test_what_is_patched_is_what_is_kept_and_gets_a_gradient(model):
    source = HeadParts(keep=PLACES)
    run(model, inputs(2), source)
    patch = {place: values.clone().requires_grad_() for place, values in source.kept.items()}
    used = HeadParts(patch, PLACES)
    model.run(model.embedding(inputs(1)), used).square().sum().backward()
    for place, values in patch.items():
        torch.testing.assert_close(used.kept[place].detach(), values.detach())
        part = place[1]
        assert values.grad is not None, place
        # with its own pattern given, what a head's queries and keys are changes nothing
        assert bool(values.grad.any()) == (part in ("v", "pattern")), place


def test_parts_and_nodes_are_patched_in_one_run(model):
    """A head whose pattern is another run's, while an earlier node is replaced."""
    patch = record(model, inputs(2))[1].stack
    source = HeadParts(keep=PLACES)
    run(model, inputs(2), source)
    replaced = torch.zeros(len(patch), 1, dtype=torch.bool)
    replaced[1] = True
    both = run(
        model, inputs(1), Replaced(replaced, patch), HeadParts({(6, "pattern"): source.kept[6, "pattern"]})
    )
    names = list(map(str, model.cfg.graph.nodes))
    for row, base in enumerate(inputs(1).tolist()):
        pattern = [source.kept[6, "pattern"][t, :, row] for t in range(4)]
        written = {names[1]: list(patch[1, :, :, row].T)}
        got = oracle.run(model, base, (), {names[1]}, written, parts={(names[6], "pattern"): pattern})[0]
        torch.testing.assert_close(both[:, :, row], torch.stack(got).T)


@pytest.mark.parametrize("place", [(0, "q"), (4, "pattern"), (99, "v"), (1, "z")])
def test_places_that_are_no_part_of_a_head_are_refused(place):
    model = network(*SHAPES[0])
    for parts in (HeadParts({place: torch.ones(4, 4, 3)}), HeadParts(keep=[place])):
        with pytest.raises(ValueError, match=f"node {place[0]} is no head with a {place[1]}"):
            run(model, inputs(1), parts)
