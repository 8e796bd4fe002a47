"""Rules of stopping and of the learning rate: functions of a training's settings and its validations so far.

A validation is a line of `metrics.jsonl`, with the shares of right rows and the losses of its step.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, JsonValue, model_serializer, model_validator
from pydantic.dataclasses import dataclass

from interpbench.circuits.grades import GRADES, Grade
from interpbench.core.config import STRICT, Amount, Steps
from interpbench.training.recipe import Recipe
from interpbench.training.settings import TrainerSettings
from interpbench.training.validation import Validation

PROGRESS = 1e-4
"""The amount by which a validation's mean rate has to exceed all earlier ones to count as progress."""
CLEARLY = 5e-3
"""How far a rate of a validation is below what a certificate needs if no certificate can be hoped for."""
NEARLY = 0.02
"""How far a rate of a validation may be below `stop_at` for training to go on without visible progress."""
PEAK = 0.1
"""The share of a cycle of the learning rate after which the rate is highest."""
AGAIN = 0.1
"""The highest learning rate after a restart, as a share of that before it."""
LOSS = "loss/"
"""The prefix of the names of losses in a line."""


@dataclass(frozen=True, config=STRICT)
class Line:
    """A line of `metrics.jsonl`, a flat JSON object of losses and shares.

    Attributes:
        step: the number of steps that have been trained.
        losses: the weighted losses of the last step, by term; they may be infinite or NaN.
        validation: the validation after the last step.
        learning_rate: the learning rate of the next step.
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
        """The metrics of the step, by name."""
        losses = {LOSS + name: value for name, value in self.losses.items()}
        return {**losses, **vars(self.validation), "learning_rate": self.learning_rate}

    @model_serializer
    def to_json(self) -> dict[str, JsonValue]:
        """Returns the line as a JSON object."""
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


def stale(validations: Sequence[Line], *anew: int) -> list[int]:
    """Returns, for each validation, the number of validations since the last one with progress.

    Args:
        validations: the validations so far.
        anew: the steps after which progress is measured anew: the first validation after each of them counts
            as progress.
    """
    best, counts, last = 0.0, [0], 0
    for line in validations:
        if any(last <= step < line.step for step in anew):
            best = 0.0
        last = line.step
        rates = line.validation.rates
        measure = sum(rates) / len(rates)
        counts.append(0 if measure > best + PROGRESS else counts[-1] + 1)
        best = max(best, measure)
    return counts[1:]


def confirmed(settings: TrainerSettings, validations: Sequence[Line]) -> int:
    """Returns how many validations in a row, up to the last one, reach `stop_at`."""
    good = [line.validation.lowest >= settings.stop_at for line in validations]
    return next((count for count, one in enumerate(reversed(good)) if not one), len(good))


def learning_rate(
    settings: TrainerSettings, step: int, validations: Sequence[Line], guided: int = 0
) -> float:
    """Returns the learning rate of a step.

    Args:
        settings: the settings of the training.
        step: the number of steps before this one.
        validations: the validations so far.
        guided: the number of the first steps that are guided.
    """
    if settings.cycles:
        cycle = max(index for index, start in enumerate(settings.cycles) if start <= step)
        start, end = (*settings.cycles, settings.steps)[cycle : cycle + 2]
        done = (step - start) / (end - start)
        down = 0.5 * (1 + math.cos(math.pi * max(0.0, (done - PEAK) / (1 - PEAK))))
        return settings.learning_rate * AGAIN**cycle * max(min(1.0, (done + 1e-3) / PEAK) * down, 1e-4)
    if settings.schedule == "none":
        return settings.learning_rate
    halvings = sum(
        count > 0 and count % settings.plateau_patience == 0 for count in stale(validations, guided)
    )
    return settings.learning_rate * 0.5**halvings


def broken(settings: TrainerSettings, validations: Sequence[Line]) -> str | None:
    """Returns a message with what to try if the loss is not finite or has grown; else None."""
    first, last, step = validations[0].loss, validations[-1].loss, validations[-1].step
    slower = f"trainer.learning_rate={settings.learning_rate / 3:.1g}"
    if not math.isfinite(last):
        clip = f"a smaller trainer.clip than {settings.clip:g}"
        return f"the loss is {last} at step {step}; try {slower} or {clip}"
    if last > 20 * first + 1:
        return f"the loss grew from {first:.3g} to {last:.3g} at step {step}; try {slower}"
    return None


def guided_steps(settings: TrainerSettings, recipe: Recipe, validations: Sequence[Line]) -> int:
    """Returns the number of the first steps that are guided, as far as the validations so far say.

    Args:
        settings: the settings of the training.
        recipe: the recipe of the training.
        validations: the validations so far.
    """
    if not recipe.objective.guides:
        return 0
    if recipe.curriculum.guided == 1:
        return settings.steps
    good = (line.step for line in validations if line.validation.lowest >= settings.stop_at)
    first = next((start for start in settings.cycles if start), settings.steps)
    return min(int(recipe.curriculum.guided * first), next(good, settings.steps))


def tries_certificate(
    settings: TrainerSettings, validations: Sequence[Line], attempts: Sequence[int]
) -> bool:
    """Returns whether a certificate is tried after the last validation.

    Args:
        settings: the settings of the training.
        validations: the validations so far.
        attempts: the steps after which certificates did not reach their grade.
    """
    if not validations:
        return False
    step = validations[-1].step
    pause = max(settings.validate_every, settings.steps // 10)
    soon = bool(attempts) and step < attempts[-1] + pause
    last = step >= settings.steps  # a certificate is made at the end anyway
    return not soon and not last and confirmed(settings, validations) >= settings.confirm


def within_reach(target: float, validation: Validation) -> Grade:
    """Returns the highest grade that a network may reach at the end of a schedule.

    It is the grade before the first one of which a rate of the last validation is clearly below what
    certificates need, and `behaviour` at least. Measuring more would take minutes and say nothing new.

    Args:
        target: the rate that a certificate has to reach.
        validation: the last validation.
    """
    missed = [place for place, rate in enumerate(validation.rates) if rate < target - CLEARLY]
    return GRADES[max(0, missed[0] - 1)] if missed else GRADES[-1]


def hopeless(
    settings: TrainerSettings, validations: Sequence[Line], d_model: int, guided: int = 0, guidance: str = ""
) -> str | None:
    """Returns a message with what to try if there has been no progress for `patience` validations; else None.

    Where little is missing, progress is too small to be seen in a validation, and training goes on. Without
    guidance, rates start lower again, and so they do when the learning rate rises to its peak in a network
    that was trained before (`start=`): progress is measured anew from there.

    Args:
        settings: the settings of the training.
        validations: the validations so far.
        d_model: the width of the network's residual stream.
        guided: the number of the first steps that are guided.
        guidance: the settings that would guide the training (`Objective.guidance`).
    """
    peaks = (start + int(PEAK * settings.steps) for start in settings.cycles)
    count, last = stale(validations, guided, *peaks)[-1], validations[-1].validation
    if count < settings.patience or last.lowest >= settings.stop_at - NEARLY:
        return None
    return (
        f"no progress for {count} validations (worst: {last.worst}); try {guidance and guidance + ', '}"
        f"trainer.max_steps={settings.longer}, "
        f"trainer.learning_rate={settings.learning_rate / 2:.2g}, trainer.batch={2 * settings.batch}, "
        f"another seed, or model.d_model={2 * d_model}"
    )
