"""RASP operations as vectorised mechanisms: maps are tables, selectors boolean tables."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from interpbench.causal.model import NONE

Values = tuple[object, ...]
Mechanism = Callable[..., np.ndarray]


def sort_values(values: set[Any]) -> Values:
    """Returns a value set in class order, as Tracr sorts basis directions."""
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=str))


def apply(function: Callable[..., Any], *arguments: object) -> Any:
    """Applies a program's function; None in, or an arithmetic error, gives None."""
    if any(argument is None for argument in arguments):
        return None
    try:
        return function(*arguments)
    except ArithmeticError:
        return None


def image(function: Callable[..., object], *domains: Values) -> Values:
    """Returns the value set of `function` over the product of `domains`, without None."""
    grids = np.indices([len(domain) for domain in domains]).reshape(len(domains), -1).T
    results = (apply(function, *(d[i] for d, i in zip(domains, row))) for row in grids)
    return sort_values({result for result in results if result is not None})


def table(function: Callable[..., object], domains: Sequence[Values], values: Values) -> Mechanism:
    """Returns an elementwise mechanism on codes, as one lookup."""
    code = {value: index for index, value in enumerate(values)}
    shape = [len(domain) + 1 for domain in domains]
    codes = np.full(shape, NONE, np.int16)
    for place in np.ndindex(*(len(domain) for domain in domains)):
        result = apply(function, *(d[i] for d, i in zip(domains, place)))
        codes[place] = NONE if result is None else code[result]
    return lambda *inputs: codes[tuple(inputs)]


def to_number(function: Callable[[Any], Any], domain: Values) -> Mechanism:
    """Returns a map from codes to numbers."""
    results = [apply(function, value) for value in domain]
    numbers = np.array([np.nan if x is None else float(x) for x in results] + [np.nan])
    return lambda inputs: numbers[inputs]


def of_number(function: Callable[[float], object], values: Values | None) -> Mechanism:
    """Returns a map on numbers: evaluated once for each distinct number that occurs."""
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
    """Returns `first * a + second * b` on numbers."""
    return lambda a, b: first * a + second * b


def selection(
    predicate: Callable[[Any, Any], bool], keys: Values, queries: Values, causal: bool
) -> Mechanism:
    """Returns a mechanism from codes of queries and keys to a bool array `[row, query, key]`.

    None is never selected and selects nothing: it has no direction in the compiled network.
    """
    chosen = np.zeros((len(queries) + 1, len(keys) + 1), bool)
    for q, query in enumerate(queries):
        for k, key in enumerate(keys):
            chosen[q, k] = bool(predicate(key, query))

    def mechanism(query: np.ndarray, key: np.ndarray) -> np.ndarray:
        selected = chosen[query[:, :, None], key[:, None, :]]
        return np.tril(selected) if causal else selected

    return mechanism


def width(select: Mechanism) -> Mechanism:
    """Returns the number of selected keys, as the code of that number in `range(length + 1)`."""
    return lambda query, key: select(query, key).sum(-1).astype(np.int16)


def pick(select: Mechanism, n_values: int) -> Mechanism:
    """Returns a categorical aggregate: the selected value, None where nothing is selected.

    Where several different values are selected, the most frequent wins, the first in class order among
    equals: that is what the compiled network's output directions say.
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
            picked[rows, positions] = votes[:, :n_values].argmax(-1)
        return picked

    return mechanism


def average(select: Mechanism, default: float) -> Mechanism:
    """Returns a numerical aggregate: the mean of the selected numbers, None if one of them is None."""

    def mechanism(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
        selected, missing = select(query, key), np.isnan(value)
        count = selected.sum(-1)
        total = np.einsum("nqk,nk->nq", selected, np.where(missing, 0, value))
        mean = np.where(count > 0, total / np.maximum(count, 1), default)
        return np.where((selected & missing[:, None]).any(-1), np.nan, mean)

    return mechanism
