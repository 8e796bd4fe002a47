"""Whether our methods agree with the published code on released models; rows say what is compared.

The published code is cloned by whoever runs this (the module of each tool names repository and commit) into
one folder, and runs in an environment of its own: `make compare-published PUBLISHED=folder`.

Run: `python -m benchmarks.compare_published --python PYTHON --published FOLDER [--models hist,reverse]`.
"""

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.published.exchange import Published
from interpbench.checkpoints.find import released
from interpbench.checkpoints.format import load_checkpoint, load_pairs

TOOLS = ("eap_ig", "mib", "acdc", "ugs", "cdt")
MODELS = ("frac_prevs", "hist", "differs_from_both_neighbours", "max_with_previous", "greater_than")


def _check_commit(clone: Path, commit: str) -> None:
    """Refuses a clone at another commit."""
    asked = ["git", "-C", str(clone), "rev-parse", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if not found.startswith(commit):
        sys.exit(
            f"{clone} is at {found[:7] or 'no commit'}, compared with is {commit}: git checkout {commit}"
        )


def main() -> None:
    """Prints a line for each model and method, and exits with 1 if one disagrees."""
    parser = argparse.ArgumentParser(description="Compares our methods with the published code.")
    parser.add_argument(
        "--python", required=True, help="of the environment that has the published code's needs"
    )
    parser.add_argument(
        "--published", required=True, type=Path, help="the folder with the cloned repositories"
    )
    parser.add_argument("--models", default=",".join(MODELS), help="released models, by comma, or all")
    parser.add_argument("--tools", default=",".join(TOOLS), help="by comma")
    parser.add_argument("--examples", type=int, default=32, help="pairs of inputs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    folders = released()
    names = sorted(folders) if options.models == "all" else options.models.split(",")
    failed = 0
    for tool in options.tools.split(","):
        module = importlib.import_module(f"benchmarks.published.{tool}")
        paths = [options.published / path for path in module.PATHS]
        missing = [path for path in paths if not path.is_dir()]
        if missing:
            sys.exit(
                f"{missing[0]} is missing: clone {module.REPOSITORY} at {module.COMMIT}, with submodules"
            )
        _check_commit(options.published / Path(module.PATHS[0]).parts[0], module.COMMIT)
        print(f"{tool}: {module.REPOSITORY} at {module.COMMIT}")
        for name in names:
            checkpoint = load_checkpoint(folders[name])
            problem = load_pairs(folders[name]).problem(checkpoint.model, options.examples)
            with Published(options.python, module.WORKER, problem, paths) as theirs:
                for row in module.compare(problem, theirs, name):
                    failed += not row.agrees
                    verdict = "-" if not row.compared else "agrees" if row.agrees else "DIFFERS"
                    print(
                        f"  {verdict:8}{name:30}{row.method:40}{row.compared:6}  {row.agreement}", flush=True
                    )
    print("everything that was compared agrees" if not failed else f"{failed} do not agree")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
