"""Causal tracing of a masked language model: which clean activations restore a fact in a corrupted prompt.

With p the softmax probability of the target at the mask, the probability that layer l restores at a place is
p(corrupted prompt, with the clean activation of layer l at that place) - p(corrupted prompt). The idea is
that of Meng et al., Locating and Editing Factual Associations in GPT (2022, section 2), with another word in
place of noise.

A pair of prompts takes three forward passes: the clean prompt, whose activations are kept; the corrupted one;
and the corrupted one as many rows, each of which has a clean activation at one layer and place.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from interpbench.core.errors import TraceError
from interpbench.core.text import shown
from interpbench.masked_lm.encoded_pairs import EncodedPair, Place, encode_pair
from interpbench.masked_lm.encoder_files import load_encoder, load_tokenizer
from interpbench.masked_lm.patch_sites import HEADS, SITES, ActivationEdit, Site, find_sites
from interpbench.masked_lm.prompt_rows import PromptRow, by_fact, title_of
from interpbench.masked_lm.trace_results import FactTrace, TraceResult

log = logging.getLogger(__name__)
MOST_ROWS = 256
"""The largest number of rows of a forward pass."""
MOST_LOGITS = 1 << 27
"""The largest number of logits of a forward pass: half a GiB. A large vocabulary needs smaller passes."""


class Restoration(NamedTuple):
    """What a clean and a corrupted prompt say.

    Attributes:
        clean: the probability of the target in the clean prompt.
        corrupt: the probability of the target in the corrupted prompt.
        restored: what clean activations restore, by site and place, `[layer]`.
        heads: what clean outputs of heads at the mask restore, `[layer, head]`; None if not asked for.
    """

    clean: float
    corrupt: float
    restored: dict[Site, dict[Place, np.ndarray]]
    heads: np.ndarray | None


class _Row(NamedTuple):
    """The patch of one row.

    Attributes:
        site: the site, or `heads`.
        layer: the layer.
        positions: the positions.
        head: the head; None for all of the activation.
    """

    site: str
    layer: int
    positions: tuple[int, ...]
    head: int | None = None


class CausalTracer:
    """Traces facts in one model.

    Args:
        name: the name of the model in results.
        huggingface_id: its address on the hub, `owner/name`, or a folder.
        trust_remote_code: whether code that comes with the model may be executed.
        local_files_only: whether the network must not be used; so it is with `HF_HUB_OFFLINE=1`, too.
        device: the device of torch.
        rows: the largest number of rows of a forward pass; results are the same for any.

    Raises:
        TraceError: if the model cannot be loaded, or has no layers of a known shape; the message has its id.
    """

    def __init__(
        self,
        name: str,
        huggingface_id: str,
        *,
        trust_remote_code: bool = False,
        local_files_only: bool = False,
        device: str = "cpu",
        rows: int = MOST_ROWS,
    ):
        self.name, self.huggingface_id, self.device, self.rows = name, huggingface_id, device, max(1, rows)
        loading = (huggingface_id, trust_remote_code, local_files_only)
        self.tokenizer: Any = load_tokenizer(*loading)
        self.model: Any = load_encoder(*loading).to(device)
        self.sites = find_sites(self.model)

    def trace(
        self,
        dataset: Sequence[PromptRow],
        *,
        sites: Sequence[Site] = SITES,
        heads: bool = True,
        after_fact: Callable[[int], None] = lambda done: None,
    ) -> TraceResult:
        """Returns what tracing all facts of a dataset gives.

        Args:
            dataset: prompts, as `generate_from_spec` makes them.
            sites: the sites to patch.
            heads: whether to patch single heads, too.
            after_fact: is called with the number of facts that are done.

        Raises:
            TraceError: if it was released, or a prompt cannot be traced with it; the message says why.
        """
        if not hasattr(self, "model"):
            raise TraceError(f"{shown(self.name)} was released; make another CausalTracer to trace with it")
        facts = by_fact(dataset)
        pairs = [self.encode(rows) for rows in facts]  # what is wrong is said before anything is run
        found: list[FactTrace] = []
        for rows, encoded in zip(facts, pairs):
            found.append(self.trace_fact(title_of(rows[0]), encoded, sites=sites, heads=heads))
            after_fact(len(found))
        return TraceResult(self.name, self.huggingface_id, found)

    def encode(self, rows: Sequence[PromptRow]) -> list[EncodedPair]:
        """Returns prompts as tokens.

        Raises:
            TraceError: if one cannot be traced with this model.
        """
        try:
            pairs = [encode_pair(self.tokenizer, row) for row in rows]
        except TraceError as error:
            raise TraceError(f"{shown(self.name)}: {error}") from None
        longest = max(len(pair.clean) for pair in pairs)
        if longest > (most := getattr(self.model.config, "max_position_embeddings", longest)):
            raise TraceError(
                f"{shown(self.name)}: a prompt has {longest} tokens; the model takes at most {most}"
            )
        return pairs

    def trace_fact(
        self, title: str, pairs: Sequence[EncodedPair], *, sites: Sequence[Site] = SITES, heads: bool = True
    ) -> FactTrace:
        """Returns the means over the prompts of a fact.

        Args:
            title: what to call the fact.
            pairs: its prompts.
            sites: the sites to patch.
            heads: whether to patch single heads, too.
        """
        found = [self.restore(pair, sites=sites, heads=heads) for pair in pairs]
        common: list[Place] = [
            place for place in found[0].restored[sites[0]] if all(place in pair.places for pair in pairs)
        ]
        restored: dict[Site, dict[Place, list[float]]] = {
            site: {
                place: np.mean([one.restored[site][place] for one in found], 0).tolist() for place in common
            }
            for site in sites
        }
        maps = [one.heads for one in found if one.heads is not None]
        return FactTrace(
            fact=title,
            prompts=len(pairs),
            has_mask=all(pair.has_mask for pair in pairs),
            clean=float(np.mean([one.clean for one in found])),
            corrupt=float(np.mean([one.corrupt for one in found])),
            restored=restored,
            heads=np.mean(maps, 0).tolist() if maps else [],
        )

    @torch.inference_mode()
    def restore(self, pair: EncodedPair, *, sites: Sequence[Site] = SITES, heads: bool = True) -> Restoration:
        """Returns what each clean activation restores in one corrupted prompt.

        Args:
            pair: the prompts.
            sites: the sites to patch.
            heads: whether to patch single heads, too.
        """
        layers = range(self.sites.layers)
        plan = [
            _Row(site, layer, positions)
            for site in sites
            for positions in pair.places.values()
            for layer in layers
        ]
        whole = len(plan)
        if heads:
            mask = pair.places["mask"]
            plan += [_Row(HEADS, layer, mask, head) for layer in layers for head in range(self.sites.heads)]
        names = list(dict.fromkeys(row.site for row in plan))
        kept: dict[str, list[Tensor]] = {name: [] for name in names}
        with self.sites.edited({name: _keeping(kept[name]) for name in names}):
            (clean,) = self._probabilities(pair.clean, pair, 1)
        (corrupt,) = self._probabilities(pair.corrupt, pair, 1)
        found: list[float] = []
        vocabulary = int(self.model.config.vocab_size)
        most = max(1, min(self.rows, MOST_LOGITS // (len(pair.clean) * vocabulary)))
        for start in range(0, len(plan), most):
            part = plan[start : start + most]
            used = {row.site for row in part}
            edits = {name: self._patching(name, kept[name], part) for name in names if name in used}
            with self.sites.edited(edits):
                found += self._probabilities(pair.corrupt, pair, len(part))
        gains = np.array(found) - corrupt
        curves = gains[:whole].reshape(len(sites), len(pair.places), len(layers))
        return Restoration(
            clean,
            corrupt,
            {site: dict(zip(pair.places, curves[at])) for at, site in enumerate(sites)},
            gains[whole:].reshape(len(layers), -1) if heads else None,
        )

    def release(self) -> None:
        """Frees the memory of the model, with which nothing can be traced afterwards."""
        del self.model, self.sites
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _probabilities(self, ids: Sequence[int], pair: EncodedPair, rows: int) -> list[float]:
        """Returns the probability of the target, the product over its tokens, in rows of the same prompt.

        Args:
            ids: the prompt.
            pair: what the target is, and where it is read.
            rows: the number of rows.
        """
        tokens = torch.tensor(ids, device=self.device).expand(rows, -1)
        logits: Tensor = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits
        read = logits[:, list(pair.places["mask"])].double().log_softmax(-1)
        target = torch.tensor(pair.target, device=self.device)
        each = read[:, torch.arange(len(target)), target]
        return each.sum(1).exp().tolist()

    def _patching(self, name: str, clean: Sequence[Tensor], part: Sequence[_Row]) -> ActivationEdit:
        """Returns an edit that puts clean activations into those rows, at those positions, that a plan says.

        Args:
            name: the site.
            clean: its activations in the clean prompt, `[1, pos, width]` by layer.
            part: the patch of each row.
        """

        def patch(layer: int, activation: Tensor) -> Tensor:
            where = torch.zeros(activation.shape, dtype=torch.bool, device=activation.device)
            size = activation.shape[-1] // self.sites.heads
            for number, row in enumerate(part):
                if (row.site, row.layer) == (name, layer):
                    width = slice(None) if row.head is None else slice(row.head * size, (row.head + 1) * size)
                    where[number, list(row.positions), width] = True
            return torch.where(where, clean[layer], activation)

        return patch


def _keeping(kept: list[Tensor]) -> ActivationEdit:
    """Returns an edit that changes nothing, and keeps the activation of each layer."""

    def keep(layer: int, activation: Tensor) -> Tensor:
        kept.append(activation.clone())  # a model may go on to change it in place
        return activation

    return keep
