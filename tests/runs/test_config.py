"""Every YAML composes and converts, says what the dataclasses say, and mistakes are one line."""

import re
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from interpbench.core.config import config_folder, convert
from interpbench.core.errors import ConfigError
from interpbench.discovery.method import get_method, methods
from interpbench.runs.evaluate import EvaluateConfig
from interpbench.runs.train import TrainConfig
from interpbench.runs.train_settings import narrow
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from tests.builders import composed

CONFIGS = Path(config_folder())
KINDS: dict[str, Any] = {"train": TrainConfig, "evaluate": EvaluateConfig}
COMMANDS = {
    **{"objective": "train", "model": "train", "trainer": "train", "certificate": "train", "logger": "train"},
    **{"draws": "train", "curriculum": "train"},
    **{"experiment": "train", "standard": "train", "method": "evaluate"},
}
FILES = sorted((path.parent.name, path.stem) for path in CONFIGS.glob("*/*.yaml"))


def converted(command: str, *overrides: str) -> Any:
    return convert(KINDS[command], composed(command, *overrides), command)


def refusal(data: dict[str, Any], kind: Any = TrainConfig) -> str:
    with pytest.raises(ConfigError) as caught:
        convert(kind, data, "here")
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_no_yaml_escapes() -> None:
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == KINDS.keys()
    assert {path.name for path in CONFIGS.iterdir() if path.is_dir()} <= COMMANDS.keys()
    assert sorted(CONFIGS.rglob("*.yaml")) == sorted([*CONFIGS.glob("*.yaml"), *CONFIGS.glob("*/*.yaml")])


@pytest.mark.parametrize(("group", "choice"), FILES)
def test_every_yaml_composes_and_converts(group: str, choice: str) -> None:
    command = COMMANDS[group]
    named = group == "experiment" and choice != "none"
    task = [] if command == "evaluate" or named else ["task=frac_prevs"]
    config = converted(command, *task, f"{group}={choice}")
    if command == "train":
        shape(get_task(config.task), config.model)
    else:
        settings = dict(config.method)
        assert get_method(settings.pop("name"), settings)


def test_yaml_defaults_are_the_dataclasses_defaults() -> None:
    assert converted("train", "task=frac_prevs") == TrainConfig(task="frac_prevs")
    yaml = converted("evaluate")
    assert yaml == EvaluateConfig(method=yaml.method)


@pytest.mark.parametrize("name", list(methods()))
def test_a_method_s_yaml_says_its_defaults(name: str) -> None:
    settings = composed("evaluate", f"method={name}")["method"]
    assert settings.pop("name") == name
    made = methods()[name]()
    assert get_method(name, settings) == made
    assert settings.keys() == vars(made).keys()  # every setting is there to be seen


@pytest.mark.parametrize("group", [group for group, command in COMMANDS.items() if command == "train"])
def test_every_training_setting_is_in_a_yaml(group: str) -> None:
    if group != "experiment":
        made = vars(getattr(TrainConfig(task="frac_prevs"), group))
        assert composed("train", "task=frac_prevs")[group].keys() == made.keys()


def test_objectives_are_what_they_are_called() -> None:
    def weights(name: str) -> list[float]:
        objective = converted("train", "task=frac_prevs", f"objective={name}").objective
        return [objective.weight(term) for term in ("behaviour", "iit", "strict", "edge_strict")]

    assert weights("behaviour") == [1, 0, 0, 0]
    assert weights("iit") == [1, 1, 0, 0]
    assert weights("siit") == [1, 1, 1, 0]
    assert weights("siit_edges") == [1, 1, 1, 1]
    assert converted("train", "task=3", "model=compiled").model.kind == "compiled"
    assert converted("train", "task=3", "logger=wandb").logger.wandb


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sed": 1}, "here: sed: unknown key; did you mean seed or "),
        ({"trainer": {"max_step": 1}}, "here: trainer.max_step: unknown key; did you mean max_steps"),
        ({"objective": {"strickt": 1}}, "here: objective.strickt: unknown key; did you mean strict"),
        ({"seed": "one"}, "here: seed: input should be a valid integer, .*(got 'one')"),
        ({"trainer": {"batch": 1.5}}, "here: trainer.batch: input should be a valid integer, .*(got 1.5)"),
        ({"trainer": {"batch": None}}, "here: trainer.batch: input should be a valid integer (got None)"),
        ({"trainer": 7}, "here: trainer: input should be a dictionary .*(got 7)"),
        ({"fresh": "perhaps"}, "here: fresh: input should be a valid boolean, .*(got 'perhaps')"),
        ({"trainer": {"optimizer": "sgd"}}, "here: trainer.optimizer: .* 'adam' or 'muon' (got 'sgd')"),
    ],
)
def test_mistakes_are_one_line_with_the_path(settings: dict[str, Any], message: str) -> None:
    pattern = ".*".join(map(re.escape, message.split(".*")))
    assert re.match(pattern, refusal({"task": 3, **settings}))


