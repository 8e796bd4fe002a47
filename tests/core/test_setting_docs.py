"""What dataclasses say of their settings: names, defaults, choices, and a clause of each attribute's text."""

from dataclasses import field
from typing import Literal

from pydantic.dataclasses import dataclass

from interpbench.core.setting_docs import REQUIRED, setting_docs, summary


@dataclass(frozen=True)
class Inner:
    """Of both."""

    depth: int = 2


@dataclass(frozen=True)
class Base:
    """Base of `Sub`.

    Attributes:
        rate: the learning rate; None for 0.1. Everything else is commentary.
        kind: what it is: `plain` or
            something else entirely.

    Raises:
        nothing: that is an attribute.
    """

    rate: float | None = None
    kind: Literal["plain", "gated"] | None = "plain"


@dataclass(frozen=True)
class Sub(Base):
    """What a subclass has, True or None.

    Attributes:
        kind: another kind.
        name: how it is
            called, e.g. a.
    """

    name: str = field(kw_only=True)
    only: Literal["one"] = "one"
    values: tuple[float, ...] = (1e-6, 1.0)
    inner: Inner = Inner()
    extra: dict[str, str] = field(default_factory=dict)


def test_settings_are_described_with_those_of_the_base() -> None:
    said = {doc.name: doc for doc in setting_docs(Sub)}
    assert list(said) == ["rate", "kind", "name", "only", "values", "inner", "extra"]
    assert said["rate"].comment == "the learning rate; null for 0.1"
    assert said["kind"].comment == "plain, gated: another kind"
    assert {doc.name: doc.comment for doc in setting_docs(Base)}["kind"] == "plain, gated: what it is"
    assert (said["name"].comment, said["name"].default) == ("how it is called, e.g. a", REQUIRED)
    assert said["only"].comment == "", "there is nothing to choose"
    assert said["values"].default == [1e-6, 1.0] and said["extra"].default == {}
    assert said["inner"].group is Inner and said["inner"].default == {"depth": 2}
    assert summary(Sub) == "What a subclass has, true or null."
