"""The causal model of indirect-object identification: duplicate, S-inhibition, name mover.

After Wang et al. 2022, in the simplified form of the published InterpBench model; exact, on rows of different
lengths: a position after a row's end (token None) has no value and reads as none. Values swapped in from a
row of another length act position by position. Only names are inhibited: the published model inhibits every
word that comes twice, which changes no answer. The name mover looks at names, and reads at each of them the
name and what is inhibited there. Without interventions names are inhibited nowhere else; where a swap
inhibits a name at the position of another word, the name mover does not see it.

The published name mover adds 10 for each time that a name comes and takes 15 away for each inhibition of it.
On prompts the two agree. They differ where a swap inhibits a name that is not in the prompt: there the
published one answers the name that comes most often, and ours has no answer, and where a swap inhibits a name
at another word, which the published one counts. A head 16 wide that adds up what
it reads cannot tell a hundred names apart in such sums (`benchmarks/ioi_capacity.py`), so no network of this
shape could be certified for it.
"""

import numpy as np

from interpbench.causal.model import NONE, CausalModel, Read, Variable
from interpbench.causal.selection import earlier, is_last


def ioi_causal_model(vocab: tuple[str, ...], n_names: int, length: int, only_at_end: bool) -> CausalModel:
    """Returns the causal model of IOI.

    Args:
        vocab: the tokens, names first.
        n_names: the number of names.
        length: the number of tokens of the longest prompt.
        only_at_end: whether only the last position has an output, or every position where one name remains.
    """

    def mover(tokens: np.ndarray, inhibition: np.ndarray) -> np.ndarray:
        left = remaining_name(tokens, inhibition, n_names)
        return np.where(is_last(tokens), left, NONE) if only_at_end else left

    return CausalModel(
        [
            Variable("tokens", (), lambda tokens: tokens, vocab),
            Variable(
                "duplicate",
                (Read("tokens"),),
                last_duplicate,
                tuple(range(length)),
                "the last position before this one with the same token; none if there is none",
                lambda tokens: at(last_duplicate(tokens)),
            ),
            Variable(
                "s_inhibition",
                (Read("duplicate"), Read("tokens")),
                lambda places, tokens: name_at(places, tokens, n_names),
                vocab[:n_names],
                "the name at that position; none if there is none",
                lambda places, tokens: at(places),
            ),
            Variable(
                "name_mover",
                (Read("tokens"), Read("s_inhibition")),
                mover,
                vocab[:n_names],
                "the only name up to here that is not inhibited at a name; none if several or none are left, "
                "or if a name is inhibited that is not there"
                + ("; none before the last position" if only_at_end else ""),
                lambda tokens, _: named(tokens, n_names),
            ),
        ],
        "name_mover",
    )


def last_duplicate(tokens: np.ndarray) -> np.ndarray:
    """Returns the last earlier position of the same token, `[row, pos]`; None if there is none."""
    places = np.arange(tokens.shape[1], dtype=np.int16)
    earlier = places[None, :] < places[:, None]  # [pos, earlier pos]
    same = (tokens[:, :, None] == tokens[:, None, :]) & (tokens >= 0)[:, :, None] & earlier
    return np.where(same, places, np.int16(NONE)).max(2)


def name_at(places: np.ndarray, tokens: np.ndarray, n_names: int) -> np.ndarray:
    """Returns the name at a position that each position says, `[row, pos]`; None if no name is there.

    Args:
        places: the position to look at, `[row, pos]`; None for no position.
        tokens: the tokens, `[row, pos]`.
        n_names: the number of names, whose codes come first.
    """
    found = np.take_along_axis(tokens, places.clip(0).astype(np.intp), 1)
    return np.where((places >= 0) & (found < n_names), found, NONE)


def at(places: np.ndarray) -> np.ndarray:
    """Returns bool `[row, query, key]`: each query attends to the key at `places [row, query]`, if any."""
    return places[:, :, None] == np.arange(places.shape[1])


def named(tokens: np.ndarray, n_names: int) -> np.ndarray:
    """Returns bool `[row, query, key]`: each query attends to every position up to it that has a name."""
    return ((tokens >= 0) & (tokens < n_names))[:, None, :] & earlier(tokens.shape[1])


def remaining_name(tokens: np.ndarray, inhibition: np.ndarray, n_names: int) -> np.ndarray:
    """Returns the only name up to each position that is not inhibited, `[row, pos]`.

    It is None if several names or none remain, or if an inhibited name is not among the names. Inhibition at
    the position of another word does not count.

    Args:
        tokens: the tokens, `[row, pos]`.
        inhibition: the name that is inhibited at each position, `[row, pos]`; None for no name.
        n_names: the number of names, whose codes come first.
    """
    upto = earlier(tokens.shape[1])  # [pos, earlier or same]
    names = np.where(tokens < n_names, tokens, NONE)
    inhibition = np.where(names >= 0, inhibition, NONE)
    same = (inhibition[:, :, None] == names[:, None, :]) & (names >= 0)[
        :, None, :
    ]  # [row, inhibited at, named at]
    taken = np.logical_or.accumulate(same, axis=1)  # [row, pos, named at]
    found = np.logical_or.accumulate(same, axis=2)  # [row, inhibited at, pos]
    amiss = ((inhibition >= 0)[:, :, None] & ~found & upto.T).any(1)
    left = (names >= 0)[:, None, :] & upto & ~taken
    highest = np.where(left, names[:, None, :], NONE).max(2)
    lowest = np.where(left, names[:, None, :], n_names).min(2)
    return np.where((highest == lowest) & ~amiss & (tokens >= 0), highest, NONE).astype(np.int16)