@pytest.mark.parametrize(
    ("command", "override"),
    [
        *(
            ("train", f"trainer.{key}=0")
            for key in ("batch", "validate_every", "save_every", "validation_rows")
        ),
        *(("train", f"trainer.{key}=-1") for key in ("max_steps", "learning_rate", "weight_decay", "clip")),
        *(
            ("train", f"model.{key}=-1")
            for key in ("n_layers", "n_heads", "d_model", "d_head", "d_mlp", "init_std")
        ),
        *(("train", f"{key}=-1") for key in ("threads", "objective.strict", "certificate.pairs")),
        *(("train", override) for override in ("objective.iit=nan", "standard.confidence=2")),
        *(("evaluate", override) for override in ("examples=0", "threads=0")),
    ],
)
def test_numbers_out_of_range_are_one_line_too(command: str, override: str) -> None:
    task = ["task=frac_prevs"] if command == "train" else []
    key, value = override.split("=")
    said = refusal(composed(command, *task, override), KINDS[command])
    assert said.startswith(f"here: {key}: input should be ") and said.endswith(f"(got {value})")


def test_a_missing_key_is_named() -> None:
    assert refusal({}) == "here: task: required, but missing"


def test_mistakes_in_an_evaluation() -> None:
    assert refusal({}, EvaluateConfig) == "here: method: required, but missing"
    wrong = {"method": {"name": "acdc"}, "data": "old"}
    assert refusal(wrong, EvaluateConfig).startswith("here: data: input should be 'stored' or 'fresh'")


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("acdc", {"threshold": 1}, "method acdc: threshold: unknown key; did you mean thresholds"),
        ("acdc", {"max_width": 0}, "method acdc: max_width: input should be greater than or equal to 1"),
        ("acdc", {"thresholds": ["much"]}, "method acdc: thresholds.0: input should be a valid number"),
        ("eap_ig", {"steps": "many"}, "method eap_ig: steps: input should be a valid integer"),
        ("random", {"seed": 1}, "method random: seed: unknown key"),
    ],
)
def test_mistakes_in_a_method_s_settings(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        get_method(name, settings)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_a_misspelt_key_inside_a_yaml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "default.yaml").write_text("max_stepz: 10\n")
    (tmp_path / "train.yaml").write_text("defaults: [{trainer: default}, _self_]\ntask: frac_prevs\n")
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        data: Any = OmegaConf.to_container(compose("train"))
    assert "here: trainer.max_stepz: unknown key; did you mean max_steps" in refusal(data)


@pytest.mark.parametrize(
    ("task", "given", "used"),
    [
        ("sort_digits", None, "muon"),
        ("hist", None, "adamw"),
        ("sort_digits", "adam", "adam"),
        ("hist", "muon", "muon"),
    ],
)
def test_the_record_says_which_optimizer_was_used(task: str, given: str | None, used: str) -> None:
    """What a run leaves to the task is decided in its settings, which its record stores."""
    config = convert(TrainConfig, {"task": task, "trainer": {"optimizer": given}}, "train")
    said = config.settings()["trainer"]
    assert isinstance(said, dict) and said["optimizer"] == used


@pytest.mark.parametrize(
    ("task", "given", "steps"),
    [
        *(("hist", None, 8000), ("sort_digits", None, 11_000), ("hist", 7, 7)),
        ("two_brackets_balanced", None, 12_000),
    ],
)
def test_the_schedule_is_as_long_as_the_program_is_deep(task: str, given: int | None, steps: int) -> None:
    config = convert(TrainConfig, {"task": task, "trainer": {"max_steps": given}}, "train")
    said = config.settings()["trainer"]
    assert isinstance(said, dict) and said["max_steps"] == steps


@pytest.mark.parametrize(("task", "given", "share"), [("sort_digits", 0.25, 0.75), ("hist", 0.25, 0.25)])
def test_rows_that_patch_required_edges_follow_from_the_task(task: str, given: float, share: float) -> None:
    config = convert(TrainConfig, {"task": task, "draws": {"required": given}}, "train")
    said = config.settings()["draws"]
    assert isinstance(said, dict) and said["required"] == share == config.recipe.draws.required


@pytest.mark.parametrize(
    ("task", "widths", "said"),
    [
        *(("all_equal", {"d_head": 1}, "all_equal tells 10 keys apart, which takes 9 dimensions"),),
        *(
            (
                "all_equal",
                {"d_head": 1},
                "capacity all_equal --d-model 32 --d-head 1 --d-mlp 128` measures",
            ),
        ),
        *(("all_equal", {"d_head": 9}, None), ("all_equal", {}, None)),
        ("median_fine", {}, "tells 98 keys apart, which can take several"),
        ("sort_integers", {}, "start=sort_integers goes on from a network that does"),
        *(("hist", {"d_head": 1}, None), ("hist", {"d_model": 16}, None)),
        (
            "hist",
            {"d_model": 2},
            "model.d_model=2 is less than half of 32, the default of hist; `interpbench",
        ),
        ("hist", {"d_mlp": 1}, "--d-mlp 1` measures"),
    ],
)
def test_networks_that_are_too_narrow_are_named(task: str, widths: dict[str, int], said: str | None) -> None:
    found = narrow(convert(TrainConfig, {"task": task, "model": widths}, "train"))
    assert found is None if said is None else said in str(found)
