"""Every task's strata: evenly drawn, legal, named truly, in the right part of the domain."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from interpbench.causal.model import CausalModel, Read, Variable
from interpbench.tasks import stratum
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.domain import Domain, Sequences
from interpbench.tasks.handwritten import docstring, greater_than
from interpbench.tasks.handwritten.ioi.prompts import Prompts
from interpbench.tasks.sequence_strata import different, differing, equally_often, near
from interpbench.tasks.slots import Slots
from interpbench.tasks.strata import Strata
from interpbench.tasks.task import CausalTask, Task
from tests.builders import some

NAMES = list(catalogue())
ROWS = 1024
ONE_TOKEN = "different tokens: 1"
every_task = pytest.mark.parametrize("name", some(NAMES, 12))


@cache
def drawn(name: str, held_out: bool = False, seed: int = 0) -> np.ndarray:
    return get_task(name).strata.draw(np.random.default_rng(seed), ROWS, held_out)


def legal(domain: Domain, rows: np.ndarray) -> np.ndarray:
    """Returns which rows are inputs of a domain, by what it says of itself rather than by its draws."""
    if isinstance(domain, Prompts):
        return domain.template_of(rows) >= 0
    if isinstance(domain, Slots):
        allowed = [np.isin(rows[:, place], codes) for place, codes in enumerate(domain._codes)]
        if not isinstance(domain, docstring.Docstrings):
            return np.stack(allowed).all(0)
        short = (rows[:, docstring.SHORT :] < 0).all(1)
        defined, said = rows[:, docstring.DEFINED], rows[:, docstring.DOCUMENTED]
        others = np.stack(allowed[: docstring.SHORT]).all(0) & (short | np.stack(allowed).all(0))
        order = (said[:, 0] == defined[:, 0]) & (short | (said[:, 1] == defined[:, 1]))
        reverse = (said[:, 0] == defined[:, 1]) & (short | (said[:, 1] == defined[:, 0]))
        return others & (order | reverse) & (np.diff(np.sort(defined)) > 0).all(1)
    assert isinstance(domain, Sequences)
    return ((rows >= 0) & (rows < domain.vocab_size)).all(1)


@every_task
def test_every_stratum_is_drawn_equally_often_and_legally(name: str) -> None:
    task = get_task(name)
    names = task.strata.names
    assert len(names) >= 3 and len(set(names)) == len(names)
    for held_out in (False, True):
        rows = drawn(name, held_out)
        assert rows.shape == (ROWS, task.length) and rows.dtype == np.int16
        assert legal(task.domain, rows).all()
        labels = task.strata.labels(rows)
        assert labels.shape == (ROWS, len(names)) and labels.dtype == bool
        assert (labels.sum(0) >= ROWS // len(names)).all(), "each has at least what was drawn for it"
        assert labels.any(1).all()


@pytest.mark.parametrize("name", NAMES[::8])
def test_the_same_seed_draws_the_same(name: str) -> None:
    task = get_task(name)
    strata = Strata(task.domain, task.causal_model, task.scored, task.name)
    again = strata.draw(np.random.default_rng(0), ROWS)
    np.testing.assert_array_equal(drawn(name), again)
    assert not np.array_equal(drawn(name), drawn(name, seed=1))


@pytest.mark.parametrize("name", some(name for name in NAMES if get_task(name).domain.enumerated))
def test_nothing_is_held_out_of_a_domain_that_is_enumerated(name: str) -> None:
    np.testing.assert_array_equal(drawn(name), drawn(name, True))


@pytest.mark.parametrize("name", some((name for name in NAMES if not get_task(name).domain.enumerated), 12))
def test_what_is_held_out_is_not_drawn_to_learn_from(name: str) -> None:
    domain = get_task(name).domain
    assert not domain.is_held_out(drawn(name)).any()
    strata, rows = get_task(name).strata, drawn(name, True)
    whole = np.isin(strata.names, strata.whole)
    assert domain.is_held_out(rows)[~strata.labels(rows)[:, whole].any(1)].all()
    if isinstance(domain, Sequences):
        assert strata.whole[0] == ONE_TOKEN and len(strata.whole) <= 6
        assert domain.is_held_out(rows).mean() > 0.5
    else:
        assert not strata.whole


@pytest.mark.parametrize("name", some((n for n in NAMES if isinstance(get_task(n).domain, Sequences)), 12))
def test_few_and_many_different_tokens_are_strata(name: str) -> None:
    domain, strata = get_task(name).domain, get_task(name).strata
    assert isinstance(domain, Sequences)
    most = min(domain.vocab_size, domain.length)
    names = [f"different tokens: {number}" for number in range(1, most + 1)]
    assert strata.names[:most] == tuple(names)
    np.testing.assert_array_equal(
        strata.labels(drawn(name))[:, :most], differing(drawn(name))[:, None] == np.arange(1, most + 1)
    )
    ones = drawn(name)[differing(drawn(name)) == 1]
    assert len(np.unique(ones, axis=0)) >= min(domain.vocab_size, 3)


@pytest.mark.parametrize("name", some((n for n in NAMES if not get_task(n).causal_model.numerical), 12))
def test_every_class_that_is_reached_has_a_stratum(name: str) -> None:
    task = get_task(name)
    rows = task.domain.draw(np.random.default_rng(5), 4096)
    rows = task.domain.all() if task.domain.enumerated else np.concatenate([rows, drawn(name)])
    outputs = task.causal_model.outputs(rows)
    reached = np.unique(outputs[task.scored(outputs)])
    classes = task.causal_model.classes
    assert classes is not None
    names = [stratum for stratum in task.strata.names if stratum.startswith("output: ")]
    if len(reached) <= 16:
        assert set(names) - {"output: the same throughout"} == {f"output: {classes[c]!r}" for c in reached}
    else:
        assert {"output: the least", "output: the greatest", "output: the rarest"} < set(names)
        seen = task.causal_model.outputs(drawn(name))
        assert {reached[0], reached[-1]} <= set(np.unique(seen[task.scored(seen)]))


def labelled(name: str, rows: list[str]) -> list[set[str]]:
    task = get_task(name)
    codes = np.array([[task.vocab.index(token) for token in row] for row in rows], np.int16)
    found = task.strata.labels(codes)
    return [{task.strata.names[place] for place in np.flatnonzero(row)} for row in found]


def test_strata_say_what_inputs_are() -> None:
    one, tied, rising = labelled("hist", ["ccccccccc", "abcacbabc", "aaaabbbcc"])
    assert one == {
        "different tokens: 1",
        "extreme: the first or the last token only",
        "extreme: rising",
        "extreme: falling",
        "ties: tokens equally often",
        "ties: palindromes",
        "output: 9",
        "output: the same throughout",
    }
    throughout = {"output: 3", "output: the same throughout"}
    assert tied == {"different tokens: 3", "ties: tokens equally often"} | throughout
    assert rising == {"different tokens: 3", "extreme: rising", "output: 4", "output: 3", "output: 2"}


VALUES = ("0", "0.25", "0.333333", "0.5", "0.666667", "0.75", "1")


def test_numbers_have_strata_too() -> None:
    names = get_task("frac_prevs").strata.names
    assert names[-8:-1] == tuple(
        f"output: {x}" for x in ("0", "0.25", "0.333333", "0.5", "0.666667", "0.75", "1")
    )
    many = get_task("frac_prevs_long").strata.names
    assert sum(name.startswith("output: ") for name in many) == 8 + 3 + 1
    assert {"output: the least", "output: the greatest", "output: the same throughout"} < set(many)


def test_prompts_have_strata_of_their_own() -> None:
    names = get_task("ioi").strata.names
    assert {"order: io s s object", "order: s t io s t", "length: 10", "extreme: io is Zachary, the last"} < {
        *names
    }
    assert {"ties: the same year", "ties: one year later"} < set(get_task("greater_than").strata.names)
    rows = drawn("greater_than")
    by = rows[:, greater_than.FINISH] - rows[:, greater_than.START]
    assert all((by == apart).mean() > 0.03 for apart in (-1, 0, 1))
    assert {"length: 17", "order: the first argument documented last"} < set(
        get_task("docstring").strata.names
    )


# Draws of sequences.


def test_numbers_of_different_tokens_are_kept() -> None:
    rng = np.random.default_rng(0)
    for low, high in ((1, 1), (2, 2), (5, 5), (1, 5), (3, 4)):
        assert set(differing(different(rng, 600, 7, 9, low, high))) == set(range(low, high + 1))
        rows = equally_often(rng, 600, 7, 9, low, high)
        assert set(differing(rows)) == set(range(low, high + 1))
        times = [np.bincount(row, minlength=7) for row in rows]
        assert all(np.ptp(row[row > 0]) <= 1 for row in times)
    pairs = different(rng, 3000, 50, 9, 2, 2)
    larger = np.array([np.bincount(row).max() for row in pairs])
    assert set(larger) == {5, 6, 7, 8} and (larger == 8).mean() > 0.1
    assert len(np.unique(pairs)) == 50 and len(np.unique(pairs, axis=0)) > 2000
    assert (np.bincount(pairs.ravel(), minlength=50) > 0.5 * pairs.size / 50).all(), "no token is preferred"


def test_long_inputs_need_little_memory() -> None:
    """Rows of 4,096 tokens with up to 4,096 different ones: no array of all pairs is made."""
    domain = Sequences(4096, 4096)
    strata = domain.strata()
    assert len(strata) < 30 and strata[1].name == "different tokens: 2 to 257"
    for kind in strata:
        assert kind.draw is not None
        rows = kind.draw(np.random.default_rng(0), 4, False)
        assert rows.shape == (4, 4096) and kind.has(rows).all()


def test_neighbours_are_sequences_and_mostly_others() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(6, size=(4000, 9), dtype=np.int16)
    others = near(rng, rows, 6)
    assert others.shape == rows.shape and others.dtype == np.int16 and others.min() >= 0 and others.max() < 6
    assert 0.6 < (others != rows).any(1).mean() < 1
    assert ((others != rows).sum(1) == 1).mean() > 0.05 and ((others != rows).sum(1) > 5).mean() > 0.05


# Strata of one's own.


def task_of(domain: Domain, length: int, output: Any, classes: tuple[object, ...], name: str = "own") -> Task:
    return CausalTask(
        name=name,
        description="",
        build=lambda: CausalModel(
            [
                Variable("tokens", (), lambda tokens: tokens, (0, 1, 2, 3)),
                Variable("output", (Read("tokens", "mlp"),), output, classes),
            ],
            "output",
        ),
        vocab=(0, 1, 2, 3),
        length=length,
        attention="causal",
        domain=domain,
        alignment={"output": "m0"},
    )


SECRET = np.array([0, 1, 2, 3] * 4)


def test_an_output_of_a_single_input_is_found() -> None:
    """Uniform draws would see the greatest class once in 4,294,967,296."""

    def score(tokens: np.ndarray) -> np.ndarray:
        right = (tokens == SECRET).sum(1, keepdims=True).astype(np.int16)
        return np.where(np.arange(16) == 15, right, -1).astype(np.int16)

    strata = task_of(Sequences(4, 16), 16, score, tuple(range(18))).strata
    assert "output: the greatest" in strata.names
    rows = strata.draw(np.random.default_rng(0), 640, held_out=True)
    assert (rows == SECRET).all(1).sum() >= 640 // len(strata.names)
    rows = strata.draw(np.random.default_rng(0), 640)
    held = Sequences(4, 16).is_held_out(SECRET[None])[0]
    assert (rows == SECRET).all(1).any() == (not held)


class Words(Domain):
    """One to three tokens, then nothing; a user's domain that says nothing of strata."""

    def __init__(self, large: bool):
        self.large = large

    @property
    def size(self) -> int:
        return 10**6 if self.large else 4 + 16 + 64

    def all(self) -> np.ndarray:
        grid = np.indices([5, 5, 5]).reshape(3, -1).T.astype(np.int16) - 1
        return grid[(grid[:, 0] >= 0) & ((grid[:, 1] >= 0) | (grid[:, 2] < 0))]

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        rows = rng.integers(4, size=(count, 3), dtype=np.int16)
        return np.where(
            np.arange(3) < rng.choice([1, 2, 3], (count, 1), p=[0.02, 0.08, 0.9]), rows, np.int16(-1)
        )

    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        return tokens[:, 0] == 3


