"""The certificate: what a network provably is, by enumeration or with exact lower bounds.

Rates are over rows (base/source pairs), each right only if every scored position is. Where the domain has at
most `enumerate_up_to` inputs every pair is run; otherwise fresh pairs from held-out inputs are, and a rate
counts with its one-sided Clopper-Pearson lower bound at `confidence`. `Truth.idle` says which edges must do
nothing. On few pairs a rate just above the target can miss it: where edges have fewer pairs than the rest, a
few that miss are measured once more, on as many other pairs as the rest, and that measure alone counts.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.stats import beta

from interpbench.circuits.truth import State, Truth
from interpbench.core import seeds
from interpbench.training.evaluate import Activations, Evaluation, Rate
from interpbench.training.settings import CertificateSettings

CHUNK = 2048
"""Pairs of an enumeration that go together, and rows of the stress."""
DRAWN = 512
"""Drawn pairs that go together: a hopeless attempt ends after one such chunk."""
SECOND_LOOKS = 8
"""Of more edges that miss the target on `edge_pairs`, none is measured again."""
DEMANDS = ("accuracy", "iia", "siia", "edges")


def lower_bound(right: int, rows: int, confidence: float) -> float:
    """Returns the one-sided lower bound of a binomial rate (Clopper & Pearson 1934)."""
    return float(beta.ppf(1 - confidence, right, rows - right + 1)) if right else 0.0


def certify(
    evaluation: Evaluation,
    truth: Truth,
    settings: CertificateSettings | None = None,
    seed: int = 0,
    demands: Sequence[str] = DEMANDS,
    give_up: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Measures everything and returns the certificate as plain data.

    Args:
        evaluation: the network and its causal model.
        truth: what is forbidden and required.
        settings: how much to measure, and the target.
        seed: of drawn pairs and of the stress.
        demands: what has to reach the target, of `DEMANDS`; without `edges`, edges that must do nothing
            are not measured, the rest is.
        give_up: stop at the first chunk of pairs that makes the target unreachable.
        progress: called after each chunk with how many pairs are done, and of how many; pairs on which edges
            are patched one by one count again.
    """
    settings = settings or CertificateSettings()
    rates = _Rates(evaluation, truth, demands)
    enumerated = settings.enumerates(evaluation.task)
    target = settings.target if settings.target is not None else 1.0 if enumerated else 0.999

    def bound(right: int, rows: int) -> float:
        return right / max(rows, 1) if enumerated else lower_bound(right, rows, settings.confidence)

    def misses(wrong: int, rows: int) -> bool:
        return bound(rows - wrong, rows) < target

    first_looks = _measure(rates, settings, misses, seed, give_up, progress)
    stress = _stress(evaluation, seed)

    def entry(rate: Rate) -> dict[str, Any]:
        low = bound(rate.right, rate.total) if rate.total else 1.0
        return {"rate": rate.share, "lower": low, "wrong": rate.wrong, "rows": rate.total}

    nodes = {str(node): entry(rate) for node, rate in rates.siia.items()}
    looked = {name: {"first_look": entry(rate)} for name, rate in first_looks.items()}
    edges = {name: {**entry(rate), **looked.get(name, {})} for name, rate in rates.edges.items()}
    iia = {
        str(node): {
            "variables": list(evaluation.alignment.units[node]),
            **entry(rate),
            "effective": entry(rates.effective[node]),
        }
        for node, rate in rates.iia.items()
    }
    required = {name: rate.right / rate.total for name, rate in rates.required.items()}
    result: dict[str, Any] = {
        "enumerated": enumerated,
        "pairs": rates.accuracy.total,
        "settings": asdict(settings),
        "target": target,
        "demands": list(demands),
        "accuracy": entry(rates.accuracy),
        "iia": iia,
        "siia": nodes,
        "siia_all_nodes": entry(rates.all_nodes),
        "edges": edges,
        "all_edges": entry(rates.all_edges),
        "required_effect": required,
        "margin": rates.margin,
        "margin_kind": "largest error" if evaluation.model.numerical else "smallest logit margin",
        "stress": stress,
    }
    result["failures"] = _failures(result)
    result["certified"] = not result["failures"]
    return result


