"""Causal tracing of masked language models: where an encoder keeps what it needs to tell a fact.

* `fact_specs`: what is to be traced; `prompt_rows`, `dataset_files`: prompts; `fact_advice`: what is wrong.
* `encoded_pairs`: prompts as tokens, and where the words stand; `encoder_files`: loads models.
* `patch_sites`: the modules that are patched, found by shape; `causal_tracer`: patches them.
* `trace_results`: curves with intervals; `trace_figures`, `interpretation`, `trace_page`: what people read.
* `trace_run`: all of it, into a folder, resumable; `agent`: tools for a language model that drives it.
"""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.masked_lm.causal_tracer import CausalTracer
    from interpbench.masked_lm.dataset_files import generate_from_spec
    from interpbench.masked_lm.fact_specs import DatasetSpec, FactSpec, ModelSpec
    from interpbench.masked_lm.trace_figures import (
        plot_comparison,
        plot_heads,
        plot_heatmap,
        plot_patching_flow,
        plot_peak_bars,
    )
    from interpbench.masked_lm.trace_results import TraceResult, load_results, save_results

__all__ = [
    "CausalTracer",
    "DatasetSpec",
    "FactSpec",
    "ModelSpec",
    "TraceResult",
    "generate_from_spec",
    "load_results",
    "plot_comparison",
    "plot_heads",
    "plot_heatmap",
    "plot_patching_flow",
    "plot_peak_bars",
    "save_results",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "CausalTracer": "interpbench.masked_lm.causal_tracer",
        **dict.fromkeys(("DatasetSpec", "FactSpec", "ModelSpec"), "interpbench.masked_lm.fact_specs"),
        "generate_from_spec": "interpbench.masked_lm.dataset_files",
        **dict.fromkeys(
            ("plot_comparison", "plot_heads", "plot_heatmap", "plot_patching_flow", "plot_peak_bars"),
            "interpbench.masked_lm.trace_figures",
        ),
        **dict.fromkeys(
            ("TraceResult", "load_results", "save_results"), "interpbench.masked_lm.trace_results"
        ),
    },
)
