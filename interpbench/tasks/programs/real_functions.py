"""Programs that compute real functions of single numbers; each possible value is an output class."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import rasp, tokens


def _reals(
    name: str,
    legacy_id: int,
    description: str,
    function: Callable[[Any], float],
    vocab: Sequence[float] = range(11),
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
        duplicate_of=duplicate_of,
    )
    def _() -> SOp:
        return rasp.Map(function, tokens).named(name)


_TENTHS = tuple(i / 10 - 1 for i in range(20))
_QUARTERS = tuple(i / 4 for i in range(20))

_reals("square_root", 52, "The square root of the token.", lambda v: v**0.5, duplicate_of="identity")
_reals("cube_root", 65, "The cube root of the token.", lambda v: v ** (1 / 3), duplicate_of="identity")
_reals("exponential", 104, "The exponential function of the token.", math.exp, duplicate_of="identity")
_reals("log10", 114, "The logarithm of the token to base 10.", lambda v: math.log(v, 10), range(1, 11))
_reals("sine", 73, "The sine of the token.", math.sin)
_reals("cosine", 70, "The cosine of the token.", math.cos)
_reals("tangent", 77, "The tangent of the token.", math.tan)
_reals("arcsine", 121, "The inverse sine of the token.", math.asin, _TENTHS)
_reals("arccosine", 123, "The inverse cosine of the token.", math.acos, _TENTHS, "negate")
_reals("arctangent", 84, "The inverse tangent of the token.", math.atan, duplicate_of="identity")
_reals("sinh", 55, "The hyperbolic sine of the token.", math.sinh, duplicate_of="identity")
_reals("cosh", 50, "The hyperbolic cosine of the token.", math.cosh, duplicate_of="identity")
_reals("tanh", 54, "The hyperbolic tangent of the token.", math.tanh, duplicate_of="identity")
_reals("round_half_up", 66, "The nearest integer, a half rounded up.", lambda v: int(v + 0.5), _QUARTERS)
