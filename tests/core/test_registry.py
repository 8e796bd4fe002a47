"""Registries: what is registered is found under its name and aliases, once, and near misses are suggested."""

import copy

import pytest

from interpbench.core.errors import UnknownNameError
from interpbench.core.registry import Registry


@pytest.fixture
def fruit() -> Registry[str]:
    made = Registry[str]("fruit")
    made.add("pear", "green", aliases=("7",))
    made.register("apple")("red")
    return made


def test_names_and_aliases_find_the_same_value(fruit: Registry[str]) -> None:
    assert fruit["pear"] == fruit["7"] == fruit[7] == "green" and fruit["apple"] == "red"
    assert "7" in fruit and 7 in fruit and "apple" in fruit and "8" not in fruit and None not in fruit


def test_an_alias_is_no_entry_of_its_own_and_names_are_sorted(fruit: Registry[str]) -> None:
    assert len(fruit) == 2 and list(fruit) == ["apple", "pear"]
    assert fruit.items() == [("apple", "red"), ("pear", "green")] and fruit.values() == ["red", "green"]


def test_registering_gives_back_what_is_registered() -> None:
    made = Registry[object]("thing")
    value = object()
    assert made.add("one", value) is value and made.register("two")(value) is value


@pytest.mark.parametrize(
    ("name", "aliases"), [("pear", ()), ("7", ()), ("plum", ("pear",)), ("plum", ("7",))]
)
def test_a_taken_name_or_alias_is_refused_and_nothing_changes(
    fruit: Registry[str], name: str, aliases: tuple[str, ...]
) -> None:
    taken = aliases[0] if aliases else name
    with pytest.raises(ValueError, match=f"^fruit '{taken}' is registered twice; choose another name$"):
        fruit.add(name, "blue", aliases)
    assert fruit.items() == [("apple", "red"), ("pear", "green")] and fruit["7"] == "green"


@pytest.mark.parametrize("name", ["aple", "Apple"])
def test_a_near_miss_is_suggested(fruit: Registry[str], name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"fruit '{name}'.*apple") as caught:
        fruit[name]
    assert "\n" not in str(caught.value)
    again = copy.copy(caught.value)  # as between processes
    assert type(again) is UnknownNameError and str(again) == str(caught.value)
