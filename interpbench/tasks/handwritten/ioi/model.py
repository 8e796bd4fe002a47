"""The causal model of indirect-object identification: duplicate, S-inhibition, name mover.

After Wang et al. 2022, in the simplified form of the published InterpBench model; exact, on rows of different
lengths: a position after a row's end (token None) has no value and reads as none. Values swapped in from a
row of another length act position by position. Only names are inhibited: the published model inhibits every
word that comes twice, which changes no answer.
"""

import numpy as np

from interpbench.causal.attention import earlier, is_last
from interpbench.causal.model import NONE, CausalModel, Read, Variable

NAME, INHIBITED = 10, 15
"""What each time of a name adds to its score, and each inhibition takes away."""


def ioi_model(vocab: tuple[str, ...], n_names: int, length: int, only_at_end: bool) -> CausalModel:
    """Returns the model; the first `n_names` of `vocab` are the names.

    Args:
        vocab: the tokens.
        n_names: how many of them are names.
        length: of the longest prompt.
        only_at_end: whether the last position alone has an answer, or every one with a best name.
    """

    def mover(tokens: np.ndarray, inhibition: np.ndarray) -> np.ndarray:
        best = best_name(tokens, inhibition, n_names)
        return np.where(is_last(tokens), best, NONE) if only_at_end else best

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
                f"the name with the highest score up to here, which is {NAME} × (how often it is a token) − "
                f"{INHIBITED} × (how often s_inhibition); none for a tie or a score of 0 or less"
                + ("; none before the last position" if only_at_end else ""),
                lambda tokens, inhibition: named(tokens, inhibition, n_names),
            ),
        ],
        "name_mover",
    )


def last_duplicate(tokens: np.ndarray) -> np.ndarray:
    """Returns `[row, pos]`: the last earlier position of the same token."""
    places = np.arange(tokens.shape[1], dtype=np.int16)
    earlier = places[None, :] < places[:, None]  # [pos, earlier pos]
    same = (tokens[:, :, None] == tokens[:, None, :]) & (tokens >= 0)[:, :, None] & earlier
    return np.where(same, places, np.int16(NONE)).max(2)


def name_at(places: np.ndarray, tokens: np.ndarray, n_names: int) -> np.ndarray:
    """Returns `[row, pos]`: the name at `places [row, pos]`, if there is one."""
    found = np.take_along_axis(tokens, places.clip(0).astype(np.intp), 1)
    return np.where((places >= 0) & (found < n_names), found, NONE)


def at(places: np.ndarray) -> np.ndarray:
    """Returns bool `[row, query, key]`: the one key at `places [row, query]`, if any."""
    return places[:, :, None] == np.arange(places.shape[1])


def named(tokens: np.ndarray, inhibition: np.ndarray, n_names: int) -> np.ndarray:
    """Returns bool `[row, query, key]`: every position up to the query with a name or an inhibition."""
    counts = ((tokens >= 0) & (tokens < n_names)) | (inhibition >= 0)
    return counts[:, None, :] & earlier(tokens.shape[1])


def best_name(tokens: np.ndarray, inhibition: np.ndarray, n_names: int) -> np.ndarray:
    """Returns `[row, pos]`: the only name with the highest score up to there, if that is above 0.

    Names that have not occurred score 0 or less, so that only those that have need to be compared.
    """
    name = (tokens >= 0) & (tokens < n_names)
    candidate = tokens[:, None, :]  # [row, seen at pos, candidate's pos]
    score = NAME * (tokens[:, :, None] == candidate).astype(np.int16)
    score -= INHIBITED * (inhibition[:, :, None] == candidate).astype(np.int16)
    score = score.cumsum(1, dtype=np.int16)
    seen = earlier(tokens.shape[1]) & name[:, None, :]
    score = np.where(seen, score, np.int16(0))
    best = score.max(2)
    winners = seen & (score == best[:, :, None])
    highest = np.where(winners, candidate, -1).max(2)
    lowest = np.where(winners, candidate, n_names).min(2)
    return np.where((best > 0) & (highest == lowest) & (tokens >= 0), highest, NONE).astype(np.int16)
