"""A clean and a corrupted prompt as tokens: where mask, context and subject stand, and what the target is.

Words are found in the text and then, by the tokenizer's offsets, among the tokens; all tokens of a word
count. The sentence is encoded with its target in it, whose tokens are then replaced by mask tokens, as in the
training of such models. So the target has the leading space that byte-level tokenizers want, and a target of
several tokens gets as many masks.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from interpbench.core.errors import TraceError
from interpbench.core.text import shown
from interpbench.masked_lm.fact_specs import MASK
from interpbench.masked_lm.prompt_rows import PromptRow, whole_words

Place = Literal["mask", "context", "subject"]
"""A place of a prompt at which activations are patched."""
PLACES: tuple[Place, ...] = ("mask", "context", "subject")


@dataclass(frozen=True)
class EncodedPair:
    """A clean and a corrupted prompt of the same length.

    Attributes:
        clean: the token ids of the clean prompt.
        corrupt: the token ids of the corrupted prompt.
        places: the positions that are patched, by place. `subject` is there if the subject stands in the
            prompt, in words that are neither mask nor context.
        target: the token ids of the target, one for each position of `places["mask"]`, where its probability
            is read.
        has_mask: whether the prompt has a mask. If not, the probability is read at the subject.
    """

    clean: tuple[int, ...]
    corrupt: tuple[int, ...]
    places: dict[Place, tuple[int, ...]]
    target: tuple[int, ...]
    has_mask: bool


class _Tokens(NamedTuple):
    """A text as tokens.

    Attributes:
        text: the text.
        ids: the token ids, special tokens among them.
        spans: the first character of each token, and the one after its last; equal for special tokens.
    """

    text: str
    ids: list[int]
    spans: list[tuple[int, int]]


class _Span(NamedTuple):
    """The characters of a word in a text.

    Attributes:
        start: the first character.
        end: the character after the last.
    """

    start: int
    end: int

    def filled(self, text: str, word: str) -> str:
        """Returns a text with another word in this place."""
        return text[: self.start] + word + text[self.end :]


def encode_pair(tokenizer: Any, row: PromptRow) -> EncodedPair:
    """Returns the prompts of a row as tokens.

    Args:
        tokenizer: a fast tokenizer of `transformers`.
        row: the row, as `generate_from_spec` makes it.

    Raises:
        TraceError: if a word is not found, not alone, or unknown to the tokenizer, or the prompts differ in
            length or outside of the context word.
    """
    text = row["mask_prompt"].replace(tokenizer.mask_token, MASK)
    target, has_mask = row["target"], MASK in text
    slot = _slot(text, row["clean_subject"])
    whole = _tokens(tokenizer, slot.filled(text, target))  # the sentence with its target
    spoken = _among(whole, _Span(slot.start, slot.start + len(target)), target)
    wanted = tuple(whole.ids[at] for at in spoken)
    clean, masked = (whole, spoken) if has_mask else _read_at_subject(tokenizer, text, slot, row, len(wanted))
    others = slot.filled(text, " " * len(target)) if has_mask else text  # as long as the text of `clean`
    span = _context(others, row)
    _check_replaced(text, row, tokenizer.mask_token)
    corrupt = _tokens(tokenizer, span.filled(clean.text, row["context_to"]))
    context = _among(clean, span, row["context_from"])
    changed = _among(corrupt, _Span(span.start, span.start + len(row["context_to"])), row["context_to"])
    _check_corrupted(clean, corrupt, context, row)
    for word, ids in (
        (target, wanted),
        (row["context_from"], [clean.ids[at] for at in context]),
        (row["context_to"], [corrupt.ids[at] for at in changed]),
    ):
        if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
            raise TraceError(f"{_said(word)} is unknown to the tokenizer; choose another word")
    places: dict[Place, tuple[int, ...]] = {"mask": masked, "context": context}
    subject = row["clean_subject"]
    for start in whole_words(subject, others)[:1] if has_mask else ():
        positions = _among(clean, _Span(start, start + len(subject)), subject)
        if positions != context:
            places["subject"] = positions
    hidden = dict.fromkeys(masked, int(tokenizer.mask_token_id)) if has_mask else {}
    ids = [tuple(hidden.get(at, token) for at, token in enumerate(one.ids)) for one in (clean, corrupt)]
    return EncodedPair(ids[0], ids[1], places, wanted, has_mask)


def _slot(text: str, subject: str) -> _Span:
    """Returns where the target of a prompt belongs: in place of its mask, or of its subject.

    Raises:
        TraceError: if the prompt has several masks, or neither a mask nor the subject.
    """
    if text.count(MASK) > 1:
        raise TraceError(
            f"{_said(text)} has {text.count(MASK)} masks; write one, whatever the target's tokens"
        )
    if MASK in text:
        return _Span(text.index(MASK), text.index(MASK) + len(MASK))
    found = whole_words(subject, text)
    if not found:
        raise TraceError(f"{_said(text)} has neither {MASK} nor the subject {_said(subject)}")
    return _Span(found[0], found[0] + len(subject))


def _read_at_subject(
    tokenizer: Any, text: str, slot: _Span, row: PromptRow, wanted: int
) -> tuple[_Tokens, tuple[int, ...]]:
    """Returns a prompt without a mask as tokens, and the positions of its subject.

    Args:
        tokenizer: the tokenizer.
        text: the prompt.
        slot: where the subject stands.
        row: the words.
        wanted: the number of tokens of the target.

    Raises:
        TraceError: if subject and target have different numbers of tokens.
    """
    tokens = _tokens(tokenizer, text)
    found = _among(tokens, slot, row["clean_subject"])
    if len(found) != wanted:
        raise TraceError(
            f"{_said(row['target'])} has {wanted} tokens and {_said(row['clean_subject'])}, in whose place "
            f"it is read, {len(found)}; in a prompt with {MASK} they may differ"
        )
    return tokens, found


def _tokens(tokenizer: Any, text: str) -> _Tokens:
    """Returns a text as tokens.

    Raises:
        TraceError: if it has more than the tokenizer's model can take.
    """
    encoded = tokenizer(text, return_offsets_mapping=True, verbose=False)
    ids, most = encoded["input_ids"], tokenizer.model_max_length
    if len(ids) > most:
        raise TraceError(f"{_said(text)} has {len(ids)} tokens; the model takes at most {most}")
    return _Tokens(text, list(ids), [(start, end) for start, end in encoded["offset_mapping"]])


def _context(text: str, row: PromptRow) -> _Span:
    """Returns where the context word stands first.

    Raises:
        TraceError: if it is not found, or is a part of a longer word.
    """
    word = row["context_from"]
    first = text.find(word)
    if not word or first < 0:
        raise TraceError(f"the context word {_said(word)} is not found in {_said(row['mask_prompt'])}")
    if first not in whole_words(word, text):
        raise TraceError(f"the context word {_said(word)} is not alone in {_said(row['mask_prompt'])}")
    return _Span(first, first + len(word))


def _check_replaced(text: str, row: PromptRow, mask_token: str) -> None:
    """Refuses a corrupted prompt that is not the clean one with the context word replaced.

    Args:
        text: the clean prompt, with `[MASK]` for any mask.
        row: the row.
        mask_token: the tokenizer's mask token.
    """
    corrupted = row["corrupt_mask_prompt"].replace(mask_token, MASK)
    if corrupted != text.replace(row["context_from"], row["context_to"], 1):
        raise TraceError(
            f"{_said(corrupted)} is not {_said(text)} with the first {_said(row['context_from'])} replaced "
            f"by {_said(row['context_to'])}"
        )


def _among(tokens: _Tokens, span: _Span, word: str) -> tuple[int, ...]:
    """Returns the positions of the tokens of a word.

    Args:
        tokens: a text as tokens.
        span: the characters of the word.
        word: the word, for error messages.

    Raises:
        TraceError: if no token is of the word, or one is also of what stands beside it.
    """
    found: list[int] = []
    for position, (first, last) in enumerate(tokens.spans):
        if first < span.end and last > span.start and first < last:
            beside = tokens.text[first : max(first, span.start)] + tokens.text[min(last, span.end) : last]
            if beside.strip():
                raise TraceError(
                    f"{_said(word)} is not alone in {_said(tokens.text)}: the tokenizer joins it with "
                    f"{_said(beside.strip())}"
                )
            found.append(position)
    if not found:
        raise TraceError(f"the tokenizer leaves nothing of {_said(word)} in {_said(tokens.text)}")
    return tuple(found)


def _check_corrupted(clean: _Tokens, corrupt: _Tokens, context: tuple[int, ...], row: PromptRow) -> None:
    """Refuses prompts that differ in length, or not in the context word alone.

    Args:
        clean: the clean prompt.
        corrupt: the corrupted prompt.
        context: the positions of the context word in the clean prompt.
        row: the words.
    """
    words = f"{_said(row['context_from'])} and {_said(row['context_to'])}"
    more = len(corrupt.ids) - len(clean.ids)
    if more:
        raise TraceError(
            f"{words} have {len(context)} and {len(context) + more} tokens; choose a corrupted word of as "
            "many tokens"
        )
    differ = {at for at, (one, other) in enumerate(zip(clean.ids, corrupt.ids)) if one != other}
    if not differ:
        raise TraceError(f"{words} are the same tokens, so that nothing is corrupted")
    if not differ <= set(context):
        raise TraceError(f"{_said(corrupt.text)} differs from {_said(clean.text)} in more than {words}")


def _said(text: str) -> str:
    return repr(shown(text))
