"""A step of training: a forward pass over all worlds, their losses, a backward pass, and new weights.

It consists of calls on the device alone. On a GPU the launches of its thousand small calls would take longer
than the calls, so that they are recorded once as a CUDA graph, and launched together from then on.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from interpbench.training.flatness import Flatness
from interpbench.training.imitation import Imitation
from interpbench.training.linear_probes import Probes
from interpbench.training.losses import attention_loss, position_losses, relative_variance
from interpbench.training.muon import Muon
from interpbench.training.noise import Noise
from interpbench.training.objective import Objective
from interpbench.training.readouts import Readouts
from interpbench.training.sampling import Batch
from interpbench.training.secrecy import KEPT, Secrecy
from interpbench.training.settings import TrainerSettings
from interpbench.transformer.layers import Block
from interpbench.transformer.model import Transformer
from interpbench.transformer.worlds import Worlds

EAGER = 3
"""The steps of a kind that are run before one is recorded: libraries set themselves up in the first."""
MOST = 16
"""The most kinds of steps that are recorded, as each keeps memory; others are run call by call."""

SETTLING = 0.2
"""The highest learning rate at which readouts and probes are fitted to a network that stays as it is."""


class Losses(NamedTuple):
    """The weighted losses of a step.

    On a GPU they hold until the next step.

    Attributes:
        outputs: the losses of the output, `[P, world, batch]`, at P positions without BOS.
        others: the losses of probes, attention and variance, by the term's name.
    """

    outputs: Tensor
    others: dict[str, Tensor]


class Step:
    """The step of a training, which changes the weights of a network and its probes.

    Args:
        network: the network.
        probes: the linear probes, on the same device.
        readouts: the further unembeddings, on the same device.
        objective: the weights of the losses.
        settings: the settings of the optimizer.
        forbidden: the indices of the nodes whose variance is penalised.
        imitation: the loss of edges that imitate others; None if it has no weight.
        noise: the loss of edges that move the logits; None if it has no weight.
        flatness: the loss of patches that go part of the way; None if it has no weight.
        secrecy: the loss of nodes that write more than their share; None if it has no weight.

    Attributes:
        trained: what is trained: the network, and its probes if their loss has a weight.
        optimizer: its optimizer.
    """

    def __init__(
        self,
        network: Transformer,
        probes: Probes,
        readouts: Readouts,
        objective: Objective,
        settings: TrainerSettings,
        forbidden: Sequence[int],
        imitation: Imitation | None = None,
        noise: Noise | None = None,
        flatness: Flatness | None = None,
        secrecy: Secrecy | None = None,
    ):
        self.network, self.probes, self.readouts, self.objective = network, probes, readouts, objective
        self.forbidden, self.clip = forbidden, settings.clip
        self.imitation, self.noise, self.flatness = imitation, noise, flatness
        self.secrecy = secrecy if secrecy is not None and secrecy.names else None  # none of numbers
        self.records = objective.variance_penalty > 0 or imitation is not None or noise is not None
        parts: dict[str, nn.Module] = {"network": network}
        if readouts.names:
            parts["readouts"] = readouts
        if objective.probe:
            parts["probes"] = probes
        self.trained = nn.ModuleDict(parts)
        named = {name: p for name, p in self.trained.named_parameters() if p.requires_grad}
        weights = list(named.values())
        self.device, self.on_gpu = weights[0].device, weights[0].is_cuda
        rate = settings.learning_rate
        given: dict[str, Any] = {
            "lr": torch.tensor(rate, device=self.device) if self.on_gpu else rate,
            "weight_decay": settings.weight_decay,
            "fused": self.device.type != "meta",  # which tests run on
            "capturable": self.on_gpu,
        }
        self.optimizer: torch.optim.Optimizer
        if settings.optimizer == "muon":
            self.optimizer = Muon(named, **given)
        else:
            kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
            self.optimizer = kind(weights, **given)
        self._recorded = _Recorded(self._run) if self.on_gpu else None

    def __call__(self, batch: Batch, rate: float) -> Losses:
        """Trains a step with a learning rate, and returns its losses."""
        for group in self.optimizer.param_groups:
            if self._recorded is None:
                group["lr"] = rate
            else:
                group["lr"].fill_(rate)
        return self._run(batch) if self._recorded is None else self._recorded(batch)

    def settle(self, batches: Iterable[Batch], steps: int) -> None:
        """Fits readouts and probes to the network as it is.

        Args:
            batches: the batches of the steps.
            steps: their number.
        """
        helpers = [*self.readouts.parameters(), *self.probes.parameters()]
        optimizer = torch.optim.Adam(helpers)
        trained = [weight for weight in self.network.parameters() if weight.requires_grad]
        for weight in trained:
            weight.requires_grad_(False)
        for step, batch in enumerate(batches):
            optimizer.param_groups[0]["lr"] = SETTLING * (1 - step / steps)
            losses, others = self._losses(batch)
            total = torch.stack([losses.sum(), *others.values()]).sum()
            if total.requires_grad:
                optimizer.zero_grad()
                total.backward()
                optimizer.step()
        for weight in trained:
            weight.requires_grad_(True)

    def keeps_secrets(self, others: Mapping[str, Tensor]) -> bool:
        """Returns whether nodes of shares tell nothing else, by the losses of a step."""
        return self.secrecy is None or float(others["secrecy"]) <= self.objective.weight("secrecy") * KEPT

    def _run(self, batch: Batch) -> Losses:
        losses, others = self._losses(batch)
        total = losses.sum()
        for loss in others.values():
            total = total + loss
        self.optimizer.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(self.trained.parameters(), self.clip)
        self.optimizer.step()
        detached = {name: loss.detach() for name, loss in others.items()}
        return Losses(losses.detach().view(batch.weights.shape), detached)

    def _losses(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the losses of outputs, and the others by name."""
        objective = self.objective
        kept = [self.probes.nodes[name] for name in batch.values]
        watched, crossed = (
            [self.probes.nodes[name] for name in names] for names in (batch.attended, batch.crossed)
        )
        worlds = Worlds(
            batch.nodes,
            batch.edges,
            kept,
            watched,
            self.records,
            batch.places,
            batch.edge_sources,
            batch.plan,
            crossed,
        )
        stream = self.network.stream(self.network.embedding(batch.tokens.flatten(0, 1)), worlds)
        logits = self.network.unembed(stream)
        losses = position_losses(logits, batch.targets.flatten(1)) * batch.weights.flatten(1)
        for further in self.readouts.losses(stream, batch.readouts, batch.readout_weights):
            losses = losses + further
        others: dict[str, Tensor] = {}
        if batch.values.keys() == self.probes.nodes.keys():
            probes = self.probes.losses(worlds.kept, batch.values).sum()
            others["probe"] = objective.weighted("probe", probes)
        if batch.attended:
            patterns = [worlds.patterns[head] for head in watched] + [
                self._crossed(worlds, head) for head in crossed
            ]
            shares = [*batch.attended.values(), *batch.crossed.values()]
            looks = [attention_loss(seen, wanted.flatten(2)) for seen, wanted in zip(patterns, shares)]
            others["attention_supervision"] = objective.weighted(
                "attention_supervision", torch.stack(looks).sum()
            )
        if objective.variance_penalty:
            varied = relative_variance(worlds.sources, self.forbidden)
            others["variance_penalty"] = objective.weighted("variance_penalty", varied)
        if self.imitation is not None:
            imitated = self.imitation.loss(self.network, worlds.sources)
            others["imitation"] = objective.weighted("imitation", imitated)
        if self.noise is not None:
            noise = self.noise.loss(self.network, worlds.sources, logits)
            others["noise"] = objective.weighted("noise", noise)
        if self.secrecy is not None:
            told = self.secrecy.loss(worlds.kept, batch.values)
            others["secrecy"] = objective.weighted("secrecy", told)
        if self.flatness is not None:
            rows = slice(self.flatness.rows)  # where edges are alone there are more
            moved = self.flatness.loss(self.network, batch.tokens[0, rows], batch.weights[:, 0, rows])
            others["flatness"] = objective.weighted("flatness", moved)
        return losses, others

    def _crossed(self, worlds: Worlds, head: int) -> Tensor:
        """Returns the attention pattern `[Q, K, N]` of each row's queries to the keys of the next row."""
        q, k = worlds.queries_keys[head]
        turned = k.unflatten(-1, (worlds.worlds, worlds.batch)).roll(-1, -1).flatten(-2)
        layer = self.network.cfg.graph.nodes[head].layer
        block: Block = self.network.blocks[layer]  # type: ignore[assignment]
        return block.attn.pattern(q[None], turned[None])[0]


