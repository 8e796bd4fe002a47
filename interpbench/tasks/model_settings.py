"""Settings of a task's network, which a task or a user can give."""

from dataclasses import asdict, replace
from typing import Literal

from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Amount, Count, Steps


@dataclass(frozen=True, config=STRICT)
class ModelSettings:
    """What to build; None leaves a number to the task, and to the default rule (`tasks.shapes`).

    Attributes:
        kind: where the weights come from: they are `trained`, or those that Tracr compiles (`compiled`).
        rule: the rule for numbers that nobody says: the default one (`own`), or that of the published
            benchmark (`published`).
        n_layers: the number of layers.
        n_heads: the number of heads in each layer.
        d_model: the width of the residual stream.
        d_head: the width of a head.
        d_mlp: the width of an MLP's hidden layer.
        normalization: the norm before each reader, LayerNorm or RMSNorm; `Pre` has no weights.
        activation: the activation function of the MLPs.
        positions: how the network knows positions: `learned` vectors, or `rotary` queries and keys.
        mlp: the form of an MLP: in a `gated` one the activation of one projection multiplies another.
        biases: whether linear maps add biases.
        init_std: the standard deviation of initial weights.
        init_matching: whether heads start out attending to what resembles the query.
        init_positions: how many of the last dimensions are left to positions at the start, as 16.
        init_orthogonal: whether heads start as orthogonal maps, and tokens and classes as long vectors.
        init_nonlinear: whether MLPs start as nonlinear maps of tokens and positions.
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
    init_nonlinear: bool | None = None

    def over(self, other: "ModelSettings") -> "ModelSettings":
        """Returns these settings, with those of another for all that are None here."""
        return replace(other, **{name: value for name, value in asdict(self).items() if value is not None})
