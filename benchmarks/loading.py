"""How long it takes to load each released model, with its record, its certificate and their checks.

The first load, which imports torch and compiles checks, is not counted.

Run: `python -m benchmarks.loading`; with `--regimes` those in regimes.
"""

import argparse
import statistics
import time

from interpbench import load
from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.core.process import prepare_torch


def main() -> None:
    """Loads every released model once, and prints the CPU seconds of the slowest five and the median."""
    parser = argparse.ArgumentParser(description="How long it takes to load each released model.")
    parser.add_argument("--regimes", action="store_true", help="those of tasks in regimes")
    regimes = parser.parse_args().regimes
    prepare_torch(threads=1)
    names = sorted(in_regimes() if regimes else released())
    load(names[0])
    seconds: dict[str, float] = {}
    for name in names:
        started = time.process_time()
        load(name)
        seconds[name] = time.process_time() - started
    for name in sorted(names, key=lambda name: -seconds[name])[:5]:
        print(f"{name:30} {seconds[name]:.3f} s")
    print(f"{f'median of {len(names)}':30} {statistics.median(seconds.values()):.3f} s")


if __name__ == "__main__":
    main()
