"""The published programs as plain functions from a list of tokens to a list of outputs, by published number.

They are written from the meaning of each task, without RASP and without arrays. None stands for no value.
What looks odd (a None at an end, or that 1 is not a power of two) is what the published program does.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import median

Program = Callable[[list], list]


def each(f) -> Program:
    """Returns the program that applies `f` to each token."""
    return lambda s: [f(t) for t in s]


def placed(f) -> Program:
    """Returns the program that computes `f(token, i)` at each position i."""
    return lambda s: [f(t, i) for i, t in enumerate(s)]


def broadcast(f) -> Program:
    """Returns the program that gives one answer, `f` of the whole sequence, at every position."""
    return lambda s: [f(s)] * len(s)


def with_previous(f, first=None) -> Program:
    """Returns the program that computes `f(previous, token)`, but `first(token)` or None at the beginning."""
    return lambda s: [first(s[0]) if first else None, *map(f, s, s[1:])]


def with_next(f, last=None) -> Program:
    """Returns the program that computes `f(token, next)`, but `last(token)` or None at the end."""
    return lambda s: [*map(f, s, s[1:]), last(s[-1]) if last else None]


def with_both(f) -> Program:
    """Returns the program that computes `f(previous, token, next)`, with None at both ends."""
    return lambda s: [None, *map(f, s, s[1:], s[2:]), None]


def running(f) -> Program:
    """Returns the program that computes `f` of the tokens up to and including each position."""
    return lambda s: [f(s[: i + 1]) for i in range(len(s))]


def gather(place) -> Program:
    """Returns the program that gives, at each position i of n, the token at position `place(i, n)`."""
    return lambda s: [s[place(i, len(s))] for i in range(len(s))]


def share(s, token):
    return s.count(token) / len(s)


def balance(s, opening, closing):
    return share(s, opening) - share(s, closing)


def balanced(s, opening, closing):
    depth = 0
    for token in s:
        depth += (token == opening) - (token == closing)
        if depth < 0:
            return False
    return depth == 0


def step(token, following):
    return "increasing" if token < following else "decreasing" if token > following else "constant"


def symmetric(word):
    return all(word[i] == word[-1 - i] for i in range(len(word) // 2))


def frequency(count, n):
    return "frequent" if count > n / 2 else "common" if count > n / 4 else "rare"


def vowel_ratio(word):
    vowels = sum(letter in "aeiou" for letter in word.lower())
    others = len(word) - vowels
    return vowels / others if others else math.inf


def alternate_caps(word):
    return "".join(c.lower() if i % 2 else c.upper() for i, c in enumerate(word))


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def prime(v):
    return v >= 2 and all(v % d for d in range(2, v))


def prime_at_or_above(v):
    return v if prime(v) else prime_at_or_above(v + 1)


def reflected(v):
    while not 2 <= v <= 7:
        v = 4 - v if v < 2 else 14 - v
    return v


def swap_halves(s):
    half, rest = len(s) // 2, len(s) - len(s) // 2
    return s[rest:] + s[half:rest] + s[:half]


def swap_pairs(s):
    return [t for i in range(0, len(s), 2) for t in s[i : i + 2][::-1]]


def non_decreasing(s):
    return s == sorted(s)


def non_increasing(s):
    return s[::-1] == sorted(s)


def polynomial(s):
    b, w1, w2, w3 = s
    return w1 * b**2 + w2 * b + w3


def divided_by_ratio(s):
    first, second = s[:2]
    ratio = second / first if first and second else 1
    return [t / ratio for t in s]


KEYWORDS = ("free", "offer", "click", "now")
FIBONACCI = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610)

PROGRAMS: dict[int, Program] = {
    1: lambda s: [None, None, *(t == two_back for two_back, t in zip(s, s[2:]))],
    2: lambda s: s[::-1],
    3: running(lambda prefix: share(prefix, "x")),
    4: running(lambda prefix: balance(prefix, "(", ")")),
    5: broadcast(lambda s: balanced(s, "(", ")") and balanced(s, "{", "}")),
    6: with_both(lambda p, t, n: (p < t) != (t < n)),
    7: lambda s: [s.count(t) for t in s],
    8: lambda s: s,
    9: lambda s: sorted(s),
    10: each(lambda w: w if symmetric(w) else None),
    11: each(len),
    12: lambda s: [None, None, *("".join(three) == "abc" for three in zip(s, s[1:], s[2:]))],
    13: with_next(step),
    14: broadcast(lambda s: s.count("a")),
    15: placed(lambda t, i: 2 * t - i),
    17: lambda s: [x == y for x, y in zip(s, s[::-1])],
    18: lambda s: [frequency(s.count(t), len(s)) for t in s],
    19: with_previous(lambda p, t: t if t != p else None),
    20: each(lambda w: "spam" if w in KEYWORDS else "not spam"),
    21: running(lambda prefix: prefix[-1] if prefix.count(prefix[-1]) == 1 else None),
    22: lambda s: sorted(s, key=len),
    23: each(lambda w: w if w == w[::-1] else None),
    24: lambda s: s,
    25: lambda s: [share(s, t) for t in s],
    26: placed(lambda t, i: t * (i + 1)),
    28: each(lambda w: w[::-1]),
    29: each(lambda w: w[:3]),
    30: each(lambda w: w.isdigit() and 10 <= int(w) <= 20),
    31: each(lambda w: sorted(w) == sorted("listen")),
    32: with_previous(lambda p, t: p != t),
    33: each(lambda w: len(w) % 2 == 0),
    34: each(vowel_ratio),
    35: each(alternate_caps),
    36: each(lambda t: {"😊": "positive", "😢": "negative"}.get(t, "neutral")),
    37: each(lambda w: w if w == "nochange" else w[::-1]),
    38: with_both(lambda p, t, n: p != t and t != n),
    39: running(lambda prefix: share(prefix, "x")),
    40: each(lambda v: sum(int(digit) for digit in str(v))),
    41: each(abs),
    42: broadcast(lambda s: s[0]),
    43: each(fibonacci),
    44: lambda s: [sum(other > t for other in s) for t in s],
    45: lambda s: [2 * t if i < len(s) / 2 else t for i, t in enumerate(s)],
    46: each(lambda v: v - 1),
    47: lambda s: [s.count(t) for t in s],
    48: placed(lambda v, i: v + i),
    49: each(lambda v: v // 3 * 3),
    50: each(math.cosh),
    51: each(lambda v: int(v in FIBONACCI)),
    52: each(lambda v: v**0.5),
    53: placed(lambda v, i: v + i % 2),
    54: each(math.tanh),
    55: each(math.sinh),
    56: placed(lambda v, i: 0 if i % 3 == 2 else v),
    57: broadcast(lambda s: s[1]),
    58: gather(lambda i, n: i if i < n // 2 else n - 1 - i),
    59: lambda s: sorted(s),
    60: each(lambda v: v + 1),
    61: lambda s: [1 + sum(other < t for other in s) for t in s],
    62: each(math.factorial),
    63: lambda s: [sum(other < t for other in s) for t in s],
    64: each(lambda v: v**3),
    65: each(lambda v: v ** (1 / 3)),
    66: each(lambda v: math.floor(v + 0.5)),
    67: lambda s: [v * len(s) for v in s],
    68: each(lambda v: math.ceil(v / 3) * 3),
    69: each(lambda v: (v > 0) - (v < 0)),
    70: each(math.cos),
    71: lambda s: [v / len(s) for v in s],
    72: each(lambda v: -v),
    73: each(math.sin),
    74: gather(lambda i, n: i if i % 2 == 0 else n - i - n % 2),
    75: each(lambda v: 2 * v),
    76: placed(lambda v, i: v if i % 2 else 0),
    77: each(math.tan),
    78: lambda s: [s.count(t) for t in s],
    79: each(lambda v: int(prime(v))),
    80: each(lambda v: v - 2),
    81: broadcast(median),
    82: lambda s: [v / 2 if i >= len(s) // 2 else v for i, v in enumerate(s)],
    83: each(lambda v: 3 * v),
    84: each(math.atan),
    85: each(lambda v: v**2),
    86: each(lambda v: int(v in (2, 4, 8))),
    87: each(lambda v: int(v >= 3)),
    88: broadcast(lambda s: (s[0] + s[-1]) / 2),
    89: broadcast(lambda s: int(non_decreasing(s))),
    90: each(lambda w: "-" if w == "findme" else w),
    91: each(lambda v: 0 if v < 3 else v),
    92: with_previous(lambda p, v: 0 if v < p else v, first=lambda v: v),
    93: lambda s: [s[0], *swap_pairs(s[1:])],
    94: broadcast(lambda s: int(non_increasing(s))),
    95: each(lambda v: sum(prime(d) and v % d == 0 for d in range(2, v + 1))),
    96: lambda s: [v if s.count(v) == 1 else 0 for v in s],
    97: lambda s: [v / max(s) if max(s) > 0 else 0 for v in s],
    98: broadcast(max),
    99: with_next(lambda v, n: v + n, last=lambda v: v + v),
    100: lambda s: [s[1], s[0], *s[2:]],
    101: each(lambda v: int(v in [root * root for root in range(10)])),
    102: each(reflected),
    103: swap_pairs,
    104: each(math.exp),
    105: each(prime_at_or_above),
    106: placed(lambda v, i: v if i == 1 else 0),
    107: each(lambda v: 2 + (v - 2) % 5),
    108: broadcast(lambda s: int(len(set(s)) < len(s))),
    109: broadcast(lambda s: int(s[-1] == s[-2])),
    110: lambda s: [s[i // 2] if i % 2 == 0 else 0 for i in range(len(s))],
    111: lambda s: [s[-1]] + [0] * (len(s) - 1),
    112: with_next(lambda v, n: n - v, last=lambda v: 0),
    113: lambda s: s[::-1] if non_decreasing(s) else s,
    114: each(lambda v: math.log(v, 10)),
    115: with_next(lambda v, n: v * n, last=lambda v: v * v),
    116: lambda s: [int(s[0] != 0 and v % s[0] == 0) for v in s],
    117: broadcast(lambda s: s[-1] + s[-2]),
    118: with_previous(lambda p, v: p + v),
    119: broadcast(polynomial),
    120: swap_halves,
    121: each(math.asin),
    122: each(lambda v: int(v % 3 == 0)),
    123: each(math.acos),
    124: broadcast(lambda s: int(len(set(s)) == 1)),
    125: broadcast(lambda s: int(all((v + n) % 2 for v, n in pairwise(s)))),
    126: broadcast(median),
    127: divided_by_ratio,
    128: lambda s: [s[-1], *s[1:-1], s[0]],
    129: broadcast(lambda s: int(all(v % 2 == 0 for v in s))),
    130: each(lambda v: min(max(v, 2), 7)),
    131: with_previous(max),
}
