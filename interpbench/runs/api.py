"""The library's front door: what `import interpbench` offers."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interpbench.core import shown_values
from interpbench.core.errors import ScoresError
from interpbench.discovery.known_methods import EXAMPLES

if TYPE_CHECKING:
    from interpbench.checkpoints.format import Checkpoint
    from interpbench.circuits.ground_truth import Level, Truth
    from interpbench.circuits.scores import Scores
    from interpbench.reports.palette import Picture
    from interpbench.runs.scrub_report import ScrubReport
    from interpbench.runs.train import TrainOutcome
    from interpbench.scoring.results import LevelScores
    from interpbench.tasks.problem import Problem


def _checkpoint_html(checkpoint: "Checkpoint") -> str:
    from interpbench.reports.circuit_html import checkpoint_html  # matplotlib takes half a second

    return checkpoint_html(checkpoint)


def _truth_html(truth: "Truth") -> str:
    from interpbench.reports.circuit_html import truth_html

    return truth_html(truth)


shown_values.shows("Checkpoint", _checkpoint_html)
shown_values.shows("Truth", _truth_html)


def show(name: str | int) -> None:
    """Prints a task's program, domain, circuit and truth states."""
    from interpbench.core.console import console
    from interpbench.runs.show import show_task

    show_task(console(), str(name))


def load(name: str | int | Path) -> "Checkpoint":
    """Loads a checkpoint: a name or published number, a folder, or `hf://owner/name@revision/folder`.

    A name is looked for in `models/`, in the cache of downloads, and, if INTERPBENCH_HUB is set, on the hub.
    Folders may be ours or the published InterpBench's (`hf://cybershiptrooper/InterpBench/3`).

    Its `network` is a torch module (`network.to_transformer_lens()` opens it in TransformerLens), `truth` the
    state of every node and edge, `record` and `certificate` what is known of it, `verdict()` what a reader
    makes of the certificate: `verdict().grade` is `siit+edges` or higher for released models.

    Raises:
        CheckpointError: if there is none, or several, it is damaged, or it cannot be downloaded.
    """
    from interpbench.checkpoints.find import find_checkpoint

    folder = find_checkpoint(str(name))
    from interpbench.checkpoints.load import load_checkpoint  # torch is not for a name that is wrong

    return load_checkpoint(folder)


def train(task: str | int, **settings: Any) -> "TrainOutcome":
    """Trains and certifies a network, like `train.py`; nested settings are dictionaries.

    As there, a task's own settings in `configs/experiment` come first.

    Examples:
        >>> import interpbench
        >>> outcome = interpbench.train("frac_prevs", seed=1, trainer={"max_steps": 800})  # doctest: +SKIP
        >>> outcome.certified, outcome.folder                                              # doctest: +SKIP

    Raises:
        InterpBenchError: for an unknown task or setting, or a run that cannot go on.
    """
    from interpbench.core.config import convert
    from interpbench.core.old_names import renamed
    from interpbench.runs.train import train as run
    from interpbench.runs.train_settings import TrainConfig, own_settings

    own = dict(own_settings(task))
    for key, value in settings.items():
        nested = isinstance(value, dict) and isinstance(own.get(key), dict)
        own[key] = {**own[key], **value} if nested else value
    return run(convert(TrainConfig, {"task": task, **renamed(own)}, "train"))


def load_problem(folder: str | Path, examples: int = EXAMPLES, seed: int = 0) -> "Problem":
    """Loads a blind problem (`interpbench export-problem`): network and data, to run a method on.

    Args:
        folder: the problem's.
        examples: how many pairs of inputs to use.
        seed: for methods that draw at random.

    Raises:
        CheckpointError: if a file is missing, damaged or changed.
    """
    from interpbench.checkpoints.blind import load_problem as run

    return run(folder, examples, seed)


def discover(
    checkpoint: "Checkpoint | Problem | str | int | Path",
    method: str = "acdc",
    *,
    examples: int = EXAMPLES,
    seed: int = 0,
    **settings: Any,
) -> "Scores":
    """Runs a discovery method on a checkpoint's stored pairs of inputs.

    Args:
        checkpoint: a loaded checkpoint or problem, or what `load` takes.
        method: a registered method, or `path/to/file.py:name`.
        examples: how many pairs to use; `evaluate.py` takes as many by default.
        seed: for methods that draw at random.
        **settings: the method's own.

    Raises:
        InterpBenchError: for an unknown method or setting.
    """
    from interpbench.checkpoints.load import load_pairs
    from interpbench.core.process import prepare_torch
    from interpbench.discovery.isolated_run import apply
    from interpbench.discovery.method import get_method, method_name
    from interpbench.tasks.problem import Problem

    prepare_torch()
    if isinstance(checkpoint, Problem):
        return apply(get_method(method, settings), checkpoint, method_name(method))
    if isinstance(checkpoint, str | int | Path):
        checkpoint = load(checkpoint)
    problem = load_pairs(checkpoint.folder).problem(checkpoint.network, examples, seed)
    return apply(get_method(method, settings), problem, method_name(method))


