"""What a task is, as a hash: a proof of a network is a proof for one program on one domain.

The hash is over text alone (numbers to nine digits), so that it is the same in every process. What Python
cannot write down, a program's functions, is known by what every variable is on inputs that never change.
"""

import hashlib
from collections.abc import Iterator

import numpy as np

from interpbench.core import seeds
from interpbench.tasks.task import Task

INPUTS = 512
"""Inputs, and sources of interventions for them, on which the program is run."""


def task_sha256(task: Task) -> str:
    """Returns the SHA-256, in hexadecimal, of a task's program and domain; neither name nor words matter."""
    found = hashlib.sha256()
    for line in (*_program(task), *_domain(task)):
        found.update(line.encode() + b"\n")
    return found.hexdigest()


def _program(task: Task) -> Iterator[str]:
    """Yields what is said of the program, its tokens and the places of its variables."""
    yield from (f"listing {line}" for line in task.listing())
    yield f"vocab {_text(task.vocab)}"
    yield f"length {task.length} attention {task.attention} tolerance {_text(task.tolerance)}"
    default = task.default_alignment
    differing = (name for name, node in task.alignment.items() if node != str(default.get(name)))
    yield from (f"alignment {name} {task.alignment[name]}" for name in sorted(differing))
    # Files hold hashes of these very words.
    yield from (f"placement {name} {node}" for name, node in sorted(default.items()))
    yield f"output {task.causal_model.output}"
    for name, variable in task.causal_model.variables.items():
        reads = " ".join(f"{read.parent}<{read.slot}>" for read in variable.reads)
        yield f"variable {name} reads {reads} values {_text(variable.values)}"


def _domain(task: Task) -> Iterator[str]:
    """Yields the domain's size, some inputs and sources, and what every variable is on these."""
    domain = task.domain
    yield f"size {domain.size}"
    rng = seeds.generator(0, "identity")
    base = domain.draw(rng, INPUTS)
    held_out = domain.draw(rng, INPUTS, True)
    for name, tokens in (
        ("inputs", base),
        ("sources", domain.sources(rng, base)),
        ("held out", held_out),
        ("held-out sources", domain.sources(rng, held_out, True)),
    ):
        trace = task.causal_model.run(tokens)
        for variable, values in trace.items():
            yield f"{name} {variable} {_values(values)}"
        yield f"{name} scored {_values(task.scored(trace[task.causal_model.output]))}"


def _values(values: np.ndarray) -> str:
    """Returns an array as text."""
    if values.dtype.kind == "f":
        return f"{values.shape} {' '.join(_text(value) for value in values.ravel().tolist())}"
    return f"{values.shape} {values.astype(np.int64).ravel().tolist()}"


def _text(value: object) -> str:
    """Returns a value as text: a number to nine digits, as machines differ in the last bits."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, float):
        return f"{value + 0.0:.9g}"
    return f"{type(value).__name__} {value}"
