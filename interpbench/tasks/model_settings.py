"""What a task, or a user, can say of the low-level network."""

from dataclasses import asdict, replace
from typing import Literal

from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Amount, Count, Steps


@dataclass(frozen=True, config=STRICT)
class ModelSettings:
    """What to build; None leaves a number to the task, and to the default rule (`tasks.shapes`).

    Attributes:
        kind: `trained`, or `compiled` for the weights that Tracr compiles.
        rule: `own`, the default rule (`tasks.shapes`), or `published`, that of the published benchmark.
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

    def over(self, other: "ModelSettings") -> "ModelSettings":
        """Returns these settings, with those of another where these say nothing."""
        return replace(other, **{name: value for name, value in asdict(self).items() if value is not None})
