"""What is drawn for a certificate is held out, sources included; what is drawn to learn from never is."""

from functools import cache

import numpy as np
import pytest

from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.domain import Domain, Sequences
from interpbench.tasks.handwritten import docstring, greater_than
from interpbench.tasks.handwritten.ioi import large, published
from interpbench.tasks.handwritten.ioi.prompts import Prompts
from interpbench.tasks.slots import Slots

LARGE = [task.name for task in catalogue().values() if not task.domain.enumerated]
ROWS = 4000
large_domains = pytest.mark.parametrize("name", LARGE)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@cache
def drawn(name: str, held_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs and a source for each."""
    domain = get_task(name).domain
    base = domain.draw(rng(), ROWS, held_out)
    return base, domain.sources(rng(1), base, held_out)


def one_token(rows: np.ndarray) -> np.ndarray:
    return (rows == rows[:, :1]).all(1)


@large_domains
def test_inputs_and_sources_of_a_certificate_are_held_out(name: str) -> None:
    domain = get_task(name).domain
    for rows in drawn(name, True):
        held = domain.is_held_out(rows)
        assert held[~one_token(rows)].all() and not held[one_token(rows)].any()
        assert held.mean() > 0.5 and (held.all() or isinstance(domain, Sequences))


@large_domains
def test_nothing_held_out_is_learned_from(name: str) -> None:
    for rows in drawn(name, False):
        assert not get_task(name).domain.is_held_out(rows).any()


@large_domains
def test_the_same_seed_draws_the_same_sources(name: str) -> None:
    base, sources = drawn(name, True)
    np.testing.assert_array_equal(get_task(name).domain.sources(rng(1), base, True), sources)


def test_inputs_of_one_token_are_in_both_parts_and_not_held_out() -> None:
    domain = Sequences(3, 12)
    constant = np.repeat(np.arange(3, dtype=np.int16), 12).reshape(3, 12)
    assert not domain.is_held_out(constant).any()
    assert 0.02 < domain.split(rng(), constant.repeat(500, 0)).mean() < 0.2


# The ways in which sources of prompts are made.


def shared(base: np.ndarray, sources: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Returns how many of these words two prompts have in common, `[row]`."""
    return np.array([len({*a} & {*b} & {*codes.tolist()}) for a, b in zip(base.tolist(), sources.tolist())])


def test_every_way_of_making_a_docstring_is_drawn() -> None:
    base, sources = drawn("docstring", True)
    model = get_task("docstring").causal_model
    places = list(docstring.DEFINED)
    same = shared(base[:, places], sources[:, places], docstring.PROMPTS.arguments)
    answers = [model.outputs(rows).max(1) for rows in (base, sources)]
    assert (answers[1] < 0).mean() > 0.1, "undocumented"
    rotated = (sources[:, places] == base[:, np.roll(places, -1)]).all(1)
    assert rotated.mean() > 0.12
    assert ((same == 3) & ~rotated & (answers[1] >= 0)).mean() > 0.2, "shuffled, reordered"
    kept = (sources[:, places] == base[:, places]).sum(1)
    assert ((same == 2) & (kept == 2)).mean() > 0.1, "renamed"
    assert (same == 0).mean() > 0.1, "another prompt"


def test_every_way_of_making_a_comparison_is_drawn() -> None:
    base, sources = drawn("greater_than", True)
    year = greater_than.START
    outputs = [get_task("greater_than").causal_model.outputs(rows)[:, -1] for rows in (base, sources)]
    flipped = (base[:, year] == sources[:, year]) & (outputs[0] != outputs[1])
    assert flipped.mean() > 0.25
    assert ((base[:, year] != sources[:, year]) & (outputs[0] != outputs[1])).mean() > 0.3, "redrawn"
    assert (outputs[0] == outputs[1]).mean() > 0.1, "another prompt"


@pytest.mark.parametrize("name", ["ioi", "ioi_next_token", "ioi_published_prompts"])
def test_every_way_of_making_a_prompt_is_drawn(name: str) -> None:
    base, sources = drawn(name, True)
    prompts = get_task(name).domain
    assert isinstance(prompts, Prompts)
    names = np.arange(len(prompts.names))
    same = shared(base, sources, names)
    template = prompts.template_of(sources)
    retold = (same >= 2) & (template != prompts.template_of(base)) & (template >= 0)
    assert (template < 0).mean() > 0.15, "abc"
    assert retold.mean() > 0.1 and (same == 0).mean() > 0.3, "retold and overtaken; renamed, abc, another"
    swapped = ((base != sources).sum(1) == 1) & (same >= 2)
    assert swapped.mean() > 0.1
    if name != "ioi_published_prompts":
        ends = (base >= 0).sum(1) - 1
        token = sources[np.arange(ROWS), ends]
        again = (sources == token[:, None]).argmax(1) < ends
        assert (again & (token >= 0) & (token < len(names))).mean() > 0.04, "overtaken"


@pytest.mark.parametrize("prompts", [large, published])
def test_a_held_out_source_has_a_held_out_pair_of_names_or_text(prompts: Prompts) -> None:
    base = prompts.draw(rng(), 1000, True)
    for make in (prompts.renamed, prompts.retold, prompts.abc, prompts.swap, prompts.overtaken):
        made = make(rng(1), base, apart=True)
        if make == prompts.swap or prompts is large or make in (prompts.renamed, prompts.abc):
            assert prompts.is_held_out(made).mean() > 0.85, make.__name__
        assert ((made >= 0) == (base >= 0)).all() or make in (prompts.retold, prompts.overtaken)
    abc = prompts.abc(rng(1), base, apart=True)
    assert (shared(base, abc, np.arange(100)) == 0).all(), "other names"
    assert (prompts._first_time(abc) == prompts._is_name(abc)).all(), "each of them once"
    renamed = prompts.renamed(rng(1), base, apart=True)
    np.testing.assert_array_equal(prompts.template_of(renamed), prompts.template_of(base))


def letters(**settings: object) -> Slots:
    return Slots([tuple("abcdefghijklmnopqrst")] * 5, **settings)  # type: ignore[arg-type]


def test_what_cannot_be_made_held_out_gives_way_to_another_prompt() -> None:
    domain = letters(related=[lambda _, rows: rows[:, ::-1]])
    base = domain.draw(rng(), 2000, True)
    sources = domain.sources(rng(1), base, True)
    assert domain.is_held_out(sources).all()
    assert 0.02 < (sources == base[:, ::-1]).all(1).mean() < 0.1, "a tenth of half"


def test_other_incidental_words_make_it_held_out() -> None:
    domain = letters(related=[lambda _, rows: rows[:, ::-1]], incidental=(2,))
    base = domain.draw(rng(), 2000, True)
    sources = domain.sources(rng(1), base, True)
    assert domain.is_held_out(sources).all()
    places = [0, 1, 3, 4]
    assert 0.35 < (sources[:, places] == base[:, ::-1][:, places]).all(1).mean() < 0.5


def test_sources_to_learn_from_are_as_they_were() -> None:
    """What is made of an input to learn from is used as it is, or not at all."""
    domain: Domain = letters(related=[lambda _, rows: rows[:, ::-1]], incidental=(2,))
    base = domain.draw(rng(), 2000)
    sources = domain.sources(rng(1), base)
    assert 0.4 < (sources == base[:, ::-1]).all(1).mean() < 0.5
    assert not domain.is_held_out(sources).any()
