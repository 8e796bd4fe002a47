"""Compares this project's methods with the published code of others, on released models.

The published code must be cloned into one folder (the module of each tool in `benchmarks.published` names
repository and commit), and runs in an environment of its own: `make compare-published PUBLISHED=folder`.

Run: `python -m benchmarks.compare_published --python PYTHON --published FOLDER [--models hist,reverse]`.
"""

import argparse
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from benchmarks.published.exchange import Published
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.core.process import prepare_torch

TOOLS = ("eap_ig", "mib", "acdc", "ugs", "cdt")
MODELS = ("frac_prevs", "hist", "differs_from_both_neighbours", "max_with_previous", "greater_than")


def main() -> None:
    """Prints a line for each comparison of a model and method, and exits with 1 if any fails to agree."""
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
    prepare_torch(threads=1)
    folders = released()
    names = sorted(folders) if options.models == "all" else options.models.split(",")
    tools = options.tools.split(",")
    for kind, chosen, known in (("model", names, folders), ("tool", tools, TOOLS)):
        if unknown := [name for name in chosen if name not in known]:
            sys.exit(f"there is no {kind} {unknown[0]!r}; there are {', '.join(sorted(known))}")
    modules = {tool: importlib.import_module(f"benchmarks.published.{tool}") for tool in tools}
    if wrong := [line for module in modules.values() for line in _missing(module, options.published)]:
        sys.exit("\n".join(wrong))
    failed = 0
    for tool, module in modules.items():
        print(f"{tool}: {module.REPOSITORY} at {module.COMMIT}")
        paths = [options.published / path for path in module.PATHS]
        for name in names:
            checkpoint = load_checkpoint(folders[name])
            problem = load_pairs(folders[name]).problem(checkpoint.network, options.examples)
            with Published(options.python, module.WORKER, problem, paths) as theirs:
                for row in module.compare(problem, theirs, name):
                    failed += row.agrees is False
                    told = row.compared and row.agrees is not None
                    verdict = "-" if not told else "agrees" if row.agrees else "DIFFERS"
                    print(
                        f"  {verdict:8}{name:30}{row.method:40}{row.compared:6}  {row.agreement}", flush=True
                    )
    print("everything that was compared agrees" if not failed else f"{failed} do not agree")
    sys.exit(bool(failed))


def _missing(module: ModuleType, published: Path) -> Iterator[str]:
    """Yields messages on a tool's clone, if it is missing or at another commit."""
    if any(not (published / path).is_dir() for path in module.PATHS):
        yield f"clone {module.REPOSITORY}, at {module.COMMIT} and with submodules, into {published}"
        return
    clone = published / Path(module.PATHS[0]).parts[0]
    asked = ["git", "-C", str(clone), "rev-parse", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if not found.startswith(module.COMMIT):
        yield f"{clone} is at {found[:7] or 'no commit'}, but {module.COMMIT} is needed: check that out"


if __name__ == "__main__":
    main()
