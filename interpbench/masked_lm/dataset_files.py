"""Writes the prompts of a specification, after a check of it."""

from pathlib import Path
from typing import Any

from interpbench.core.errors import TraceError
from interpbench.core.files import write_json
from interpbench.masked_lm.fact_advice import spec_findings
from interpbench.masked_lm.fact_specs import DatasetSpec
from interpbench.masked_lm.prompt_rows import PromptRow, row_of

DATASET, RUN_CONFIG = "dataset.json", "run_config.json"
"""The names of the files of all prompts, and of what they were made from."""


def generate_from_spec(
    spec: DatasetSpec, save_path: str | Path | None = None
) -> tuple[list[PromptRow], dict[str, Any]]:
    """Returns the prompts of a specification, and what they are made from; writes both.

    Args:
        spec: the specification.
        save_path: the file of the prompts, called `….json`, beside which `run_config.json` is written, or a
            folder for both; None for the specification's output folder.

    Raises:
        TraceError: if a fact cannot be traced with any model; the message says which, and why.
    """
    wrong = [one for one in spec_findings(spec) if one.wrong]
    if wrong:
        more = f"; and {len(wrong) - 1} more, which --check lists" if len(wrong) > 1 else ""
        raise TraceError(f"{wrong[0]}{more}")
    dataset = [row_of(fact, *variant) for fact in spec.facts for variant in spec.phrasings]
    data = spec.to_dict()
    config = {
        **{name: data[name] for name in ("domain", "description", "models", "output_dir")},
        "variants": [list(variant) for variant in spec.phrasings],
        "num_facts": len(spec.facts),
        "num_prompts": len(dataset),
    }
    path = Path(spec.output_dir if save_path is None else save_path)
    path = path if path.suffix == ".json" and save_path is not None else path / DATASET
    write_json(path, dataset)
    write_json(path.with_name(RUN_CONFIG), config)
    return dataset, config
