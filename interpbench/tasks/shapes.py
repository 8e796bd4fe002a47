"""The configuration of a task's network: a default rule for each number, which settings can override."""

from interpbench.core.config import convert
from interpbench.core.errors import ConfigError
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.published import Widths, published_widths
from interpbench.tasks.task import CausalTask, RaspTask, Task
from interpbench.transformer.config import TransformerConfig

CLASSES = 32
"""The number of output classes that get a dimension each; more are told apart in as many. A single MLP learns
the 226 classes of `divide_by_ratio` in 64 dimensions (`interpbench capacity divide_by_ratio`)."""


def shape(task: Task, settings: ModelSettings | None = None) -> TransformerConfig:
    """Returns the configuration of a task's network.

    By the default rule there are at least two layers of four heads, so that some nodes are not part of the
    circuit. d_model is the smallest of 16, 32, 64, … that has a dimension for every token and position, and
    for every output class up to `CLASSES`. d_head is a quarter of it, or up to half of it where the attention
    of the program needs as many dimensions (`Variable.head_dimensions`); d_mlp is four times d_model. The
    published rule differs in the widths. Settings of a hand-written task override the rule, and `settings`
    override both.
    """
    given = settings or ModelSettings()
    if isinstance(task, CausalTask):
        own = task.published.over(task.network) if given.rule == "published" else task.network
        given = given.over(own)
    nodes = task.default_alignment.values()
    classes = 1 if task.causal_model.classes is None else len(task.causal_model.classes)
    n_heads = given.n_heads or max(4, 1 + max(node.head or 0 for node in nodes))
    if given.rule == "published" and isinstance(task, RaspTask):
        widths = published_widths(task, n_heads)
    else:
        needed = len(task.vocab) + task.length + min(classes, CLASSES)
        d_model = given.d_model or max(16, 1 << (needed - 1).bit_length())
        dimensions = max(each.head_dimensions for each in task.causal_model.variables.values())
        quarter = max(1, d_model // 4)
        d_head = max(quarter, min(d_model // 2, 8 * -(-dimensions // 8)))
        widths = Widths(d_model, d_head, 4 * d_model, None)
    d_model = given.d_model or widths.d_model
    if (given.init_positions or 0) >= d_model:
        raise ConfigError(
            f"model.init_positions={given.init_positions} leaves tokens none of the d_model={d_model} "
            f"dimensions; try model.init_positions={d_model // 4}"
        )
    sizes = {
        "n_layers": given.n_layers or max(2, 1 + max(node.layer for node in nodes)),
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
        "d_vocab": len(task.vocab) + 2,
        "d_out": classes,
        "n_ctx": task.length + 1,
        "attention": task.attention,
    }
    return convert(TransformerConfig, sizes, "model")
