"""The orders of nodes and edges of a truth, as arrays (see `alignment.find_orders`)."""

import numpy as np

from interpbench.circuits.ground_truth import Level, State, Truth, level_names


def orders_of(truth: Truth, level: Level) -> np.ndarray:
    """Returns the order of each node or edge, in the shape of its states; -1 where it is required of none.

    The embedding, which is the input itself, has none.
    """
    orders = np.where(truth.at(level) == State.REQUIRED, 0, -1)
    names = level_names(truth.graph, level, truth.at(level) != State.ILLEGAL)
    places = np.argwhere(truth.at(level) != State.ILLEGAL)
    witnesses = truth.witnesses.get(level, {})
    for name, place in zip(names, places):
        if name in witnesses:
            orders[tuple(place)] = witnesses[name].order
    if level == "node":
        orders[0] = -1
    return orders


def states_of_any_order(truth: Truth, level: Level) -> np.ndarray:
    """Returns the states of nodes or edges, where what is required of any order is required."""
    return np.where(orders_of(truth, level) >= 0, State.REQUIRED, truth.at(level))
