"""What a language model may call to trace facts: a dataset, traces, charts, and what they say.

The tools are plain methods that take and return text. An error is returned as text that begins with `error:`,
so that the model can mend what it asked for. Code that comes with a model is never executed, and nothing is
written outside of the workspace.
"""

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from interpbench.core.errors import InterpBenchError, TraceError
from interpbench.core.files import parse_json
from interpbench.core.text import shown
from interpbench.masked_lm.dataset_files import DATASET, generate_from_spec
from interpbench.masked_lm.fact_specs import DatasetSpec, read_spec
from interpbench.masked_lm.interpretation import interpretation, told
from interpbench.masked_lm.trace_report import draw_figures
from interpbench.masked_lm.trace_results import TRACE_RESULTS, load_results
from interpbench.masked_lm.trace_run import TraceSettings, check_spec, trace_spec

SPEC = "spec.json"
"""The name of the file with the specification that the tools have written."""


def _answered(function: Callable[..., str]) -> Callable[..., str]:
    """Returns a function that returns what a user can mend as text, instead of raising it."""

    @wraps(function)
    def answer(*arguments: Any, **named: Any) -> str:
        try:
            return function(*arguments, **named)
        except InterpBenchError as error:
            return f"error: {error}"

    return answer


class TraceTools:
    """The tools.

    Args:
        workspace: the folder below which results are written.
        local_files_only: whether the network must not be used for models.
        device: the device of torch.
    """

    def __init__(self, workspace: str | Path = ".", local_files_only: bool = False, device: str = "cpu"):
        self.workspace = Path(workspace).resolve()
        self.settings = TraceSettings(local_files_only=local_files_only, device=device)

    @property
    def all(self) -> list[Callable[..., str]]:
        """The tools, in the order in which they are used."""
        return [self.make_dataset, self.trace_facts, self.draw_charts, self.interpret]

    @_answered
    def make_dataset(self, spec_json: str) -> str:
        """Checks a specification of facts and models, and writes its prompts; nothing is traced yet.

        Args:
            spec_json: the specification as JSON, with the keys domain, description, models (name,
                huggingface_id), facts (clean_subject, corrupt_subject, template with {}, target,
                context_from, context_to), and perhaps variants ([prefix, suffix]) and output_dir, a relative
                path.
        """
        try:
            data = parse_json(spec_json)
        except ValueError as error:
            raise TraceError(f"the specification is not JSON: {error}") from None
        spec = self._placed(DatasetSpec.from_dict(data))
        findings = check_spec(spec, self.settings)
        wrong = [str(one) for one in findings if one.wrong]
        if wrong:
            return "error: " + "; ".join(wrong)
        folder = Path(spec.output_dir)
        spec.save(folder / SPEC)
        dataset, _ = generate_from_spec(spec, folder / DATASET)
        advice = "".join(f" Advice: {one}." for one in findings)
        said = f"{len(dataset)} prompts of {len(spec.facts)} facts are in the folder {self._named(folder)}."
        return said + advice

    @_answered
    def trace_facts(self, output_dir: str) -> str:
        """Traces all facts in all models, and writes results, charts and report; this takes minutes.

        Args:
            output_dir: the folder that make_dataset has named.
        """
        folder = self._folder(output_dir)
        results = trace_spec(self._placed(read_spec(folder / SPEC)), self.settings)
        said = {one.model_name: f"clean minus corrupted {told(one.difference)}" for one in results}
        return f"{json.dumps(said)}; see {TRACE_RESULTS} and report.md in {self._named(folder)}"

    @_answered
    def draw_charts(self, output_dir: str) -> str:
        """Draws the charts of results anew.

        Args:
            output_dir: the folder that make_dataset has named.
        """
        folder = self._folder(output_dir)
        return f"wrote {', '.join(draw_figures(load_results(folder / TRACE_RESULTS), folder))}"

    @_answered
    def interpret(self, output_dir: str) -> str:
        """Says in words what results say, and what they do not say.

        Args:
            output_dir: the folder that make_dataset has named.
        """
        return interpretation(load_results(self._folder(output_dir) / TRACE_RESULTS))

    def _placed(self, spec: DatasetSpec) -> DatasetSpec:
        """Returns a specification whose output folder is absolute, below the workspace."""
        return DatasetSpec.from_dict({**spec.to_dict(), "output_dir": str(self._folder(spec.output_dir))})

    def _folder(self, name: str) -> Path:
        """Returns a folder below the workspace.

        Raises:
            TraceError: if it is elsewhere.
        """
        folder = (self.workspace / name).resolve()
        if folder == self.workspace or not folder.is_relative_to(self.workspace):
            raise TraceError(f"output_dir {shown(name)} is not a folder below {self.workspace}")
        return folder

    def _named(self, folder: Path) -> str:
        return folder.relative_to(self.workspace).as_posix()
