"""Tests, in a folder for each package; `builders` has the functions that several test files share."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The folder of the repository."""
