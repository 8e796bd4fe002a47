"""What random programs are like: 1,000 seeds of each setting that decides which are drawn.

Counted are heads, operations, what they read, edges of the circuit, why programs were refused, and how many
canonical forms there are. The page is `docs/random_programs.md`, its figure `docs/random_programs.png`.

Run: `python -m benchmarks.random_programs` (`--seeds 100`, `--jobs 2`).
"""

import argparse
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from matplotlib.axes import Axes

from benchmarks import random_training
from interpbench.core.files import write_text
from interpbench.reports.models_page import END
from interpbench.reports.palette import COLOURS, Picture, save
from interpbench.tasks.generated.expressions import Changed, Combined, Counted, Expression, Moved, Taken
from interpbench.tasks.generated.random_rasp import (
    ANSWERED,
    LEAST_EDGES,
    LEAST_EFFECT,
    LIKELIEST,
    RAREST,
    RandomRasp,
    describe,
    edge_effects,
    find_program,
    task_of,
)

SETTINGS: dict[str, RandomRasp] = {
    "default": RandomRasp(),
    "depth=3": RandomRasp(depth=3),
    "depth=3,heads=1": RandomRasp(depth=3, heads=1),
    "depth=4": RandomRasp(depth=4),
    "causal=false": RandomRasp(causal=False),
    "values=8,length=10": RandomRasp(values=8, length=10),
    "moves=0": RandomRasp(moves=0),
    "counts=0": RandomRasp(counts=0),
    "takes=0": RandomRasp(takes=0),
    "joins=0": RandomRasp(joins=0),
    "joins=1": RandomRasp(joins=1),
    "depth=3,again=0.9": RandomRasp(depth=3, again=0.9),
}
DRAWN = ("default", "depth=3", "causal=false")
"""The settings that the figure shows."""
SHOWN = 6
"""The number of programs that the page shows."""
WIDTH = 120
TEMPLATE = """# Random programs

`random_rasp` is a family of tasks whose programs a seed draws, so that nobody can look them up:

```bash
interpbench show 'random_rasp[seed=7,depth=3,heads=2,values=6]'
python train.py 'task=random_rasp[seed=7,depth=3,heads=2,values=6]'
```

A program is grown from its output back to the tokens, of heads that move values by one or two positions,
count positions whose key compares in some way with the query, or take the token at a computed position, and
of functions of one or two numbers. The first one of a seed is taken that has the depth and no more heads in
a layer than is asked for, and of which all this holds, on 2,048 inputs:

{rules}

## What {seeds} seeds give

Means over programs; of edges, the median (least to most). *Fan-in* is the number of variables that a head
or a function reads. *Shared* programs read something that is computed more than once. Programs with one
canonical form are equal but for the order of arguments; *forms* counts those that differ. *Tried* is the
number of programs that are drawn for one that is accepted.

| settings | heads | moves | counts | takes | joins | changes | fan-in | edges | shared | forms | tried |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{rows}

![Edges, and operations, of {seeds} programs](random_programs.png)

Why programs are refused, of all that were:

| reason | share |
| --- | ---: |
{reasons}

## Trained by the default recipe

The first seeds, with nothing but the task said. *In time* are those that took at most ten CPU minutes with
their certificates; the share has its 95 % interval.

{begin}
{trained}
{end}

## Examples

{examples}

`python -m benchmarks.random_programs` makes this page.
"""
PAGE, FIGURE = Path("docs/random_programs.md"), Path("docs/random_programs.png")


@dataclass(frozen=True)
class Drawn:
    """The program of a seed.

    Attributes:
        program: the program.
        refused: why others were refused before, counted.
        edges: the number of edges of its circuit that change answers, without those into the logits.
    """

    program: Expression
    refused: Counter[str]
    edges: int

    @property
    def operations(self) -> list[Expression]:
        """All that is computed."""
        return [one for one in self.program if one.half]

    @property
    def heads(self) -> int:
        """The number of heads."""
        return sum(isinstance(one, Moved | Counted | Taken) for one in self.operations)

    @property
    def fan_in(self) -> float:
        """The mean number of variables, tokens among them, that an operation reads."""
        return float(np.mean([len({part.key for part in one.parts}) for one in self.operations]))

    @property
    def shared(self) -> bool:
        """Whether something that is computed is read more than once."""
        reads = Counter(part.key for one in self.operations for part in one.parts if part.half)
        return max(reads.values(), default=0) > 1


def drawn(settings: RandomRasp, seeds: int) -> list[Drawn]:
    """Returns the programs of the first seeds."""
    inputs = np.random.default_rng(0).integers(settings.values, size=(512, settings.length)).astype(np.int16)
    found: list[Drawn] = []
    for seed in range(seeds):
        program, refused = find_program(replace(settings, seed=seed))
        found.append(Drawn(program, refused, len(edge_effects(task_of(program), inputs))))
    return found


