"""Named random generators: every random draw has a name, and one seed determines them all."""

import hashlib

import numpy as np


def derive(seed: int, *names: str | int) -> int:
    """Returns a 63-bit seed that depends on `seed` and on every name, and on nothing else."""
    text = "/".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Returns the numpy generator of that name."""
    return np.random.Generator(np.random.PCG64(derive(seed, *names)))
