"""Causal scrubbing of a checkpoint against its own program, or against a circuit that a method found."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import TypeAdapter
from rich.console import Console

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Trace
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.io.score_files import read_scores
from interpbench.circuits.scores import Scores
from interpbench.core import seeds
from interpbench.core.errors import InterpBenchError, TaskError
from interpbench.core.files import write_json, write_text
from interpbench.core.process import prepare_torch
from interpbench.core.text import shown
from interpbench.core.user_code import blamed, is_own, own_name, said
from interpbench.reports.scrubbing_page import PathInput, scrubbing_page
from interpbench.reports.tables import rows_table
from interpbench.runs.subject import subject_of
from interpbench.scrubbing.by_hand import HYPOTHESES, Written
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import PathDraws, Sampling
from interpbench.scrubbing.positions import PositionDraws, position_classes, scrub_positions
from interpbench.scrubbing.program_claims import (
    PROGRAM_LEVELS,
    position_values,
    program_hypothesis,
    structure_hypothesis,
)
from interpbench.scrubbing.recovered import Recovered, ScoredLabels, recovered
from interpbench.scrubbing.residual import ScrubbedNetwork
from interpbench.scrubbing.vacuity import ClaimReport, NegativeTest, claim_reports, negative_tests
from interpbench.tasks.task import Task
from interpbench.transformer.model import Transformer

log = logging.getLogger(__name__)
SAMPLINGS: tuple[Sampling, ...] = ("node", "edge", "global", "exact")
POSITIONS = "positions"
"""The name of the hypothesis with a claim for each node at each position."""
MOST_INPUTS = 1024
"""The number of inputs among which claims exchange theirs; all of a task's if there are no more."""


@dataclass(frozen=True)
class ScrubReport:
    """What scrubbing says of a network.

    Attributes:
        task: the name of the task.
        inputs: the number of inputs.
        samples: the number of samples of each number.
        paths: the number of paths of each hypothesis that is run path by path.
        results: what is recovered, by hypothesis and by how unimportant parents are resampled.
        claims: how much each claim of the strongest hypothesis says, by node.
        negative: the negative test of each node that carries variables.
        example: the inputs of the first sample of the strongest hypothesis that is run path by path.
    """

    task: str
    inputs: int
    samples: int
    paths: dict[str, int]
    results: dict[str, dict[Sampling, Recovered]]
    claims: dict[str, ClaimReport]
    negative: dict[str, NegativeTest]
    example: tuple[PathInput, ...] = ()

    def save_page(self, path: str | Path) -> None:
        """Writes a page with what is recovered, and the inputs of one sample on all paths."""
        title = f"Causal scrubbing of {self.task}"
        write_text(Path(path), scrubbing_page(title, self.results, self.example))

    def save(self, path: str | Path) -> None:
        """Writes the report as JSON."""
        write_json(Path(path), TypeAdapter(ScrubReport).dump_python(self, mode="json"))


def scrub_program(
    network: Transformer,
    alignment: Alignment,
    circuit: np.ndarray,
    *,
    found: np.ndarray | None = None,
    written: str | None = None,
    inputs: int = MOST_INPUTS,
    samples: int = 1000,
    samplings: Sequence[Sampling] = SAMPLINGS,
    seed: int = 0,
    claims: bool = True,
) -> ScrubReport:
    """Scrubs a network against its program, or against a circuit alone.

    Args:
        network: the network.
        alignment: the nodes of the program's variables.
        circuit: the edges of the program's circuit, bool `[R, W]`.
        found: the edges of another circuit, which is scrubbed instead; None for the program.
        written: the name of a hypothesis of the user's, `path/to/file.py:name`, which is scrubbed instead.
        inputs: the number of inputs.
        samples: the number of samples.
        samplings: how unimportant parents are resampled, each in turn.
        seed: the seed of inputs and draws.
        claims: whether to measure how much each claim says, and the negative tests.

    Raises:
        TaskError: if a hypothesis has too many paths.
    """
    task = alignment.task
    tokens = inputs_of(task, inputs, seed)
    trace = task.causal_model.run(tokens)
    labels = trace[task.causal_model.output]
    behaviour = ScoredLabels(labels, task.scored(labels), task.causal_model.numerical, task.tolerance)
    ids = torch.from_numpy(task.token_ids(tokens)).to(network.unembed.W_U.device)
    scrubbed = ScrubbedNetwork(network, ids)
    hypotheses = _hypotheses(alignment, circuit, found, trace)
    if written is not None:
        hypotheses = {written.rpartition(":")[2]: _made(written, tokens, trace)}
    lengths = Classes.of((tokens >= 0).sum(1), len(tokens))
    results: dict[str, dict[Sampling, Recovered]] = {}
    for name, hypothesis in hypotheses.items():
        results[name] = {}
        for sampling in samplings:
            draws = PathDraws(seed, samples, lengths, sampling)
            logits = scrubbed.scrub(hypothesis, draws)
            results[name][sampling] = recovered(behaviour, logits, scrubbed.logits, draws.root, seed)
    paths = {name: sum(hypothesis.paths.values()) for name, hypothesis in hypotheses.items()}
    reports: dict[str, ClaimReport] = {}
    negative: dict[str, NegativeTest] = {}
    of_program = found is None and written is None
    if of_program:
        strict = program_hypothesis(alignment, circuit, trace, "split")
        values = position_values(alignment, trace)
        results[POSITIONS] = {
            sampling: _by_position(scrubbed, strict, values, behaviour, lengths, sampling, seed)
            for sampling in samplings
            if sampling in ("node", "exact")
        }
    if claims and of_program:
        draws = PathDraws(seed, samples, lengths)
        reports = claim_reports(scrubbed, hypotheses[PROGRAM_LEVELS[-1]], draws, behaviour)
        tests = negative_tests(scrubbed, alignment, trace, behaviour, draws)
        negative = {str(node): test for node, test in tests.items()}
    example = _example(
        scrubbed, list(hypotheses.values())[-1], PathDraws(seed, samples, lengths), task, tokens
    )
    return ScrubReport(task.name, len(tokens), samples, paths, results, reports, negative, example)