def kind(one: Expression) -> str:
    """Returns what an expression does, in a word."""
    return one.function if isinstance(one, Changed | Combined) else type(one).__name__.lower()


def row(name: str, programs: Sequence[Drawn]) -> str:
    """Returns the row of a setting in the table of the page."""
    seeds = len(programs)
    forms = len({one.program.key for one in programs})
    tried = seeds + sum(one.refused.total() for one in programs)
    operations = [each for one in programs for each in one.operations]
    kinds = Counter(type(each) for each in operations)
    edges = [one.edges for one in programs]
    cells = [
        f"`{name}`",
        f"{np.mean([one.heads for one in programs]):.1f}",
        *(f"{kinds[each] / seeds:.2f}" for each in (Moved, Counted, Taken, Combined, Changed)),
        f"{np.mean([one.fan_in for one in programs]):.2f}",
        f"{np.median(edges):.0f} ({min(edges)} to {max(edges)})",
        f"{np.mean([one.shared for one in programs]):.0%}",
        f"{forms:,}",
        f"{tried / seeds:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def page(found: Mapping[str, Sequence[Drawn]]) -> str:
    """Returns the page."""
    seeds = len(found["default"])
    refused = sum((one.refused for programs in found.values() for one in programs), Counter[str]())
    reasons = [f"| {why} | {count / refused.total():.1%} |" for why, count in refused.most_common()]
    examples = [
        wrapped(f"* `random_rasp[seed={seed}]`: {describe(one.program)}")
        for seed, one in enumerate(found["default"][:SHOWN])
    ]
    rules = [
        f"every class has {RAREST:.0%} to {LIKELIEST:.0%} of answers, and at least {ANSWERED:.0%} of "
        "positions have one;",
        f"the circuit has at least {LEAST_EDGES} edges, in at least two layers, besides those into the "
        f"logits, and each changes an answer on at least {LEAST_EFFECT:.0%} of pairs of inputs;",
        "no program of one or two layers, if these are fewer than its own, answers alike: all that can be "
        "drawn are compared.",
    ]
    return TEMPLATE.format(
        rules="\n".join(wrapped(f"* {rule}") for rule in rules),
        seeds=f"{seeds:,}",
        rows="\n".join(row(*each) for each in found.items()),
        reasons="\n".join(reasons),
        examples="\n".join(examples),
        begin=random_training.BEGIN,
        trained=random_training.kept(PAGE.read_text()),
        end=END,
    )


def wrapped(text: str) -> str:
    """Returns an item of a list in lines of the width that pages have."""
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def figure(found: Mapping[str, list[Drawn]]) -> Picture:
    """Returns the figure: how many edges circuits have, and of which operations programs consist."""
    picture = Picture(figsize=(9, 3.4), layout="constrained")
    edges, operations = picture.subplots(1, 2, width_ratios=[1, 1.4])
    _edges(edges, found)
    _operations(operations, found)
    return picture


def _edges(axes: Axes, found: Mapping[str, list[Drawn]]) -> None:
    for name, colour in zip(DRAWN, COLOURS):
        counts = Counter(one.edges for one in found[name])
        places = range(LEAST_EDGES, max(counts) + 1)
        shares = [counts[place] / len(found[name]) for place in places]
        axes.plot(places, shares, "o-", color=colour, markersize=3, label=name)
    axes.set(xlabel="edges of the circuit", ylabel="share of programs")
    axes.legend(frameon=False)


def _operations(axes: Axes, found: Mapping[str, list[Drawn]]) -> None:
    names: list[str] = []
    width = 0.8 / len(DRAWN)
    for place, (name, colour) in enumerate(zip(DRAWN, COLOURS)):
        counts = Counter(kind(each) for one in found[name] for each in one.operations)
        names = names or [each for each, _ in counts.most_common()]
        at = np.arange(len(names)) + (place - (len(DRAWN) - 1) / 2) * width
        axes.bar(at, [counts[each] / len(found[name]) for each in names], width, color=colour, label=name)
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_ylabel("times in a program")


def main() -> None:
    """Draws programs, and writes the page and its figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1000, help="the number of seeds of each setting")
    parser.add_argument("--jobs", type=int, default=1, help="the number of processes")
    arguments = parser.parse_args()
    tasks = (delayed(drawn)(settings, arguments.seeds) for settings in SETTINGS.values())
    every: Iterable[list[Drawn]] = Parallel(arguments.jobs, return_as="generator")(tasks)
    found: dict[str, list[Drawn]] = {}
    for name, programs in zip(SETTINGS, every, strict=True):
        found[name] = programs
        print(name, len({one.program.key for one in programs}), "forms", flush=True)
    write_text(PAGE, page(found))
    save(figure(found), FIGURE)


if __name__ == "__main__":
    main()
