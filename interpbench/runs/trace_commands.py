"""The command that traces facts in masked language models."""

import argparse
import logging

from interpbench.core.errors import ConfigError
from interpbench.core.files import check_writable
from interpbench.core.text import shown
from interpbench.masked_lm.fact_advice import spec_findings
from interpbench.masked_lm.fact_specs import DatasetSpec, read_spec
from interpbench.runs.device import check_device
from interpbench.runs.subcommand import argument, subcommand

log = logging.getLogger(__name__)


@subcommand(
    "trace",
    "find where masked language models restore facts, by causal tracing",
    argument("spec", metavar="SPEC.json", help="domain, models, facts, variants, output_dir"),
    argument("--check", action="store_true", help="say what is wrong or could be better; trace nothing"),
    argument("--out", metavar="FOLDER", help="where to; the specification's output_dir by default"),
    argument("--no-heads", action="store_true", help="patch no single heads, which takes most of the time"),
    argument("--offline", action="store_true", help="use no network; models are in the cache or in folders"),
    argument("--trust-remote-code", action="store_true", help="execute code that comes with a model"),
    argument("--device", default="auto", help="auto, cpu, cuda or cuda:1"),
)
def _trace(arguments: argparse.Namespace) -> int:
    check_device(arguments.device)
    spec = read_spec(arguments.spec)
    if arguments.out:
        spec = DatasetSpec.from_dict({**spec.to_dict(), "output_dir": arguments.out})
    wrong = [one for one in spec_findings(spec) if one.wrong]
    if wrong and not arguments.check:
        raise ConfigError(f"{shown(arguments.spec)}: {wrong[0]}")
    if not arguments.check:
        from pathlib import Path

        check_writable(Path(spec.output_dir))
    from interpbench.core.process import prepare_torch
    from interpbench.masked_lm.trace_run import TraceSettings, check_spec, trace_spec
    from interpbench.runs.device import select_device

    settings = TraceSettings(
        heads=not arguments.no_heads,
        trust_remote_code=arguments.trust_remote_code,
        local_files_only=arguments.offline,
        device=str(select_device(arguments.device)),
    )
    if arguments.check:
        findings = check_spec(spec, settings)
        for one in findings:
            log.info("%s: %s", "wrong" if one.wrong else "advice", one)
        log.info("%s", _verdict(sum(one.wrong for one in findings), len(findings)))
        return 1 if any(one.wrong for one in findings) else 0
    prepare_torch()
    trace_spec(spec, settings)
    log.info("wrote %s", spec.output_dir)
    return 0


def _verdict(wrong: int, findings: int) -> str:
    """Returns what a check says at its end."""
    pieces = findings - wrong
    advice = f"{pieces} {'piece' if pieces == 1 else 'pieces'} of advice"
    return f"{wrong} wrong, {advice}; nothing was traced" if wrong else f"nothing is wrong; {advice}"
