"""Strata of IOI prompts: by the order of names and object, by length, and with the first and last words."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np

from interpbench.tasks.handwritten.ioi.templates import IO, OBJECT, PLACE, S, T, Template
from interpbench.tasks.stratum import Split, Stratum, made


class PromptSet(Split, Protocol):
    """The part of a set of prompts that strata use (`prompts.Prompts` explains it)."""

    templates: tuple[Template, ...]
    vocab: tuple[str, ...]

    def codes_of(self, slot: str) -> Sequence[int]: ...  # noqa: D102
    def template_of(self, tokens: np.ndarray) -> np.ndarray: ...  # noqa: D102
    def told(self, rng: np.random.Generator, templates: np.ndarray) -> np.ndarray: ...  # noqa: D102
    def word_at(self, tokens: np.ndarray, slot: str) -> np.ndarray: ...  # noqa: D102


def prompt_strata(prompts: PromptSet) -> list[Stratum]:
    """Returns the strata of a set of prompts; an order or length that all prompts have is not a stratum."""
    strata: list[Stratum] = []
    for what, kind in (("order", _order), ("length", len)):
        groups = _groups(prompts, kind)
        for name in groups if len(groups) > 1 else ():
            strata.append(_of_templates(prompts, f"{what}: {name}", groups[name]))
    for slot in (IO, S, PLACE, OBJECT):
        words = prompts.codes_of(slot)
        numbers = np.array([n for n, template in enumerate(prompts.templates) if slot in template])
        for which, code in (("first", words[0]), ("last", words[-1])) if len(words) > 1 else ():
            if len(numbers):
                name = f"extreme: {slot.strip('{}')} is {prompts.vocab[code]}, the {which}"
                strata.append(_of_word(prompts, name, slot, code, numbers))
    return strata


def _order(template: Template) -> str:
    """Returns the order of names and object in a template, as text."""
    return " ".join(word.strip("{}") for word in template if word in (IO, S, T, OBJECT))


def _groups(prompts: PromptSet, kind: Callable[[Template], Hashable]) -> Mapping[Hashable, np.ndarray]:
    """Returns the numbers of the templates of each kind, such as of each length."""
    kinds = [kind(template) for template in prompts.templates]
    every = sorted(set(kinds), key=str)
    return {one: np.array([n for n, k in enumerate(kinds) if k == one]) for one in every}


def _of_templates(prompts: PromptSet, name: str, numbers: np.ndarray) -> Stratum:
    """Returns the stratum of all prompts of some templates."""
    return made(
        prompts,
        name,
        lambda rows: np.isin(prompts.template_of(rows), numbers),
        lambda rng, count: prompts.told(rng, rng.choice(numbers, count)),
    )


def _of_word(prompts: PromptSet, name: str, slot: str, code: int, numbers: np.ndarray) -> Stratum:
    """Returns the stratum of the prompts in which a slot has the word of a code.

    Args:
        prompts: the set of prompts.
        name: the name of the stratum.
        slot: the slot.
        code: the code of the word.
        numbers: the numbers of the templates that have this slot.
    """

    def has(rows: np.ndarray) -> np.ndarray:
        return prompts.word_at(rows, slot) == code

    def make(rng: np.random.Generator, count: int) -> np.ndarray:
        rows = prompts.told(rng, rng.choice(numbers, count))
        here = prompts.word_at(rows, slot)[:, None]
        if slot in (PLACE, OBJECT):
            return np.where(rows == here, np.int16(code), rows)
        exchanged = np.where(rows == code, here, rows)  # no name may be in two roles
        return np.where(rows == here, np.int16(code), exchanged)

    return made(prompts, name, has, make)
