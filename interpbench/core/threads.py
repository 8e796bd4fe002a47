"""The number of threads that torch uses."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def threads(count: int) -> Generator[None]:
    """Returns a context in which torch uses `count` threads; afterwards it uses as many as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
