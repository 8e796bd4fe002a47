"""When a training stops: pure functions of its settings and of its validations so far.

A validation is a line of `metrics.jsonl`: the shares of right rows and the losses of its step.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, JsonValue, model_serializer, model_validator
from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Amount, Steps
from interpbench.training.settings import TrainerSettings
from interpbench.training.validation import Validation

PROGRESS = 1e-4
"""A validation's mean rate is progress if it is so much above all earlier ones."""
LOSS = "loss/"
"""How the names of losses begin in a line."""


@dataclass(frozen=True, config=STRICT)
class Line:
    """A line of `metrics.jsonl`, which names its losses and the parts of its validation side by side.

    Attributes:
        step: the steps that are done.
        losses: the weighted losses of the last of them, by term; a run may diverge.
        validation: after it.
        learning_rate: of the next step.
    """

    step: Steps
    losses: dict[str, Annotated[float, Field(allow_inf_nan=True)]]
    validation: Validation
    learning_rate: Amount

    @property
    def loss(self) -> float:
        """The sum of the losses."""
        return sum(self.losses.values())

    @property
    def metrics(self) -> dict[str, JsonValue]:
        """What is said of the step."""
        losses = {LOSS + name: value for name, value in self.losses.items()}
        return {**losses, **vars(self.validation), "learning_rate": self.learning_rate}

    @model_serializer
    def to_json(self) -> dict[str, JsonValue]:
        """Returns the line."""
        return {"step": self.step, **self.metrics}

    @model_validator(mode="before")
    @classmethod
    def _from_line(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        line = {str(name): value for name, value in data.items()}
        own = {name: line.pop(name) for name in ("step", "learning_rate") if name in line}
        losses = {name.removeprefix(LOSS): line.pop(name) for name in list(line) if name.startswith(LOSS)}
        return {**own, "losses": losses, "validation": line}


def stale(validations: Sequence[Line]) -> list[int]:
    """Returns, for each validation, how many have brought no progress since the last one that did."""
    best, counts = 0.0, [0]
    for line in validations:
        rates = line.validation.rates
        measure = sum(rates) / len(rates)
        counts.append(0 if measure > best + PROGRESS else counts[-1] + 1)
        best = max(best, measure)
    return counts[1:]


def confirmed(settings: TrainerSettings, validations: Sequence[Line]) -> int:
    """Returns how many of the last validations in a row reach `stop_at`."""
    good = [line.validation.lowest >= settings.stop_at for line in validations]
    return next((count for count, one in enumerate(reversed(good)) if not one), len(good))


def learning_rate(settings: TrainerSettings, step: int, validations: Sequence[Line]) -> float:
    """Returns the learning rate of the step that comes after `step` others."""
    if settings.schedule == "one_cycle":
        done = step / settings.max_steps
        down = 0.5 * (1 + math.cos(math.pi * max(0.0, (done - 0.1) / 0.9)))
        return settings.learning_rate * max(min(1.0, (done + 1e-3) / 0.1) * down, 1e-4)
    if settings.schedule == "none":
        return settings.learning_rate
    halvings = sum(count > 0 and count % settings.plateau_patience == 0 for count in stale(validations))
    return settings.learning_rate * 0.5**halvings


def broken(settings: TrainerSettings, validations: Sequence[Line]) -> str | None:
    """Returns why a run cannot go on, and what to try, if its loss is not finite or has grown; else None."""
    first, last, step = validations[0].loss, validations[-1].loss, validations[-1].step
    slower = f"trainer.learning_rate={settings.learning_rate / 3:.1g}"
    if not math.isfinite(last):
        clip = f"a smaller trainer.clip than {settings.clip:g}"
        return f"the loss is {last} at step {step}; try {slower} or {clip}"
    if last > 20 * first + 1:
        return f"the loss grew from {first:.3g} to {last:.3g} at step {step}; try {slower}"
    return None


def tries_certificate(
    settings: TrainerSettings, validations: Sequence[Line], attempts: Sequence[int]
) -> bool:
    """Returns whether a certificate is tried after the last validation.

    Args:
        settings: of the training.
        validations: so far.
        attempts: the steps of certificates that missed.
    """
    step = validations[-1].step
    pause = max(settings.validate_every, settings.max_steps // 10)
    soon = bool(attempts) and step < attempts[-1] + pause
    last = step >= settings.max_steps  # a certificate is made at the end anyway
    return not soon and not last and confirmed(settings, validations) >= settings.confirm


def hopeless(settings: TrainerSettings, validations: Sequence[Line], d_model: int) -> str | None:
    """Returns why a run is given up, and what to try, if it has made no progress for long; else None."""
    count, last = stale(validations)[-1], validations[-1].validation
    if count < settings.patience or last.lowest >= settings.stop_at:
        return None
    return (
        f"no progress for {count} validations (worst: {last.worst}); try "
        f"trainer.learning_rate={settings.learning_rate / 2:.2g}, trainer.batch={2 * settings.batch}, "
        f"another seed, or a wider model.d_model than {d_model}"
    )
