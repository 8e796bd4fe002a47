"""Functions of single tokens."""

from typing import Any

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import rasp, tokens


@task("digit_sum", legacy_id=40, vocab=range(29), length=9, attention="causal")
def digit_sum() -> Any:
    """The sum of the tens digit and the ones digit."""
    tens = rasp.Map(lambda v: v // 10, tokens).named("tens")
    ones = rasp.Map(lambda v: v % 10, tokens).named("ones")
    return rasp.SequenceMap(lambda x, y: x + y, tens, ones).named("digit_sum")
