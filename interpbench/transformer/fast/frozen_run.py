"""The forward pass of a frozen network under several circuits at once: `Transformer.run`, and what is faster.

No weight gets a gradient; masks and shifts of circuits may. Beside the plain pass it can start at a layer,
leave out writers whose outputs are known, compute the last layer at one position of each row alone, and leave
out positions that cannot matter. What readers see goes from masks to projections in one step.

Shapes as in `model.py`; K circuits, B examples, N = K × B rows, circuit-major.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from interpbench.transformer.attention import by_rows
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_parts import attend_and_write, features_last, mlp
from interpbench.transformer.fast.packed import Packed
from interpbench.transformer.fast.patch_differences import Mixture
from interpbench.transformer.gated_mlp import GatedMlp
from interpbench.transformer.layers import Attention, Block, Embed, Mlp, Norm, PosEmbed, Unembed
from interpbench.transformer.model import Transformer
from interpbench.transformer.rms_norm import RMSNorm

KNOWN = (
    *(Transformer, Embed, PosEmbed, Block, nn.ModuleList, nn.Identity),
    *(Norm, RMSNorm, Attention, Mlp, GatedMlp, Unembed),
)
"""The parts that have a fast way, or need none."""
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""Where a module of PyTorch keeps its hooks."""


def frozen_run(
    network: Transformer,
    stream: Tensor,
    circuits: Circuits,
    only: Tensor | None = None,
    packed: Packed | None = None,
) -> Tensor:
    """Runs circuits from the layer on at which they start.

    Args:
        network: the network.
        stream: `[D, T, B]`: what the embedding writes, or the residual stream before the layer at which
            circuits start; `[D, T, K, B]` if each circuit has its own.
        circuits: the circuits.
        only: `[B]`: the one position of each example whose logits are wanted; None for all.
        packed: instead of `only`, which positions the examples `[D, 1, F]` are, for circuits that patch all
            readers. It needs learned positions and causal attention.

    Returns:
        Logits `[V, T, K, B]`, T one with `only` or `packed`.

    Raises:
        TypeError: for a network with a part, as a changed backward pass, that has no fast way, or with hooks.
    """
    check(network)
    return _FrozenRun(network, stream, circuits, only, packed).logits()


def check(network: Transformer) -> None:
    """Refuses a network with parts of one's own, as `backward_rules` makes them, or with PyTorch's hooks.

    Raises:
        TypeError: if it has one.
    """
    for part in network.modules():
        name = type(part).__name__
        if type(part) not in KNOWN:
            raise TypeError(f"a {name} has no fast way; Transformer.run runs it")
        if any(getattr(part, hooks) for hooks in HOOKS):
            raise TypeError(f"hooks of {name} would not be called; Transformer.run calls them")


