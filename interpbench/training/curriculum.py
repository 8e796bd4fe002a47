"""The curriculum: the steps at which losses begin and end."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from interpbench.causal.model import MANY
from interpbench.core.config import STRICT, Share, Steps

if TYPE_CHECKING:
    from interpbench.tasks.task import Task


@dataclass(frozen=True, config=STRICT)
class Curriculum:
    """Steps at which losses begin or end; each counts from the next pool of draws on.

    Attributes:
        outputs_after: the steps after which behaviour and IIT are trained. Before that only probes and
            attention supervision are, so that early variables of the circuit are computed before the network
            can learn its output in another way.
        strict_after: the steps after which the two strict terms are trained. A large network learns the
            program sooner without them.
        probe_until: the steps after which probes are no longer trained; None for never. A trained network may
            then represent variables in another way than linearly.
        guided: the share of the schedule after which probes and attention supervision end. With a restart, of
            the steps before it. They end sooner with the first validation that reaches `trainer.stop_at`. 1
            for guidance to the end. Validations during guidance do not count for a certificate, but with 1.
        supervise_to_end: whether attention is supervised to the end, when the rest of guidance has ended.
            None for whether a head compares many keys, if `guided` is more than 0: without, such a head
            learns to attend to wrong ones again.
    """

    outputs_after: Steps = 0
    strict_after: Steps = 0
    probe_until: Steps | None = None
    guided: Share = 0.75
    supervise_to_end: bool | None = None

    def of_task(self, task: "Task") -> "Curriculum":
        """Returns these settings, with what they leave to the task decided."""
        many = task.causal_model.head_dimensions > MANY and self.guided > 0
        told = self.supervise_to_end
        return replace(self, supervise_to_end=many if told is None else told)

    def outputs(self, step: int) -> bool:
        """Returns whether behaviour and IIT are trained at a step."""
        return step >= self.outputs_after

    def strict(self, step: int) -> bool:
        """Returns whether the strict terms are trained at a step."""
        return step >= self.strict_after

    def probes(self, step: int) -> bool:
        """Returns whether probes are trained at a step."""
        return self.probe_until is None or step < self.probe_until
