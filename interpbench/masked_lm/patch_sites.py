"""Where an encoder is patched: modules of each layer, found by their shape, whatever the family calls them.

The layers are the outermost list of modules that is as long as the network has layers. The family ALBERT runs
one group of layers again and again; its list is as long as it has groups. Layer `l` is therefore the `l`-th
call in a forward pass, and not the `l`-th module.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from interpbench.core.errors import TraceError

Site = Literal["mlp", "attn", "resid"]
"""A site of a layer: the output of the MLP's last linear map, the output of the attention's last linear map,
or the output of the layer, which is the residual stream after it."""
SITES: tuple[Site, ...] = ("mlp", "attn", "resid")
COMPONENTS: tuple[Site, ...] = ("mlp", "attn")
"""The sites at which a peak says something: the residual stream carries all that came before."""
HEADS = "heads"
"""The name of the input of the attention's last linear map: the outputs of all heads side by side."""
ActivationEdit = Callable[[int, Tensor], Tensor]
"""A function from the number of a layer and an activation, `[row, pos, width]`, to what replaces it."""


@dataclass(frozen=True)
class PatchSites:
    """The modules of an encoder's layers.

    Attributes:
        layers: the number of layers.
        heads: the number of attention heads of a layer.
        modules: the modules of each site, in the order in which they are called; fewer than layers if these
            share weights.
    """

    layers: int
    heads: int
    modules: dict[Site, list[nn.Module]]

    @contextmanager
    def edited(self, edits: dict[str, ActivationEdit]) -> Generator[None]:
        """Returns a context in which activations are replaced, for one forward pass.

        Args:
            edits: what replaces activations, by site, or by `heads`. An activation is given to a function
                and not changed: the function returns another tensor, or the same.

        Raises:
            TraceError: if a site is not passed once in each layer.
        """
        calls, handles = dict.fromkeys(edits, 0), list[Any]()

        def call(name: str, activation: Tensor) -> Tensor:
            layer = calls[name]
            calls[name] += 1
            return edits[name](layer, activation) if layer < self.layers else activation

        def after(name: str) -> Callable[..., Any]:
            def hook(module: nn.Module, inputs: object, output: Any) -> Any:
                if isinstance(output, tuple):
                    return (call(name, output[0]), *output[1:])
                return call(name, output)

            return hook

        def before(name: str) -> Callable[..., Any]:
            return lambda module, inputs: (call(name, inputs[0]), *inputs[1:])

        try:
            for name in edits:
                for module in self.modules["attn" if name == HEADS else name]:  # pyright: ignore
                    if name == HEADS:
                        handles.append(module.register_forward_pre_hook(before(name)))
                    else:
                        handles.append(module.register_forward_hook(after(name)))
            yield
        finally:
            for handle in handles:
                handle.remove()
        for name, count in calls.items():
            if count != self.layers:
                raise TraceError(f"the site {name} is passed {count} times in {self.layers} layers")


def find_sites(model: nn.Module) -> PatchSites:
    """Returns the modules of a masked language model of `transformers`, in any family.

    Raises:
        TraceError: if they cannot be told by shape; the message says what is missing.
    """
    config: Any = model.config
    kind, hidden = type(model).__name__, int(config.hidden_size)
    layers = int(getattr(config, "num_hidden_layers", 0) or getattr(config, "n_layers", 0))
    found = _outermost(model, [layers, getattr(config, "num_hidden_groups", layers)])
    if found is None:
        raise TraceError(f"{kind} has no list of {layers} layers")
    modules: dict[Site, list[nn.Module]] = {"mlp": [], "attn": [], "resid": list(found)}
    for layer in found:
        linear = [
            part for part in layer.modules() if isinstance(part, nn.Linear) and part.out_features == hidden
        ]
        square = [part for part in linear if part.in_features == hidden]
        narrowing = [part for part in linear if part.in_features != hidden]
        if not narrowing or not square:
            raise TraceError(
                f"attention and MLP of {kind} cannot be told by shape: a layer has {len(square)} linear maps "
                f"from {hidden} to {hidden} numbers, and {len(narrowing)} from others; one of each is needed"
            )
        modules["attn"].append(square[-1])
        modules["mlp"].append(narrowing[-1])
    return PatchSites(layers, int(config.num_attention_heads), modules)


def _outermost(model: nn.Module, lengths: Sequence[int]) -> nn.ModuleList | None:
    """Returns the outermost list of modules of the first length of which there is one."""
    lists = [
        (name.count("."), part) for name, part in model.named_modules() if isinstance(part, nn.ModuleList)
    ]
    for length in lengths:
        fitting = [one for one in lists if len(one[1]) == length]
        if fitting:
            return min(fitting, key=lambda one: one[0])[1]
    return None
