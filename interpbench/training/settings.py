"""Settings of training and of certificates.

They do not import torch, so that mistakes in settings are reported at once.
"""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.causal.model import MANY
from interpbench.core.config import STRICT, Amount, Count, Share
from interpbench.tasks.shapes import shape
from interpbench.tasks.task import Task

STEPS, STEPS_PER_LAYER = 8000, 1500
"""The least number of steps of a schedule, and that for each layer. In `two_brackets_balanced`, of eight
layers, 47 of 73,728 rows are wrong with all inert edges patched after 8,000 steps, where 46 may be; with a
schedule of 12,000 it is certified after 11,000."""
STEPS_FOR_SLOW = 11_000
"""The least number of steps of *slow* tasks: 8,250 and a restart of 2,750. In these a head compares many
keys, or several heads count keys and one of them compares them. One schedule of 8,000 or 12,000 steps has
certified no task of many keys, and AdamW in 8,000 steps none of seven random programs with two counts."""
FIRST = 0.75
"""The share of the schedule `restart` that its first cycle takes."""
BatchSize = Annotated[int, Field(ge=1, le=1 << 16)]
"""A number of rows that go through a network at once."""
PairCount = Annotated[int, Field(ge=1, le=10**7)]
"""A number of pairs of inputs."""


@dataclass(frozen=True, config=STRICT)
class TrainerSettings:
    """Settings of the optimizer, its schedule, validations and stopping.

    Attributes:
        max_steps: the number of steps of the schedule; None for 1,500 a layer of the program, 8,000 at least.
            In slow tasks it is 11,000 at least: in these a head compares many keys, or several heads count
            and one of them compares keys. Training ends sooner with a good certificate.
        batch: the number of rows for each kind of intervention in a step.
        learning_rate: the highest learning rate of the schedule.
        optimizer: the optimizer; None for Muon in slow tasks, else AdamW. With Muon the matrices of heads and
            MLPs move equally far in all directions.
        weight_decay: the optimizer's weight decay.
        schedule: the schedule of the learning rate: `one_cycle` (it rises over a tenth of the steps, then
            falls along a cosine), `restart` (the same in three quarters of the steps, and again in the last
            quarter with a tenth of the rate), `plateau` (it is halved after `plateau_patience` validations
            without progress) or `none` (it is constant). None for `restart` in slow tasks, else
            `one_cycle`.
        plateau_patience: the number of validations without progress after which `plateau` halves the rate.
        clip: the largest norm of the gradient; larger gradients are scaled down to it.
        validate_every: the number of steps between validations.
        validation_rows: the number of pairs of inputs in a validation.
        patience: the number of validations without progress after which training stops with an error.
        stop_at: the lowest rate in a validation that must be reached before a certificate is tried.
        confirm: the number of validations in a row that have to reach `stop_at`.
        save_every: the number of steps between saves of the training state.
    """

    max_steps: Count | None = None
    batch: BatchSize = 64
    learning_rate: Amount = 3e-3
    optimizer: Literal["adamw", "adam", "muon"] | None = None
    weight_decay: Amount = 0.0
    schedule: Literal["one_cycle", "restart", "plateau", "none"] | None = None
    plateau_patience: Count = 5
    clip: Amount = 1.0
    validate_every: Count = 100
    validation_rows: BatchSize = 1024
    patience: Count = 25
    stop_at: Share = 1.0
    confirm: Count = 2
    save_every: Count = 200

    def of_task(self, task: Task) -> "TrainerSettings":
        """Returns these settings, with what they leave to the task decided."""
        dimensions, counts = task.causal_model.head_dimensions, task.causal_model.counts
        slow = dimensions > MANY or (counts > 1 and dimensions > 1)
        steps = max(STEPS_FOR_SLOW if slow else STEPS, STEPS_PER_LAYER * shape(task).n_layers)
        return replace(
            self,
            max_steps=self.max_steps or steps,
            optimizer=self.optimizer or ("muon" if slow else "adamw"),
            schedule=self.schedule or ("restart" if slow else "one_cycle"),
        )

    @property
    def steps(self) -> int:
        """The number of steps of the schedule: what `of_task` has decided, or the least."""
        return self.max_steps or STEPS

    @property
    def longer(self) -> int:
        """The steps of a schedule to try if this one did not do: twice as many, and at least the default."""
        return max(2 * self.steps, STEPS)

    @property
    def cycles(self) -> tuple[int, ...]:
        """The steps at which the learning rate begins to rise: none where it never does."""
        if self.schedule == "restart":
            return 0, int(FIRST * self.steps)
        return (0,) if self.schedule in ("one_cycle", None) else ()


@dataclass(frozen=True, config=STRICT)
class CertificateSettings:
    """How much a certificate measures. The rates that it has to reach are those of the `standard`.

    A row is a pair of a base and a source input.

    Attributes:
        enumerate_up_to: the largest number of inputs of a task for which all pairs are run.
        pairs: the number of rows of the first look at each rate: so many from the task's distribution, and as
            many again from its strata.
        looks: the largest number of looks. Each doubles the rows of rates that are still undecided.
        sources: the number of sources that the members of a patched set are taken from at random.
        share: the share of the margin that an edge's estimated effect must reach for the edge to be run. The
            margin is that by which the output of a row is right.
        checks: the number of random checks, over all edges, of rows on which an edge would not be run.
        edge_checks: the number of such checks of each edge.
        attacks: the number of sets of nodes or edges that the adversary starts from; 0 for no attack.
        attack_rows: the number of rows on which the adversary searches.
        attack_steps: the number of steps of each search.
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
        """Returns whether all pairs of a task's inputs are run."""
        return task.domain.size <= self.enumerate_up_to
