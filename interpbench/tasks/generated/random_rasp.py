"""The family of random RASP programs: `random_rasp[seed=7,depth=3]`.

A seed's program is the first one that is drawn with it and accepted. It has the depth that is asked for, and
no program of fewer layers, two at most, answers as it does; its classes are neither too frequent nor too
rare; and patching any edge of its circuit changes the answers to a share of the inputs.
"""

import string
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.causal.model import NONE, Intervention, Read
from interpbench.circuits.naming import EMBED, Node
from interpbench.core import seeds
from interpbench.core.config import STRICT, Share
from interpbench.core.errors import TaskError
from interpbench.tasks.catalogue import task_family
from interpbench.tasks.generated.expressions import Counted, Expression, InputSizes, Moved, Taken
from interpbench.tasks.generated.growth import Growth, OperationShares
from interpbench.tasks.generated.shorter import shorter_program
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.task import RaspTask, Task

INPUTS = 2048
"""The number of inputs on which a program is judged."""
ATTEMPTS = 20_000
"""The number of programs that are drawn before a seed is given up."""
RAREST, LIKELIEST = 0.02, 0.8
"""The bounds of the share of answers that are of a class."""
ANSWERED = 0.5
"""The least share of positions with an answer."""
LEAST_EFFECT = 0.05
"""The least share of pairs of inputs on which an edge of the circuit changes an answer."""
LEAST_EDGES = 4
"""The least number of edges of the circuit, without those into the logits."""
HEADS = 4
"""The number of heads of a layer over which variables are spread."""
MOST_VALUES = 12
"""The largest number of values of a variable."""
Weight = Annotated[float, Field(ge=0, le=1e6)]
"""How often a kind of head is drawn, relative to the others."""


@dataclass(frozen=True, config=STRICT)
class RandomRasp:
    """A random RASP program.

    Attributes:
        seed: the seed of the program.
        depth: the number of layers.
        heads: the largest number of heads of the program in a layer.
        values: the number of tokens, which are the numbers from 0.
        length: the number of tokens of an input.
        causal: whether no position sees a later one.
        moves: the weight of heads that move values by one or two positions, relative to the other kinds.
        counts: the weight of heads that count positions.
        takes: the weight of heads that take the token at a computed position.
        joins: the share of functions that have two arguments.
        again: the share of arguments of heads that may be of any earlier layer; the others are of the last.
        spread: the number of layers over which variables are spread at random, at random heads, so that who
            knows the program does not know its circuit; 0 for where Tracr computes them.
    """

    seed: Annotated[int, Field(ge=0)] = 0
    depth: Annotated[int, Field(ge=1, le=4)] = 2
    heads: Annotated[int, Field(ge=1, le=4)] = 2
    values: Annotated[int, Field(ge=2, le=MOST_VALUES)] = 5
    length: Annotated[int, Field(ge=3, le=MOST_VALUES - 1)] = 8
    causal: bool = True
    moves: Weight = 1.0
    counts: Weight = 2.0
    takes: Weight = 0.5
    joins: Share = 0.5
    again: Share = 0.3
    spread: Annotated[int, Field(ge=0, le=8)] = 0


@task_family("random_rasp", RandomRasp, listed=False)
def random_rasp(p: RandomRasp) -> Task:
    """A program that is drawn at random."""
    made = task_of(find_program(p)[0])
    if not p.spread:
        return made
    nodes = spread_over(made, p.spread, seeds.generator(p.seed, "random_rasp", "spread"))
    return replace(made, alignment=nodes, network=ModelSettings(n_layers=p.spread, n_heads=HEADS))


def spread_over(task: RaspTask, layers: int, rng: np.random.Generator) -> dict[str, str]:
    """Returns nodes for the variables of a program, at random heads of layers that are drawn at random.

    Variables that Tracr computes in one half of a layer stay together, and halves stay in order.

    Args:
        task: the task.
        layers: the number of layers of the network.
        rng: the random generator.

    Raises:
        TaskError: if the program has more layers.
    """
    homes = {name: node for name, node in task.default_alignment.items() if node != EMBED}
    halves = sorted({(node.layer, node.head is None) for node in homes.values()})
    if layers < 1 + halves[-1][0]:
        raise TaskError(f"random_rasp: spread={layers}: the program has {1 + halves[-1][0]} layers")
    places = [
        chosen
        for chosen in combinations(range(2 * layers), len(halves))
        if all(half % 2 == is_mlp for half, (_, is_mlp) in zip(chosen, halves))
    ]
    chosen = dict(zip(halves, places[rng.integers(len(places))]))
    heads = {half: rng.permutation(HEADS) for half in halves}
    return {
        name: str(
            Node(
                chosen[node.layer, node.head is None] // 2,
                None if node.head is None else int(heads[node.layer, False][node.head]),
            )
        )
        for name, node in homes.items()
    }


