"""What `--help` says of each setting: its value, its choices, and what it means."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from interpbench.core.config import config_folder
from interpbench.core.setting_docs import commented, setting_docs
from interpbench.discovery.known_methods import method_names

_KEY = re.compile(r"( *)(\w[\w.]*):")
_LIST = re.compile(r"^( *\w[\w.]*:)((?:\n *- [^\n]*)+)$", re.MULTILINE)
_BESIDE = re.compile(r"( *)(\w[\w.]*):.*?  # (.*)")


def explained(text: str, meanings: Mapping[str, str]) -> str:
    """Returns YAML with a comment on each setting that has a meaning.

    Args:
        text: settings, one a line, nested ones indented by two spaces.
        meanings: path of a setting, as `trainer.batch`, to its choices and meaning.
    """
    path: list[str] = []
    lines: list[tuple[str, str]] = []
    for line in _LIST.sub(_in_one_line, text).splitlines():
        found = _KEY.match(line)
        if found:
            path = [*path[: len(found[1]) // 2], found[2]]
        lines.append((line, meanings.get(".".join(path), "") if found else ""))
    return "\n".join(commented(lines))


def meanings(kind: type[Any], path: str = "") -> dict[str, str]:
    """Returns the choices and the meaning of every setting of a dataclass, by its path.

    Args:
        kind: the dataclass.
        path: of the settings that it is a group of, with a dot at its end.
    """
    said: dict[str, str] = {}
    for doc in setting_docs(kind):
        said[f"{path}{doc.name}"] = doc.comment
        if doc.group is not None:
            said |= meanings(doc.group, f"{path}{doc.name}.")
    return said


def method_meanings(name: str) -> dict[str, str]:
    """Returns those of a method's settings: from its file in `configs/`, or from a user's own class."""
    file = Path(config_folder()) / "method" / f"{name}.yaml"
    if file.is_file():
        return {f"method.{key}": comment for key, comment in _comments(file.read_text(encoding="utf-8"))}
    if name not in method_names():
        return {}
    from interpbench.discovery.method import methods  # a user's own has imported torch already

    return meanings(methods()[name], "method.")


def _in_one_line(found: "re.Match[str]") -> str:
    """Returns a list that YAML writes one item a line as `key: [item, item]`."""
    return f"{found[1]} [{', '.join(item.strip()[2:] for item in found[2].strip().splitlines())}]"


def _comments(text: str) -> Iterator[tuple[str, str]]:
    """Yields each key of a generated file, and the comment beside or above it; its first line is a title."""
    above = ""
    for line in text.splitlines()[1:]:
        if line.lstrip().startswith("# "):
            above = line.strip()[2:]
        elif found := _BESIDE.fullmatch(line):
            yield found[2], found[3]
            above = ""
        elif found := _KEY.match(line):
            if above:
                yield found[2], above
            above = ""
