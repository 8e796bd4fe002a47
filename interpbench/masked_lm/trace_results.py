"""What tracing a model gives: by fact, and as means over prompts with intervals over facts."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic.dataclasses import dataclass

from interpbench.core.config import STRICT, Count, Finite, checked
from interpbench.core.errors import TraceError, UnknownNameError
from interpbench.core.estimate import Estimate
from interpbench.core.files import read_json, write_json
from interpbench.masked_lm.encoded_pairs import PLACES, Place
from interpbench.masked_lm.patch_sites import SITES, Site
from interpbench.scoring.intervals import bootstrap, resampling

CURVES: dict[str, Place] = {f"{place}_patch": place for place in PLACES}
"""The published name of each curve, and the place of the prompt that it is about."""
FLAT = 0.1
"""The share of clean minus corrupted below which nothing is restored, and a curve is flat."""
TRACE_RESULTS = "trace_results.json"
"""The name of the file of all results."""


@dataclass(frozen=True, config=STRICT)
class FactTrace:
    """One fact in one model, the mean over its prompts.

    Attributes:
        fact: the fact, with its target in its place.
        prompts: the number of its prompts.
        has_mask: whether the prompts have a mask; if not, the probability was read at the subject.
        clean: the probability of the target in the clean prompt.
        corrupt: the probability of the target in the corrupted prompt.
        restored: the probability that a clean activation restores, by site, place and layer.
        heads: the probability that the clean output of a head at the mask restores, `[layer][head]`; empty if
            it was not measured.
    """

    fact: str
    prompts: Count
    has_mask: bool
    clean: Finite
    corrupt: Finite
    restored: dict[Site, dict[Place, list[Finite]]]
    heads: list[list[Finite]]


@dataclass(frozen=True, config=STRICT)
class TraceResult:
    """All facts in one model. Means are over prompts; intervals are of a bootstrap of facts.

    The lists `mask_patch`, `context_patch` and `subject_patch` are means by layer at the site `main_site`.

    Attributes:
        model_name: the model's name.
        model_id: its address on the hub, or its folder.
        facts: the facts.
    """

    model_name: str
    model_id: str
    facts: list[FactTrace]

    def __post_init__(self) -> None:
        shapes = {
            (site, place, len(values))
            for fact in self.facts
            for site, places in fact.restored.items()
            for place, values in places.items()
        }
        if not self.facts or len({layers for _, _, layers in shapes}) != 1:
            raise ValueError("a result needs facts, and curves with as many layers each")
        if len({np.shape(fact.heads) for fact in self.facts}) > 1:
            raise ValueError("facts differ in their layers and heads")

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites that were patched."""
        return tuple(site for site in SITES if all(site in fact.restored for fact in self.facts))

    @property
    def components(self) -> tuple[Site, ...]:
        """The sites among MLP and attention that were patched."""
        return tuple(site for site in self.sites if site != "resid")

    @property
    def main_site(self) -> Site:
        """The site of the published curves: `mlp`, if it was patched."""
        return self.sites[0]

    @property
    def num_layers(self) -> int:
        """The number of layers."""
        return len(self.facts[0].restored[self.main_site]["mask"])

    @property
    def num_facts(self) -> int:
        """The number of facts."""
        return len(self.facts)

    @property
    def num_prompts(self) -> int:
        """The number of prompts of all facts."""
        return sum(fact.prompts for fact in self.facts)

    @property
    def read_at(self) -> str:
        """Where the probability was read: `mask`, `subject`, or both, in some prompts each."""
        return " or ".join(sorted({"mask" if fact.has_mask else "subject" for fact in self.facts}))

    @property
    def mask_patch(self) -> list[float]:
        """The probability that a clean activation at the mask restores, by layer."""
        return [one.value for one in self.curve("mask_patch")]

    @property
    def context_patch(self) -> list[float]:
        """The probability that a clean activation at the context word restores, by layer."""
        return [one.value for one in self.curve("context_patch")]

    @property
    def clean_minus_corrupt(self) -> float:
        """The probability of the target in clean prompts, less that in corrupted ones."""
        return self.difference.value

    @cached_property
    def difference(self) -> Estimate:
        """The estimate of `clean_minus_corrupt`."""
        return self._estimates(np.array([[fact.clean - fact.corrupt] for fact in self.facts]))[0]

    def has(self, curve: str, site: Site | None = None) -> bool:
        """Returns whether all facts have a curve, which `subject_patch` may lack."""
        place = _place(curve)
        return all(place in fact.restored.get(site or self.main_site, {}) for fact in self.facts)

    def values(self, curve: str, site: Site | None = None) -> np.ndarray:
        """Returns the restored probabilities of a curve by fact, `[fact, layer]`.

        Raises:
            InterpBenchError: if there is no such curve, or not at this site.
        """
        place, where = _place(curve), site or self.main_site
        if not self.has(curve, where):
            raise TraceError(
                f"{self.model_name} was not patched at the {place} of the site {where} everywhere"
            )
        return np.array([fact.restored[where][place] for fact in self.facts])

    def curve(self, curve: str, site: Site | None = None) -> list[Estimate]:
        """Returns the restored probability by layer.

        Args:
            curve: `mask_patch`, `context_patch` or `subject_patch`.
            site: the site; None for `main_site`.
        """
        return self._estimates(self.values(curve, site))

    def head_map(self) -> list[list[Estimate]]:
        """Returns the probability that a head's clean output at the mask restores, `[layer][head]`."""
        values = np.array([fact.heads for fact in self.facts])
        layers = range(values.shape[1])
        return [self._estimates(values[:, layer]) for layer in layers]

    def peak_layer(self, curve: str = "mask_patch", site: Site | None = None) -> tuple[int, float]:
        """Returns the layer, from 0, that restores most, and how much; of equal ones the first.

        Args:
            curve: `mask_patch`, `context_patch` or `subject_patch`.
            site: the site; None for `main_site`. At `resid` the curve of the mask peaks at the last layer,
                wherever a fact is.
        """
        values = [one.value for one in self.curve(curve, site)]
        layer = int(np.argmax(values))
        return layer, values[layer]

    def peak_share(self, curve: str = "mask_patch", site: Site | None = None) -> float:
        """Returns the share of bootstrap samples of facts in which the peak is at the same layer.

        Args:
            curve: `mask_patch`, `context_patch` or `subject_patch`.
            site: the site; None for `main_site`.
        """
        draws = self._draws(self.values(curve, site))
        return float((draws.argmax(1) == self.peak_layer(curve, site)[0]).mean())

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as plain data: the published keys, all estimates, and what they are made of."""
        found: dict[str, Any] = {
            **{"model_name": self.model_name, "model_id": self.model_id, "site": self.main_site},
            **{"num_layers": self.num_layers, "num_facts": self.num_facts, "num_prompts": self.num_prompts},
            **{"read_at": self.read_at, "mask_patch": self.mask_patch, "context_patch": self.context_patch},
            "clean_minus_corrupt": self.clean_minus_corrupt,
            "difference": _plain([self.difference])[0],
            "curves": {
                site: {name: _plain(self.curve(name, site)) for name in CURVES if self.has(name, site)}
                for site in self.sites
            },
            "heads": [_plain(row) for row in self.head_map()],
            "facts": [asdict(fact) for fact in self.facts],  # pyright: ignore[reportArgumentType]
        }
        return found

    @classmethod
    def from_dict(cls, data: object, where: object = "the result") -> "TraceResult":
        """Returns a result from what `to_dict` gives; estimates are computed anew.

        Args:
            data: the plain data.
            where: the name of its file, with which an error message begins.

        Raises:
            TraceError: if it is damaged.
        """
        if not isinstance(data, dict):
            raise TraceError(f"{where} is damaged: a result is an object")
        plain = cast(dict[str, object], data)
        kept = {name: plain[name] for name in ("model_name", "model_id", "facts") if name in plain}
        return checked(TraceResult, kept, where, TraceError)

    def _draws(self, values: np.ndarray) -> np.ndarray:
        """Returns the means over prompts in each bootstrap sample of facts, `[draw, …]`, of `[fact, …]`."""
        weights = resampling(len(values), "facts") * self._prompts
        return weights @ values / weights.sum(1, keepdims=True)

    def _estimates(self, values: np.ndarray) -> list[Estimate]:
        """Returns the mean over prompts with its interval over facts, of each column of `[fact, column]`."""
        means = self._prompts @ values / self._prompts.sum()
        if len(values) == 1:
            return [Estimate(float(mean)) for mean in means]
        draws = self._draws(values)
        return [bootstrap(mean, draws[:, at]) for at, mean in enumerate(means)]

    @property
    def _prompts(self) -> np.ndarray:
        return np.array([fact.prompts for fact in self.facts])


def _place(curve: str) -> Place:
    if curve not in CURVES:
        raise UnknownNameError("curve", curve, CURVES)
    return CURVES[curve]


def _plain(estimates: Sequence[Estimate]) -> list[list[object]]:
    return [
        [one.value] if one.kind == "none" else [one.value, one.low, one.high, one.kind] for one in estimates
    ]


def save_results(results: Sequence[TraceResult], path: str | Path) -> None:
    """Writes results as JSON, by the names of their models."""
    write_json(Path(path), {result.model_name: result.to_dict() for result in results})


def load_results(path: str | Path) -> list[TraceResult]:
    """Returns the results that `save_results` has written.

    Raises:
        TraceError: if the file cannot be read, or is damaged.
    """
    data = read_json(Path(path), TraceError)
    if not isinstance(data, dict):
        raise TraceError(f"{path} is damaged: results are an object with the names of models as keys")
    return [TraceResult.from_dict(one, path) for one in cast(dict[str, object], data).values()]
