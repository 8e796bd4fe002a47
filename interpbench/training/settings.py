"""Settings of training and of certificates. Needs no torch, so that a mistake in them is said at once."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Amount, Count, Share
from interpbench.tasks.task import Task

BatchSize = Annotated[int, Field(ge=1, le=1 << 16)]
PairCount = Annotated[int, Field(ge=1, le=10**7)]


@dataclass(frozen=True, config=STRICT)
class TrainerSettings:
    """How to train.

    Attributes:
        max_steps: steps of the whole schedule; a certificate may end it earlier.
        batch: rows of every world.
        learning_rate: the highest learning rate of the schedule.
        optimizer: the rule that updates the weights.
        weight_decay: the optimizer's weight decay.
        schedule: how the learning rate goes: `one_cycle` (up over a tenth of the steps, then down along a
            cosine), `plateau` (halved when `plateau_patience` validations bring nothing) or `none`.
        plateau_patience: validations without progress after which `plateau` halves the learning rate.
        clip: the largest norm of the gradient.
        validate_every: steps between validations.
        validation_rows: pairs of inputs in a validation.
        patience: validations without progress after which the run stops.
        stop_at: the validation rate, of everything, from which a certificate is tried.
        confirm: how many validations in a row must reach it: one alone may be lucky.
        save_every: steps between saves of the training state.
    """

    max_steps: Count = 4000
    batch: BatchSize = 64
    learning_rate: Amount = 3e-3
    optimizer: Literal["adamw", "adam"] = "adamw"
    weight_decay: Amount = 0.0
    schedule: Literal["one_cycle", "plateau", "none"] = "one_cycle"
    plateau_patience: Count = 5
    clip: Amount = 1.0
    validate_every: Count = 100
    validation_rows: BatchSize = 1024
    patience: Count = 25
    stop_at: Share = 1.0
    confirm: Count = 3
    save_every: Count = 200


@dataclass(frozen=True, config=STRICT)
class CertificateSettings:
    """How much a certificate measures; what is asked of it, its reader says (`standard`).

    Attributes:
        enumerate_up_to: the largest number of inputs whose pairs are all run.
        pairs: rows of the first look at each rate that is drawn: from the task's distribution, and again from
            its strata.
        looks: how many looks there may be: each doubles the rows of what is not settled.
        sources: runs from which sets take values where each place has a source of its own.
        share: an inert edge is run on rows where its estimated effect is this share of the margin: of what it
            takes to make the answer wrong.
        checks: how many of the other (edge, row) are run at least, if they are most of all: drawn at random.
        edge_checks: how many of them are run of each edge.
        attacks: how many sets the adversary starts from; 0 for no attack.
        attack_rows: rows on which the adversary searches.
        attack_steps: steps of each search.
    """

    enumerate_up_to: Annotated[int, Field(ge=1, le=200_000)] = 1000
    pairs: PairCount = 4608
    looks: Annotated[int, Field(ge=1, le=16)] = 5
    sources: Annotated[int, Field(ge=1, le=16)] = 4
    share: Share = 0.2
    checks: PairCount = 80_000
    edge_checks: PairCount = 136
    attacks: Annotated[int, Field(ge=0, le=1000)] = 4
    attack_rows: PairCount = 256
    attack_steps: Annotated[int, Field(ge=1, le=1000)] = 12

    def enumerates(self, task: Task) -> bool:
        """Returns whether all pairs are run."""
        return task.domain.size <= self.enumerate_up_to
