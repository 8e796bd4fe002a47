"""Indirect-object identification as literal loops: one prompt, in Python lists."""

from collections.abc import Sequence

Row = Sequence[str | None]


def duplicates(tokens: Row) -> list[int | None]:
    """Returns dup, where dup[j] is the largest i < j with t[i] = t[j], or None."""
    found: list[int | None] = []
    for j, token in enumerate(tokens):
        earlier = [i for i in range(j) if token is not None and tokens[i] == token]
        found.append(max(earlier) if earlier else None)
    return found


def inhibitions(duplicate: Sequence[int | None], tokens: Row, names: Sequence[str]) -> list[str | None]:
    """Returns inh, where inh[j] is t[dup[j]] if that is a name, or else None."""
    found = [None if place is None else tokens[place] for place in duplicate]
    return [token if token in names else None for token in found]


def movers(tokens: Row, inhibition: Row, names: Sequence[str], only_at_end: bool) -> list[str | None]:
    """Returns, for each j, the only name up to j that is not inhibited by a name up to j.

    It is None if there is not exactly one such name, or a name is inhibited that is not among those up to j.
    """
    answers: list[str | None] = []
    for j in range(len(tokens)):
        seen = {token for token in tokens[: j + 1] if token in names}
        at_names = [name for name, token in zip(inhibition[: j + 1], tokens, strict=False) if token in names]
        inhibited = {name for name in at_names if name is not None}
        left = seen - inhibited if inhibited <= seen else set()
        scored = _is_scored(tokens, j, only_at_end)
        answers.append(left.pop() if scored and len(left) == 1 else None)
    return answers


def published_movers(
    tokens: Row, inhibition: Row, names: Sequence[str], only_at_end: bool
) -> list[str | None]:
    """Returns, for each j, the name v with the highest L[j, v], or None if several have it.

    L[j, v] is the sum over i <= j of 10 [v = t[i]] - 15 [v = inh[i]].
    """
    answers: list[str | None] = []
    for j in range(len(tokens)):
        score = dict.fromkeys(names, 0)
        for i in range(j + 1):
            if tokens[i] in score:
                score[tokens[i]] += 10  # type: ignore[index]
            if inhibition[i] in score:
                score[inhibition[i]] -= 15  # type: ignore[index]
        best = [name for name in names if score[name] == max(score.values())]
        scored = _is_scored(tokens, j, only_at_end)
        answers.append(best[0] if scored and len(best) == 1 else None)
    return answers


def _is_scored(tokens: Row, j: int, only_at_end: bool) -> bool:
    is_end = j + 1 == len(tokens) or tokens[j + 1] is None
    return tokens[j] is not None and (is_end or not only_at_end)
