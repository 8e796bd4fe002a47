"""Files that are made from classes: `configs/`, what is stored of methods, and `docs/methods.md`.

A dataclass and its docstring say each setting once; here they become YAML, with choices and comments. Of
`train.yaml` and `evaluate.yaml` what stands between the line `SETTINGS` and `hydra:` is made here. Variants
(`objective/siit.yaml`) and experiments are written by hand, and say only what differs.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import JsonValue

from interpbench.core.config import config_folder
from interpbench.core.files import write_text
from interpbench.core.setting_docs import commented, setting_docs, summary
from interpbench.discovery.known_methods import known_methods
from interpbench.runs.evaluate_settings import EvaluateConfig
from interpbench.runs.methods import method_files, package_methods
from interpbench.runs.train_settings import TrainConfig

log = logging.getLogger(__name__)
COMMANDS: dict[str, type[Any]] = {"train": TrainConfig, "evaluate": EvaluateConfig}
SETTINGS = "# Settings: `make configs` writes them from the classes that declare them."


def generated_files() -> dict[Path, str]:
    """Returns the text of every file that is made from classes."""
    folder, found = Path(config_folder()), method_files()
    for name, made in package_methods().items():
        found[folder / "method" / f"{name}.yaml"] = _text(made, [(f"name: {name}", ""), *_settings(made)])
    for command, kind in COMMANDS.items():
        file = folder / f"{command}.yaml"
        text = file.read_text()
        entries = yaml.safe_load(text)["defaults"]
        chosen = {group: name for entry in entries if entry != "_self_" for group, name in entry.items()}
        for doc in setting_docs(kind):
            if doc.group is not None and doc.name in chosen:
                path = folder / doc.name / f"{chosen[doc.name]}.yaml"
                found[path] = _text(doc.group, _settings(doc.group))
        before, line, rest = text.partition(f"{SETTINGS}\n")
        _, hydra, after = rest.partition("\nhydra:\n")
        settings = "".join(f"{line}\n" for line in commented(_settings(kind, chosen)))
        found[file] = before + line + settings + hydra + after
    return found


def stale_files() -> dict[Path, str]:
    """Returns the generated files that are not what the classes say, with what they should be."""
    files = generated_files().items()
    return {path: text for path, text in files if not path.is_file() or path.read_text() != text}


def write_files() -> None:
    """Writes the files that are stale."""
    for path, text in stale_files().items():
        write_text(path, text)
        log.info("wrote %s", path)
    known_methods.cache_clear()


def _settings(kind: type[Any], leaving_out: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yields each setting of a dataclass as a line of YAML, and the comment on it."""
    for doc in setting_docs(kind):
        if doc.name in leaving_out:
            continue
        if doc.group is None:
            yield f"{doc.name}: {_value(doc.default)}", doc.comment
        else:
            yield f"{doc.name}:", doc.comment
            yield from ((f"  {line}", comment) for line, comment in _settings(doc.group))


def _value(value: JsonValue) -> str:
    """Returns a value as YAML, in one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).removesuffix("...\n").strip()


def _text(kind: type[Any], settings: Iterable[tuple[str, str]]) -> str:
    """Returns a file of settings."""
    return "\n".join([f"# {summary(kind)}", *commented(list(settings))]) + "\n"