def _example(
    scrubbed: ScrubbedNetwork, hypothesis: Hypothesis, draws: PathDraws, task: Task, tokens: np.ndarray
) -> tuple[PathInput, ...]:
    """Returns the inputs of the first sample on all paths.

    Args:
        scrubbed: the network.
        hypothesis: the hypothesis.
        draws: the draws.
        task: the task.
        tokens: the inputs, `[N, pos]`.
    """
    found: list[PathInput] = []
    for claim, paths in scrubbed.paths(hypothesis, draws).items():
        values = hypothesis.claims[claim].values
        for name, inputs in zip(paths.names, paths.inputs):
            row = tokens[inputs[0]]
            text = " ".join(str(task.vocab[code]) for code in row if code >= 0)
            known = () if values is None else np.asarray(values)[inputs[0]].reshape(-1).tolist()
            agrees = " ".join(
                f"{value:g}" if isinstance(value, int | float) else str(value) for value in known
            )
            found.append(PathInput(name, text, agrees))
    return tuple(found)


def _by_position(
    scrubbed: ScrubbedNetwork,
    hypothesis: Hypothesis,
    values: Mapping[str, np.ndarray],
    behaviour: ScoredLabels,
    lengths: Classes,
    sampling: Sampling,
    seed: int,
) -> Recovered:
    """Returns what is recovered with a claim for each node at each position.

    Args:
        scrubbed: the network.
        hypothesis: which nodes read which.
        values: the values of nodes, `[N, pos, variable]`, by name; those of other nodes agree with none.
        behaviour: the behaviour that is to be recovered.
        lengths: the classes of inputs of one length.
        sampling: how unimportant parents are resampled.
        seed: the seed of draws.
    """
    count, length = scrubbed.count, scrubbed.logits.shape[1]
    classes = dict.fromkeys(hypothesis.claims, [Classes.of(None, count)] * length)
    classes |= position_classes(values, length, lengths.ids)
    draws = PositionDraws(seed, count, length, lengths, sampling)
    logits = scrub_positions(scrubbed, hypothesis, classes, draws)
    return recovered(behaviour, logits, scrubbed.logits, np.arange(count), seed)


def _hypotheses(
    alignment: Alignment, circuit: np.ndarray, found: np.ndarray | None, trace: Trace
) -> dict[str, Hypothesis]:
    """Returns the hypotheses by name, the strongest last."""
    if found is not None:
        return {"circuit": structure_hypothesis(alignment.graph, found, split=True)}
    return {level: program_hypothesis(alignment, circuit, trace, level) for level in PROGRAM_LEVELS}


def inputs_of(task: Task, count: int, seed: int) -> np.ndarray:
    """Returns inputs `[N, pos]` that have an answer: all of a task's if there are no more, else drawn.

    Args:
        task: the task.
        count: the number of inputs that are drawn.
        seed: the seed.

    Raises:
        TaskError: if fewer than two have an answer.
    """
    domain = task.domain
    tokens = (
        domain.all() if domain.size <= count else domain.draw(seeds.generator(seed, "scrub inputs"), count)
    )
    answered = task.scored(task.causal_model.outputs(tokens)).any(1)
    if answered.sum() < 2:
        raise TaskError(f"task {task.name}: fewer than two of {len(tokens)} inputs have an answer")
    return tokens[answered]


