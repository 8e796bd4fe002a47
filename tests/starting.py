"""Starting the commands as a user does, and changing what a file says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import ROOT


def edit(path: Path, **changes: Any) -> None:
    """Changes entries of a JSON object in a file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def command(where: Path, script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs one of the scripts of the top folder."""
    line = [sys.executable, str(ROOT / script), *arguments]
    return subprocess.run(line, cwd=where, capture_output=True, text=True, check=False)
