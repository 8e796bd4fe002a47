"""An adversary: a search for the set of forbidden nodes, or of inert edges, whose patch does the most harm.

A set has a source for each of its nodes or edges, the same for all rows. Its harm is the share of rows (a
base and its sources) whose output is wrong. Each search starts from one of the most harmful of many random
sets. In each step, it computes the gradient of the mean margin with respect to all choices of sources, and
changes a share of them along it. The more harmful half of the results is then improved by single changes,
greedily. All results are compared on new rows, and the most harmful set is measured on other new rows.

Shapes: W nodes, R readers, D d_model, V outputs, T positions, S sources, B rows, G sets. A *place* is a node
or edge that a set can contain.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.certificate import RANDOM_DRAWS, Attack, AttackedKind, RandomDraw, Rate, level
from interpbench.circuits.grades import Standard
from interpbench.core import seeds
from interpbench.core.clopper_pearson import lower_bound
from interpbench.training.intervention_tests import Chunk, InterventionTests, random_routes
from interpbench.training.settings import CertificateSettings
from interpbench.transformer.fast.run_circuits import NUMBERS_PER_CALL
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.routes import RoutedWriters, Routes

RANDOM = 64
"""The number of random sets that are tried first."""
SHARES = (0.3, 0.1, 0.03)
"""The shares of all places of which a step changes the choices, the ones with the largest gradients."""
LOOKS = 3
"""The number of looks at the most harmful set, each on twice as many rows as the one before."""
GREEDY = 8
"""The number of single changes that are tried in a greedy step."""
DrawRows = Callable[[RandomDraw, np.random.Generator, int, int, int], Iterator[Chunk]]
"""A function that draws rows, given the draw, a generator, and the numbers of rows, sources, rows at once."""


@dataclass
class Found:
    """A set that a search has found.

    Attributes:
        routes: the source of each place, `[place]`, from 1; 0 for places outside the set.
        wrong: the share of rows of the search that are wrong.
        margin: the mean margin of these rows, relative to the clean one.
        by: the name of the search that found it.
    """

    routes: np.ndarray
    wrong: float
    margin: float
    by: str

    @property
    def key(self) -> tuple[float, float]:
        """The key by which sets are sorted, the most harmful first."""
        return -self.wrong, self.margin


def attack(
    tests: InterventionTests,
    settings: CertificateSettings,
    standard: Standard,
    draw: DrawRows,
    seed: int,
    attempt: int = 0,
) -> dict[AttackedKind, Attack]:
    """Attacks forbidden nodes and inert edges.

    Args:
        tests: the interventions on the network.
        settings: the settings of the certificate, with the length of searches and the numbers of rows.
        standard: the rates that have to be reached; measuring goes on while that is undecided.
        draw: a function that draws rows.
        seed: the seed of all draws.
        attempt: the number of certificates of the same training that were tried before.

    Returns:
        The attack of each kind, without those whose gradients were infinite or NaN.
    """
    graph = tests.truth.graph
    by_node, by_edge = np.full(len(graph.nodes), -1), np.full(graph.legal.shape, -1)
    nodes = np.flatnonzero(tests.unaligned)
    by_node[nodes] = np.arange(len(nodes))
    by_edge[tests.inert[:, 0], tests.inert[:, 1]] = np.arange(len(tests.inert))
    kinds: dict[AttackedKind, tuple[np.ndarray, list[str]]] = {
        "nodes": (by_node, [str(graph.nodes[w]) for w in nodes]),
        "edges": (by_edge, list(tests.places["edges"])),
    }
    results: dict[AttackedKind, Attack] = {}
    for kind, (places, names) in kinds.items():
        rng = seeds.generator(seed, "attack", kind)
        if not names:
            continue
        search = _Search(tests, settings, draw, rng, places, len(names))
        worst = search.worst()
        if search.blind:
            continue  # a search without gradients is none
        chosen = np.flatnonzero(worst.routes)
        results[kind] = Attack(
            rates={name: search.measured(worst, name, standard, attempt) for name in RANDOM_DRAWS},
            places=tuple(names[place] for place in chosen),
            sources=tuple((worst.routes[chosen] - 1).tolist()),
            candidates=search.candidates,
            searched_rows=search.rows,
            by=worst.by,
        )
    return results


class _Search:
    """A search for sets of nodes, or of edges.

    Args:
        tests: the interventions on the network.
        settings: the settings of the certificate.
        draw: a function that draws rows.
        rng: the random generator of rows and sets.
        places: the number of the place that each node is, `[W]`, or each edge, `[R, W]`; -1 for none.
        count: the number of places.
    """

    def __init__(
        self,
        tests: InterventionTests,
        settings: CertificateSettings,
        draw: DrawRows,
        rng: np.random.Generator,
        places: np.ndarray,
        count: int,
    ):
        self.tests, self.settings, self.rng = tests, settings, rng
        self.places, self.count = places, count
        self.by_edge = np.where(tests.truth.graph.legal, places, -1)
        self.evaluation, self.draw = tests.evaluation, draw
        self.candidates = self.rows = 0
        self.blind = False
        """Whether some gradient was infinite or NaN, so that the search was not possible."""
        self._new_rows()

    def _new_rows(self) -> None:
        half = max(1, self.settings.attack_rows // 2)
        self.chunks = [next(self.draw(d, self.rng, half, self.settings.sources, half)) for d in RANDOM_DRAWS]
        self.given = [_given(chunk) for chunk in self.chunks]

    def worst(self) -> Found:
        """Returns the most harmful set that all searches find."""
        count, sources = self.count, self.settings.sources
        one = random_routes(self.rng, RANDOM // 2, count, 1)
        several = random_routes(self.rng, RANDOM // 2 - 1, count, sources)
        everything = np.ones((1, count), np.int8)
        starts = sorted(
            self._tried(np.concatenate([one, several, everything]), "random"), key=lambda f: f.key
        )
        attacks = self.settings.attacks
        steepest = sorted(map(self._by_gradient, starts[:attacks]), key=lambda found: found.key)
        last = [*map(self._greedily, steepest[: -(-attacks // 2)]), *steepest[-(-attacks // 2) :]]
        self._new_rows()  # what was found on some rows may be their own
        again = self._tried(np.stack([found.routes for found in last]), "")
        worst = min(range(len(last)), key=lambda number: again[number].key)
        return replace(again[worst], by=last[worst].by)

    def _by_gradient(self, start: Found) -> Found:
        """Returns a set that is improved by steps along the gradient, each of a share of the choices."""
        now, best = start, start
        for _ in range(self.settings.attack_steps):
            order, choice = self._gains(now.routes)
            if not len(order):
                break
            tries = []
            for share in SHARES:
                changed = now.routes.copy()
                some = order[: max(1, int(share * self.count))]
                changed[some] = choice[some]
                tries.append(changed)
            now = min(self._tried(np.stack(tries), "gradient"), key=lambda f: f.key)
            if now.key >= best.key:
                break
            best = now
        return best

    def _greedily(self, start: Found) -> Found:
        """Returns a set that is improved by single changes, each the best of a few with large gradients."""
        best = start
        for _ in range(self.settings.attack_steps):
            order, choice = self._gains(best.routes)
            if not len(order):
                break
            tries = np.repeat(best.routes[None], min(GREEDY, len(order)), 0)
            for row, place in enumerate(order[:GREEDY]):
                tries[row, place] = choice[place]
            now = min(self._tried(tries, "greedy"), key=lambda f: f.key)
            if now.key >= best.key:
                break
            best = now
        return best

    def _masks(self, routes: np.ndarray) -> Tensor:
        """Returns masks of nodes, `[G, W, S]`, or of edges, `[G, R, W, S]`, of sets `[G, place]`."""
        full = np.where(self.places >= 0, routes[:, self.places], 0)
        masks = full[..., None] == np.arange(1, self.settings.sources + 1)
        return torch.from_numpy(masks).to(self.chunks[0].base.stack)

    def _lowest(self, chunk: Chunk, routes: np.ndarray, logits: Tensor) -> Tensor:
        """Returns the smallest margin of each row, relative to its clean one, with each set patched.

        Args:
            chunk: the rows.
            routes: the sets, `[G, place]`.
            logits: the logits with each set patched, `[V, T, G, B]`.

        Returns:
            The margins `[G, B]`, 1 for rows without a scored position.
        """
        ev, rows = self.evaluation, len(chunk.base.tokens)
        lowest: list[Tensor] = []
        clean_answer = chunk.base.trace[ev.causal_model.output]
        clean = ev.margins(chunk.base.logits, clean_answer).clamp(min=1e-3)
        for group in range(len(routes)):
            every = np.broadcast_to(self._full(routes[group]), (rows, *self.by_edge.shape))
            answer = self.tests.answers(chunk.base, chunk.sources, every)
            scored = torch.from_numpy(ev.task.scored(answer).T).to(logits.device)
            margins = ev.margins(logits[:, :, group], answer) / clean
            lowest.append(margins.masked_fill(~scored, 1.0).amin(0))
        return torch.stack(lowest)

    def _full(self, routes: np.ndarray) -> np.ndarray:
        return np.where(self.by_edge >= 0, routes[self.by_edge], 0).astype(np.int8)

    def _tried(self, sets: np.ndarray, by: str) -> list[Found]:
        """Returns sets `[G, place]` with their harm on all rows of the search."""
        found: list[Found] = []
        rows = len(self.chunks[0].base.tokens)
        at_once = self._at_once(rows)
        for some in (sets[first : first + at_once] for first in range(0, len(sets), at_once)):
            masks = self._masks(some)
            with torch.no_grad():
                by_chunk = [self._run(number, some, masks) for number in range(len(self.chunks))]
            lowest = torch.cat(by_chunk, 1).nan_to_num(nan=-1.0)  # an answer that is no number is wrong
            wrong = (lowest < 0).double().mean(1).numpy(force=True)
            wrong = np.where(some.any(1), wrong, -1.0).tolist()  # the empty set is no attack
            margin = lowest.clamp(-1, 1).mean(1).tolist()
            found += [Found(s.copy(), w, m, by) for s, w, m in zip(some, wrong, margin)]
        self.candidates += len(sets)
        self.rows += len(sets) * rows * len(self.chunks)
        return found

    def _at_once(self, rows: int) -> int:
        cfg = self.evaluation.network.cfg
        kept = self.places.shape[-1] if self.places.ndim > 1 else 0
        numbers = cfg.d_model * cfg.n_ctx * (6 * cfg.n_heads + kept) * rows
        return max(1, NUMBERS_PER_CALL // numbers)

    def _run(self, number: int, sets: np.ndarray, masks: Tensor) -> Tensor:
        """Runs some sets on one of the chunks, and returns their margins (`_lowest`)."""
        chunk = self.chunks[number]
        patch = self._patched(masks, self.given[number])
        logits = self.evaluation.network.run_groups(chunk.base.stack[0], patch, len(sets))
        return self._lowest(chunk, sets, logits)

    @staticmethod
    def _patched(masks: Tensor, given: Tensor) -> Interventions:
        return RoutedWriters(masks, given) if masks.ndim == 3 else Routes(masks, given)

    def _gains(self, routes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns places, those whose change lowers the mean margin most first, and the best choice of each.

        Changes of the margin are estimated to first order; places that cannot lower it are left out.
        """
        total = torch.zeros(1, *self._masks(routes[None]).shape[1:])
        for number in range(len(self.chunks)):
            masks = self._masks(routes[None]).requires_grad_()
            with torch.enable_grad():
                lowest = self._run(number, routes[None], masks)
                (grad,) = torch.autograd.grad(lowest.clamp(-1, 1).sum(), masks)
            total += grad.cpu()
        self.blind |= not bool(total.isfinite().all())
        self.rows += 3 * sum(len(chunk.base.tokens) for chunk in self.chunks)
        inside = self.places >= 0
        slopes = np.zeros((1 + total.shape[-1], self.count))  # choice 0 is the row itself: slope 0
        slopes[1:, self.places[inside]] = total[0].numpy()[inside].T
        now = slopes[routes.astype(int), np.arange(self.count)]
        gain = now - slopes.min(0)
        order = np.argsort(-gain, kind="stable")
        return order[gain[order] > 1e-9], slopes.argmin(0).astype(np.int8)

    def measured(self, found: Found, draw: RandomDraw, standard: Standard, attempt: int) -> Rate:
        """Measures the harm of a set on new rows, in looks at more and more of them.

        It ends with the look after which the bound reaches the standard, or can no longer reach it.

        Args:
            found: the set.
            draw: the draw of rows.
            standard: the rates that have to be reached.
            attempt: the number of certificates of the same training that were tried before.
        """
        rate = Rate(0, 0, 0)
        most, last = self.settings.pairs, attempt + LOOKS
        for look in range(1, LOOKS + 1):
            rate = self._with_more(rate, found, draw, round(most / 2 ** (LOOKS - look)))
            rate = replace(rate, looks=attempt + look)
            best = lower_bound(most - rate.wrong, most, level(standard.confidence, last))
            if rate.bound(standard.confidence) >= standard.worst or best < standard.worst:
                break
        return rate

    def _with_more(self, rate: Rate, found: Found, draw: RandomDraw, until: int) -> Rate:
        """Returns the rate of a set after it has been run on more rows of a draw, `until` rows in all."""
        ev, routes = self.evaluation, self._full(found.routes)
        masks, missing = self._masks(found.routes[None]), until - rate.rows
        for chunk in self.draw(draw, self.rng, missing, self.settings.sources, self.settings.attack_rows):
            some = len(chunk.base.tokens)
            with torch.no_grad():
                logits = ev.network.run(chunk.base.stack[0], self._patched(masks, _given(chunk)))
            answer = self.tests.answers(
                chunk.base, chunk.sources, np.broadcast_to(routes, (some, *routes.shape))
            )
            counts = ev.answered(answer)
            wrong = ~ev.right(ev.predictions(logits), answer) & counts
            rate = rate.plus(int(wrong.sum()), int(counts.sum()))
        return rate


def _given(chunk: Chunk) -> Tensor:
    """Returns what nodes write in the source runs, `[W, S, D, T, B]`."""
    return torch.stack([source.stack for source in chunk.sources], 1)
