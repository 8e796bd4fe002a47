"""What all methods share on one checkpoint: pairs, truth, and the circuits that have been run already."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from interpbench.checkpoints.format import Checkpoint
from interpbench.circuits.scores import Scores
from interpbench.core import seeds
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.method import Method
from interpbench.runs.device import select_device
from interpbench.runs.scrub_circuit import percent_recovered
from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.circuits_from_scores import (
    edges_by_score,
    first_edges,
    of_true_size,
    ties_at,
    true_size,
)
from interpbench.scoring.evaluation_record import degenerate
from interpbench.scoring.faithfulness import completeness, faithfulness
from interpbench.scoring.hypotheses import hypothesis_tests
from interpbench.scoring.orders import true_ranking
from interpbench.scoring.results import CircuitBehaviour
from interpbench.scoring.stability import stability
from interpbench.scoring.sufficiency import sufficiency
from interpbench.scoring.thresholds import chosen, own_circuits, smallest_right
from interpbench.tasks.catalogue import known_task, program_of
from interpbench.tasks.problem import Pairs, Problem
from interpbench.tasks.task import Task

if TYPE_CHECKING:
    from interpbench.runs.evaluate_settings import EvaluateConfig

log = logging.getLogger(__name__)


class SharedRuns:
    """One checkpoint with its pairs of inputs.

    Args:
        checkpoint: the network and its truth.
        pairs: gives the pairs: the first are for discovery, the last for how circuits behave.
        config: the evaluation.
    """

    def __init__(self, checkpoint: Checkpoint, pairs: Callable[[], Pairs], config: "EvaluateConfig"):
        self.checkpoint, self.config = checkpoint, config
        self.network = checkpoint.network.to(select_device(config.device))
        self._pairs = pairs

    @cached_property
    def pairs(self) -> Pairs:
        """All pairs of inputs."""
        return self._pairs()

    def problem(self, examples: int) -> Problem:
        """Returns what a method sees: the first `examples` pairs."""
        return self.pairs.problem(self.network, examples, self.config.seed)

    @cached_property
    def behaviour(self) -> Behaviour:
        """The network on pairs that discovery does not see, if there are enough."""
        count = len(self.pairs.clean)
        first = max(count - self.config.test_examples, min(self.config.examples, count))
        if first == count:
            log.warning("%s has %d pairs: none are left for tests", self.checkpoint.task, count)
            first = max(0, count - self.config.test_examples)
        rest = [x[first:] for x in (self.pairs.clean, self.pairs.corrupted, self.pairs.scored)]
        return Behaviour(Pairs(*rest).problem(self.network, seed=self.config.seed))

    @cached_property
    def program(self) -> str:
        """The task whose program it is, where tasks share one; its own for a task that is not ours."""
        return program_of(self.checkpoint.task)

    @cached_property
    def left_out(self) -> list[str]:
        """Why comparisons leave this model out."""
        dead = ["its corrupted inputs change no answer"] if self.behaviour.dead else []
        return [*dead, *degenerate(self.checkpoint.truth)]

    @cached_property
    def true_scores(self) -> Scores:
        """The truth as if a method had found it."""
        return true_ranking(self.checkpoint.truth)

    def behaviour_of(
        self, scores: Scores, method: Method | None, problem: Problem | None
    ) -> CircuitBehaviour:
        """Returns how the circuits of a ranking behave; with `thorough`, everything that is known to ask.

        Args:
            scores: the ranking.
            method: what made it, to be run again for stability; None for the truth.
            problem: what the method saw; None for the truth.
        """
        if self.behaviour.dead:
            return CircuitBehaviour()
        found = CircuitBehaviour(self.behaviour.changed, faithfulness(self.behaviour, scores))
        graph, truth = scores.graph, self.checkpoint.truth
        size = true_size(truth)
        if not size:
            return found

        order = edges_by_score(graph, scores.edges, seeds.generator(self.config.seed, "ties", "true size"))
        task = known_task(self.checkpoint.task)
        tolerance = Task.tolerance if task is None else task.tolerance
        largest = of_true_size(truth, order, any_order=True)
        enough = first_edges(graph, order, smallest_right(self.behaviour, order, tolerance))
        found = replace(
            found,
            recovered=percent_recovered(self.behaviour, largest, self.config.seed),
            sufficiency=sufficiency(self.behaviour, truth, largest, tolerance),
            smallest=chosen(truth, enough),
            own=own_circuits(truth, scores),
        )
        if not self.config.thoroughly:
            return found
        circuit = of_true_size(truth, order)
        found = replace(
            found,
            ties=ties_at(graph, scores.edges, size),
            completeness=completeness(self.behaviour, circuit),
            tests=hypothesis_tests(self.behaviour, circuit),
        )
        settings, cost = self.config.stability, scores.cost
        passes = cost.forward_examples + cost.backward_examples
        samples = settings.samples if passes <= settings.most_passes else 0
        others = settings.seeds if method is not None and method.record.stochastic else 0
        if method is not None and problem is not None and (samples or others):
            again = stability(partial(apply, method), problem, truth, size, samples, others)
            found = replace(found, stability=again)
        return found
