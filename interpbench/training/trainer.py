"""The trainer: it trains a network until a certificate shows that the network implements the program."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from pydantic import JsonValue, TypeAdapter
from torch import Tensor

from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.circuits.certificate import Certificate
from interpbench.circuits.grades import GRADES, Grade, Standard, Verdict, grade
from interpbench.circuits.ground_truth import Truth
from interpbench.core import seeds
from interpbench.core.config import Steps
from interpbench.core.errors import TrainingError
from interpbench.core.metric_sinks import Sink
from interpbench.core.progress import Display
from interpbench.core.threads import threads
from interpbench.tasks.shapes import capacity_command
from interpbench.training.failures import NO_FAILURES, Failures, missed_by
from interpbench.training.flatness import Flatness
from interpbench.training.imitation import Imitation
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.linear_probes import Probes
from interpbench.training.measure_certificate import certify
from interpbench.training.noise import Noise
from interpbench.training.readouts import Readouts
from interpbench.training.recipe import Recipe
from interpbench.training.sampling import Sampler
from interpbench.training.secrecy import Secrecy
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.state import load_state, save_state
from interpbench.training.step import Step
from interpbench.training.stopping import (
    Line,
    broken,
    guided_steps,
    hopeless,
    learning_rate,
    tries_certificate,
    within_reach,
)
from interpbench.training.validation import validate
from interpbench.transformer.model import Transformer

log = logging.getLogger(__name__)
SETTLED = 300
"""The number of steps in which readouts and probes are fitted to copied weights."""


@dataclass
class Progress:
    """The progress of a run, which is saved with its weights.

    Attributes:
        step: the number of steps that have been trained.
        attempts: the steps after which a certificate was tried and did not reach its grade.
        history: the validations, which are the lines of `metrics.jsonl`.
        certificate: the certificate of a finished run, with which a run ends that is resumed after that.
        failures: what was wrong in the last validations.
        missed: what was wrong in the last certificate that did not reach its grade.
        followed: what was wrong before the current pool of draws, which it follows.
        spent: the seconds, and those of processors, that the run took up to its last save.
    """

    step: Steps = 0
    attempts: list[Steps] = field(default_factory=list[Steps])
    history: list[Line] = field(default_factory=list[Line])
    certificate: Certificate | None = None
    failures: Failures = NO_FAILURES
    missed: Failures = NO_FAILURES
    followed: Failures = NO_FAILURES
    spent: tuple[float, float] = (0.0, 0.0)

    def to_json(self) -> dict[str, JsonValue]:
        """Returns the progress as a JSON object."""
        return TypeAdapter(Progress).dump_python(self, mode="json")


@dataclass(frozen=True)
class Result:
    """The result of a training.

    Attributes:
        steps: the number of steps that were trained.
        guided: the number of the first of these that were guided.
        certificate: the certificate of the network.
        certified: whether the certificate reaches the grade that the objective trains for.
        earlier: the seconds, and those of processors, that interrupted processes of the run took.
    """

    steps: int
    guided: int
    certificate: Certificate
    certified: bool
    earlier: tuple[float, float]


class Trainer:
    """A training run. If it is interrupted and resumed, its result is bit-identical.

    Args:
        network: the network, which is trained in place.
        alignment: the nodes of the program's variables.
        truth: the states of nodes and edges.
        recipe: the losses, the draws, and when losses begin and end.
        settings: the settings of optimizer, schedule, validations and stopping.
        certificate: the settings of certificates.
        seed: the seed of all draws.
        folder: the folder in which the state is saved; None for no saving.
        standard: the rates that a certificate has to reach; None for the default.
        start: the SHA-256 of the weights that the network starts from; None if these are random. Certificates
            then draw other rows than those of the training that made them.
        tried: how many certificates were tried of these weights, and of those that they came from.
        named: how the user names the task; None for its name in the catalogue.
    """

    def __init__(
        self,
        network: Transformer,
        alignment: Alignment,
        truth: Truth,
        recipe: Recipe,
        settings: TrainerSettings,
        certificate: CertificateSettings,
        seed: int,
        folder: Path | None = None,
        standard: Standard | None = None,
        start: str | None = None,
        tried: int = 0,
        named: str | int | None = None,
    ):
        self.standard, self.tried, self.named = standard or Standard(), tried, named
        settings = settings.of_task(alignment.task)
        self.rows = seeds.derive(seed, "attempts", *filter(None, [start]))
        self.network, self.truth, self.recipe, self.settings = network, truth, recipe, settings
        self.certificate_settings, self.seed, self.folder = certificate, seed, folder
        self.evaluation = Evaluation(network, alignment)
        crowd = alignment.task.crowd  # validations and certificates are about the task alone
        drawn = alignment if crowd is None else align(crowd, alignment.graph)
        learnt = truth if crowd is None else find_truth(drawn)
        self.sampler = Sampler(drawn, learnt, recipe, settings.batch, seed)
        self.device = self.evaluation.device
        self.probes = Probes(drawn, network.cfg.d_model, seed).to(self.device)
        readouts = Readouts(drawn.task.causal_model, network.cfg, seed).to(self.device)
        forbidden = self.sampler.forbidden_nodes
        imitation = Imitation(learnt, seed, self.device) if recipe.objective.imitation else None
        noise = Noise(alignment.task, truth, self.device) if recipe.objective.noise else None
        flatness = None
        if recipe.objective.flatness and alignment.task.flat:
            flatness = Flatness(alignment.task, truth, settings.batch, self.device)
        secrecy = Secrecy(drawn) if recipe.objective.secrecy and drawn.task.secrets else None
        given = self.probes, readouts, recipe.objective, settings, forbidden
        self._step = Step(network, *given, imitation, noise, flatness, secrecy)
        self.trained, self.optimizer = self._step.trained, self._step.optimizer
        self.progress = Progress()
        self._started, self._earlier = _clocks(), (0.0, 0.0)

    @property
    def state_file(self) -> Path | None:
        """The file with the state of an interrupted run; None without a folder."""
        return None if self.folder is None else self.folder / "state.safetensors"

    def resume(self) -> bool:
        """Restores the state that an interrupted run has saved, and returns whether there is one.

        Raises:
            CheckpointError: if the state is damaged, or of another network or version.
        """
        if self.state_file is None or not self.state_file.exists():
            return False
        self.progress = load_state(self.state_file, self.trained, self.optimizer, Progress)
        self._earlier = self.progress.spent
        log.info("resuming at step %d", self.progress.step)
        return True

    def certify_copied(self, title: str = "train") -> Result | None:
        """Returns the result of weights that were copied from elsewhere, if these are certified as they are.

        If they are not, readouts and probes are fitted to them. `title` is that of the progress display.
        """
        rows = self.settings.validation_rows
        validation, _ = validate(self.evaluation, self.truth, self.recipe, rows, self.seed, 0)
        if validation.lowest >= self.settings.stop_at:
            with Display(title, self.settings.steps) as display:
                certificate = self._certified(display)
            if certificate is not None:
                return self._end(certificate)
        log.info("copied weights are not certified as they are; worst: %s", validation.worst)
        self._step.settle((self.sampler(step, self.device) for step in range(SETTLED)), SETTLED)
        return None

    def train(self, sinks: Sequence[Sink] = (), title: str = "train", step_threads: int = 1) -> Result:
        """Trains to the end of the schedule, or until a certificate reaches the grade of the objective.

        Args:
            sinks: where the metrics of each validation are written.
            title: the title of the progress display.
            step_threads: the number of threads of a step; validations and certificates use all of torch's.

        Raises:
            TrainingError: on NaN, divergence or lack of progress; the message says what to try.
        """
        settings, progress = self.settings, self.progress
        if progress.certificate is not None:
            return self._result(progress.certificate)
        status = ""
        with Display(title, settings.steps) as display:
            while progress.step < settings.steps:
                with threads(step_threads):
                    losses = self.step()
                step = progress.step
                if step % settings.validate_every == 0 or step == settings.steps:
                    status = self.validate(losses, sinks)
                    certificate = self._after_validation(display)
                    if certificate is not None:
                        return self._end(certificate)
                if step % settings.save_every == 0:
                    self.save()
                display.update(step, status)
            self.save()  # a certificate takes long
            return self._end(self._last_certificate(display))

    def step(self) -> Tensor:
        """Trains one step, with one forward and one backward pass, and returns its losses.

        These are the losses `[P, world, batch]` of the output at P positions without BOS.
        """
        guided = self.progress.step < self.guided_steps
        if self.progress.step % self.sampler.steps == 0:
            self.progress.followed = self.progress.failures.besides(self.progress.missed)
        batch = self.sampler(self.progress.step, self.device, guided, self.progress.followed)
        losses, self.others = self._step(batch, self._learning_rate())
        self.progress.step += 1
        return losses

    @property
    def guided_steps(self) -> int:
        """The number of the first steps that are guided, as far as the validations so far say."""
        return guided_steps(self.settings, self.recipe, self.progress.history)

    def _counted(self) -> list[Line]:
        """Returns the validations that count for a certificate: after guidance, unless it never ends."""
        never_ends = self.recipe.curriculum.guided == 1
        return [line for line in self.progress.history if never_ends or line.step > self.guided_steps]

    def save(self) -> None:
        """Saves the state, if the run has a folder."""
        spent = [now - then for now, then in zip(_clocks(), self._started)]
        self.progress.spent = self._earlier[0] + spent[0], self._earlier[1] + spent[1]
        if self.state_file is not None:
            save_state(self.state_file, self.trained, self.optimizer, self.progress.to_json())

    def certify(self, display: Display, give_up: bool = False, upto: Grade = "adversarial") -> Certificate:
        """Returns the certificate of the network, whose weights are first rounded to half precision.

        They are stored so: a file then holds what was certified, in half the bytes.

        Args:
            display: the display on which progress is shown.
            give_up: whether to stop as soon as the grade of the objective cannot be reached.
            upto: the highest grade whose rates are measured.
        """

        def show(pairs: int, total: int) -> None:
            display.pause(self.progress.step, f"certifying: {pairs:,} of {total:,} rows")

        self._round()
        return certify(
            self.evaluation,
            self.truth,
            self.certificate_settings,
            self.standard,
            self.rows,  # of its own: those of `interpbench certify` stay fresh
            upto,
            give_up=self.recipe.objective.grade if give_up else None,
            progress=show,
            attempt=self.tried + len(self.progress.attempts),
        )

    def _round(self) -> None:
        """Rounds the network's weights to half precision.

        Raises:
            TrainingError: if some are larger than it can hold.
        """
        with torch.no_grad():
            for weight in self.network.parameters():
                weight.copy_(weight.half())
        if not all(bool(weight.isfinite().all()) for weight in self.network.parameters()):
            raise TrainingError("weights are too large for half precision; try a lower trainer.learning_rate")

    def _last_certificate(self, display: Display) -> Certificate:
        """Returns the certificate at the end of the schedule, which measures what is within reach."""
        last = self.progress.history[-1].validation
        upto = within_reach(self.standard.target, last)
        if upto != GRADES[-1]:
            log.info("%s is out of reach: %.3f at %s", self.recipe.objective.grade, last.lowest, last.worst)
        return self.certify(display, upto=upto)

    def _terms(self, losses: Tensor) -> dict[str, float]:
        """Returns the weighted losses of the last step, summed by term."""
        sums = losses.sum((0, 2)).tolist()
        terms: dict[str, float] = {}
        worlds = self.sampler.worlds(self.progress.step - 1, self.progress.followed)
        for name, value in zip(worlds, sums):
            key = "behaviour" if name == "source" else name
            terms[key] = terms.get(key, 0.0) + value
        return {**terms, **{name: float(loss.detach()) for name, loss in self.others.items()}}

    def validate(self, losses: Tensor, sinks: Sequence[Sink] = ()) -> str:
        """Validates the network; draws, guidance and the learning rate follow the result from here on.

        Args:
            losses: the losses of the last step.
            sinks: where the metrics are written.

        Returns:
            The metrics as a text of one line.
        """
        progress, terms = self.progress, self._terms(losses)
        validation, failures = validate(
            self.evaluation, self.truth, self.recipe, self.settings.validation_rows, self.seed, progress.step
        )
        progress.failures = progress.failures.then(failures)
        line = Line(progress.step, terms, validation, self._learning_rate())
        progress.history.append(line)
        for sink in sinks:
            sink.write(line.step, line.metrics)
        said = " ".join(f"{name} {value:.2g}" for name, value in terms.items())
        return (
            f"acc {validation.accuracy:.3f} IIA {validation.iia:.3f} SIIA {validation.siia:.3f} "
            f"edges {validation.edges:.3f} worst {validation.worst} | {said}"
        )

    def _learning_rate(self) -> float:
        return learning_rate(self.settings, self.progress.step, self.progress.history, self.guided_steps)

    def _after_validation(self, display: Display) -> Certificate | None:
        """Returns a certificate if validations are good enough and it reaches the grade of the objective.

        Raises:
            TrainingError: on NaN, divergence or lack of progress.
        """
        settings, progress = self.settings, self.progress
        if why := broken(settings, progress.history):
            raise TrainingError(why)
        tries = tries_certificate(settings, self._counted(), progress.attempts)
        if tries and self._step.keeps_secrets(self.others):
            if (certificate := self._certified(display)) is not None:
                return certificate
        d_model, guidance = self.network.cfg.d_model, self.recipe.objective.guidance
        if why := hopeless(settings, progress.history, d_model, self.guided_steps, guidance):
            command = capacity_command(self.evaluation.task, self.network.cfg, self.named)
            raise TrainingError(f"{why}; `{command}` says what its nodes can hold")
        return None

    def _certified(self, display: Display) -> Certificate | None:
        """Returns a certificate if it reaches the grade of the objective; else the weights are as before."""
        progress, grade = self.progress, self.recipe.objective.grade
        before = {name: value.clone() for name, value in self.network.state_dict().items()}
        certificate = self.certify(display, give_up=True)
        verdict = self.verdict(certificate)
        if verdict.reaches(grade):
            return certificate
        self.network.load_state_dict(before)
        progress.attempts.append(progress.step)
        progress.missed = missed_by(certificate)
        log.info("not %s at step %d: %s", grade, progress.step, verdict.missed(grade)[0])
        return None

    def _end(self, certificate: Certificate) -> Result:
        """Saves the state of the training with the certificate, and returns the result.

        If the run is started again later, it finds the certificate in the saved state, and neither trains nor
        certifies again.
        """
        self.progress.certificate = certificate
        self.save()
        return self._result(certificate)

    def verdict(self, certificate: Certificate) -> Verdict:
        """Returns the verdict on a certificate by the standard of this training."""
        return grade(certificate, self.standard)

    def _result(self, certificate: Certificate) -> Result:
        reached = self.verdict(certificate).reaches(self.recipe.objective.grade)
        steps = self.progress.step
        guided = steps if self.recipe.supervised_to_end else min(self.guided_steps, steps)
        return Result(steps, guided, certificate, reached, self._earlier)


def _clocks() -> tuple[float, float]:
    """Returns the time, and what processors have worked for this process, in seconds."""
    return time.perf_counter(), time.process_time()
