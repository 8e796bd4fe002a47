"""What is wrong with a specification, and what could be better, before anything is traced."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from interpbench.core.errors import TraceError
from interpbench.core.text import shown
from interpbench.masked_lm.encoded_pairs import encode_pair
from interpbench.masked_lm.fact_specs import MASK, SLOT, DatasetSpec, FactSpec, ModelSpec
from interpbench.masked_lm.prompt_rows import PromptRow, row_of, whole_words

FEWEST_FACTS = 8
"""The advised number of facts: with fewer, intervals over facts say little."""
_END = re.compile(r"[.!?]\s*$")
_START = re.compile(r"^\s*[.!?]")


@dataclass(frozen=True)
class Finding:
    """Something about a specification.

    Attributes:
        where: the fact, the model, or what else it is about.
        text: what is wrong, and what to change.
        wrong: whether it prevents tracing; otherwise it is advice.
    """

    where: str
    text: str
    wrong: bool = True

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


def spec_findings(spec: DatasetSpec) -> list[Finding]:
    """Returns what is wrong with a specification, or could be better, with any model."""
    found: list[Finding] = []
    names = [model.name for model in spec.models]
    for name, what in (("models", spec.models), ("facts", spec.facts), ("variants", spec.phrasings)):
        if not what:
            found.append(Finding(name, "there is none"))
    found += [
        Finding(f"model {shown(name)}", "several models have this name; results are listed by it")
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    found += [
        Finding(f"model {number}", "its name and its huggingface_id need some text")
        for number, model in enumerate(spec.models)
        if not (model.name.strip() and model.huggingface_id.strip())
    ]
    for number, fact in enumerate(spec.facts):
        where = _where(number, fact)
        wrong = next(_wrong(fact), None)
        if wrong is None and fact in spec.facts[:number]:
            wrong = f"it is fact {spec.facts.index(fact)} once more"
        if wrong is not None:
            found.append(Finding(where, wrong))
            continue
        rows = [row_of(fact, *variant) for variant in spec.phrasings]
        wrong = next((one for row in rows for one in _wrong_row(row)), None)
        found += [Finding(where, wrong)] if wrong else []
        found += [Finding(where, text, wrong=False) for text in _advice(fact, rows)]
    if 0 < len(spec.facts) < FEWEST_FACTS:
        text = f"{len(spec.facts)} are few; 8 to 12 are advised, as intervals are over facts"
        found.append(Finding("facts", text, wrong=False))
    doubled = any(_END.search(fact.template) for fact in spec.facts)
    if doubled and any(_START.search(suffix) for _, suffix in spec.phrasings):
        text = "a template ends with a full stop, and a variant adds another"
        found.append(Finding("variants", text, wrong=False))
    return found


def model_findings(spec: DatasetSpec, model: ModelSpec, tokenizer: Any) -> list[Finding]:
    """Returns what is wrong with the facts, or could be better, for one model's tokenizer.

    Args:
        spec: the specification, with which nothing is wrong for any model.
        model: the model.
        tokenizer: its tokenizer.
    """
    found: list[Finding] = []
    for number, fact in enumerate(spec.facts):
        where = f"{_where(number, fact)}, {shown(model.name)}"
        try:
            pairs = [encode_pair(tokenizer, row_of(fact, *variant)) for variant in spec.phrasings]
        except TraceError as error:
            found.append(Finding(where, str(error)))
            continue
        tokens = max(len(pair.target) for pair in pairs)
        if tokens > 1:
            text = f"the target has {tokens} tokens, each with a mask of its own; p is their product"
            found.append(Finding(where, text, wrong=False))
    return found


def _where(number: int, fact: FactSpec) -> str:
    return f"fact {number} ({shown(fact.template)!r})"


def _wrong(fact: FactSpec) -> Iterator[str]:
    """Yields what is wrong with a fact in any phrasing, the most basic first."""
    if fact.template.count(SLOT) != 1:
        yield f"its template has {fact.template.count(SLOT)} {SLOT}; one is needed, for the subject"
    if fact.template.count(MASK) > 1:
        yield f"its template has {fact.template.count(MASK)} {MASK}; at most one is possible"
    for name in ("clean_subject", "corrupt_subject", "target", "context_from", "context_to"):
        word = getattr(fact, name)
        if not word.strip():
            yield f"its {name} is empty"
        if word != word.strip():
            yield f"its {name} {shown(word)!r} begins or ends with a space"
    if fact.context_from == fact.context_to:
        yield f"its context_from is its context_to, {shown(fact.context_to)!r}, so that nothing is corrupted"


def _wrong_row(row: PromptRow) -> Iterator[str]:
    """Yields what is wrong with a fact in one phrasing."""
    prompt, word = row["mask_prompt"], row["context_from"]
    said = f"its context word {shown(word)!r}"
    if word not in prompt.replace(MASK, ""):
        yield f"{said} is not found in {shown(prompt)!r}"
    elif prompt.find(word) not in whole_words(word, prompt):
        yield f"{said} is not alone in {shown(prompt)!r}: it is found first as a part of a longer word"
    if row["corrupt_mask_prompt"].count(MASK) != 1:
        yield f"replacing {said} in {shown(prompt)!r} changes the mask"


def _advice(fact: FactSpec, rows: list[PromptRow]) -> Iterator[str]:
    """Yields what could be better with a fact that can be traced."""
    often = max((len(whole_words(fact.context_from, row["mask_prompt"])) for row in rows), default=0)
    if often > 1:
        yield f"its context word stands {often} times in a prompt; only the first is corrupted"
    if any(whole_words(fact.target, row["mask_prompt"]) for row in rows):
        yield f"its target {shown(fact.target)!r} stands in the prompt, so that it can be copied"
    if fact.clean_subject == fact.corrupt_subject:
        yield "its corrupt_subject is its clean_subject"
