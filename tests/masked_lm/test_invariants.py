"""What must hold of every trace, in ten families: the oracle, the ends of curves, batches, hooks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from interpbench.core.errors import TraceError
from interpbench.masked_lm import causal_tracer
from interpbench.masked_lm.causal_tracer import CausalTracer, Restoration
from interpbench.masked_lm.encoded_pairs import EncodedPair
from interpbench.masked_lm.patch_sites import HEADS, SITES, find_sites
from interpbench.masked_lm.prompt_rows import row_of
from tests.masked_models import FAMILIES, TEMPLATES, fact, untrained
from tests.oracles.masked_lm import module_at, restored

CLOSE = 2e-5
"""How far numbers may be apart, as a share of the probabilities that they are differences of.

Rows of a large batch are computed as one row is, but not to the last of a float's 24 bits."""
TracerOf = Callable[[str], CausalTracer]


def pair_of(tracer: CausalTracer, land: str = "portugal") -> EncodedPair:
    """Returns a pair whose context word and target are two tokens each, with the subject in the prompt."""
    row = row_of(fact(land, TEMPLATES[1]), "", ".")
    (pair,) = tracer.encode([row])
    return replace(pair, places={**pair.places, "subject": (2,)})


def tolerance(found: Restoration) -> float:
    """Returns how far the numbers of a pair may be apart."""
    return CLOSE * max(found.clean, found.corrupt)


@pytest.mark.parametrize("family", FAMILIES)
def test_batched_is_the_literal_loop(family: str, tracer_of: TracerOf) -> None:
    tracer = tracer_of(family)
    pair = pair_of(tracer)
    assert [len(pair.places[place]) for place in ("mask", "context", "subject")] == [2, 2, 1]
    found = tracer.restore(pair)
    model, close, sizes = tracer.model, tolerance(found), set[float]()
    for site in SITES:
        for place, positions in pair.places.items():
            for layer in range(3):
                value = restored(model, family, pair, site, positions, layer)
                assert found.restored[site][place][layer] == pytest.approx(value, abs=close), (
                    site,
                    place,
                    layer,
                )
                sizes.add(abs(value))
    assert found.heads is not None and found.heads.shape == (3, 4)
    for layer in range(3):
        for head in range(4):
            value = restored(model, family, pair, HEADS, pair.places["mask"], layer, head)
            assert found.heads[layer, head] == pytest.approx(value, abs=close), (layer, head)
    assert max(sizes) > 1000 * close, "there is something to compare"


@pytest.mark.parametrize("family", FAMILIES)
def test_sites_are_the_modules_that_the_oracle_names(family: str, tracer_of: TracerOf) -> None:
    sites = tracer_of(family).sites
    assert sites.layers == 3 and sites.heads == 4
    for site, modules in sites.modules.items():
        assert len(modules) == (1 if family == "albert" else 3)
        for layer, module in enumerate(modules):
            assert module is module_at(tracer_of(family).model, family, site, layer)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_ends_of_curves(family: str, tracer_of: TracerOf) -> None:
    """The mask's residual stream after the last layer is all that is read; other places no longer matter."""
    found = tracer_of(family).restore(pair_of(tracer_of(family)))
    close = tolerance(found)
    assert found.restored["resid"]["mask"][-1] == pytest.approx(found.clean - found.corrupt, abs=close)
    assert abs(found.clean - found.corrupt) > 100 * close
    for site in SITES:
        assert found.restored[site]["context"][-1] == pytest.approx(0, abs=close)
    assert abs(found.restored["resid"]["context"][0]) > 100 * close


@pytest.mark.parametrize("family", FAMILIES)
def test_clean_into_clean_gives_nothing(family: str, tracer_of: TracerOf) -> None:
    pair = pair_of(tracer_of(family))
    found = tracer_of(family).restore(replace(pair, corrupt=pair.clean))
    values = [value for places in found.restored.values() for curve in places.values() for value in curve]
    close = tolerance(found)
    assert max(map(abs, values)) < close and found.heads is not None and abs(found.heads).max() < close


