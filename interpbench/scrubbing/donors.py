"""Donors: further inputs that agree with those with whom no other does, so that claims say something.

Among a thousand random inputs hardly two have the same counts at ten positions; a claim about them exchanges
nothing. A donor is made from an input by changes that keep a claim's values: a token is replaced, two are
exchanged, or all tokens are renamed. A change is as likely as its reverse, so that donors of inputs that are
uniformly distributed are so, too (Metropolis et al. 1953, with a target that is uniform where values agree).

Shapes: N inputs, P positions (`pos`).
"""

from collections.abc import Callable

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.circuits.naming import EMBED
from interpbench.core import seeds
from interpbench.core.errors import TaskError
from interpbench.scrubbing.classes import Classes
from interpbench.tasks.domain import Sequences

STEPS = 60
"""The number of changes that are tried of each input."""
MOST = 128
"""The largest number of donors that are made for the claim about a node."""


def with_donors(alignment: Alignment, tokens: np.ndarray, seed: int = 0) -> np.ndarray:
    """Returns inputs and donors, `[N + donors, pos]`, each once.

    For the claim about each node that carries variables, some inputs get a donor with whom no other agrees.

    Args:
        alignment: the nodes of the program's variables.
        tokens: the inputs, `[N, pos]`.
        seed: the seed of changes.

    Raises:
        TaskError: if the task's inputs are not all sequences of a length, whose tokens can be changed.
    """
    task = alignment.task
    domain, model = task.domain, task.causal_model
    if not isinstance(domain, Sequences):
        raise TaskError(f"the inputs of {task.name} cannot be changed token by token; leave out donors")
    found = tokens
    for node, names in sorted(alignment.aligned_nodes.items(), key=lambda item: str(item[0])):
        if node == EMBED:
            continue

        def values(rows: np.ndarray, names: tuple[str, ...] = tuple(names)) -> np.ndarray:
            trace = model.run(rows)
            return np.concatenate([trace[name].astype(np.float64) for name in names], 1)

        classes = Classes.of(values(tokens), len(tokens))
        alone = np.flatnonzero(classes.sizes[classes.ids] == 1)[:MOST]
        if len(alone):
            rng = seeds.generator(seed, "donors", str(node))
            made = mutated(rng, tokens[alone], domain.vocab_size, values)
            answered = task.scored(model.outputs(made)).any(1)
            found = np.concatenate([found, made[answered]])
    first = np.unique(found, axis=0, return_index=True)[1]
    return found[np.sort(first)]


def mutated(
    rng: np.random.Generator, tokens: np.ndarray, size: int, values: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Returns an input that agrees with each of `tokens`, `[N, pos]`: often another one, if there is any.

    Args:
        rng: the random generator.
        tokens: the inputs, `[N, pos]`.
        size: the number of tokens of the vocabulary.
        values: the values `[N, ...]` of a claim on inputs `[N, pos]`.
    """
    wanted, current = values(tokens), tokens
    for _ in range(STEPS):
        proposed = _changed(rng, current, size)
        found = values(proposed)
        agrees = np.all((found == wanted) | (np.isnan(found) & np.isnan(wanted)), axis=1)
        current = np.where(agrees[:, None], proposed, current)
    return current


def _changed(rng: np.random.Generator, rows: np.ndarray, size: int) -> np.ndarray:
    """Returns each of `rows [N, pos]` with one of three changes, each as likely as its reverse."""
    count, length = rows.shape
    everyone, kind = np.arange(count), rng.integers(3, size=count)
    first, second = rng.integers(length, size=(2, count))
    made = rows.copy()
    new = rng.integers(size, size=count, dtype=rows.dtype)
    made[everyone, first] = np.where(kind == 0, new, made[everyone, first])
    ends = rows[everyone, second], rows[everyone, first]
    for place, token in zip((first, second), ends):
        made[everyone, place] = np.where(kind == 1, token, made[everyone, place])
    names = rng.random((count, size)).argsort(1).astype(rows.dtype)
    renamed = np.take_along_axis(names, rows.astype(np.intp), 1)
    return np.where((kind == 2)[:, None], renamed, made)
