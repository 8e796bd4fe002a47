"""Mechanisms of RASP operations on many inputs at once: maps and selectors are lookup tables.

Mechanisms take and return arrays `[row, pos]`, codes of categorical values or numbers (see `causal.model`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from interpbench.causal.model import NONE

Values = tuple[object, ...]
"""All values of a variable, in the order of their codes."""
Mechanism = Callable[..., np.ndarray]
"""A function from the values of a variable's parents to its own, `[row, pos]` each."""


def sort_values(values: set[Any]) -> Values:
    """Returns values in the order in which Tracr sorts the directions of its bases."""
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=str))


def apply(function: Callable[..., Any], *arguments: object) -> Any:
    """Returns a function's result; None if an argument is None, or for an arithmetic error."""
    if any(argument is None for argument in arguments):
        return None
    try:
        return function(*arguments)
    except ArithmeticError:
        return None


def image(function: Callable[..., object], *domains: Values) -> Values:
    """Returns all values of a function over the product of its arguments' values, without None."""
    grids = np.indices([len(domain) for domain in domains]).reshape(len(domains), -1).T
    results = (apply(function, *(d[i] for d, i in zip(domains, row))) for row in grids)
    return sort_values({result for result in results if result is not None})


def table(function: Callable[..., object], domains: Sequence[Values], values: Values) -> Mechanism:
    """Returns the mechanism of a function of categorical values, a lookup table.

    Args:
        function: the function.
        domains: the values of each argument.
        values: the values of the result.
    """
    code = {value: index for index, value in enumerate(values)}
    shape = [len(domain) + 1 for domain in domains]
    codes = np.full(shape, NONE, np.int16)
    for place in np.ndindex(*(len(domain) for domain in domains)):
        result = apply(function, *(d[i] for d, i in zip(domains, place)))
        codes[place] = NONE if result is None else code[result]
    return lambda *inputs: codes[tuple(inputs)]


def to_number(function: Callable[[Any], Any], domain: Values) -> Mechanism:
    """Returns the mechanism of a function from categorical values to numbers."""
    results = [apply(function, value) for value in domain]
    numbers = np.array([np.nan if x is None else float(x) for x in results] + [np.nan])
    return lambda inputs: numbers[inputs]


def of_number(function: Callable[[float], object], values: Values | None) -> Mechanism:
    """Returns the mechanism of a function of numbers, evaluated once for each different number that occurs.

    The result is categorical, with these `values`, or a number if they are None.
    """
    code = None if values is None else {value: index for index, value in enumerate(values)}

    def mechanism(inputs: np.ndarray) -> np.ndarray:
        distinct, places = np.unique(inputs, return_inverse=True)
        results = [None if np.isnan(x) else apply(function, float(x)) for x in distinct]
        if code is None:
            outputs = np.array([np.nan if x is None else float(x) for x in results])
        else:
            outputs = np.array([NONE if x is None else code[x] for x in results], np.int16)
        return outputs[places].reshape(inputs.shape)

    return mechanism


def linear(first: float, second: float) -> Mechanism:
    """Returns the mechanism `first * a + second * b` of numbers a and b."""
    return lambda a, b: first * a + second * b


def selection_table(predicate: Callable[[Any, Any], bool], keys: Values, queries: Values) -> np.ndarray:
    """Returns which values of keys are selected by each value of a query, bool `[query, key]`, None last.

    None is never selected and selects nothing, as it has no direction in the compiled network.

    Args:
        predicate: the function of a key and a query that says whether the query selects the key.
        keys: the values of keys.
        queries: the values of queries.
    """
    chosen = np.zeros((len(queries) + 1, len(keys) + 1), bool)
    for q, query in enumerate(queries):
        for k, key in enumerate(keys):
            chosen[q, k] = bool(predicate(key, query))
    return chosen


def head_dimensions(chosen: np.ndarray, in_order: bool = False) -> int:
    """Returns in how many dimensions a head can attend evenly to selected keys (`Variable.head_dimensions`).

    Scores that are the table itself take as many dimensions as its rank. A query that selects a single value
    needs fewer than that: scores of other keys have to be low, but not equal. A query that selects all it may
    see needs none.

    Args:
        chosen: the selector's table, from `selection_table`.
        in_order: whether keys and queries are positions, and a query sees no later ones.
    """
    if in_order:
        visible = np.tril(np.ones_like(chosen))
        visible[:, -1] = False  # None, which no position is
        chosen = chosen[(chosen < visible).any(1)]
    return max(1, min(int(np.linalg.matrix_rank(chosen)), int(chosen.sum(1).max(initial=0))))


def selection(chosen: np.ndarray, causal: bool) -> Mechanism:
    """Returns a selector: a function from codes of queries and keys to bool `[row, query, key]`.

    Args:
        chosen: its table, from `selection_table`.
        causal: whether keys after the query are never selected.
    """
    flat, (queries, keys) = chosen.ravel(), chosen.shape

    def mechanism(query: np.ndarray, key: np.ndarray) -> np.ndarray:
        rows = np.where(query < 0, queries - 1, query).astype(np.intp) * keys
        columns = np.where(key < 0, keys - 1, key).astype(np.intp)
        selected = flat[rows[:, :, None] + columns[:, None, :]]  # twice as fast as two indices
        return np.tril(selected) if causal else selected

    return mechanism


def of_selected(select: Mechanism) -> Mechanism:
    """Returns the keys that a head with a selector attends to, bool `[row, query, key]`, by its arguments."""
    return lambda query, key, *_: select(query, key)


def width(select: Mechanism) -> Mechanism:
    """Returns the mechanism of a selector width: the number of selected keys, which is its own code."""
    # einsum adds a short axis of small integers several times faster than sum
    return lambda query, key: np.einsum("nqk->nq", select(query, key).view(np.int8), dtype=np.int16)


def pick(select: Mechanism, n_values: int) -> Mechanism:
    """Returns the mechanism of a categorical aggregate: the selected value, None where no key is selected.

    Where several different values are selected, the result is the most frequent one, which has the largest
    logit in the compiled network. Where several are the most frequent ones, the result is None: their logits
    are equal up to rounding, so the program has no answer.
    """

    def mechanism(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
        selected = select(query, key)
        first = selected.argmax(-1)
        picked = np.where(selected.any(-1), np.take_along_axis(value, first, 1), NONE).astype(np.int16)
        mixed = (selected & (value[:, None, :] != picked[:, :, None])).any(-1)
        if mixed.any():
            rows, positions = np.nonzero(mixed)
            votes = np.zeros((len(rows), n_values + 1), np.int32)
            for place in range(value.shape[1]):
                np.add.at(votes, (np.arange(len(rows)), value[rows, place]), selected[rows, positions, place])
            votes = votes[:, :n_values]
            tied = (votes == votes.max(1, keepdims=True)).sum(1) > 1
            picked[rows, positions] = np.where(tied, NONE, votes.argmax(1))
        return picked

    return mechanism


def average(select: Mechanism, default: float) -> Mechanism:
    """Returns the mechanism of a numerical aggregate: the mean of the selected numbers.

    It is None where a selected number is None, and `default` where no key is selected.
    """

    def mechanism(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
        selected, missing = select(query, key), np.isnan(value)
        count = selected.sum(-1)
        total = np.einsum("nqk,nk->nq", selected, np.where(missing, 0, value))
        mean = np.where(count > 0, total / np.maximum(count, 1), default)
        return np.where((selected & missing[:, None]).any(-1), np.nan, mean)

    return mechanism
