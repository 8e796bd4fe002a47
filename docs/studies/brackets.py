"""Are the brackets of a string balanced? `python train.py task=docs/studies/brackets.py:brackets` trains it.

The program has both tests of the published analysis of a network for this task (Chan et al. 2022): there are
as many ( as ), and no prefix has more ) than (. Strings have 40 tokens; the published ones have up to 40.
"""

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import indicator, indices, prefix_mean, rasp, select, take
from interpbench.tasks.samplers import balanced, shuffled

_BALANCED = balanced([(0, 1)], filler=0)


@task("brackets", vocab="()", length=40, attention="bidirectional", balance=[_BALANCED, shuffled(_BALANCED)])
def brackets():
    """At every position, whether the brackets of the whole string are balanced."""
    opened = prefix_mean(indicator("(", "is_open"), "share_open")
    below = rasp.numerical(rasp.Map(lambda share: float(share < 0.5), opened)).named("below")
    level = rasp.Map(lambda share: share == 0.5, opened).named("level")
    everywhere = select(indices, indices, lambda key, query: True)
    ever = rasp.numerical(rasp.Aggregate(everywhere, below, default=0)).named("share_below")
    count = take(rasp.Map(lambda place: 39, indices).named("end"), "level_at_end", level)
    never = rasp.Map(lambda share: share == 0, ever).named("never_below")
    return rasp.SequenceMap(lambda x, y: x and y, count, never).named("balanced")
