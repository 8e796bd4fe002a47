"""Measures the CPU time until wrong calls are refused, compared with that of importing torch.

The calls of `tests/runs/wrong_calls.jsonl` are run one after the other, as a user would run them: all of
them, or one of five with `--every 5`. Run: `python -m benchmarks.wrong_calls`.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.wrong_calls import Call, calls, command, prepare


def seconds(arguments: dict[str, object], where: Path) -> float:
    """Returns the CPU time of a process in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(**arguments, cwd=where, capture_output=True, stdin=subprocess.DEVNULL, check=False)  # type: ignore[call-overload]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    some = calls()[:: parser.parse_args().every]
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "here"
        prepare(Path(folder) / "template")
        shutil.copytree(Path(folder) / "template", where, symlinks=True)
        torch = seconds({"args": [sys.executable, "-c", "import torch"]}, where)
        found = sorted(((seconds(command(call), where), call) for call in some), key=lambda each: -each[0])
    light = [spent for spent, call in found if not call.torch]
    heavy = [spent for spent, call in found if call.torch]
    print(f"import torch alone: {torch:.2f} CPU s")
    for name, group in (("found without torch", light), ("found with torch", heavy)):
        late = sum(spent > 1 for spent in group)
        middle = group[len(group) // 2]
        print(f"{len(group)} calls {name}: median {middle:.2f}, most {group[0]:.2f} CPU s, {late} over 1 s")
    for spent, call in [each for each in found if not each[1].torch][:5]:
        print(f"  {spent:.2f}  {describe(call)}")


def describe(call: Call) -> str:
    """Returns a call as it is typed on a command line, cut to 100 characters."""
    return " ".join([call.program, *call.arguments])[:100]


if __name__ == "__main__":
    main()
