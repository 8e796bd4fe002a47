"""Causal scrubbing of a checkpoint against its own program, or against a circuit that a method found."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from interpbench.alignment.alignment import Alignment
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.core import seeds
from interpbench.core.errors import ConfigError, TaskError
from interpbench.core.process import prepare_torch
from interpbench.runs.scrub_hypotheses import (
    best_edges,
    feature_bank,
    float_nodes,
    hypotheses_of,
    number_nodes,
)
from interpbench.runs.scrub_options import MOST_INPUTS, MOST_SAMPLES, check_memory, check_options
from interpbench.runs.scrub_report import LARGE, ScrubReport
from interpbench.runs.scrub_sample import scrubbed_sample
from interpbench.runs.subject import subject_of
from interpbench.scrubbing.by_hand import made_by, own_hypothesis
from interpbench.scrubbing.classes import Classes, Exchange
from interpbench.scrubbing.donors import with_donors
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import PathDraws, Sampling
from interpbench.scrubbing.positions import PositionDraws, position_classes, scrub_positions
from interpbench.scrubbing.program_claims import attended_sources, position_values, program_hypothesis
from interpbench.scrubbing.recovered import Recovered, ScoredLabels, recovered
from interpbench.scrubbing.residual import ScrubbedNetwork, is_split, network_parents
from interpbench.scrubbing.scrub_adversary import Refinement, refinements
from interpbench.scrubbing.soft_classes import softened
from interpbench.scrubbing.vacuity import ClaimReport, NegativeTest, claim_reports, negative_tests
from interpbench.tasks.task import Task
from interpbench.transformer.model import Transformer

SAMPLINGS: tuple[Sampling, ...] = ("node", "edge", "global", "exact")
POSITIONS, SOURCES = "positions", "sources"
"""The names of the hypotheses with a claim for each node at each position: about its values alone, and also
about the positions that heads attend to."""
BY_POSITION = POSITIONS, SOURCES


def scrub_program(
    network: Transformer,
    alignment: Alignment,
    circuit: np.ndarray,
    *,
    found: np.ndarray | None = None,
    written: str | None = None,
    inputs: int = MOST_INPUTS,
    samples: int = MOST_SAMPLES,
    samplings: Sequence[Sampling] = SAMPLINGS,
    seed: int = 0,
    claims: bool = True,
    donors: bool = False,
    soft: float | None = None,
    refine: bool = False,
    sample: int | None = None,
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
        refine: whether to measure what refinements of the strongest hypothesis change (`scrub_adversary`).
        sample: the number of the sample whose inputs are shown, from 1; None for the one with most changes.

    Raises:
        ConfigError: if a number is out of range, or inputs take too much memory.
        TaskError: if a hypothesis is not about this network, has no claim about numbers that `soft` could be
            of, or the task's inputs have no donors.
    """
    check_options(inputs=inputs, samples=samples, seed=seed, soft=soft, sample=sample)
    task = alignment.task
    tokens = inputs_of(task, inputs, seed)
    if donors:
        tokens = with_donors(alignment, tokens, seed)
    trace = task.causal_model.run(tokens)
    labels = trace[task.causal_model.output]
    behaviour = ScoredLabels(labels, task.scored(labels), task.causal_model.numerical, task.tolerance)
    ids = torch.from_numpy(task.token_ids(tokens)).to(network.unembed.W_U.device)
    cfg = network.cfg
    kept = len(cfg.graph.nodes) + 2 * cfg.n_layers + 1  # what nodes write, and the stream between them
    check_memory(len(tokens), ids.shape[1] * (kept * cfg.d_model + cfg.d_out))
    scrubbed = ScrubbedNetwork(network, ids)
    hypotheses = hypotheses_of(alignment, circuit, found, trace)
    if written is not None:
        hypotheses = {written.rpartition(":")[2]: made_by(written, tokens, trace)}
    lengths = Classes.of((tokens >= 0).sum(1), len(tokens))
    results: dict[str, dict[Sampling, Recovered]] = {}
    strongest = list(hypotheses.values())[-1]
    kinds: dict[str, tuple[Hypothesis, dict[str, Exchange] | None]] = {
        name: (hypothesis, None) for name, hypothesis in hypotheses.items()
    }
    reports: dict[str, ClaimReport] = {}
    if soft is not None:
        numbers = number_nodes(alignment) if written is None else float_nodes(strongest)
        kernels = softened(strongest, numbers, soft, lengths)
        kinds[f"{list(hypotheses)[-1]}, soft"] = strongest, kernels
        reports = {
            f"{name}, soft": ClaimReport(kernels[name].alone, kernels[name].effective_size, None)
            for name in strongest.order
            if strongest.claims[name].image in numbers and strongest.claims[name].values is not None
        }
    for name, (hypothesis, classes) in kinds.items():
        results[name] = {}
        for sampling in samplings:
            draws = PathDraws(seed, samples, lengths, sampling)
            logits = scrubbed.scrub(hypothesis, draws, classes)
            results[name][sampling] = recovered(
                behaviour,
                logits,
                scrubbed.logits,
                draws.root,
                seed,
                lengths=lengths.ids,
                pool=scrubbed.pool(hypothesis),
            )
    paths = {name: sum(hypothesis.paths.values()) for name, (hypothesis, _) in kinds.items()}
    negative: dict[str, NegativeTest] = {}
    single: dict[str, Recovered] = {}
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
    if claims:
        about_values = [name for name in strongest.order if strongest.claims[name].values is not None]
        every = claim_reports(scrubbed, strongest, draws, behaviour)
        reports |= {name: one for name, one in every.items() if name in about_values}
        single = {
            name: _single(scrubbed, strongest, name, behaviour, draws) for name in reports if name in every
        }
    if claims and of_program:
        tests = negative_tests(scrubbed, alignment, trace, behaviour, draws)
        negative = {str(node): test for node, test in tests.items()}
    finer: tuple[Refinement, ...] = ()
    if refine:
        finer = _refinements(scrubbed, strongest, feature_bank(task, tokens, trace), behaviour, draws)
    about = {str(node): tuple(names) for node, names in alignment.aligned_nodes.items()} if of_program else {}
    return ScrubReport(
        task.name,
        len(tokens),
        samples,
        paths,
        results,
        reports,
        negative,
        single,
        scrubbed_sample(scrubbed, strongest, draws, task, tokens, about, sample),
        finer,
    )


