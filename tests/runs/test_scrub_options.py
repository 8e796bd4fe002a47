"""`interpbench scrub`: numbers out of range, and percentages that are not defined, are one line."""

import pytest

import interpbench
from interpbench.core.errors import ConfigError, TaskError
from interpbench.runs.cli import run_subcommand
from interpbench.runs.entry import contained
from interpbench.runs.scrub import scrub_checkpoint


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hist", "--samples", "1"], "--samples 1 is not a number from 2"),
        (["hist", "--inputs", "0"], "--inputs 0 is not a number from 2"),
        (["hist", "--inputs", "60000"], "--inputs 60000 is not a number from 2 to 50,000"),
        (["hist", "--soft", "nan"], "--soft nan is no width"),
        (["hist", "--samples", "9", "--sample", "10"], "--sample 10 is none of the samples 1 to 9"),
        (["hist", "--circuit", "nothing.json"], "there is no file nothing.json"),
    ],
)
def test_wrong_calls(arguments: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run_subcommand(["scrub", *arguments])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"samples": 0}, "--samples 0 is not a number from 2"),
        ({"samples": 2.5}, "--samples 2.5 is not a number from 2"),
        ({"samples": 1}, "--samples 1 is not a number from 2"),
        ({"samples": True}, "--samples True is not a number from 2"),
        ({"inputs": 10**7}, "--inputs 10000000 is not a number from 2 to 50,000"),
        ({"seed": "x"}, "--seed x is not a whole number"),
        ({"soft": -1}, "--soft -1 is no width"),
        ({"sample": 0}, "--sample 0 is none of the samples"),
        ({"circuit": "a.json", "soft": 0.1}, "--soft is about the values of claims"),
        ({"circuit": "a.json", "hypothesis": "a.py:b"}, "say one of them"),
    ],
)
def test_wrong_numbers_are_refused_in_python_too(settings: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        interpbench.scrub("hist", **settings)


def test_why_a_percentage_is_not_defined_is_said(caplog) -> None:
    """S7: two inputs with the same answer, so that outputs on the other input are as good."""
    settings = ["--inputs", "2", "--samples", "2", "--seed", "4"]
    with caplog.at_level("INFO", "interpbench"):
        assert run_subcommand(["scrub", "equals_mirror", *settings]) == 0
    (said,) = [line for line in caplog.messages if "not defined" in line]
    assert said.startswith("% recovered is not defined for merged (node), merged (edge)")
    assert said.endswith("the network's loss is that of its outputs on other inputs")
    with pytest.raises(TaskError, match="nothing can be refined: the network's loss"):
        scrub_checkpoint("equals_mirror", inputs=2, samples=2, seed=4, refine=True)


def test_inputs_that_take_too_much_memory_are_refused(monkeypatch) -> None:
    monkeypatch.setattr("interpbench.runs.scrub_options.MOST_BYTES", 1 << 20)
    with pytest.raises(
        ConfigError, match=r"what nodes write on 256 inputs takes .* GiB.*--inputs \d+ would fit"
    ):
        scrub_checkpoint("frac_prevs", inputs=256, samples=10)


def test_a_lack_of_memory_is_one_line(capsys) -> None:
    def fails() -> int:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    assert contained(fails) == 2
    assert capsys.readouterr().err.startswith("error: there is not enough memory for this")
