"""Causal scrubbing of a checkpoint against its own program, or against a circuit that a method found."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Trace
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.io.score_files import read_scores
from interpbench.circuits.scores import Scores
from interpbench.core import seeds
from interpbench.core.errors import TaskError
from interpbench.core.process import prepare_torch
from interpbench.reports.scrubbing_page import PathInput
from interpbench.runs.scrub_report import ScrubReport
from interpbench.runs.subject import subject_of
from interpbench.scrubbing.by_hand import made_by, own_hypothesis
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.donors import with_donors
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import PathDraws, Sampling
from interpbench.scrubbing.positions import PositionDraws, position_classes, scrub_positions
from interpbench.scrubbing.program_claims import (
    PROGRAM_LEVELS,
    attended_sources,
    position_values,
    program_hypothesis,
    structure_hypothesis,
)
from interpbench.scrubbing.recovered import Recovered, ScoredLabels, recovered
from interpbench.scrubbing.refine import refinements
from interpbench.scrubbing.residual import ScrubbedNetwork
from interpbench.scrubbing.soft_classes import softened
from interpbench.scrubbing.vacuity import ClaimReport, NegativeTest, claim_reports, negative_tests
from interpbench.tasks.task import Task
from interpbench.transformer.model import Transformer

SAMPLINGS: tuple[Sampling, ...] = ("node", "edge", "global", "exact")
POSITIONS, SOURCES = "positions", "sources"
"""The names of the hypotheses with a claim for each node at each position: about its values alone, and also
about the positions that heads attend to."""
BY_POSITION = POSITIONS, SOURCES
MANY = 8
"""The number of tokens whose counts are among the features that refine claims."""
MOST_INPUTS = 1024
"""The number of inputs among which claims exchange theirs; all of a task's if there are no more."""


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
    donors: bool = False,
    soft: float | None = None,
    refine: bool = False,
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
        donors: whether to add inputs that agree with those with whom no other does.
        soft: the width of the kernel by which inputs with similar numbers are exchanged, as a share of their
            standard deviation, for a further hypothesis; None for no such hypothesis.
        refine: whether to measure what further features change in the claims of the strongest hypothesis.

    Raises:
        TaskError: if a hypothesis has too many paths, has no claim about numbers that `soft` could be of, or
            the task's inputs have no donors.
    """
    task = alignment.task
    tokens = inputs_of(task, inputs, seed)
    if donors:
        tokens = with_donors(alignment, tokens, seed)
    trace = task.causal_model.run(tokens)
    labels = trace[task.causal_model.output]
    behaviour = ScoredLabels(labels, task.scored(labels), task.causal_model.numerical, task.tolerance)
    ids = torch.from_numpy(task.token_ids(tokens)).to(network.unembed.W_U.device)
    scrubbed = ScrubbedNetwork(network, ids)
    hypotheses = _hypotheses(alignment, circuit, found, trace)
    if written is not None:
        hypotheses = {written.rpartition(":")[2]: made_by(written, tokens, trace)}
    lengths = Classes.of((tokens >= 0).sum(1), len(tokens))
    results: dict[str, dict[Sampling, Recovered]] = {}
    strongest = list(hypotheses.values())[-1]
    kinds: dict[str, tuple[Hypothesis, dict[str, Classes] | None]] = {
        name: (hypothesis, None) for name, hypothesis in hypotheses.items()
    }
    if soft is not None:
        numbers = _numbers(alignment) if written is None else _floats(strongest)
        kinds[f"{list(hypotheses)[-1]}, soft"] = strongest, softened(strongest, numbers, soft, lengths)
    for name, (hypothesis, classes) in kinds.items():
        results[name] = {}
        for sampling in samplings:
            draws = PathDraws(seed, samples, lengths, sampling)
            logits = scrubbed.scrub(hypothesis, draws, classes)
            results[name][sampling] = recovered(behaviour, logits, scrubbed.logits, draws.root, seed)
    paths = {name: sum(hypothesis.paths.values()) for name, (hypothesis, _) in kinds.items()}
    reports: dict[str, ClaimReport] = {}
    negative: dict[str, NegativeTest] = {}
    of_program = found is None and written is None
    if of_program:
        strict = program_hypothesis(alignment, circuit, trace, "split")
        values = position_values(alignment, trace)
        for name, sources in ((POSITIONS, {}), (SOURCES, attended_sources(alignment, trace))):
            results[name] = {
                sampling: _by_position(scrubbed, strict, values, sources, behaviour, lengths, sampling, seed)
                for sampling in samplings
                if sampling in ("node", "exact")
            }
    draws = PathDraws(seed, samples, lengths)
    if claims and of_program:
        reports = claim_reports(scrubbed, strongest, draws, behaviour)
        tests = negative_tests(scrubbed, alignment, trace, behaviour, draws)
        negative = {str(node): test for node, test in tests.items()}
    finer = refinements(scrubbed, strongest, _bank(task, tokens, trace), draws, behaviour) if refine else []
    example = _example(scrubbed, strongest, draws, task, tokens)
    return ScrubReport(
        task.name, len(tokens), samples, paths, results, reports, negative, example, tuple(finer)
    )


def _numbers(alignment: Alignment) -> set[str]:
    """Returns the names of the nodes all of whose variables are numbers."""
    variables = alignment.task.causal_model.variables
    return {
        str(node)
        for node, names in alignment.aligned_nodes.items()
        if all(variables[name].values is None for name in names)
    }


def _floats(hypothesis: Hypothesis) -> set[str]:
    """Returns the names of the nodes of which a hypothesis has numbers with a fraction."""
    return {
        claim.image
        for claim in hypothesis.claims.values()
        if claim.values is not None and np.asarray(claim.values).dtype.kind == "f"
    }


def _bank(task: Task, tokens: np.ndarray, trace: Trace) -> dict[str, np.ndarray]:
    """Returns the features that refine claims: all variables, and what inputs look like, by name.

    Args:
        task: the task.
        tokens: the inputs, `[N, pos]`.
        trace: the program's variables on the inputs, `[N, pos]` each.
    """
    bank = {name: values for name, values in trace.items() if name != "tokens"}
    bank |= {f"token {place + 1}": tokens[:, place] for place in range(tokens.shape[1])}
    bank |= {
        f"number of {task.vocab[code]!r}": (tokens == code).sum(1)
        for code in range(min(len(task.vocab), MANY))
    }
    return bank


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
    sources: Mapping[str, np.ndarray],
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
        sources: the positions that are needed, by the name of a head's input (`PositionDraws.sources`).
        behaviour: the behaviour that is to be recovered.
        lengths: the classes of inputs of one length.
        sampling: how unimportant parents are resampled.
        seed: the seed of draws.
    """
    count, length = scrubbed.count, scrubbed.logits.shape[1]
    classes = dict.fromkeys(hypothesis.claims, [Classes.of(None, count)] * length)
    classes |= position_classes(values, length, lengths.ids)
    draws = PositionDraws(seed, count, length, lengths, sampling, sources)
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
    donors: bool = False,
    soft: float | None = None,
    refine: bool = False,
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
        donors: as of `scrub_program`.
        soft: as of `scrub_program`.
        refine: as of `scrub_program`.

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
        donors=donors,
        soft=soft,
        refine=refine,
    )


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
