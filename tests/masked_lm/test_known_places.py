"""Tracing finds what certificates say of encoders that were trained to recall facts in known places."""

from pathlib import Path

import pytest

from benchmarks.known_facts import facts, table, traced
from interpbench.reports.models_page import put
from interpbench.tasks.handwritten.fact_recall import COUNTRIES, LANGUAGE_OF
from tests import ROOT


@pytest.mark.parametrize(
    ("task", "alone", "head"),
    [
        ("fact_in_early_mlp", ("mlp", "context_patch", 0), (1, 0)),
        ("fact_in_late_mlp", ("mlp", "mask_patch", 1), (0, 1)),
        ("fact_in_head", None, (1, 2)),
    ],
)
def test_the_certified_place_restores_everything(task: str, alone, head, tmp_path: Path) -> None:
    result = traced(task, tmp_path)
    assert result.clean_minus_corrupt > 0.99 and result.num_facts == len(COUNTRIES)
    for curve in ("mask_patch", "context_patch"):
        for layer, one in enumerate(result.curve(curve, "mlp")):
            assert one.value == pytest.approx(float(alone == ("mlp", curve, layer)), abs=0.02)
    heads = [[one.value for one in row] for row in result.head_map()]
    for layer, row in enumerate(heads):
        for number, value in enumerate(row):
            assert value == pytest.approx(float((layer, number) == head), abs=0.02)


def test_a_fact_of_another_network_is_not_found_in_its_place(tmp_path: Path) -> None:
    """The adversary: the early network has nothing where the late one has its fact."""
    early = traced("fact_in_early_mlp", tmp_path)
    assert max(one.value for one in early.curve("mask_patch", "mlp")) < 0.02


def test_corrupted_prompts_have_another_language() -> None:
    for fact in facts():
        assert LANGUAGE_OF[fact.context_from] == fact.target != LANGUAGE_OF[fact.context_to]
        assert fact.template.count(fact.context_from) == 0, "the country at home is another one"


def test_the_page_has_what_the_benchmark_makes() -> None:
    page = (ROOT / "docs" / "masked_lm.md").read_text()
    assert put(page, table(), "<!-- made by `python -m benchmarks.known_facts` -->") == page