@pytest.mark.parametrize("family", FAMILIES)
def test_any_number_of_rows_at_once_gives_the_same(family: str, tracer_of: TracerOf) -> None:
    tracer = tracer_of(family)
    pair, results = pair_of(tracer), []
    for rows in (1, 7, 256):
        tracer.rows = rows
        results.append(tracer.restore(pair))
    close = tolerance(results[0])
    for other in results[1:]:
        for site in SITES:
            for place in pair.places:
                first = results[0].restored[site][place]
                assert other.restored[site][place] == pytest.approx(first, abs=close)
        assert other.heads == pytest.approx(results[0].heads, abs=close)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_head_alone_is_the_attention(family: str) -> None:
    """With a single head, its output at the mask determines that of the attention's last linear map."""
    model = untrained(
        family, 40, seed=1, **{"n_heads" if family == "distilbert" else "num_attention_heads": 1}
    )
    tracer = object.__new__(CausalTracer)
    tracer.name, tracer.device, tracer.rows, tracer.model = family, "cpu", 256, model
    tracer.sites = find_sites(model)
    pair = EncodedPair((2, 7, 8, 4, 9, 3), (2, 7, 10, 4, 9, 3), {"mask": (3,), "context": (2,)}, (11,), True)
    found = tracer.restore(pair)
    assert found.heads is not None
    close = tolerance(found)
    assert found.heads[:, 0] == pytest.approx(found.restored["attn"]["mask"], abs=close)
    assert abs(found.heads).max() > 100 * close


@pytest.mark.parametrize("heads", [False, True])
def test_a_pair_takes_three_forward_passes(heads: bool, tracer_of: TracerOf) -> None:
    tracer, rows = tracer_of("bert"), list[int]()
    handle = tracer.model.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    tracer.rows = 256
    (pair,) = tracer.encode([row_of(fact("japan", TEMPLATES[0]), "", "")])
    tracer.restore(pair, sites=["mlp"], heads=heads)
    handle.remove()
    assert rows == [1, 1, 6 + 12 * heads]


def test_a_large_vocabulary_has_smaller_passes(tracer_of: TracerOf, monkeypatch: pytest.MonkeyPatch) -> None:
    tracer, rows = tracer_of("bert"), list[int]()
    tracer.rows = 256
    (pair,) = tracer.encode([row_of(fact("japan", TEMPLATES[0]), "", "")])
    vocabulary = tracer.model.config.vocab_size
    monkeypatch.setattr(causal_tracer, "MOST_LOGITS", 5 * len(pair.clean) * vocabulary)
    handle = tracer.model.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    tracer.restore(pair, sites=["resid"], heads=False)
    handle.remove()
    assert rows == [1, 1, 5, 1]


@pytest.mark.parametrize("family", FAMILIES)
def test_hooks_change_nothing_in_place_and_leave_nothing(family: str, tracer_of: TracerOf) -> None:
    """Each activation that a module gives is the same tensor, with the same contents, after the hooks."""
    tracer, given, handles = tracer_of(family), [], []

    def remember(module: Any, inputs: Any, output: Any) -> None:
        tensor = output[0] if isinstance(output, tuple) else output
        given.append((tensor, tensor.clone()))

    for modules in tracer.sites.modules.values():
        handles += [module.register_forward_hook(remember) for module in modules]
    state = {name: value.clone() for name, value in tracer.model.state_dict().items()}
    tracer.restore(pair_of(tracer))
    for handle in handles:
        handle.remove()
    assert given and all(torch.equal(tensor, copy) for tensor, copy in given)
    assert all(torch.equal(value, state[name]) for name, value in tracer.model.state_dict().items())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in tracer.model.modules())


def test_hooks_are_gone_after_an_error(tracer_of: TracerOf) -> None:
    tracer = tracer_of("bert")

    def fail(layer: int, activation: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), tracer.sites.edited({"attn": fail, HEADS: fail}):
        tracer.model(input_ids=torch.tensor([[2, 7, 3]]))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in tracer.model.modules())


def test_a_network_whose_sites_cannot_be_told_is_refused() -> None:
    with pytest.raises(TraceError, match="attention and MLP of BertForMaskedLM cannot be told by shape"):
        find_sites(untrained("bert", 40, intermediate_size=32))
    model = untrained("bert", 40)
    model.config.num_hidden_layers = 5
    with pytest.raises(TraceError, match="BertForMaskedLM has no list of 5 layers"):
        find_sites(model)


def test_a_site_that_is_not_passed_once_in_each_layer_is_an_error(tracer_of: TracerOf) -> None:
    model = untrained("bert", 40, chunk_size_feed_forward=1)
    sites = find_sites(model)
    ids = torch.tensor([[2, 7, 3]])
    with pytest.raises(TraceError, match="the site mlp is passed 9 times in 3 layers"):
        with sites.edited({"mlp": lambda layer, activation: activation}), torch.inference_mode():
            model(input_ids=ids, attention_mask=torch.ones_like(ids))


def test_albert_with_several_groups_counts_calls() -> None:
    model = untrained("albert", 40, num_hidden_layers=4, num_hidden_groups=2)
    sites, seen, ids = find_sites(model), list[int](), torch.tensor([[2, 7, 3]])
    with (
        sites.edited({"attn": lambda layer, tensor: (seen.append(layer), tensor)[1]}),
        torch.inference_mode(),
    ):
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    assert seen == [0, 1, 2, 3] and len(sites.modules["attn"]) == 2
