"""The hash of a task: it tells for which program and domain a certificate was made.

The hash is of text only (numbers with nine digits), so that it is the same in every process. Functions of a
program have no text; what stands for them are the values of all variables on fixed inputs.
"""

import hashlib
from collections.abc import Iterator

import numpy as np

from interpbench.core import seeds
from interpbench.tasks.task import Task

INPUTS = 512
"""The number of inputs, and of sources for them, on which the program is run."""


def task_sha256(task: Task) -> str:
    """Returns the SHA-256, in hexadecimal, of a task's program and domain, without name and description."""
    found = hashlib.sha256()
    for line in (*_program(task), *_domain(task)):
        found.update(line.encode() + b"\n")
    return found.hexdigest()


def _program(task: Task) -> Iterator[str]:
    """Yields lines for the program, its tokens and the nodes of its variables."""
    yield from (f"listing {line}" for line in task.listing())
    yield f"vocab {_text(task.vocab)}"
    yield f"length {task.length} attention {task.attention} tolerance {_text(task.tolerance)}"
    default = task.default_alignment
    differing = (name for name, node in task.alignment.items() if node != str(default.get(name)))
    yield from (f"alignment {name} {task.alignment[name]}" for name in sorted(differing))
    # These words are part of hashes in files, and must stay as they are.
    yield from (f"placement {name} {node}" for name, node in sorted(default.items()))
    yield f"output {task.causal_model.output}"
    for name, variable in task.causal_model.variables.items():
        reads = " ".join(f"{read.parent}<{read.slot}>" for read in variable.reads)
        yield f"variable {name} reads {reads} values {_text(variable.values)}"


def _domain(task: Task) -> Iterator[str]:
    """Yields lines for the domain's size, and for the values of all variables on inputs and sources."""
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
    """Returns a value as text; numbers have nine digits, as machines differ in the last bits."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, float):
        return f"{value + 0.0:.9g}"
    return f"{type(value).__name__} {value}"