def _measure(
    rates: "_Rates",
    settings: CertificateSettings,
    misses: Callable[[int, int], bool],
    seed: int,
    give_up: bool,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Rate]:
    """Measures what costs little, then each edge alone, then again the few of these that miss the target.

    Returns:
        What edges that were measured again had before.
    """
    evaluation, enumerated = rates.evaluation, settings.enumerates(rates.evaluation.task)
    totals = settings.number_of_pairs(evaluation.task)[: 2 if "edges" in rates.demands else 1]
    looks = SECOND_LOOKS if totals[-1] < totals[0] else 0
    done, planned = 0, sum(totals)

    def reaches(
        total: int, measure: Callable[..., None], hopeless: Callable[[], bool], stream: str = "certificate"
    ) -> bool:
        """Measures on so many pairs; returns False, and measures no more, once it is time to give up."""
        nonlocal done
        for base, source in _pairs(evaluation, total, enumerated, seed, stream):
            measure(base, source)
            done += len(base.tokens)
            if progress is not None:
                progress(done, planned)
            if give_up and hopeless():
                return False
        return True

    def doubtful() -> list[int]:
        """Returns which edges miss the target, as far as they have been patched alone."""
        return [i for i, rate in enumerate(rates.edges.values()) if misses(rate.wrong, totals[1])]

    if not reaches(totals[0], rates.add, lambda: misses(rates.most_wrong(), totals[0])):
        return {}
    if len(totals) == 1 or not reaches(totals[1], rates.add_edges, lambda: len(doubtful()) > looks):
        return {}
    again = doubtful()
    if not 0 < len(again) <= looks:
        return {}
    planned += totals[0]
    before = rates.forget(again)
    reaches(totals[0], partial(rates.add_edges, numbers=again), lambda: False, "second look")
    return before


def _failures(result: dict[str, Any]) -> list[str]:
    """Lists what misses the target, worst first."""
    target, demands = result["target"], result["demands"]
    checks: list[tuple[str, float]] = [("accuracy", result["accuracy"]["lower"])]
    if "iia" in demands:
        checks += [(f"IIA {name}", entry["lower"]) for name, entry in result["iia"].items()]
    if "siia" in demands:
        checks += [(f"SIIA {name}", entry["lower"]) for name, entry in result["siia"].items()]
        checks.append(("SIIA of all forbidden nodes", result["siia_all_nodes"]["lower"]))
    if "edges" in demands:
        checks += [(f"edge {name}", entry["lower"]) for name, entry in result["edges"].items()]
        checks.append(("all edges that must do nothing", result["all_edges"]["lower"]))
    missed = [
        f"{name} {value:.5f} < {target}"
        for name, value in sorted(checks, key=lambda c: c[1])
        if value < target
    ]
    if "iia" in demands:
        missed += [
            f"required {name} has no effect" for name, x in result["required_effect"].items() if x == 0
        ]
    return missed


def open_edges(truth: Truth) -> dict[str, np.ndarray]:
    """Returns required head edges that no single q/k/v edge stands for: name to mask `[reader, writer]`."""
    graph = truth.graph
    masks: dict[str, np.ndarray] = {}
    for place, writer in np.argwhere(truth.head_edges == State.REQUIRED):
        mask = np.zeros(graph.legal.shape, bool)
        mask[graph.reader_destination == place, writer] = True
        slots = set(truth.qkv_edges[mask].tolist())
        if State.FREE in slots and State.REQUIRED not in slots:
            masks[f"{graph.nodes[writer]}->{graph.destinations[place]}"] = mask
    return masks