class _FrozenRun:
    """One run. `at` is where in T × N the residual stream is, once it is at one position of each row."""

    def __init__(
        self,
        network: Transformer,
        stream: Tensor,
        circuits: Circuits,
        only: Tensor | None,
        packed: Packed | None,
    ):
        self.network, self.cfg, self.circuits, self.packed = network, network.cfg, circuits, packed
        count = circuits.count
        self.only = only if only is None else only.repeat(count)
        if packed is not None:
            assert self.cfg.positions == "learned", "where packed rows are is not known to rotary positions"
            self.only = packed.only.repeat(count)
        rows = stream.unsqueeze(2).expand(-1, -1, count, -1) if stream.ndim == 3 else stream
        self.residual = rows.flatten(2)

    def logits(self) -> Tensor:
        """Runs all layers."""
        cfg, circuits, unembed = self.cfg, self.circuits, self.network.unembed
        circuits.begin(cfg)
        if circuits.start == 0:
            self.residual = circuits.write(range(1), self.residual[None])[0]
        for layer in range(circuits.start, cfg.n_layers):
            block: Block = self.network.blocks[layer]  # type: ignore[assignment]
            heads = self._live(layer)
            self._attend(layer, block, heads, last=layer == cfg.n_layers - 1)
            self._transform(layer, block)
        if circuits.start == cfg.n_layers and (places := self._places()) is not None:
            self._narrow(places)
        last = cfg.n_layers * (3 * cfg.n_heads + 1)
        seen = circuits.read(range(last, last + 1), self.residual)
        if isinstance(seen, Mixture):
            seen, weight, bias = _normalised(seen, self.network.ln_final, unembed.W_U.T, unembed.b_U)
            logits = (weight @ seen.flatten(1)).view(-1, *seen.shape[1:]) + bias[:, None, None]
        else:
            logits = unembed(self.network.ln_final(seen))
        return logits.unflatten(2, (circuits.count, -1))

    def _live(self, layer: int) -> list[int]:
        """Returns the heads of a layer that have to be computed."""
        first, live = 1 + layer * (self.cfg.n_heads + 1), self.circuits.live
        return [head for head in range(self.cfg.n_heads) if live is None or live[first + head]]

    def _attend(self, layer: int, block: Block, heads: Sequence[int], last: bool) -> None:
        """Adds what a layer's heads write; in the last layer at the wanted positions alone."""
        attn, circuits, count = block.attn, self.circuits, self.cfg.n_heads
        reader, writer = layer * (3 * count + 1), 1 + layer * (count + 1)
        rows_last = self.packed is None and by_rows(self.residual.shape[1], self.residual.device)

        def project(kinds: slice) -> Tensor:
            readers = [reader + kind * count + head for kind in range(3)[kinds] for head in heads]
            seen = circuits.read(readers, self.residual)
            return _projected(attn, seen, block.ln1, kinds, heads, rows_last)

        places = self._places() if last else None
        projected = [project(slice(places is not None, 3))] if heads else []
        if places is not None:  # of queries alone
            self._narrow(places)
            projected = [project(slice(1)), *projected] if heads else []
        if heads:
            writers = [writer + head for head in heads]
            summed = circuits.ignores(writers)
            written = self._written(layer, attn, projected, heads, summed, places is not None)
            total = written if summed else circuits.write(writers, written).sum(0)
            self.residual = total.add_(self.residual)
        if len(heads) < count:
            others = [writer + head for head in range(count) if head not in heads]
            self.residual = self.residual + circuits.given(others)
        self.residual.add_(attn.b_O[:, None, None])

    def _written(
        self,
        layer: int,
        attn: Attention,
        projected: Sequence[Tensor],
        heads: Sequence[int],
        summed: bool,
        narrowed: bool,
    ) -> Tensor:
        """Returns what heads write, `[H, D, Q, N]`, or its sum over them, from queries, keys and values."""
        at, output = self.only if narrowed else None, attn.outputs(heads)
        others = self.packed.others[layer] if self.packed else None
        if self.packed or features_last(projected[0]):
            if attn.rotary:
                q, k, v = (one for some in projected for one in some.unbind())
                projected = [attn.placed(q, at)[None], attn.placed(k)[None], v[None]]
            written = attend_and_write(projected, output, attn.causal, at, self.packed, others)
            return written.sum(0) if summed else written
        q, k, v = (one for some in projected for one in some.unbind())
        mixed = attn.mix(attn.pattern(q, k, at), v)
        if not summed:
            return attn.write(mixed, heads)
        total = output.transpose(0, 1).reshape(output.shape[1], -1) @ mixed.flatten(0, 1).flatten(1)
        return total.view(-1, *mixed.shape[2:])

    def _transform(self, layer: int, block: Block) -> None:
        """Adds what a layer's MLP writes."""
        circuits, count = self.circuits, self.cfg.n_heads
        writer, reader = (layer + 1) * (count + 1), (layer + 1) * (3 * count + 1) - 1
        if circuits.live is not None and not circuits.live[writer]:
            self.residual = self.residual + circuits.given([writer])
            return
        seen = circuits.read(range(reader, reader + 1), self.residual)
        if isinstance(seen, Mixture) and isinstance(block.mlp, Mlp):
            own = block.mlp
            seen, weight, bias = _normalised(seen, block.ln2, own.W_in.T, own.b_in)
            written = mlp(seen, weight, bias, own.W_out.T, own.b_out, own.activation)
        else:
            written = block.mlp(block.ln2(seen.copied()[0] if isinstance(seen, Mixture) else seen))
        self.residual = self.residual + circuits.write(range(writer, writer + 1), written[None])[0]

    def _narrow(self, places: Tensor) -> None:
        """Leaves the wanted positions alone."""
        self.circuits.narrow(places)
        self.residual = self.residual.flatten(1)[:, None, places]

    def _places(self) -> Tensor | None:
        """Returns where in T × N of the residual stream the wanted positions are; None for all."""
        rows, device = self.residual.shape[2], self.residual.device
        if self.packed is not None:
            firsts = torch.arange(0, rows, self.packed.count, device=device)
            return (firsts[:, None] + self.packed.rows).flatten()
        return None if self.only is None else self.only * rows + torch.arange(rows, device=device)


def _projected(
    attn: Attention,
    seen: Tensor | Mixture,
    norm: nn.Module,
    kinds: slice,
    heads: Sequence[int],
    rows_last: bool,
) -> Tensor:
    """Normalises what heads read, and makes queries, keys or values of it, `[kind, H, E, T, N]`.

    What a mixture gives has its features last in memory unless `rows_last`.
    """
    maps = attn.maps(kinds, heads)
    if isinstance(seen, Tensor):
        return attn.project(norm(seen), maps)
    if isinstance(norm, RMSNorm):
        return attn.project_each(norm(seen.copied()), maps)
    weight, bias = maps[0].reshape(-1, *maps[0].shape[2:]), maps[1].reshape(-1, maps[1].shape[2])
    if isinstance(norm, Norm):
        projected = seen.project(*norm.folded(weight, bias), norm.eps, rows_last)
    else:
        projected = seen.project(weight, bias, None, rows_last)
    return projected.unflatten(0, maps[1].shape[:2])


def _normalised(
    seen: Mixture, norm: nn.Module, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalises a single reader's input `[D, T, N]`, and folds a norm's weights into the next ones."""
    if isinstance(norm, Norm):
        weights, biases = norm.folded(weight[None], bias[None])
        return seen.inputs(norm.eps)[0], weights[0], biases[0]
    return norm(seen.copied())[0], weight, bias
