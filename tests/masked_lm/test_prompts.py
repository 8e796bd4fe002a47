"""Specifications as JSON, and the prompts that are made of them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from interpbench.core.errors import ConfigError, TraceError
from interpbench.masked_lm import DatasetSpec, FactSpec, ModelSpec, generate_from_spec
from interpbench.masked_lm.fact_advice import spec_findings
from interpbench.masked_lm.fact_specs import DEFAULT_VARIANTS, read_spec
from interpbench.masked_lm.prompt_rows import by_fact, title_of
from tests.masked_models import facts

SQL = FactSpec(
    clean_subject="SQL",
    corrupt_subject="HTML",
    template="The attack on a database is known as {} injection",
    target="SQL",
    context_from="database",
    context_to="mailbox",
)
PUBLISHED = {
    "domain": "security",
    "description": "Which model knows it?",
    "models": [{"name": "Modern", "huggingface_id": "owner/name"}],
    "facts": [
        {
            **{"clean_subject": "SQL", "corrupt_subject": "HTML", "target": "SQL"},
            "template": "The attack on a database is known as {} injection",
            **{"context_from": "database", "context_to": "mailbox"},
        }
    ],
    "variants": [["", ""], ["In short: ", "."]],
    "output_dir": "output",
}
KEYS = {
    *("clean_subject", "corrupt_subject", "template", "context_from", "context_to", "clean_prompt"),
    *("corrupt_prompt", "mask_prompt", "corrupt_mask_prompt", "target"),
}


def spec_of(fact: FactSpec, tmp_path: Path, **more: object) -> DatasetSpec:
    made = DatasetSpec("d", "", [ModelSpec("m", "owner/name")], [fact], [("", "")], str(tmp_path))
    return replace(made, **more)  # type: ignore[arg-type]


def test_a_specification_is_the_same_after_json(tmp_path: Path) -> None:
    spec = DatasetSpec.from_dict(PUBLISHED)
    assert spec.facts == [SQL] and spec.to_dict() == PUBLISHED
    spec.save(tmp_path / "spec.json")
    assert read_spec(tmp_path / "spec.json") == spec
    assert json.loads((tmp_path / "spec.json").read_text()) == PUBLISHED
    short = {key: value for key, value in PUBLISHED.items() if key not in ("variants", "output_dir")}
    made = DatasetSpec.from_dict(short)
    assert made.variants is None and made.output_dir == "output" and made.phrasings == list(DEFAULT_VARIANTS)
    made.save(tmp_path / "short.json")
    assert read_spec(tmp_path / "short.json") == made


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fact": []}, "fact: unknown key; did you mean facts"),
        (
            {"facts": [{**PUBLISHED["facts"][0], "templat": "x"}]},
            "facts.0.templat: unknown key; did you mean template",
        ),  # type: ignore[index]
        ({"models": [{"name": "x"}]}, "models.0.huggingface_id: required, but missing"),
        ({"variants": [["a"]]}, "variants.0.1"),
        ({"domain": 3}, "domain"),
    ],
)
def test_a_wrong_key_or_value_is_named(change: dict[str, object], said: str, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({**PUBLISHED, **change}))
    with pytest.raises(ConfigError, match=said.replace(".", r"\.")) as error:
        read_spec(tmp_path / "spec.json")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["[]", "{", "3"])
def test_a_file_that_is_no_specification_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(text)
    with pytest.raises(ConfigError, match=r"spec\.json"):
        read_spec(tmp_path / "spec.json")


def test_rows_are_facts_times_variants(tmp_path: Path) -> None:
    spec = DatasetSpec.from_dict({**PUBLISHED, "output_dir": str(tmp_path)})
    dataset, config = generate_from_spec(spec, save_path=str(tmp_path / "dataset.json"))
    assert len(dataset) == 2 and all(set(row) == KEYS for row in dataset)
    assert dataset[1]["clean_prompt"] == "In short: The attack on a database is known as SQL injection."
    assert dataset[1]["corrupt_prompt"] == "In short: The attack on a database is known as HTML injection."
    assert dataset[1]["mask_prompt"] == "In short: The attack on a database is known as [MASK] injection."
    assert (
        dataset[1]["corrupt_mask_prompt"] == "In short: The attack on a mailbox is known as [MASK] injection."
    )
    assert json.loads((tmp_path / "dataset.json").read_text()) == dataset
    assert json.loads((tmp_path / "run_config.json").read_text()) == config
    assert config["num_facts"] == 1 and config["num_prompts"] == 2 and config["models"] == PUBLISHED["models"]
    assert (
        len(by_fact(dataset)) == 1
        and title_of(dataset[0]) == "The attack on a database is known as SQL injection"
    )


def test_a_path_that_is_no_json_is_a_folder(tmp_path: Path) -> None:
    generate_from_spec(DatasetSpec.from_dict(PUBLISHED), save_path=tmp_path / "made")
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["dataset.json", "run_config.json"]


def test_five_variants_by_default_and_the_first_is_empty(tmp_path: Path) -> None:
    spec = replace(spec_of(SQL, tmp_path), variants=None)
    dataset, _ = generate_from_spec(spec)
    assert len(dataset) == 5 and dataset[0]["clean_prompt"] == SQL.template.replace("{}", "SQL")
    assert (tmp_path / "dataset.json").is_file(), "in the specification's folder"


def test_a_template_may_say_where_its_mask_is(tmp_path: Path) -> None:
    """Then the subject stays in the prompt, and may be the word that is corrupted."""
    fact = FactSpec("France", "Italy", "The capital of {} is [MASK]", "Paris", "France", "Italy")
    ((row,), _) = generate_from_spec(spec_of(fact, tmp_path))
    assert row["mask_prompt"] == "The capital of France is [MASK]"
    assert row["corrupt_mask_prompt"] == "The capital of Italy is [MASK]"
    assert row["clean_prompt"] == "The capital of France is Paris"
    assert row["corrupt_prompt"] == "The capital of Italy is Paris"
    assert title_of(row) == "The capital of France is Paris"


def test_only_the_first_context_word_is_replaced_and_that_is_said(tmp_path: Path) -> None:
    fact = replace(SQL, template="a database in a database is a {}")
    ((row,), _) = generate_from_spec(spec_of(fact, tmp_path))
    assert row["corrupt_mask_prompt"] == "a mailbox in a database is a [MASK]"
    assert "stands 2 times" in " ".join(map(str, spec_findings(spec_of(fact, tmp_path))))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"template": "no place for a database"}, r"its template has 0 \{\}"),
        ({"template": "{} and {} in a database"}, r"its template has 2 \{\}"),
        ({"template": "{} [MASK] database [MASK]"}, r"its template has 2 \[MASK\]"),
        ({"context_from": "Database"}, "'Database' is not found in"),
        ({"context_from": "base"}, "'base' is not alone in .* a part of a longer word"),
        ({"context_from": "MASK"}, "'MASK' is not found in"),
        ({"context_to": "database"}, "nothing is corrupted"),
        ({"context_to": "[MASK]"}, "changes the mask"),
        ({"target": " "}, "its target is empty"),
        ({"target": " SQL"}, "begins or ends with a space"),
    ],
)
def test_what_is_wrong_with_a_fact_is_one_line(change: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=said) as error:
        generate_from_spec(spec_of(replace(SQL, **change), tmp_path))
    assert str(error.value).startswith("fact 0 (") and "\n" not in str(error.value)
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_the_whole_specification_is_checked(tmp_path: Path) -> None:
    spec = spec_of(SQL, tmp_path, facts=[SQL, SQL], variants=[])
    models = [ModelSpec("m", "a/b"), ModelSpec("m", " ")]
    said = [str(one) for one in spec_findings(replace(spec, models=models)) if one.wrong]
    assert said == [
        "variants: there is none",
        "model m: several models have this name; results are listed by it",
        "model 1: its name and its huggingface_id need some text",
        f"fact 1 ({SQL.template!r}): it is fact 0 once more",
    ]
    with pytest.raises(TraceError, match="and 1 more, which --check lists"):
        generate_from_spec(spec)


def test_advice(tmp_path: Path) -> None:
    fact = replace(SQL, template="SQL, a database, has {} in it.", corrupt_subject="SQL")
    advice = [one.text for one in spec_findings(spec_of(fact, tmp_path, variants=[("", ".")]))]
    assert not any(one.wrong for one in spec_findings(spec_of(fact, tmp_path)))
    for said in ("can be copied", "corrupt_subject is its clean_subject", "8 to 12 are advised", "full stop"):
        assert any(said in text for text in advice), said
    eight = spec_of(SQL, tmp_path, facts=facts()[:8])
    assert spec_findings(eight) == []


def test_a_damaged_dataset_is_refused() -> None:
    with pytest.raises(TraceError, match="the dataset has no prompts"):
        by_fact([])
    with pytest.raises(TraceError, match="prompt 0 of the dataset has no text 'clean_subject'"):
        by_fact([{"target": "x"}])  # type: ignore[typeddict-item]
