"""The configuration of a task's network: a default rule for each number, which settings can override."""

import shlex

from interpbench.causal.model import MANY
from interpbench.core.config import convert
from interpbench.core.errors import ConfigError
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.published import Widths, published_widths
from interpbench.tasks.task import CausalTask, RaspTask, Task
from interpbench.transformer.config import TransformerConfig

MOST = 32
"""The number of positions, and of output classes, that get a dimension each; more are told apart in as many.
A single MLP learns the 226 classes of `divide_by_ratio` in 64 dimensions (`interpbench capacity
divide_by_ratio`)."""

HEAD = 96
"""The largest d_head of the rule. In `broadcast_max` a head compares the 99 values of a key. Alone it learns
that for 82 % of rows with 16 dimensions, 97 % with 32, 99.95 % with 64 and for all with 96 (`interpbench
capacity broadcast_max --d-model 128 --d-head 96`)."""

LAYER = 4
"""The least ratio of d_model to the number of layers, as all layers write into the same residual stream.
After 8,000 steps the certificate of `two_brackets_balanced`, of eight layers, says that with inert edges
patched at least 99.3 % of rows are right in 16 dimensions, and at least 99.899 % in 32."""


WIDTHS = ("d_model", "d_head", "d_mlp")
"""The widths of a network, which `interpbench capacity` takes as options."""


def capacity_command(task: Task, cfg: TransformerConfig, typed: str | int | None = None) -> str:
    """Returns the command that measures what single nodes of a network of these widths can compute.

    Args:
        task: the task.
        cfg: the configuration of its network.
        typed: how the user names the task; None for its name in the catalogue.
    """
    own = shape(task)
    same = all(getattr(cfg, name) == getattr(own, name) for name in WIDTHS)
    widths = () if same else [f"--{name.replace('_', '-')} {getattr(cfg, name)}" for name in WIDTHS]
    return " ".join(["interpbench capacity", shlex.quote(str(typed or task.name)), *widths])


def shape(task: Task, settings: ModelSettings | None = None) -> TransformerConfig:
    """Returns the configuration of a task's network.

    By the default rule there are at least two layers of four heads, so that some nodes are not part of the
    circuit. d_head has the dimensions that the attention of the program needs (n points are told apart in
    n - 1 of them; `Variable.head_dimensions`), up to `HEAD`, and is a quarter of d_model at least; it is half
    of d_model at most, or leaves `MOST` dimensions of it. d_model is the smallest of 16, 32, 64, … that has
    room for d_head so, a dimension for every token, and for every position and class up to `MOST`, and is
    `LAYER` times the number of layers at least; d_mlp is four times d_model.
    MLPs start as nonlinear maps where a head compares many keys (`MANY`). The published rule differs in the
    widths. Settings of a task override the rule, and `settings` override both.
    """
    given = settings or ModelSettings()
    own = task.network
    if given.rule == "published" and isinstance(task, CausalTask):
        own = task.published.over(own)
    given = given.over(own)
    nodes = task.homes.values()
    classes = 1 if task.causal_model.classes is None else len(task.causal_model.classes)
    n_layers = given.n_layers or max(2, 1 + max(node.layer for node in nodes))
    dimensions = task.causal_model.head_dimensions
    n_heads = given.n_heads or max(4, 1 + max(node.head or 0 for node in nodes))
    if given.rule == "published" and isinstance(task, RaspTask):
        widths = published_widths(task, n_heads)
    else:
        needed = len(task.vocab) + min(task.length, MOST) + min(classes, MOST)
        attention = min(HEAD, 8 * max(1, -(-(dimensions - 1) // 8)))
        room = min(2 * attention, attention + MOST)
        d_model = given.d_model or 1 << (max(needed, room, LAYER * n_layers) - 1).bit_length()
        d_head = max(1, d_model // 4, min(max(d_model // 2, d_model - MOST), attention))
        widths = Widths(d_model, d_head, 4 * d_model, None)
    d_model = given.d_model or widths.d_model
    if (given.init_positions or 0) >= d_model:
        raise ConfigError(
            f"model.init_positions={given.init_positions} leaves tokens none of the d_model={d_model} "
            f"dimensions; try model.init_positions={d_model // 4}"
        )
    sizes = {
        "n_layers": n_layers,
        "n_heads": n_heads,
        "d_model": d_model,
        "d_head": given.d_head or widths.d_head,
        "d_mlp": given.d_mlp or widths.d_mlp,
        "normalization": None if given.normalization == "none" else given.normalization,
        "activation": given.activation or "gelu",
        "positions": given.positions or "learned",
        "mlp": given.mlp or "plain",
        "biases": given.biases,
        "init_std": given.init_std or widths.init_std,
        "init_matching": given.init_matching or False,
        "init_positions": given.init_positions or 0,
        "init_orthogonal": given.init_orthogonal or False,
        "init_nonlinear": (given.rule == "own" and dimensions > MANY)
        if given.init_nonlinear is None
        else given.init_nonlinear,
        "d_vocab": len(task.vocab) + 2,
        "d_out": classes,
        "n_ctx": task.length + 1,
        "attention": task.attention,
    }
    return convert(TransformerConfig, sizes, "model")
