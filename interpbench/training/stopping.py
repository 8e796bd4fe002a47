"""When a training stops: pure functions of its settings and of its validations so far.

A validation is a line of `metrics.jsonl`: the shares of right rows and the losses of its step.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from interpbench.training.settings import TrainerSettings

RATES = ("accuracy", "iia", "siia", "edges")
PROGRESS = 1e-4
"""A validation's mean rate is progress if it is so much above all earlier ones."""
Line = Mapping[str, Any]


def loss(line: Line) -> float:
    """Returns the sum of a validation's losses."""
    return sum(float(value) for name, value in line.items() if name.startswith("loss/"))


def lowest(line: Line) -> float:
    """Returns the smallest rate of a validation."""
    return min(line[name] for name in RATES)


def stale(validations: Sequence[Line]) -> list[int]:
    """Returns, for each validation, how many have brought no progress since the last one that did."""
    best, counts = 0.0, [0]
    for line in validations:
        measure = sum(line[name] for name in RATES) / len(RATES)
        counts.append(0 if measure > best + PROGRESS else counts[-1] + 1)
        best = max(best, measure)
    return counts[1:]


def confirmed(settings: TrainerSettings, validations: Sequence[Line]) -> int:
    """Returns how many of the last validations in a row reach `stop_at`."""
    good = [lowest(line) >= settings.stop_at for line in validations]
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
    first, last, step = loss(validations[0]), loss(validations[-1]), validations[-1]["step"]
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
    step = validations[-1]["step"]
    pause = max(settings.validate_every, settings.max_steps // 10)
    soon = bool(attempts) and step < attempts[-1] + pause
    last = step >= settings.max_steps  # a certificate is made at the end anyway
    return not soon and not last and confirmed(settings, validations) >= settings.confirm


def hopeless(settings: TrainerSettings, validations: Sequence[Line], d_model: int) -> str | None:
    """Returns why a run is given up, and what to try, if it has made no progress for long; else None."""
    count = stale(validations)[-1]
    if count < settings.patience or lowest(validations[-1]) >= settings.stop_at:
        return None
    return (
        f"no progress for {count} validations (worst: {validations[-1]['worst']}); try "
        f"trainer.learning_rate={settings.learning_rate / 2:.2g}, trainer.batch={2 * settings.batch}, "
        f"another seed, or a wider model.d_model than {d_model}"
    )
