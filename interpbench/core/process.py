"""What somebody else's code may change of the process, put back after it."""

import contextlib
import os
import random
import sys
import warnings
from collections.abc import Generator

import numpy as np


@contextlib.contextmanager
def kept(seed: int) -> Generator[None]:
    """Runs what is within with global random generators that start from `seed`, and puts everything back.

    That is: the working folder, the environment, the generators of Python, numpy and torch, torch's threads,
    default dtype, default device, gradient mode and determinism, numpy's error handling, warning filters,
    and the standard streams.
    """
    import torch

    folder, environment = _folder(), dict(os.environ)
    streams, errors = (sys.stdout, sys.stderr), np.geterr()
    states = (random.getstate(), np.random.get_state())  # noqa: NPY002  the global one
    threads, dtype, device = torch.get_num_threads(), torch.get_default_dtype(), torch.get_default_device()
    gradients, determinism = torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices), warnings.catch_warnings():
        random.seed(seed)
        np.random.seed(seed % (1 << 32))  # noqa: NPY002
        torch.manual_seed(seed)
        try:
            yield
        finally:
            if folder is not None and _folder() != folder:
                os.chdir(folder)
            if dict(os.environ) != environment:
                os.environ.clear()
                os.environ.update(environment)
            sys.stdout, sys.stderr = streams
            np.seterr(**errors)
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
            if torch.get_default_device() != device:
                torch.set_default_device(None if device.type == "cpu" else device)
            torch.set_grad_enabled(gradients)
            if torch.are_deterministic_algorithms_enabled() != determinism:
                torch.use_deterministic_algorithms(determinism)  # its first call takes a second


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  as text, which is compared
    except OSError:
        return None  # it was deleted
