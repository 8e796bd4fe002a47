"""How many threads torch uses."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def threads(count: int) -> Generator[None]:
    """Uses `count` threads within, and as many as before after."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
