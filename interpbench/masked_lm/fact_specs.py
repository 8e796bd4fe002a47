"""What is to be traced: facts, models, and how facts are phrased; plain data, the same keys in JSON."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Unchecked, convert
from interpbench.core.errors import ConfigError
from interpbench.core.files import read_json, write_json
from interpbench.core.text import shown

SLOT = "{}"
"""The place of the subject in a template."""
MASK = "[MASK]"
"""The place of the mask in a prompt of any model; tracing puts the tokenizer's own mask token there."""
DEFAULT_VARIANTS = (
    ("", ""),
    ("", "."),
    ("It is well known: ", "."),
    ("Here is a fact. ", "."),
    ("In short: ", "."),
)
"""The prefixes and suffixes with which facts are phrased if a specification has none; the first are empty."""


@dataclass(frozen=True, config=STRICT)
class FactSpec:
    """A fact, and the word that tells it.

    Attributes:
        clean_subject: the word that belongs in the place `{}` of the template.
        corrupt_subject: a word of the same kind that does not belong there.
        template: a sentence with one `{}`. The mask takes its place, unless the template has a `[MASK]`.
        target: the word whose probability at the mask is measured.
        context_from: the word of the sentence that tells the fact.
        context_to: what replaces it in the corrupted prompt.
    """

    clean_subject: str
    corrupt_subject: str
    template: str
    target: str
    context_from: str
    context_to: str


@dataclass(frozen=True, config=STRICT)
class ModelSpec:
    """A masked language model.

    Attributes:
        name: its name in results and figures.
        huggingface_id: its address on the Hugging Face hub, `owner/name`, or a folder.
    """

    name: str
    huggingface_id: str


@dataclass(frozen=True, config=STRICT)
class DatasetSpec:
    """Facts of a domain, and the models in which they are looked for.

    Attributes:
        domain: the domain of the facts.
        description: what is asked.
        models: the models.
        facts: the facts; 8 to 12 are advised.
        variants: prefixes and suffixes, `[prefix, suffix]`, with which each fact is phrased; None for five.
        output_dir: the folder to which results are written.
    """

    domain: str
    description: str
    models: list[ModelSpec]
    facts: list[FactSpec]
    variants: list[tuple[str, str]] | None = None
    output_dir: str = "output"

    @property
    def phrasings(self) -> list[tuple[str, str]]:
        """The prefixes and suffixes with which each fact is phrased."""
        return list(DEFAULT_VARIANTS) if self.variants is None else self.variants

    def to_dict(self) -> dict[str, Any]:
        """Returns the specification as plain data, as JSON has it."""
        data = asdict(self)  # pyright: ignore[reportArgumentType]  a dataclass of pydantic is one
        if self.variants is not None:
            data["variants"] = [list(variant) for variant in self.variants]
        return data

    @classmethod
    def from_dict(cls, data: object, where: object = "the specification") -> "DatasetSpec":
        """Returns the specification that plain data describes.

        Args:
            data: the plain data.
            where: the name of its file, with which an error message begins.

        Raises:
            ConfigError: if a key is unknown or missing, or has a wrong value.
        """
        if not isinstance(data, dict):
            raise ConfigError(f"{where}: a specification is an object with the keys domain, models, facts, …")
        return convert(DatasetSpec, cast(Unchecked, data), str(where))

    def save(self, path: str | Path) -> None:
        """Writes the specification as JSON."""
        write_json(Path(path), self.to_dict())


def read_spec(path: str | Path) -> DatasetSpec:
    """Returns the specification in a file of JSON.

    Raises:
        ConfigError: if it cannot be read, or a key is unknown or missing, or has a wrong value.
    """
    return DatasetSpec.from_dict(read_json(Path(path), ConfigError), shown(path))
