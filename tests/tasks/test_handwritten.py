"""Induction, greater-than, docstring: models against literal answers, corruptions that do what they say."""

from itertools import product
from math import perm
from typing import Any

import numpy as np
import pytest

from interpbench.tasks.catalogue import get_task
from interpbench.tasks.handwritten import docstring, greater_than
from interpbench.tasks.slots import Slots

NAMES = ("induction", "greater_than", "docstring")


def words(name: str, rows: np.ndarray) -> list[list[str]]:
    vocab = get_task(name).vocab
    return [[vocab[code] for code in row if code >= 0] for row in rows]


def answers(name: str, rows: np.ndarray) -> list[list[Any]]:
    model = get_task(name).causal_model
    return model.decode(model.output, model.outputs(rows))


def induction(text: list[str]) -> list[Any]:
    found: list[Any] = []
    for here, token in enumerate(text):
        followers = {text[i + 1] for i in range(here) if text[i] == token}
        found.append(followers.pop() if len(followers) == 1 else None)
    return found


def greater(text: list[str]) -> list[Any]:
    return [None] * 9 + [int(text[8]) > int(text[5])]


def docs(text: list[str]) -> list[Any]:
    defined = [text[5], text[7], text[9]]
    asked = text[-3]
    place = defined.index(asked) + 1 if asked in defined else len(defined)
    answer = defined[place] if place < len(defined) else None
    return [None] * (len(text) - 1) + [answer] + [None] * (20 - len(text))


LITERAL = {"induction": induction, "greater_than": greater, "docstring": docs}


@pytest.mark.parametrize("name", NAMES)
def test_model_is_what_it_says(name: str) -> None:
    rng, domain = np.random.default_rng(0), get_task(name).domain
    rows = domain.draw(rng, 300)
    related = domain.sources(rng, rows)
    for some in (rows, related):
        assert answers(name, some) == [LITERAL[name](text) for text in words(name, some)]


@pytest.mark.parametrize("name", NAMES)
def test_most_swaps_of_a_variable_change_some_answer(name: str) -> None:
    """Sources are drawn so that variables matter: independent ones would hardly ever share a word."""
    task = get_task(name)
    rng = np.random.default_rng(0)
    base = task.domain.draw(rng, 2000)
    source = task.domain.sources(rng, base)
    assert (task.causal_model.outputs(base) != task.causal_model.outputs(source)).any(1).mean() > 0.3


@pytest.mark.parametrize("name", NAMES)
def test_sources_of_training_are_not_held_out(name: str) -> None:
    domain, rng = get_task(name).domain, np.random.default_rng(0)
    sources = domain.sources(rng, domain.draw(rng, 4000))
    assert not domain.is_held_out(sources).any()


def test_an_enumerated_domain_holds_no_source_back() -> None:
    choices = [("a", "b", "c", "d")] * 4
    every = Slots(choices).all()
    hashed = every[Slots(choices).is_held_out(every)][0]
    domain = Slots(choices, related=[lambda _, base: np.broadcast_to(hashed, base.shape)])
    sources = domain.sources(np.random.default_rng(0), domain.draw(np.random.default_rng(0), 400))
    assert 0.4 < (sources == hashed).all(1).mean() < 0.6


def test_slots_are_enumerated_exactly() -> None:
    domain = Slots([("a", "b"), ("x",), ("b", "c", "d")])
    texts = {tuple(domain.vocab[code] for code in row) for row in domain.all()}
    assert texts == set(product("ab", "x", "bcd")) and domain.size == 6
    assert len({tuple(row) for row in domain.draw(np.random.default_rng(0), 200).tolist()}) == 6


def test_domains_are_as_large_as_they_say() -> None:
    count = len(greater_than.NOUNS) * len(greater_than.VERBS) * len(greater_than.CENTURIES) ** 2
    assert greater_than.PROMPTS.size == count * len(greater_than.YEARS) * (len(greater_than.YEARS) - 1)
    texts = 2 * (len(docstring.WORDS) + len(docstring.WORDS) ** 2)
    assert docstring.PROMPTS.size == len(docstring.FUNCTIONS) * perm(len(docstring.ARGUMENTS), 3) * texts


def test_corruptions_do_what_they_say() -> None:
    rng = np.random.default_rng(0)
    rows = greater_than.PROMPTS.draw(rng, 300)
    flipped = answers("greater_than", greater_than.PROMPTS.flipped(rng, rows))
    assert all(a[-1] != b[-1] for a, b in zip(answers("greater_than", rows), flipped))

    rows = docstring.PROMPTS.draw(rng, 300)
    before = answers("docstring", rows)
    rotated = answers("docstring", docstring.PROMPTS.rotated(rng, rows))
    assert all(a != b and any(b) for a, b in zip(before, rotated))
    renamed = answers("docstring", docstring.PROMPTS.renamed(rng, rows))
    assert all(a != b and any(b) for a, b in zip(before, renamed))
    lost = answers("docstring", docstring.PROMPTS.undocumented(rng, rows))
    assert all(any(a) and not any(b) for a, b in zip(before, lost))
