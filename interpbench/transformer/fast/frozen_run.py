"""The forward pass of a trained network with several circuits at once: `Transformer.run`, but faster.

No weight gets a gradient; masks and shifts of circuits may. The pass can start at a layer, leave out nodes
whose outputs are known, compute the last layer at one position of each row only, and leave out positions that
cannot matter. Readers' inputs are projected to queries, keys and values in one step from masks and
differences.

Shapes: D d_model, V outputs, H heads, E d_head, T positions, Q positions of queries, K circuits, B examples,
N = K × B rows, those of the first circuit first; `kind` is 3 for queries, keys and values, or the number of
these that are asked for.
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
from interpbench.transformer.tensors import GroupedLogits

KNOWN = (
    *(Transformer, Embed, PosEmbed, Block, nn.ModuleList, nn.Identity),
    *(Norm, RMSNorm, Attention, Mlp, GatedMlp, Unembed),
)
"""The modules that a fast run can take the place of, or uses as they are."""
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""The attributes in which a PyTorch module keeps its hooks."""


def frozen_run(
    network: Transformer,
    stream: Tensor,
    circuits: Circuits,
    only: Tensor | None = None,
    packed: Packed | None = None,
) -> GroupedLogits:
    """Runs circuits from the layer at which they start, and returns the logits of each.

    Args:
        network: the network.
        stream: `[D, T, B]`, what the embedding writes, or the residual stream before the layer at which the
            circuits start; `[D, T, K, B]` if each circuit has its own.
        circuits: the circuits, with what they patch.
        only: `[B]`, the one position of each example whose logits are wanted; None for all positions.
        packed: instead of `only`, the F positions of all examples that are computed, `stream` being
            `[D, 1, F]`; for circuits whose readers are all patched, and a network with learned positions and
            causal attention.

    Returns:
        Logits `[V, T, K, B]`, with T = 1 if `only` or `packed` is given.

    Raises:
        TypeError: if the network has a module of another class, such as those of `backward_rules`, or hooks.
    """
    check(network)
    return _FrozenRun(network, stream, circuits, only, packed).logits()


def check(network: Transformer) -> None:
    """Refuses a network with modules that a fast run does not know, or with PyTorch hooks.

    Modules of `backward_rules` are such, as they have another backward pass.

    Raises:
        TypeError: if the network has such a module.
    """
    for part in network.modules():
        name = type(part).__name__
        if type(part) not in KNOWN:
            raise TypeError(f"run_circuits cannot run a {name}; use Transformer.run")
        if any(getattr(part, hooks) for hooks in HOOKS):
            raise TypeError(f"run_circuits does not call the hooks of {name}; use Transformer.run")


class _FrozenRun:
    """One run: its residual stream `[D, T, N]`, which after `keep_positions` has one position of each row."""

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
            assert self.cfg.positions == "learned", "packed positions need learned positions, not rotary ones"
            self.only = packed.only.repeat(count)
        rows = stream.unsqueeze(2).expand(-1, -1, count, -1) if stream.ndim == 3 else stream
        self.residual = rows.flatten(2)

    def logits(self) -> Tensor:
        """Runs all layers and returns the logits `[V, T, K, B]`."""
        cfg, circuits, unembed = self.cfg, self.circuits, self.network.unembed
        circuits.begin(cfg)
        if circuits.start == 0:
            self.residual = circuits.write(range(1), self.residual[None])[0]
        for layer in range(circuits.start, cfg.n_layers):
            block: Block = self.network.blocks[layer]  # type: ignore[assignment]
            heads = self._live(layer)
            self._attend(layer, block, heads, last=layer == cfg.n_layers - 1)
            self._transform(layer, block)
        if circuits.start == cfg.n_layers and (indices := self._wanted()) is not None:
            self._keep_positions(indices)
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
        """Adds what a layer's heads write to the stream, in the last layer at the wanted positions only."""
        attn, circuits, count = block.attn, self.circuits, self.cfg.n_heads
        reader, writer = layer * (3 * count + 1), 1 + layer * (count + 1)
        rows_last = self.packed is None and by_rows(self.residual.shape[1], self.residual.device)

        def project(kinds: slice) -> Tensor:
            readers = [reader + kind * count + head for kind in range(3)[kinds] for head in heads]
            seen = circuits.read(readers, self.residual)
            return _projected(attn, seen, block.ln1, kinds, heads, rows_last)

        indices = self._wanted() if last else None
        projected = [project(slice(indices is not None, 3))] if heads else []
        if indices is not None:  # keys and values are at all positions, queries at the wanted ones only
            self._keep_positions(indices)
            projected = [project(slice(1)), *projected] if heads else []
        if heads:
            writers = [writer + head for head in heads]
            summed = circuits.ignores(writers)
            written = self._written(layer, attn, projected, heads, summed, indices is not None)
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
        """Returns what heads write, `[H, D, Q, N]`, or its sum over heads, from queries, keys and values."""
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
        """Adds what a layer's MLP writes to the residual stream."""
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

    def _keep_positions(self, indices: Tensor) -> None:
        """Keeps only some positions, flat `indices` into T × N; from now on T = 1."""
        self.circuits.keep_positions(indices)
        self.residual = self.residual.flatten(1)[:, None, indices]

    def _wanted(self) -> Tensor | None:
        """Returns the flat indices into T × N of the positions whose logits are wanted; None for all."""
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
    """Returns queries, keys or values `[kind, H, E, T, N]` of what heads see, normalised.

    Those of a mixture have their features last in memory unless `rows_last`.
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
    """Returns a single reader's normalised input `[D, T, N]`, and a map with the norm's weights folded in."""
    if isinstance(norm, Norm):
        weights, biases = norm.folded(weight[None], bias[None])
        return seen.inputs(norm.eps)[0], weights[0], biases[0]
    return norm(seen.copied())[0], weight, bias
