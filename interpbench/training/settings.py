"""Settings of training and of certificates. Needs no torch, so that a mistake in them is said at once."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Amount, Count, Share
from interpbench.tasks.task import Task

Batch = Annotated[int, Field(ge=1, le=1 << 16)]
Pairs = Annotated[int, Field(ge=1, le=10**7)]


@dataclass(frozen=True, config=STRICT)
class TrainerSettings:
    """How to train.

    Attributes:
        max_steps: steps of the whole schedule; a certificate may end it earlier.
        batch: rows of every world.
        learning_rate: the highest that the schedule reaches.
        schedule: `one_cycle` (up over a tenth of the steps, then down along a cosine), `plateau` (halved when
            `plateau_patience` validations bring nothing) or `none`.
        clip: largest gradient norm.
        validate_every: steps between validations on `validation_rows` pairs.
        patience: validations without progress after which the run stops.
        stop_at: validation rate (of everything) from which a certificate is tried.
        save_every: steps between saves of the training state.
    """

    max_steps: Count = 4000
    batch: Batch = 64
    learning_rate: Amount = 3e-3
    optimizer: Literal["adamw", "adam"] = "adamw"
    weight_decay: Amount = 0.0
    schedule: Literal["one_cycle", "plateau", "none"] = "one_cycle"
    plateau_patience: Count = 5
    clip: Amount = 1.0
    validate_every: Count = 100
    validation_rows: Batch = 1024
    patience: Count = 25
    stop_at: Share = 1.0
    save_every: Count = 200


@dataclass(frozen=True, config=STRICT)
class CertificateSettings:
    """How a certificate is made, and what it asks for.

    Attributes:
        enumerate_up_to: the largest number of inputs whose pairs are all run.
        pairs: number of pairs drawn otherwise.
        edge_pairs: the same for edges that must do nothing, each patched alone, which costs by far the most;
            at most `pairs`. The few that miss the target on these are measured again on `pairs` others.
        target: the rate (or lower bound, if drawn) that everything must reach; None asks 1 of an
            enumeration and 0.999 of draws.
        confidence: of each lower bound.
    """

    enumerate_up_to: Annotated[int, Field(ge=1, le=200_000)] = 1000
    pairs: Pairs = 5_000
    edge_pairs: Pairs = 5_000
    target: Share | None = None
    confidence: Share = 0.95

    def enumerates(self, task: Task) -> bool:
        """Returns whether all pairs are run."""
        return task.domain.size <= self.enumerate_up_to

    def number_of_pairs(self, task: Task) -> tuple[int, int]:
        """Returns how many pairs are run, and for how many every edge is patched alone."""
        if self.enumerates(task):
            return task.domain.size**2, task.domain.size**2
        return self.pairs, min(self.pairs, self.edge_pairs)