def first_again(tokens: np.ndarray) -> np.ndarray:
    return np.where(tokens >= 0, tokens[:, :1], -1).astype(np.int16)


@pytest.mark.parametrize("large", [False, True])
def test_a_domain_that_names_none_has_lengths_and_outputs(large: bool) -> None:
    task = task_of(Words(large), 3, first_again, ("w", "x", "y", "z"))
    names = task.strata.names
    assert [name for name in names if name[:6] != "output"] == ["length: 1", "length: 2", "length: 3"]
    assert [name for name in names if name[:6] == "output"][:4] == [f"output: '{x}'" for x in "wxyz"]


def test_each_stratum_of_an_enumerated_domain_gets_its_share() -> None:
    strata = task_of(Words(False), 3, first_again, ("w", "x", "y", "z")).strata
    rows = strata.draw(np.random.default_rng(0), 700)
    assert (strata.labels(rows).sum(0) >= 700 // len(strata.names)).all()


def test_strata_of_a_large_domain_have_what_is_not_held_out() -> None:
    task = task_of(Words(True), 3, first_again, ("w", "x", "y", "z"))
    names, rng = task.strata.names, np.random.default_rng(0)
    rows = task.strata.draw(rng, 700)
    labels = task.strata.labels(rows).sum(0)
    assert not task.domain.is_held_out(rows).any()
    shares = dict(zip(names, labels))
    assert shares.pop("output: 'z'") == 0, "all of it is held out"
    assert min(shares["length: 1"], shares["length: 2"]) >= 700 // len(names)
    rows = task.strata.draw(rng, 700, held_out=True)
    assert (task.strata.labels(rows).sum(0) >= 700 // len(names)).all()


class Unnamed(Sequences):
    def strata(self) -> list[stratum.Stratum]:
        return []


@pytest.mark.parametrize("length", [3, 16])
@pytest.mark.parametrize("kind", [Sequences, Unnamed])
def test_inputs_without_answers_have_the_strata_of_their_tokens(length: int, kind: type[Sequences]) -> None:
    task = task_of(kind(4, length), length, lambda tokens: np.full_like(tokens, -1), (0, 1))
    assert not [name for name in task.strata.names if name.startswith("output")]
    assert bool(task.strata.names) == (kind is Sequences)
    rows = task.strata.draw(np.random.default_rng(0), 100)
    assert rows.shape == (100, length)
    assert task.strata.labels(rows).shape == (100, len(task.strata.names))


@pytest.mark.parametrize(("size", "length"), [(1, 3), (3, 1)])
def test_one_token_or_one_position(size: int, length: int) -> None:
    task = task_of(Sequences(size, length), length, lambda tokens: tokens, (0, 1, 2, 3))
    assert task.strata.names[0] == ONE_TOKEN
    assert task.strata.draw(np.random.default_rng(0), 30).shape == (30, length)


def test_many_lengths_are_grouped() -> None:
    assert stratum.ranges([3, 4, 6]) == [(3, 3), (4, 4), (6, 6)]
    grouped = stratum.ranges(list(range(40)))
    assert len(grouped) == 8 and grouped[0] == (0, 4) and grouped[-1] == (35, 39)
