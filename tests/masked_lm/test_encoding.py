"""Words among tokens, with three kinds of tokenizers, and what is refused."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from interpbench.core.errors import TraceError
from interpbench.masked_lm.encoded_pairs import EncodedPair, encode_pair
from interpbench.masked_lm.fact_advice import model_findings
from interpbench.masked_lm.fact_specs import DatasetSpec, FactSpec, ModelSpec
from interpbench.masked_lm.prompt_rows import PromptRow, row_of
from tests.masked_models import TEMPLATES, byte_pairs, fact, facts, unigrams, word_pieces


def words(tokenizer: Any, ids: Any) -> list[str]:
    return tokenizer.convert_ids_to_tokens(list(ids))


def at(tokenizer: Any, pair: EncodedPair, place: str) -> list[str]:
    return words(tokenizer, [pair.clean[position] for position in pair.places[place]])  # type: ignore[index]


def test_all_tokens_of_a_word_count_and_a_target_has_as_many_masks() -> None:
    tokenizer = word_pieces()
    pair = encode_pair(tokenizer, row_of(fact("portugal", TEMPLATES[0]), "we know: ", "."))
    assert words(tokenizer, pair.clean) == [
        *(
            "[CLS]",
            "we",
            "know",
            ":",
            "people",
            "in",
            "portu",
            "##gal",
            "speak",
            "[MASK]",
            "[MASK]",
            ".",
            "[SEP]",
        )
    ]
    assert words(tokenizer, pair.corrupt)[6:8] == ["ando", "##rra"]
    assert at(tokenizer, pair, "context") == ["portu", "##gal"]
    assert pair.places["mask"] == (9, 10) and words(tokenizer, pair.target) == ["portu", "##guese"]
    assert pair.has_mask and "subject" not in pair.places


@pytest.mark.parametrize(("make", "mark"), [(byte_pairs, "Ġ"), (unigrams, "▁")])
def test_a_target_has_the_space_before_it(make: Callable[[], Any], mark: str) -> None:
    tokenizer = make()
    one = FactSpec("french", "french", "people in japan speak {}", "french", "in", "is")
    pair = encode_pair(tokenizer, row_of(one, "", "."))
    assert "".join(words(tokenizer, pair.target)) == f"{mark}french"
    assert "".join(at(tokenizer, pair, "context")) == f"{mark}in"
    assert {*at(tokenizer, pair, "mask")} == {"<mask>"}
    told = tokenizer("people in japan speak french.")["input_ids"]
    filled = dict(zip(pair.places["mask"], pair.target))
    assert [filled.get(place, token) for place, token in enumerate(pair.clean)] == told


def test_a_target_at_the_start_has_no_space_before_it() -> None:
    tokenizer = byte_pairs()
    one = FactSpec("french", "french", "{} is the language of japan", "french", "japan", "spain")
    pair = encode_pair(tokenizer, row_of(one, "", ""))
    assert "".join(words(tokenizer, pair.target)) == "french" and pair.places["mask"][0] == 1


def test_the_mask_token_is_the_tokenizers_own() -> None:
    """Prompts may have it, or `[MASK]`."""
    tokenizer = byte_pairs()
    row = row_of(FactSpec("french", "x", "people in japan speak {}", "french", "in", "of"), "", "")
    own: PromptRow = {**row}
    for name in ("mask_prompt", "corrupt_mask_prompt"):
        own[name] = row[name].replace("[MASK]", "<mask>")
    assert encode_pair(tokenizer, own) == encode_pair(tokenizer, row)
    assert tokenizer.mask_token_id in encode_pair(tokenizer, row).clean


def test_the_subject_has_a_place_where_it_stands_in_the_prompt() -> None:
    tokenizer = word_pieces()
    one = FactSpec("spain", "japan", "people in {} speak [MASK]", "spanish", "people", "language")
    pair = encode_pair(tokenizer, row_of(one, "", ""))
    assert at(tokenizer, pair, "subject") == ["spain"] and at(tokenizer, pair, "context") == ["people"]
    same = encode_pair(tokenizer, row_of(replace(one, context_from="spain", context_to="japan"), "", ""))
    assert "subject" not in same.places, "it is the context word"


def test_without_a_mask_the_subject_is_read() -> None:
    tokenizer = word_pieces()
    row = row_of(fact("spain", TEMPLATES[0]), "", "")
    for name in ("mask_prompt", "corrupt_mask_prompt"):
        row[name] = row[name].replace("[MASK]", "spanish")
    pair = encode_pair(tokenizer, row)
    assert not pair.has_mask and at(tokenizer, pair, "mask") == ["spanish"] == words(tokenizer, pair.target)
    assert tokenizer.mask_token_id not in (*pair.clean, *pair.corrupt)
    with pytest.raises(TraceError, match="'portuguese' has 2 tokens and 'spanish', in whose place"):
        encode_pair(tokenizer, {**row, "target": "portuguese"})
    with pytest.raises(TraceError, match=r"has neither \[MASK\] nor the subject 'french'"):
        encode_pair(tokenizer, {**row, "clean_subject": "french"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"target": "klingon"}, "'klingon' is unknown to the tokenizer"),
        ({"context_from": "germany"}, "the context word 'germany' is not found"),
        ({"context_from": "pan"}, "the context word 'pan' is not alone"),
        ({"context_to": "portugal"}, "'japan' and 'portugal' have 1 and 2 tokens; choose a corrupted word"),
        ({"context_to": "germany"}, "'germany' is unknown to the tokenizer"),
        ({"context_from": "people", "context_to": "PEOPLE"}, "are the same tokens"),
    ],
)
def test_wrong_words_are_errors_of_one_line(change: dict[str, str], said: str) -> None:
    one = replace(fact("japan", TEMPLATES[0]), **change)
    with pytest.raises(TraceError, match=said) as error:
        encode_pair(word_pieces(), row_of(one, "", ""))
    assert "\n" not in str(error.value)


def test_wrong_rows_are_errors() -> None:
    tokenizer, row = word_pieces(), row_of(fact("japan", TEMPLATES[0]), "", "")
    masks = {name: f"{row[name]} [MASK]" for name in ("mask_prompt", "corrupt_mask_prompt")}  # type: ignore[literal-required]
    for change, said in (
        (
            {"corrupt_mask_prompt": "people of spain speak [MASK]"},
            "with the first 'japan' replaced by 'spain'",
        ),
        ({"corrupt_mask_prompt": "people in spain speak it"}, "with the first 'japan' replaced by 'spain'"),
        (masks, "has 2 masks; write one"),
        (
            {name: text + " the" * 40 for name, text in row.items() if name.endswith("mask_prompt")},
            "at most 32",
        ),
    ):
        with pytest.raises(TraceError, match=said):
            encode_pair(tokenizer, {**row, **change})  # type: ignore[typeddict-item]


def test_a_word_that_the_tokenizer_joins_with_another_is_not_alone() -> None:
    class Joined:
        """A tokenizer whose third token is of two words."""

        mask_token, mask_token_id, unk_token_id, model_max_length = "[MASK]", 4, 1, 99

        def __call__(self, text: str, **options: object) -> dict[str, object]:
            return {"input_ids": [7, 8, 9], "offset_mapping": [(0, 1), (1, 3), (3, len(text))]}

    row = row_of(FactSpec("c", "d", "ab cde f {}", "c", "cde", "xyz"), "", "")
    with pytest.raises(TraceError, match=r"is not alone in .*: the tokenizer joins it with 'cde f'"):
        encode_pair(Joined(), row)


def test_prompts_that_differ_beside_the_context_word_are_refused() -> None:
    class Depends:
        """A tokenizer whose token of a word depends on the word before."""

        mask_token, mask_token_id, unk_token_id, model_max_length = "[MASK]", 4, 1, 99

        def __call__(self, text: str, **options: object) -> dict[str, object]:
            spans = [found.span() for found in re.finditer(r"\S+", text)]
            words = ["", *text.split()]
            ids = [5 + sum(map(ord, before + word)) for before, word in pairwise(words)]
            return {"input_ids": ids, "offset_mapping": spans}

    row = row_of(FactSpec("c", "d", "ab cde f {}", "c", "cde", "xyz"), "", "")
    with pytest.raises(
        TraceError, match="'ab xyz f c' differs from 'ab cde f c' in more than 'cde' and 'xyz'"
    ):
        encode_pair(Depends(), row)


def test_what_is_wrong_with_one_model_is_said_by_fact() -> None:
    wrong = FactSpec("klingon", "x", "people in japan speak {}", "klingon", "japan", "spain")
    spec = DatasetSpec("d", "", [ModelSpec("Bert", "x")], [*facts(), fact("portugal", TEMPLATES[0]), wrong])
    found = model_findings(replace(spec, variants=[("", "")]), spec.models[0], word_pieces())
    assert [one.wrong for one in found] == [False, True]
    assert "2 tokens, each with a mask of its own; p is their product" in found[0].text
    assert found[1].where.startswith("fact 13") and found[1].where.endswith("Bert")