def task_of(program: Expression) -> RaspTask:
    """Returns the task of a program."""
    setting = program.setting
    return RaspTask(
        description=describe(program),
        build=lambda: program.rasp({}),
        vocab=tuple(range(setting.values)),
        length=setting.length,
        attention="causal" if setting.causal else "bidirectional",
    )


def describe(program: Expression) -> str:
    """Returns a program in words: what is computed first, with a letter, then the output."""
    *before, last = sorted((one for one in program if one.half), key=lambda one: one.half)
    names = {one.key: "the token" for one in program if not one.half}
    names |= {one.key: letter for one, letter in zip(before, string.ascii_uppercase)}
    said = {one.key: one.words(*(names[part.key] for part in one.parts)) for one in (*before, last)}
    lines = [f"{names[one.key]} is {said[one.key]}" for one in before]
    return f"{'; '.join([*lines, 'the output is ' + said[last.key]])}."


def find_program(p: RandomRasp) -> tuple[Expression, Counter[str]]:
    """Returns the program of a seed, and why programs that were drawn before it were refused, counted.

    Raises:
        TaskError: if none is found.
    """
    if not p.moves + p.counts + p.takes:
        raise TaskError("random_rasp: moves, counts and takes are all 0; one of them has to be more")
    setting, refused = InputSizes(p.values, p.length, p.causal), Counter[str]()
    shares = OperationShares(p.moves, p.counts, p.takes, p.joins, p.again)
    rng = seeds.generator(p.seed, "random_rasp")
    inputs = rng.integers(p.values, size=(INPUTS, p.length)).astype(np.int16)
    grow = Growth(setting, shares, rng)
    for _ in range(ATTEMPTS):
        program = grow(p.depth)
        why = fault(program, p, inputs)
        if why is None:
            return program, refused
        refused[why] += 1
    often = ", ".join(f"{why} ({count})" for why, count in refused.most_common(3))
    raise TaskError(f"random_rasp: none of {ATTEMPTS} programs is accepted: {often}; try other settings")


def fault(program: Expression, p: RandomRasp, inputs: np.ndarray) -> str | None:
    """Returns why a program is refused; None if it is not.

    Args:
        program: the program.
        p: what is asked for.
        inputs: random inputs `[row, pos]`.
    """
    if program.layers != p.depth:
        return "another depth"
    per_layer = Counter(one.layers for one in program if isinstance(one, Moved | Counted | Taken))
    if max(per_layer.values()) > p.heads:
        return "too many heads in a layer"
    if max(len(one.values) for one in program) > MOST_VALUES:
        return "too many values"
    outputs = program.of(inputs)
    answers = outputs[outputs != NONE]
    if answers.size < ANSWERED * outputs.size:
        return "too few answers"
    shares = np.bincount(answers, minlength=program.values[-1] + 1)[list(program.values)] / answers.size
    if shares.min() < RAREST or shares.max() > LIKELIEST or len(shares) < 2:
        return "a class is too rare or too frequent"
    task = task_of(program)
    if task.homes[task.causal_model.output].layer + 1 != p.depth:
        return "another depth"  # Tracr leaves layers between some
    effects = edge_effects(task, inputs)
    if len(effects) < LEAST_EDGES or len({layer for layer, _ in effects}) < min(2, p.depth):
        return "too few edges"
    if min(effects.values()) < LEAST_EFFECT:
        return "an edge has too little effect"
    if shorter_program(program, inputs) is not None:
        return "a shorter program answers alike"
    return None


def edge_effects(task: RaspTask, inputs: np.ndarray) -> dict[tuple[int, str], float]:
    """Returns the share of pairs of inputs on which each edge of a program changes an answer.

    Edges have the layer of their end and a name. Those that bring positions, which never vary, and those into
    the logits are left out. Each input is patched from the one after it.
    """
    model, homes = task.causal_model, task.homes
    tokens = inputs.astype(np.int64)
    clean = model.run(tokens)
    source = {name: np.roll(values, -1, 0) for name, values in clean.items()}
    everywhere = np.ones(len(inputs), bool)
    edges: dict[tuple[int, str], list[tuple[str, Read]]] = {}
    for name, variable in model.variables.items():
        for read in variable.reads:
            if read.parent != "indices":
                end, start = homes[name], homes[read.parent]
                edges.setdefault((end.layer, f"{start} to {end} ({read.slot})"), []).append((name, read))
    return {
        edge: float(
            model.effective(
                clean,
                model.run(
                    tokens,
                    None,
                    {key: Intervention(source[key[1].parent], everywhere) for key in reads},
                    clean,
                ),
            ).mean()
        )
        for edge, reads in edges.items()
    }
