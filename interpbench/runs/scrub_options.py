"""The options of `interpbench scrub` that are numbers, checked before anything is loaded; needs no torch."""

from interpbench.core.errors import ConfigError
from interpbench.core.text import shown

MOST_INPUTS, MOST_SAMPLES = 1024, 1000
"""The number of inputs among which claims exchange theirs (all of a task's if there are no more), and the
number of samples of each number, if nothing else is said."""
LIMIT = 50_000
"""The largest number of inputs, and of samples: what nodes write on all inputs is kept, and a bootstrap of
samples needs memory in proportion to their number."""
MOST_BYTES = 1 << 33
"""The memory that what nodes write on all inputs may take."""
WIDEST = 10.0
"""The largest width of the kernel by which inputs with similar numbers are exchanged."""


def check_options(
    *, inputs: int, samples: int, seed: int = 0, soft: float | None = None, sample: int | None = None
) -> None:
    """Refuses numbers with which nothing can be scrubbed.

    Args:
        inputs: the number of inputs.
        samples: the number of samples.
        seed: the seed of inputs and draws.
        soft: the width of the kernel of similar numbers; None for no kernel.
        sample: the sample, from 1, whose inputs are shown; None for the one with most changes.

    Raises:
        ConfigError: in one line with the option and its value.
    """
    for option, value in (("inputs", inputs), ("samples", samples)):
        if not _whole(value) or not 2 <= value <= LIMIT:
            raise ConfigError(f"--{option} {shown(value)} is not a number from 2 to {LIMIT:,}")
    if not _whole(seed):
        raise ConfigError(f"--seed {shown(seed)} is not a whole number")
    if sample is not None and (not _whole(sample) or not 1 <= sample <= samples):
        raise ConfigError(f"--sample {shown(sample)} is none of the samples 1 to {samples}")
    if soft is not None and (not _number(soft) or not 0 < soft <= WIDEST):
        raise ConfigError(f"--soft {shown(soft)} is no width above 0 and up to {WIDEST:g}")


def check_memory(count: int, numbers: int) -> None:
    """Refuses more inputs than fit into memory with what nodes write on them.

    Args:
        count: the number of inputs, donors included.
        numbers: how many numbers are kept of each input.

    Raises:
        ConfigError: in one line that says how many inputs do fit.
    """
    needed, fit = 4 * count * numbers, MOST_BYTES // (4 * numbers)
    if needed > MOST_BYTES:
        raise ConfigError(
            f"what nodes write on {count:,} inputs takes {needed / 2**30:.3g} GiB, and up to "
            f"{MOST_BYTES / 2**30:.3g} are kept; --inputs {max(fit, 2)} would fit"
        )


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
