"""Programs that compute functions of single integers: arithmetic, divisibility, primes, limits."""

from collections.abc import Callable, Sequence
from math import factorial

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import constant, rasp, tokens
from interpbench.tasks.samplers import Edit, often


def _integers(
    name: str,
    legacy_id: int,
    description: str,
    function: Callable[[int], int],
    vocab: Sequence[int] = range(11),
    balance: Sequence[Edit] = (),
    duplicate_of: str | None = None,
) -> None:
    """Registers a function of each token, a RASP Map, as a task."""

    @task(
        name,
        legacy_id=legacy_id,
        description=description,
        vocab=vocab,
        length=9,
        attention="causal",
        balance=balance,
        duplicate_of=duplicate_of,
    )
    def _() -> SOp:
        return rasp.Map(function, tokens).named(name)


_SIGNED = range(-10, 10)
_WIDE = range(-15, 15)


_integers("identity", 8, "Copies the input through an MLP.", lambda v: v)
_integers("plus_one", 60, "The token plus one.", lambda v: v + 1, duplicate_of="identity")
_integers("minus_one", 46, "The token minus one.", lambda v: v - 1, duplicate_of="identity")
_integers("minus_two", 80, "The token minus two.", lambda v: v - 2, duplicate_of="identity")
_integers("double", 75, "Twice the token.", lambda v: 2 * v, duplicate_of="identity")
_integers("triple", 83, "Three times the token.", lambda v: 3 * v, duplicate_of="identity")
_integers("square", 85, "The token squared.", lambda v: v**2, duplicate_of="identity")
_integers("cube", 64, "The token cubed.", lambda v: v**3, duplicate_of="identity")
_integers("factorial", 62, "The factorial of the token.", factorial)
_integers("negate", 72, "The token with the opposite sign.", lambda v: -v, _SIGNED)
_integers("absolute_value", 41, "The absolute value of the token.", abs, _SIGNED)
_integers(
    "sign",
    69,
    "The sign of the token, 0 or 1 as none is negative.",
    lambda v: (v > 0) - (v < 0),
    balance=[often(0)],
)
_integers("at_least_three", 87, "Whether the token is at least 3, as 1 or 0.", lambda v: 1 if v >= 3 else 0)
_integers("zero_below_three", 91, "The token, but 0 if it is below 3.", lambda v: 0 if v < 3 else v)
_integers("floor_to_three", 49, "The largest multiple of 3 up to the token.", lambda v: v - v % 3)
_integers("ceil_to_three", 68, "The smallest multiple of 3 from the token on.", lambda v: v + (3 - v % 3) % 3)
_integers(
    "divisible_by_three",
    122,
    "Whether the token is a multiple of 3, as 1 or 0.",
    lambda v: int(v % 3 == 0),
    range(30),
)
_integers(
    "wrap_to_2_7", 107, "The token moved by a multiple of 5 into 2 to 6.", lambda v: (v - 2) % 5 + 2, _WIDE
)


def _is_prime(v: int) -> bool:
    return v > 1 and all(v % divisor for divisor in range(2, v))


def _fibonacci(n: int) -> int:
    first, second = 0, 1
    for _ in range(n):
        first, second = second, first + second
    return first


_FIBONACCI = sorted({_fibonacci(n) for n in range(16)})


def _prime_from(v: int) -> int:
    while not _is_prime(v):
        v += 1
    return v


def _reflect(v: int) -> int:
    distance = 2 - v if v < 2 else v - 7
    rest, turns = distance % 5, distance // 5
    return v if 2 < v < 7 else 2 + rest if turns % 2 == (v >= 2) else 7 - rest


_integers("fibonacci", 43, "The Fibonacci number of this index: 0, 1, 1, 2, 3, 5.", _fibonacci, range(20))
_integers(
    "is_fibonacci",
    51,
    "Whether the token is a Fibonacci number, as 1 or 0.",
    lambda v: int(v in _FIBONACCI),
    range(100),
    [often(*(v for v in _FIBONACCI if v < 100))],
)
_integers("is_prime", 79, "Whether the token is a prime, as 1 or 0.", lambda v: int(_is_prime(v)))
_integers("prime_from", 105, "The smallest prime from the token on.", _prime_from, range(30))
_integers(
    "count_prime_factors",
    95,
    "The number of different prime factors, 0 for 0 and 1.",
    lambda v: sum(_is_prime(p) and v % p == 0 for p in range(2, v + 1)),
    range(30),
)
_integers(
    "is_power_of_two",
    86,
    "Whether the token is a power of two from 2 on, as 1 or 0.",
    lambda v: int(v > 1 and v & (v - 1) == 0),
)
_integers(
    "is_square",
    101,
    "Whether the token is the square of an integer, as 1 or 0.",
    lambda v: int(v**0.5 == int(v**0.5)),
    range(30),
    [often(0, 1, 4, 9, 16, 25)],
)
_integers(
    "reflect_into_2_7",
    102,
    "The token, reflected at 2 and at 7 until it lies between them.",
    _reflect,
    range(-20, 20),
)


@task("digit_sum", legacy_id=40, vocab=range(29), length=9, attention="causal")
def digit_sum() -> SOp:
    """The sum of the tens digit and the ones digit."""
    tens = rasp.Map(lambda v: v // 10, tokens).named("tens")
    ones = rasp.Map(lambda v: v % 10, tokens).named("ones")
    return rasp.SequenceMap(lambda x, y: x + y, tens, ones).named("digit_sum")


@task("clip_to_2_7", legacy_id=130, vocab=_WIDE, length=9, attention="causal")
def clip_to_2_7() -> SOp:
    """The token, but 2 if it is below and 7 if it is above."""
    low, high = constant(2, tokens, "low"), constant(7, tokens, "high")
    raised = rasp.SequenceMap(lambda v, limit: limit if v < 2 else v, tokens, low).named("raised")
    return rasp.SequenceMap(lambda v, limit: limit if v > 7 else v, raised, high).named("clipped")
