"""The global state of the process: settings for speed, and how to restore what a user's code has changed.

Importing the package changes no global state. Commands, `interpbench.train` and `interpbench.discover` call
`prepare_torch`.
"""

import contextlib
import ctypes
import gc
import logging
import os
import random
import sys
import warnings
from collections.abc import Generator

import numpy as np


def prepare_torch(threads: int | None = None) -> None:
    """Changes global settings so that small networks run fast on a CPU. Further calls change nothing more.

    The allocator of glibc keeps freed blocks of up to 1 GiB instead of returning them to the system, because
    each new block would cause page faults (`M_MMAP_THRESHOLD` and `M_TRIM_THRESHOLD` of mallopt(3)). Denormal
    numbers, with which processors are slow, become 0 (`torch.set_flush_denormal`).

    Args:
        threads: the number of threads that torch uses; None to keep the current number.
    """
    import torch

    torch.set_flush_denormal(True)
    if threads is not None:
        torch.set_num_threads(threads)
    with contextlib.suppress(OSError, AttributeError):  # no glibc
        libc = ctypes.CDLL(None)
        for parameter in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            libc.mallopt(parameter, 1 << 30)


def return_memory() -> None:
    """Returns to the system the freed memory that `prepare_torch` has the allocator keep.

    What one training after another frees in a process has gaps between, and is not all used again: twenty
    networks of a contest took gigabytes.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # no glibc
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def kept(seed: int) -> Generator[None]:
    """Returns a context with global random generators seeded by `seed`, after which global state is restored.

    This state is: the working folder, the environment and the umask; the random generators of Python, numpy
    and torch; the threads, default dtype, default device, precision, gradient mode and determinism of torch;
    numpy's error handling and print options; warning filters, the disabled level of logging, the recursion
    limit, and the standard streams.
    """
    import torch

    folder, environment = _folder(), dict(os.environ)
    streams, errors, printing = (sys.stdout, sys.stderr), np.geterr(), np.get_printoptions()
    mask, depth, silent = _umask(), sys.getrecursionlimit(), logging.root.manager.disable
    precision = torch.get_float32_matmul_precision()
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
            np.set_printoptions(**printing)
            os.umask(mask)
            sys.setrecursionlimit(depth)
            logging.disable(silent)
            torch.set_float32_matmul_precision(precision)
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
            if torch.get_default_device() != device:
                torch.set_default_device(None if device.type == "cpu" else device)
            torch.set_grad_enabled(gradients)
            if torch.are_deterministic_algorithms_enabled() != determinism:
                torch.use_deterministic_algorithms(determinism)  # its first call takes a second


def _umask() -> int:
    """Returns the umask, which can only be read by setting it."""
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


Namespaces = list[tuple[str, object, dict[str, object]]]
"""The contents of modules, classes and mappings: for each its name, itself, and a copy of its contents."""


def package_state() -> Namespaces:
    """Returns the current contents of this package's modules and classes, and of torch's global hooks."""
    from torch.nn.modules import module as hooks

    found: Namespaces = [
        (f"torch.nn.modules.module.{name}", value, dict(value))
        for name, value in vars(hooks).items()
        if name.startswith("_global") and isinstance(value, dict)
    ]
    for place, part in sorted(sys.modules.items()):
        if place.partition(".")[0] == "interpbench":
            found.append((place, part, dict(vars(part))))
            for name, value in vars(part).items():
                if isinstance(value, type) and value.__module__ == place:
                    found.append((f"{place}.{name}", value, dict(vars(value))))
    return found


def restore(state: Namespaces) -> str | None:
    """Restores the contents that were replaced since `package_state`; returns the first such name, or None.

    Names that were added, for instance by importing a module, are kept.
    """
    changed: str | None = None
    for place, part, before in state:
        if isinstance(part, dict):
            if part != before:
                part.clear()
                part.update(before)
                changed = changed or place
            continue
        now = vars(part)
        for name, value in before.items():
            if name not in _OWN and now.get(name, None) is not value:
                setattr(part, name, value)
                changed = changed or f"{place}.{name}"
    return changed


_OWN = {"__annotations__", "__abstractmethods__", "_abc_impl", "__builtins__", "__warningregistry__"}
"""The names in modules and classes that Python itself changes."""


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  as text, which is compared
    except OSError:
        return None  # it was deleted