def scrub_checkpoint(
    name: str,
    *,
    circuit: str | Path | None = None,
    hypothesis: str | None = None,
    inputs: int = MOST_INPUTS,
    samples: int = 1000,
    seed: int = 0,
) -> ScrubReport:
    """Scrubs a checkpoint, as `scrub_program` does.

    Args:
        name: the checkpoint, as `interpbench.load` takes it.
        circuit: a file of scores or of a circuit, in any form that `read_scores` knows: as many of its best
            edges as the program's circuit has are scrubbed instead of the program; None for the program.
        hypothesis: a hypothesis of the user's, `path/to/file.py:name`, which is scrubbed instead.
        inputs: the number of inputs.
        samples: the number of samples.
        seed: the seed of inputs and draws.

    Raises:
        InterpBenchError: if there is no such checkpoint, or the file cannot be read.
    """
    prepare_torch()
    checkpoint = load_checkpoint(find_checkpoint(name), certificate=False)
    subject = subject_of(checkpoint)
    if hypothesis is not None:
        own_hypothesis(hypothesis)
    count = int(subject.truth.circuit.sum())
    found = None if circuit is None else best_edges(Path(circuit), checkpoint, count)
    return scrub_program(
        checkpoint.network,
        subject.alignment,
        subject.truth.circuit,
        found=found,
        written=hypothesis,
        inputs=inputs,
        samples=samples,
        seed=seed,
    )


def _made(written: str, tokens: np.ndarray, trace: Trace) -> Hypothesis:
    """Returns what a user's function makes of some inputs.

    Args:
        written: `path/to/file.py:name`.
        tokens: the inputs, `[N, pos]`.
        trace: the program's variables on the inputs, `[N, pos]` each.

    Raises:
        TaskError: in one line with file and line, if it fails or returns anything else.
    """
    function = own_hypothesis(written)
    try:
        found = function(tokens, trace)
    except InterpBenchError:
        raise
    except Exception as error:
        raise TaskError(blamed(error) or f"{written}: {said(error)}") from error
    if not isinstance(found, Hypothesis):
        raise TaskError(f"{written} returns {type(found).__name__}, not a hypothesis; see circuit_hypothesis")
    return found


def own_hypothesis(text: str) -> Written:
    """Returns a hypothesis of the user's, whose file is imported.

    Args:
        text: `path/to/file.py:name`.

    Raises:
        InterpBenchError: if there is no such file or hypothesis.
    """
    if not is_own(text):
        raise TaskError(f"{shown(text)!r} names no file; write path/to/file.py:name")
    name = own_name(text, lambda: HYPOTHESES, lambda function: function.__module__, TaskError)
    return HYPOTHESES[name]


def best_edges(path: Path, checkpoint: Checkpoint, count: int) -> np.ndarray:
    """Returns the circuit of a file, or its best edges, bool `[R, W]`.

    Args:
        path: the file.
        checkpoint: the checkpoint that it is of.
        count: the number of edges, if the file has scores only.
    """
    graph = checkpoint.network.cfg.graph
    read = read_scores(path, graph)
    if read.circuit is not None:
        return read.circuit & graph.legal
    return best_edges_of(read.scores, count)


def best_edges_of(scores: Scores, count: int) -> np.ndarray:
    """Returns so many of the edges with the highest scores, bool `[R, W]`; of equal ones, the first."""
    legal = scores.graph.legal
    values = np.where(legal, scores.edges, -np.inf)
    chosen = np.argsort(-values, axis=None, kind="stable")[:count]
    return np.isin(np.arange(values.size), chosen).reshape(values.shape) & legal


def show_report(console: Console, report: ScrubReport) -> None:
    """Prints a report."""
    console.print(rows_table([_result(name, report) for name in report.results]))
    first = next(iter(next(iter(report.results.values())).values()))
    log.info(
        "%s: %d inputs, %d samples; the loss of the network is %.4g, of its outputs on other inputs %.4g, of "
        "the best constant %.4g",
        *(report.task, report.inputs, report.samples),
        *(first.network.value, first.shuffled.value, first.constant),
    )
    if report.claims:
        console.print(rows_table([_claim(name, report) for name in reversed(report.claims)]))
        log.info(
            "a claim is vacuous where inputs are alone; one that survives other inputs' values says nothing"
        )


def _result(name: str, report: ScrubReport) -> dict[str, object]:
    row: dict[str, object] = {"hypothesis": name, "paths": report.paths.get(name)}
    row |= {f"% ({sampling})": percent(one) for sampling, one in report.results[name].items()}
    first = next(iter(report.results[name].values()))
    return row | {"loss": round(first.scrubbed.value, 4), "answers changed": round(first.changed.value, 4)}


def _claim(name: str, report: ScrubReport) -> dict[str, object]:
    one, test = report.claims[name], report.negative.get(name)
    row: dict[str, object] = {"claim about": name, "inputs alone": round(one.alone, 3)}
    row["effective class"] = round(one.effective_size, 1)
    row["% with others' values"] = "–" if one.permuted is None else f"{one.permuted.value:.1f}"
    row["of another class: right"] = "–" if test is None else f"{test.right.value:.3f}"
    row["of which it matters"] = "–" if test is None else f"{test.matters:.3f}"
    row["of its class: right"] = "–" if test is None else f"{test.kept.value:.3f}"
    return row


def percent(one: Recovered) -> str:
    """Returns the percentage of the loss that is recovered, with its interval, or a dash."""
    if one.percent is None:
        return "–"
    value, low, high = (f"{number:.1f}" for number in (one.percent.value, *one.percent.ends))
    return value if low == value == high else f"{value} [{low}, {high}]"