def scrub(checkpoint: "Checkpoint | str | int | Path", **settings: Any) -> "ScrubReport":
    """Scrubs a network: against its own program, a circuit that was found, or a hypothesis by hand.

    Args:
        checkpoint: a loaded checkpoint, or what `load` takes.
        **settings: those of `runs.scrub.scrub_checkpoint`: `circuit`, a file of scores or of a circuit, or
            `hypothesis`, `path/to/file.py:name`, instead of the program; `inputs` and `samples`, from 2 to
            50,000; `seed`; `donors`, to add inputs that agree with those that are alone; `soft`, the width
            of a kernel by which inputs with similar numbers are exchanged; `refine`, to try what a
            hypothesis may have left out; `sample`, the number of the sample that a page shows.

    Examples:
        >>> import interpbench
        >>> report = interpbench.scrub("hist")                     # doctest: +SKIP
        >>> report.results["features"]["node"].percent             # doctest: +SKIP

    Raises:
        InterpBenchError: if there is no such checkpoint, a number is out of range, a file cannot be read or
            is of another network, or a hypothesis is not about this network.
    """
    from interpbench.runs.scrub import scrub_checkpoint

    name = str(checkpoint) if isinstance(checkpoint, str | int | Path) else str(checkpoint.folder)
    return scrub_checkpoint(name, **settings)


def compare(truth: "Truth", scores: "Scores", structural: bool = False) -> "dict[Level, LevelScores]":
    """Scores a ranking at node, head-edge and q/k/v-edge level: required against forbidden.

    Args:
        truth: `checkpoint.truth`.
        scores: what `discover` returns, for the same network.
        structural: count allowed nodes and edges as positive.

    Raises:
        ScoresError: for swapped arguments, or scores of a network with other layers or heads.
    """
    from interpbench.circuits.ground_truth import Truth
    from interpbench.circuits.scores import Scores
    from interpbench.scoring.curves import compare as run

    given: list[Any] = [truth, scores]
    if not all(isinstance(one, kind) for one, kind in zip(given, (Truth, Scores))):
        kinds = " and ".join(type(one).__name__ for one in given)
        raise ScoresError(
            f"compare takes a Truth, then Scores, as in compare(checkpoint.truth, scores); got {kinds}"
        )
    if truth.graph != scores.graph:
        raise ScoresError(f"the truth is of a network of {truth.graph}, the scores of one of {scores.graph}")
    return run(truth, scores, structural)


def _check_found(found: object) -> None:
    """Raises ScoresError unless what is to be drawn has the names of methods."""
    if found is not None and not isinstance(found, Mapping):
        raise ScoresError(
            f"found takes names and scores, as in {{'eap': scores}}; got {type(found).__name__}"
        )


def plot_circuit(
    checkpoint: "Checkpoint | str | int | Path", found: "Mapping[str, Scores] | None" = None
) -> "Picture":
    """Draws a checkpoint's circuit as a matplotlib figure, which Jupyter shows; `draw` writes it to a file.

    Args:
        checkpoint: a loaded checkpoint, or what `load` takes.
        found: what methods found, to be drawn beside the truth: name to scores.

    Raises:
        ScoresError: for scores without the name of a method.
    """
    from interpbench.reports.drawing import circuit_figure

    _check_found(found)
    if isinstance(checkpoint, str | int | Path):
        checkpoint = load(checkpoint)
    return circuit_figure(checkpoint.truth, checkpoint.variables, found, checkpoint.task)


def plot_roc(
    checkpoint: "Checkpoint | str | int | Path", found: "Mapping[str, Scores]", structural: bool = False
) -> "Picture":
    """Draws the ROC curves of methods on a checkpoint as a matplotlib figure, a panel for each level.

    Args:
        checkpoint: a loaded checkpoint, or what `load` takes.
        found: what methods found: name to scores.
        structural: count allowed nodes and edges as positive.

    Raises:
        ScoresError: for scores without the name of a method.
    """
    from interpbench.reports.plots import roc_curves

    _check_found(found)
    if isinstance(checkpoint, str | int | Path):
        checkpoint = load(checkpoint)
    truth = checkpoint.truth
    curves = {name: compare(truth, scores, structural) for name, scores in found.items()}
    return roc_curves(curves, checkpoint.task)


def draw(
    checkpoint: "Checkpoint | str | int | Path", path: str | Path, found: "Mapping[str, Scores] | None" = None
) -> None:
    """Writes a PNG of a checkpoint's true circuit and, beside it, of what methods found.

    Args:
        checkpoint: a loaded checkpoint, or what `load` takes.
        path: the file to write.
        found: name of a method to its scores; None for the truth alone.

    Raises:
        ScoresError: for scores without the name of a method.
    """
    from interpbench.reports.drawing import draw_circuit

    _check_found(found)
    if isinstance(checkpoint, str | int | Path):
        checkpoint = load(checkpoint)
    draw_circuit(checkpoint.truth, Path(path), checkpoint.variables, found, checkpoint.task)
