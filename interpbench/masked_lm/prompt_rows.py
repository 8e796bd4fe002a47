"""Prompts of facts: each fact in each phrasing, clean and corrupted, with and without a mask."""

import re
from collections.abc import Sequence
from typing import TypedDict

from interpbench.core.errors import TraceError
from interpbench.core.text import shown
from interpbench.masked_lm.fact_specs import MASK, SLOT, FactSpec


class PromptRow(TypedDict):
    """One fact in one phrasing, as `dataset.json` has it.

    The mask prompts have `[MASK]` where any model's mask belongs. The corrupted one has the first
    `context_from` replaced by `context_to`.
    """

    clean_subject: str
    corrupt_subject: str
    template: str
    context_from: str
    context_to: str
    clean_prompt: str
    corrupt_prompt: str
    mask_prompt: str
    corrupt_mask_prompt: str
    target: str


def row_of(fact: FactSpec, prefix: str, suffix: str) -> PromptRow:
    """Returns the prompts of a fact in one phrasing.

    Args:
        fact: the fact.
        prefix: what stands before the template.
        suffix: what stands after it.
    """
    sentence = f"{prefix}{fact.template}{suffix}"
    has_mask = MASK in fact.template

    def masked(text: str) -> str:
        return text.replace(SLOT, fact.clean_subject if has_mask else MASK)

    def told(subject: str) -> str:
        return sentence.replace(SLOT, subject).replace(MASK, fact.target)

    return PromptRow(
        clean_subject=fact.clean_subject,
        corrupt_subject=fact.corrupt_subject,
        template=fact.template,
        context_from=fact.context_from,
        context_to=fact.context_to,
        clean_prompt=told(fact.clean_subject),
        corrupt_prompt=told(fact.corrupt_subject),
        mask_prompt=masked(sentence),
        corrupt_mask_prompt=masked(sentence).replace(fact.context_from, fact.context_to, 1),
        target=fact.target,
    )


def fact_of(row: PromptRow) -> tuple[str, ...]:
    """Returns what the prompts of one fact have in common."""
    return tuple(row[name] for name in ("template", "clean_subject", "context_from", "context_to", "target"))


def by_fact(dataset: Sequence[PromptRow]) -> list[list[PromptRow]]:
    """Returns the prompts of each fact, in the order of their first prompt.

    Raises:
        TraceError: if there is no prompt, or one lacks a key or has a value that is no text.
    """
    if not dataset:
        raise TraceError("the dataset has no prompts")
    found: dict[tuple[str, ...], list[PromptRow]] = {}
    for number, row in enumerate(dataset):
        for name in PromptRow.__annotations__:
            if not isinstance(row.get(name), str):
                raise TraceError(f"prompt {number} of the dataset has no text {name!r}")
        found.setdefault(fact_of(row), []).append(row)
    return list(found.values())


def whole_words(word: str, text: str) -> list[int]:
    """Returns where a word starts in a text, each time that it is no part of a longer word."""
    return [found.start() for found in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]


def title_of(row: PromptRow) -> str:
    """Returns what to call the fact of a prompt: its template with the target in its place."""
    template = row["template"]
    if MASK in template:
        return shown(template.replace(SLOT, row["clean_subject"]).replace(MASK, row["target"]))
    return shown(template.replace(SLOT, row["target"]))
