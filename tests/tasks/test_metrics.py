"""Every metric of runs equals its literal oracle, whatever axes there are, and is flat where it says so."""

import pytest
import torch

from interpbench.tasks.metrics import METRICS, Reference
from tests.oracles import metrics as oracle

T, B = 3, 4
CASES = [
    (name, classes) for name, kind in METRICS.items() for classes in ((1,) if kind.numbers_only else (1, 5))
]


def logits(classes: int, *axes: int, seed: int) -> torch.Tensor:
    return torch.randn(classes, T, *axes, B, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("axes", [(), (2,), (2, 3)])
@pytest.mark.parametrize(("name", "classes"), CASES)
def test_a_metric_equals_its_literal_oracle(name: str, classes: int, axes: tuple[int, ...]) -> None:
    clean, corrupted = logits(classes, seed=0), logits(classes, seed=1)
    runs = logits(classes, *axes, seed=2)
    found = METRICS[name].measure(runs, Reference.of(clean, corrupted, classes == 1))
    assert found.shape == (T, *axes, B)
    for place in torch.cartesian_prod(*(torch.arange(size) for size in found.shape)).tolist():
        ends = (slice(None), place[0], place[-1])
        wanted = getattr(oracle, name)(
            clean[ends].tolist(), corrupted[ends].tolist(), runs[(slice(None), *place)].tolist()
        )
        assert found[tuple(place)].item() == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(("name", "classes"), CASES)
def test_flat_metrics_have_no_gradient_at_the_clean_run(name: str, classes: int) -> None:
    clean, corrupted = logits(classes, seed=3), logits(classes, seed=4)
    run = clean.clone().requires_grad_()
    METRICS[name].measure(run, Reference.of(clean, corrupted, classes == 1)).sum().backward()
    assert run.grad is not None and (run.grad.abs().max() < 1e-12) == METRICS[name].flat


def test_a_part_of_the_reference_is_the_reference_of_a_part() -> None:
    clean, corrupted = logits(5, seed=5), logits(5, seed=6)
    part, whole = (
        Reference.of(clean[..., :2], corrupted[..., :2], False),
        Reference.of(clean, corrupted, False),
    )
    cut = whole.map(lambda values: values[..., :2])
    for name, kind in METRICS.items():
        if not kind.numbers_only:
            assert torch.equal(kind.measure(clean[..., :2], cut), kind.measure(clean[..., :2], part)), name
