"""When which loss begins and ends."""

from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Steps


@dataclass(frozen=True, config=STRICT)
class Curriculum:
    """Steps at which losses begin or end; each counts from the next pool of draws on.

    Attributes:
        outputs_after: the steps after which behaviour and IIT are trained: before that probes and attention
            supervision alone are, so that variables early in the circuit are there before anything can go
            around them.
        strict_after: the steps after which the two strict terms begin. A large network learns what to do
            sooner while nothing else is asked of it.
        probe_until: the steps after which probes are trained no more; None for never. They show the way; a
            network that is there may write otherwise.
    """

    outputs_after: Steps = 0
    strict_after: Steps = 0
    probe_until: Steps | None = None

    def outputs(self, step: int) -> bool:
        """Returns whether behaviour and IIT are trained at a step."""
        return step >= self.outputs_after

    def strict(self, step: int) -> bool:
        """Returns whether the strict terms are trained at a step."""
        return step >= self.strict_after

    def probes(self, step: int) -> bool:
        """Returns whether probes are trained at a step."""
        return self.probe_until is None or step < self.probe_until
