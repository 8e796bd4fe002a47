"""Traces everything that a specification names, into a folder: prompts, results, figures, report and page.

Each fact in each model is a file of its own, named after all that determines it: the weights, the tokens,
and what is patched. A run that was interrupted goes on with what is missing, and nothing that has changed
since is taken for what it was.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from interpbench.core.config import checked
from interpbench.core.errors import TraceError
from interpbench.core.files import locked, read_json, write_json
from interpbench.core.progress import Display
from interpbench.core.text import shown
from interpbench.masked_lm.causal_tracer import CausalTracer
from interpbench.masked_lm.dataset_files import DATASET, generate_from_spec
from interpbench.masked_lm.encoded_pairs import EncodedPair
from interpbench.masked_lm.encoder_files import load_tokenizer
from interpbench.masked_lm.fact_advice import Finding, model_findings, spec_findings
from interpbench.masked_lm.fact_specs import DatasetSpec
from interpbench.masked_lm.patch_sites import SITES
from interpbench.masked_lm.prompt_rows import by_fact, title_of
from interpbench.masked_lm.trace_report import write_reports
from interpbench.masked_lm.trace_results import TRACE_RESULTS, FactTrace, TraceResult, save_results

log = logging.getLogger(__name__)
FACTS = "facts"
"""The folder, in that of a run, with a file for each fact in each model."""
VERSION = 1
"""The version of how facts are traced: what an older one has traced is traced anew."""


@dataclass(frozen=True)
class TraceSettings:
    """How models are loaded and traced.

    Attributes:
        heads: whether to patch single heads, too.
        trust_remote_code: whether code that comes with a model may be executed.
        local_files_only: whether the network must not be used.
        device: the device of torch.
    """

    heads: bool = True
    trust_remote_code: bool = False
    local_files_only: bool = False
    device: str = "cpu"


def check_spec(spec: DatasetSpec, settings: TraceSettings = TraceSettings()) -> list[Finding]:
    """Returns what is wrong with a specification or could be better, for any model and for each.

    Only tokenizers are loaded. If something is wrong for any model, models are not asked.
    """
    found = spec_findings(spec)
    if any(one.wrong for one in found):
        return found
    for model in spec.models:
        try:
            tokenizer = load_tokenizer(
                model.huggingface_id, settings.trust_remote_code, settings.local_files_only
            )
        except TraceError as error:
            found.append(Finding(f"model {shown(model.name)}", str(error)))
            continue
        found += model_findings(spec, model, tokenizer)
    return found


def trace_spec(spec: DatasetSpec, settings: TraceSettings = TraceSettings()) -> list[TraceResult]:
    """Traces all facts in all models and writes everything to the specification's output folder.

    Raises:
        TraceError: if a model cannot be loaded, or a fact not be traced in one; nothing was run then.
    """
    for one in check_spec(spec, settings):
        if one.wrong:
            raise TraceError(str(one))
        log.info("%s", one)
    folder = Path(spec.output_dir)
    with locked(folder), Display(f"trace {spec.domain}", len(spec.models) * len(spec.facts)) as display:
        dataset, _ = generate_from_spec(spec, folder / DATASET)
        results: list[TraceResult] = []
        for number, model in enumerate(spec.models):
            before = number * len(spec.facts)
            display.pause(before, f"loading {model.name}")
            loading = {name: value for name, value in vars(settings).items() if name != "heads"}
            tracer = CausalTracer(model.name, model.huggingface_id, **loading)
            identity, facts = _identity(tracer), list[FactTrace]()
            for rows in by_fact(dataset):
                facts.append(
                    _fact(tracer, title_of(rows[0]), tracer.encode(rows), folder, settings.heads, identity)
                )
                display.update(before + len(facts), model.name)
            tracer.release()
            results.append(TraceResult(model.name, model.huggingface_id, facts))
        save_results(results, folder / TRACE_RESULTS)
        write_reports(spec, results, folder)
    return results


def _fact(
    tracer: CausalTracer, title: str, pairs: Sequence[EncodedPair], folder: Path, heads: bool, identity: str
) -> FactTrace:
    """Returns the trace of a fact, which is read if it has been written.

    Args:
        tracer: the tracer of the model.
        title: what to call the fact.
        pairs: its prompts.
        folder: the folder of the run.
        heads: whether to patch single heads, too.
        identity: what tells the model from others.
    """
    told = json.dumps([VERSION, identity, SITES, heads, [asdict(pair) for pair in pairs]], sort_keys=True)
    path = folder / FACTS / f"{hashlib.sha256(told.encode()).hexdigest()[:32]}.json"
    if path.is_file():
        try:
            return replace(checked(FactTrace, read_json(path, TraceError), path, TraceError), fact=title)
        except TraceError as error:
            log.warning("%s; it is traced anew", error)
    found = tracer.trace_fact(title, pairs, heads=heads)
    write_json(path, asdict(found))  # pyright: ignore[reportArgumentType]  a dataclass of pydantic is one
    return found


def _identity(tracer: CausalTracer) -> str:
    """Returns the SHA-256 of a model's configuration and weights."""
    found = hashlib.sha256(tracer.model.config.to_json_string().encode())
    for name, value in sorted(tracer.model.state_dict().items()):
        found.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        found.update(value.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
