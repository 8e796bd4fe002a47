"""Nothing waits for the device: steps of training run where tensors have no values, and the rest hardly asks.

On torch's `meta` device tensors have shapes and no values, so that whatever needs a value is an error. Of
methods and certificates, what asks for single values is counted on the CPU: methods that train ask a few
times in a run, and not once more for more steps. Copies of whole results are not counted.
"""

import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.discovery.known_methods import known_methods
from interpbench.discovery.method import get_method
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.training.measure_certificate import certify
from interpbench.training.objective import Objective
from interpbench.training.recipe import Recipe
from interpbench.training.settings import CertificateSettings, TrainerSettings
from interpbench.training.trainer import Trainer
from interpbench.transformer.model import Transformer
from tests import ROOT
from tests.builders import FEW, TRAINED, evaluation_of
from tests.wrong_networks import right_network

META = torch.device("meta")
WAITS = {"aten._local_scalar_dense.default", "aten.nonzero.default", "aten.masked_select.default"}
"""What has to know values: `.item()`, `float()`, `bool()`, and indices of what is true."""
ONCE = {"acdc": 1, "cdt": 1, "exact": 1, "path_patching": 1}
"""Methods that read the clean metric before they begin, and then values of whole batched calls."""


@pytest.mark.parametrize(
    "name",
    [
        *("hist", "frac_prevs", "ioi", "sort_digits", "hist[regime=alive]"),
        *("trend_to_next[regime=noisy]", "equals_two_back[regime=saturated]"),
    ],
)
def test_a_step_of_training_needs_no_values(name: str) -> None:
    task = get_task(name)
    cfg = shape(task)
    alignment = align(task, cfg.graph)
    made = Trainer(
        Transformer(cfg, 0).to(META),
        alignment,
        find_truth(alignment, pairs=200),
        Recipe(Objective(variance_penalty=1.0, imitation=0.1).of_task(task)),
        TrainerSettings(batch=32),
        CertificateSettings(),
        seed=0,
    )
    for _ in range(2):
        assert made.step().device == META
    own = {"noise": task.noise, "flatness": task.flat}
    terms = {"probe", "attention_supervision", "variance_penalty", "imitation"}
    assert terms | {name for name, asked in own.items() if asked} == set(made.others)


def place() -> str:
    """The file and the line of the project that is being run."""
    frames = [frame for frame in traceback.extract_stack() if str(ROOT / "interpbench") in frame.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"


class Waits(TorchDispatchMode):
    """Counts calls that have to know values, but for the optimizer's own counters, which are on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.places: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func) in WAITS:
            if not any("torch/optim" in frame.filename for frame in traceback.extract_stack()):
                self.places[place()] += 1
        return func(*args, **(kwargs or {}))


def waits(name: str, steps: int | None) -> Counter[str]:
    """Where a method asks for values; of one that trains for so many steps, also for lists of them."""
    folder = released()["hist"]
    settings = {} if steps is None else {"steps": steps}
    problem = load_pairs(folder).problem(load_checkpoint(folder, certificate=False).network, 16)
    listed, plain = Counter[str](), torch.Tensor.tolist

    def tolist(tensor: torch.Tensor) -> object:
        listed[place()] += 1
        return plain(tensor)

    with Waits() as counted, pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "tolist", tolist)
        get_method(name, settings)(problem)
    return counted.places + (listed if steps is not None else Counter())


@pytest.mark.parametrize("name", sorted(set(known_methods()) & set(TRAINED)))
def test_methods_that_train_wait_no_more_for_more_steps(name: str) -> None:
    few, many = waits(name, 2), waits(name, 5)
    assert few == many, many - few
    assert few.total() <= 3


@pytest.mark.parametrize("name", sorted(set(known_methods()) - set(TRAINED) - {"fitted_features"}))
def test_methods_do_not_wait_between_batched_calls(name: str) -> None:
    """Of every method but those that train, and the one that looks constants up by the hash of weights."""
    assert waits(name, None).total() <= ONCE.get(name, 0)


def test_certificates_ask_for_no_single_values() -> None:
    """Each batched call ends in a copy of its result. The adversary's sums are on the CPU."""
    evaluation, truth = evaluation_of("hist", right_network("hist"))
    with Waits() as counted:
        certify(evaluation, truth, replace(FEW, attacks=1, attack_rows=64))
    assert {where.partition(":")[0] for where in counted.places} <= {"adversary.py", "effect_sizes.py"}
    assert counted.places.total() < 20