def _single(
    scrubbed: ScrubbedNetwork, hypothesis: Hypothesis, name: str, behaviour: ScoredLabels, draws: PathDraws
) -> Recovered:
    """Returns what is recovered if a single claim exchanges inputs, and all else stays as it is.

    Args:
        scrubbed: the network.
        hypothesis: the hypothesis.
        name: the claim.
        behaviour: the behaviour that is to be recovered.
        draws: the draws; what they say of unimportant parents is not used.
    """
    lengths = draws.everything.ids
    classes = dict.fromkeys(hypothesis.claims, Classes.of(None, scrubbed.count))
    classes[name] = hypothesis.classes(scrubbed.count, lengths)[name]
    logits = scrubbed.scrub(hypothesis, replace(draws, sampling="exact"), classes)
    pool = scrubbed.pool(hypothesis)
    return recovered(behaviour, logits, scrubbed.logits, draws.root, draws.seed, lengths=lengths, pool=pool)


def _refinements(
    scrubbed: ScrubbedNetwork,
    hypothesis: Hypothesis,
    bank: Mapping[str, np.ndarray],
    behaviour: ScoredLabels,
    draws: PathDraws,
) -> tuple[Refinement, ...]:
    """Returns by how many percent of the loss refinements change what is recovered.

    Args:
        scrubbed: the network.
        hypothesis: the hypothesis.
        bank: features by name: their values on each input, `[N]` or `[N, ...]`.
        behaviour: the behaviour that is to be recovered.
        draws: the draws.

    Raises:
        TaskError: if no percentage is defined.
    """
    logits, lengths = scrubbed.scrub(hypothesis, draws), draws.everything.ids
    first = recovered(behaviour, logits, scrubbed.logits, draws.root, draws.seed, lengths=lengths)
    if first.percent is None:
        raise TaskError(f"nothing can be refined: {first.why}")
    scale = 100 / (first.network.value - first.shuffled.value)

    def percent(refined: Hypothesis, others: PathDraws) -> np.ndarray:
        return scale * behaviour.losses(scrubbed.scrub(refined, others), others.root)

    parents = network_parents(scrubbed.graph, is_split(hypothesis))
    return tuple(refinements(percent, parents, hypothesis, bank, draws, least=LARGE))


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
    return recovered(behaviour, logits, scrubbed.logits, np.arange(count), seed, lengths=lengths.ids)


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
    samples: int = MOST_SAMPLES,
    seed: int = 0,
    donors: bool = False,
    soft: float | None = None,
    refine: bool = False,
    sample: int | None = None,
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
        sample: as of `scrub_program`.

    Raises:
        InterpBenchError: if there is no such checkpoint, a number is out of range, both a circuit and a
            hypothesis are given, or a file cannot be read or is of another network.
    """
    check_options(inputs=inputs, samples=samples, seed=seed, soft=soft, sample=sample)
    if circuit is not None and hypothesis is not None:
        raise ConfigError("--circuit and --hypothesis: say one of them")
    if circuit is not None and soft is not None:
        raise ConfigError(
            "--soft is about the values of claims, and a --circuit has none: leave out one of them"
        )
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
        sample=sample,
    )
