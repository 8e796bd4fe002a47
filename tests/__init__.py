"""Tests, in folders named as the packages that they are of; `builders` makes what they share."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The folder of the repository."""
