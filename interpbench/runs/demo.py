"""The demo: trains `frac_prevs` until certified, scores three methods on it, writes a report."""

import logging
from pathlib import Path

from interpbench.core.console import console
from interpbench.reports.certificates import certificate_table
from interpbench.reports.drawing import draw_circuit
from interpbench.reports.report import write_report
from interpbench.reports.tables import records_table
from interpbench.runs.evaluate import evaluate_checkpoint
from interpbench.runs.evaluate_settings import EvaluateConfig
from interpbench.runs.evaluations_page import PAGE, write_folder_page
from interpbench.runs.result_files import results_folder
from interpbench.runs.train import train
from interpbench.runs.train_settings import TrainConfig

log = logging.getLogger(__name__)
TASK = "frac_prevs"
METHODS = ("acdc", "eap_ig", "random")


def demo(out: str) -> bool:
    """Trains, scores, reports; returns whether the network was certified."""
    folder = Path(out)
    outcome = train(TrainConfig(task=TASK, device="cpu", out=str(folder / "train")))
    log.info("%s", outcome.line(TASK))
    checkpoint, pictures = outcome.checkpoint, results_folder(out, TASK, outcome.folder)
    settings = EvaluateConfig(
        {"name": METHODS[0]}, list(METHODS), out=str(folder), device="cpu", thorough=False
    )
    made = evaluate_checkpoint(checkpoint, settings)
    records = list(made.values())
    terminal = console()
    terminal.print(certificate_table(outcome.certificate))
    terminal.print(records_table(records, terminal.width))
    draw_circuit(checkpoint.truth, pictures / "truth.png", checkpoint.variables, title=f"{TASK}: the truth")
    shown = [
        pictures / name for name in ("truth.png", "roc.png", *(f"circuit-{name}.png" for name in METHODS))
    ]
    report = write_report(folder, records, {TASK: outcome.certificate}, {TASK: shown})
    log.info("report:     %s\ncheckpoint: %s\npictures:   %s", report, outcome.folder, pictures)
    write_folder_page(folder / TASK, [checkpoint], folder / PAGE, made)
    return outcome.certified
