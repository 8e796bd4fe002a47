"""The low-level network of a task: a default shape that can carry it, and every number overridable."""

from dataclasses import asdict
from typing import Literal

from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Amount, Count, Steps, convert
from interpbench.core.errors import ConfigError
from interpbench.tasks.published import Widths, published_widths
from interpbench.tasks.task import CausalTask, RaspTask, Task
from interpbench.transformer.config import TransformerConfig


@dataclass(frozen=True, config=STRICT)
class ModelSettings:
    """What to build; None leaves a number to the default rule.

    Attributes:
        kind: `trained`, or `compiled` for the weights that Tracr compiles.
        rule: `own`, the default rule (see `shape`), or `published`, that of the published benchmark.
        normalization: `none`, `LN`, `LNPre`, `RMS`, `RMSPre`.
        positions: `learned`, `rotary`.
        mlp: `plain`, `gated`.
    """

    kind: Literal["trained", "compiled"] = "trained"
    rule: Literal["own", "published"] = "own"
    n_layers: Count | None = None
    n_heads: Count | None = None
    d_model: Count | None = None
    d_head: Count | None = None
    d_mlp: Count | None = None
    normalization: Literal["none", "LN", "LNPre", "RMS", "RMSPre"] | None = None
    activation: Literal["gelu", "gelu_new", "relu", "silu"] | None = None
    positions: Literal["learned", "rotary"] | None = None
    mlp: Literal["plain", "gated"] | None = None
    biases: bool = True
    init_std: Amount | None = None
    init_matching: bool | None = None
    init_positions: Steps | None = None
    init_orthogonal: bool | None = None


def shape(task: Task, settings: ModelSettings | None = None) -> TransformerConfig:
    """Returns the network's shape.

    The rule: at least two layers of four heads, so that there are distractors; a residual stream of 16, 32,
    64, … that has a direction for every token, position and output class; heads a quarter as wide, MLPs
    four times as wide. The published rule has the same layers and heads, other widths. A hand-written task
    may say otherwise, and settings say it last.
    """
    settings = settings or ModelSettings()
    given = {name: value for name, value in asdict(settings).items() if value is not None}
    if isinstance(task, CausalTask):
        given = {**task.network, **(task.published if settings.rule == "published" else {}), **given}
    nodes = task.placement.values()
    classes = 1 if task.causal_model.classes is None else len(task.causal_model.classes)
    n_heads = given.get("n_heads") or max(4, 1 + max(node.head or 0 for node in nodes))
    if settings.rule == "published" and isinstance(task, RaspTask):
        widths = published_widths(task, n_heads)
    else:
        needed = len(task.vocab) + task.length + classes
        d_model = given.get("d_model") or max(16, 1 << (needed - 1).bit_length())
        widths = Widths(d_model, max(1, d_model // 4), 4 * d_model, None)
    normalization, d_model = given.get("normalization"), given.get("d_model", widths.d_model)
    if given.get("init_positions", 0) >= d_model:
        raise ConfigError(
            f"model.init_positions={given['init_positions']} leaves tokens none of {d_model} dimensions; "
            f"try {d_model // 4}"
        )
    sizes = {
        "n_layers": given.get("n_layers") or max(2, 1 + max(node.layer for node in nodes)),
        "n_heads": n_heads,
        "d_model": d_model,
        "d_head": given.get("d_head", widths.d_head),
        "d_mlp": given.get("d_mlp", widths.d_mlp),
        "normalization": None if normalization == "none" else normalization,
        "activation": given.get("activation", "gelu"),
        "positions": given.get("positions", "learned"),
        "mlp": given.get("mlp", "plain"),
        "biases": settings.biases,
        "init_std": given.get("init_std") or widths.init_std,
        "init_matching": given.get("init_matching", False),
        "init_positions": given.get("init_positions", 0),
        "init_orthogonal": given.get("init_orthogonal", False),
        "d_vocab": len(task.vocab) + 2,
        "d_out": classes,
        "n_ctx": task.length + 1,
        "attention": task.attention,
    }
    return convert(TransformerConfig, sizes, "model")