class _Rates:
    """All rates of a certificate, accumulated over chunks of pairs."""

    def __init__(self, evaluation: Evaluation, truth: Truth, demands: Sequence[str]):
        self.evaluation, self.truth = evaluation, truth
        self.demands = demands
        alignment, graph = evaluation.alignment, truth.graph
        self.accuracy, self.all_nodes, self.all_edges = Rate(), Rate(), Rate()
        self.iia = {node: Rate() for node in alignment.units}
        self.effective = {node: Rate() for node in alignment.units}
        self.siia = {node: Rate() for node in alignment.outside}
        self.idle = truth.idle
        self.idle_edges = np.argwhere(self.idle)
        required = np.argwhere(truth.qkv_edges == State.REQUIRED).tolist()
        self.required_edges = {f"{graph.nodes[w]}->{graph.readers[r]}": (r, w) for r, w in required}
        self.open_edges = open_edges(truth)
        names = [f"{graph.nodes[w]}->{graph.readers[r]}" for r, w in self.idle_edges]
        self.edges = {name: Rate() for name in names}
        names = [*truth.names("node", State.REQUIRED)[1:], *self.required_edges, *self.open_edges]
        self.required = {name: Rate() for name in names}
        self.margin = 0.0 if evaluation.model.numerical else float("inf")

    def most_wrong(self) -> int:
        """Returns the largest number of wrong rows of what `add` measures and must reach the target."""
        rates = [self.accuracy]
        rates += self.iia.values() if "iia" in self.demands else []
        rates += [self.all_nodes, *self.siia.values()] if "siia" in self.demands else []
        rates += [self.all_edges] if "edges" in self.demands else []
        return max(rate.wrong for rate in rates)

    def forget(self, numbers: Sequence[int]) -> dict[str, Rate]:
        """Lets some edges start anew; returns what they had."""
        names = list(self.edges)
        before = {names[number]: self.edges[names[number]] for number in numbers}
        self.edges.update({name: Rate() for name in before})
        return before

    def add(self, base: Activations, source: Activations) -> None:
        """Measures everything but single edges that must do nothing on one chunk of pairs."""
        ev, graph = self.evaluation, self.truth.graph
        wanted = base.trace[ev.model.output]
        clean = ev.predictions(base.logits)
        self.accuracy.add(ev.right(clean, wanted))
        worse = max if ev.model.numerical else min
        self.margin = worse(self.margin, ev.margin(base))
        scored = ev.task.scored(wanted)

        def differs(predictions: np.ndarray) -> np.ndarray:
            tolerance = ev.task.tolerance if ev.model.numerical else 0
            return np.any((np.abs(predictions - clean) > tolerance) & scored, axis=1)

        for node, predictions in ev.single_nodes(base, source.stack, list(ev.alignment.units)):
            counterfactual, effective = ev.counterfactual(base, source, node)
            right = ev.right(predictions, counterfactual)
            self.iia[node].add(right)
            self.effective[node].add(right[effective])
            if str(node) in self.required:
                self.required[str(node)].add(differs(predictions))
        for node, predictions in ev.single_nodes(base, source.stack, ev.alignment.outside):
            self.siia[node].add(ev.right(predictions, wanted))
        unseen = [name for name in self.required_edges if not self.required[name].right]
        places = np.array([self.required_edges[name] for name in unseen], int).reshape(-1, 2)
        for number, predictions in ev.single_edges(base, source.stack, places):
            self.required[unseen[number]].add(differs(predictions))
        unseen = [name for name in self.open_edges if not self.required[name].right]
        masks = np.array([self.open_edges[name] for name in unseen], bool)
        for number, predictions in ev.patched(base, source.stack, edges=masks) if unseen else ():
            self.required[unseen[number]].add(differs(predictions))
        outside = np.array([[node in ev.alignment.outside for node in graph.nodes]])
        ((_, predictions),) = ev.patched(base, source.stack, nodes=outside)
        self.all_nodes.add(ev.right(predictions, wanted))
        if "edges" in self.demands:
            ((_, predictions),) = ev.patched(base, source.stack, edges=self.idle[None])
            self.all_edges.add(ev.right(predictions, ev.with_edges(base, source, self.idle)))

    def add_edges(self, base: Activations, source: Activations, numbers: Sequence[int] | None = None) -> None:
        """Measures each edge that must do nothing, or some of them, on one chunk of pairs."""
        ev, rates = self.evaluation, list(self.edges.values())
        wanted = base.trace[ev.model.output]
        chosen = range(len(rates)) if numbers is None else numbers
        for place, predictions in ev.single_edges(base, source.stack, self.idle_edges[list(chosen)]):
            rates[chosen[place]].add(ev.right(predictions, wanted))


def _pairs(
    evaluation: Evaluation, count: int, enumerated: bool, seed: int, stream: str = "certificate"
) -> Iterable[tuple[Activations, Activations]]:
    """Yields chunks of base and source runs; an enumeration in random order, so that attempts fail early."""
    domain = evaluation.task.domain
    if not enumerated:
        rng = seeds.generator(seed, stream, evaluation.task.name)
        for first in range(0, count, DRAWN):
            base = domain.draw(rng, min(DRAWN, count - first), True)
            source = domain.sources(rng, base, True)
            yield evaluation.activations(base), evaluation.activations(source)
        return
    rng, side = seeds.generator(seed, "certificate", evaluation.task.name), math.isqrt(CHUNK)
    inputs = rng.permutation(domain.all())
    blocks = [evaluation.activations(inputs[first : first + side]) for first in range(0, len(inputs), side)]
    for number in rng.permutation(len(blocks) ** 2):
        base, source = divmod(int(number), len(blocks))
        yield evaluation.pair(blocks[base], blocks[source])


def _stress(evaluation: Evaluation, seed: int) -> dict[str, float]:
    """Accuracy with all forbidden nodes set to zero, to their mean, and to noise of their own scale."""
    rng = seeds.generator(seed, "stress", evaluation.task.name)
    base = evaluation.activations(evaluation.task.domain.draw(rng, CHUNK, True))
    graph, stack = evaluation.alignment.graph, base.stack
    outside = np.array([[node in evaluation.alignment.outside for node in graph.nodes]])
    mean, scale = stack.mean(-1, keepdim=True), stack.std(-1, keepdim=True)
    noise = torch.from_numpy(rng.standard_normal(stack.shape, np.float32)).to(stack)
    patches = {
        "zero": torch.zeros_like(stack),
        "mean": mean.expand_as(stack).contiguous(),
        "noise": mean + scale * noise,
        "noise×3": mean + 3 * scale * noise,
    }
    wanted = base.trace[evaluation.model.output]
    results: dict[str, float] = {}
    for name, patch in patches.items():
        ((_, predictions),) = evaluation.patched(base, patch, nodes=outside)
        results[name] = float(evaluation.right(predictions, wanted).mean())
    return results