class _Recorded:
    """Steps as CUDA graphs, one for each kind of batch: a plan, and the shapes of its tensors.

    The first steps of a kind are run call by call. Then one is recorded, on tensors of its own that later
    batches are copied to.
    """

    def __init__(self, run: Callable[[Batch], Losses]):
        self.run = run
        self.seen: Counter[Hashable] = Counter()
        self.graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, list[Tensor], Losses]] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch) -> Losses:
        """Runs the step of a batch."""
        tensors = batch.tensors()
        kind = (batch.plan, tuple((name, tensor.shape) for name, tensor in tensors.items()))
        with torch.cuda.device(batch.tokens.device):
            if kind not in self.graphs:
                self.seen[kind] += 1
                if self.seen[kind] <= EAGER or len(self.graphs) == MOST:
                    return self._eager(batch)
                self.graphs[kind] = self._record(batch)
            graph, inputs, losses = self.graphs[kind]
            for mine, given in zip(inputs, tensors.values()):
                mine.copy_(given)
            graph.replay()
        return losses

    def _eager(self, batch: Batch) -> Losses:
        """Runs the step call by call, on a stream of its own, as PyTorch asks for before a recording."""
        stream, here = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            losses = self.run(batch)
        here.wait_stream(stream)
        return losses

    def _record(self, batch: Batch) -> tuple[torch.cuda.CUDAGraph, list[Tensor], Losses]:
        inputs = {name: tensor.clone() for name, tensor in batch.tensors().items()}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            losses = self.run(batch.with_tensors(inputs))
        return graph, list(inputs.values()), losses
