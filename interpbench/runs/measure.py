"""What a call costs: wall-clock and CPU time, and how far memory rose."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch

from interpbench.core.errors import InterpBenchError

T = TypeVar("T")
PROCESS = Path("/proc/self")


class Spent(NamedTuple):
    """What a call took.

    Attributes:
        seconds: wall-clock seconds.
        cpu_seconds: CPU seconds of this process; None where nothing was measured.
        peak_bytes: how far memory rose, in bytes; None where that cannot be read.
    """

    seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_bytes: int | None = None


def measured(call: Callable[[], T], device: torch.device) -> tuple[T, Spent]:
    """Returns what `call` returns, and what that took.

    Memory is how far the process's memory rose above what it was before (Linux), or what was allocated
    at most on a CUDA device; None where neither can be read.
    """
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device) if on_gpu else _reset()
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    if on_gpu:
        torch.cuda.synchronize(device)
    cpu_seconds, seconds = time.process_time() - cpu, time.perf_counter() - wall
    rise = None
    if before is not None:
        peak = torch.cuda.max_memory_allocated(device) if on_gpu else _memory("VmHWM")
        rise = max(0, peak - before)
    return result, Spent(seconds, cpu_seconds, rise)


def _reset() -> int | None:
    """Gives free memory back, resets the high-water mark, returns the memory in use, if it can."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        (PROCESS / "clear_refs").write_text("5")
        return _memory("VmRSS")
    except (OSError, AttributeError, InterpBenchError):
        return None


def _memory(name: str) -> int:
    """Reads a number of bytes from the process's status.

    Raises:
        InterpBenchError: if there is none of that name.
    """
    for line in (PROCESS / "status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise InterpBenchError(f"{PROCESS / 'status'} has no {name}")
