"""Random generators with names: a seed and a name determine a generator, independently of all others."""

import hashlib

import numpy as np


def derive(seed: int, *names: str | int) -> int:
    """Returns a 63-bit seed that is determined by `seed` and all names."""
    text = "/".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Returns the numpy generator that is determined by `seed` and all names."""
    return np.random.Generator(np.random.PCG64(derive(seed, *names)))
