"""The low-level network of a task: a default shape that can carry it, and every number overridable."""

from typing import Literal

from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Amount, Count
from interpbench.tasks.published import Widths, published_widths
from interpbench.tasks.task import Task
from interpbench.transformer.config import TransformerConfig


@dataclass(frozen=True, config=STRICT)
class ModelSettings:
    """What to build; None leaves a number to the default rule.

    Attributes:
        kind: `trained`, or `compiled` for the weights that Tracr compiles.
        rule: `own`, the default rule (see `shape`), or `published`, that of the published benchmark.
    """

    kind: Literal["trained", "compiled"] = "trained"
    rule: Literal["own", "published"] = "own"
    n_layers: Count | None = None
    n_heads: Count | None = None
    d_model: Count | None = None
    d_head: Count | None = None
    d_mlp: Count | None = None
    normalization: Literal["LN", "LNPre"] | None = None
    activation: Literal["gelu", "gelu_new", "relu"] = "gelu"
    biases: bool = True
    init_std: Amount | None = None


def shape(task: Task, settings: ModelSettings | None = None) -> TransformerConfig:
    """Returns the network's shape.

    The rule: at least two layers of four heads, so that there are distractors; a residual stream of 16, 32,
    64, … that has a direction for every token, position and output class; heads a quarter as wide, MLPs
    four times as wide. The published rule has the same layers and heads, other widths.
    """
    settings = settings or ModelSettings()
    nodes = task.placement.values()
    classes = 1 if task.model.classes is None else len(task.model.classes)
    n_heads = settings.n_heads or max(4, 1 + max(node.head or 0 for node in nodes))
    if settings.rule == "published":
        widths = published_widths(task, n_heads)
    else:
        needed = len(task.vocab) + task.length + classes
        d_model = settings.d_model or max(16, 1 << (needed - 1).bit_length())
        widths = Widths(d_model, max(1, d_model // 4), 4 * d_model, None)
    return TransformerConfig(
        n_layers=settings.n_layers or max(2, 1 + max(node.layer for node in nodes)),
        n_heads=n_heads,
        d_model=settings.d_model or widths.d_model,
        d_head=settings.d_head or widths.d_head,
        d_mlp=settings.d_mlp or widths.d_mlp,
        normalization=settings.normalization,
        activation=settings.activation,
        biases=settings.biases,
        init_std=settings.init_std or widths.init_std,
        d_vocab=len(task.vocab) + 2,
        d_out=classes,
        n_ctx=task.length + 1,
        attention=task.attention,
    )
