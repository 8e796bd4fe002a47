"""An adversary searches for the set of forbidden nodes, or of inert edges, that breaks a network most often.

A set says of each of its places which of some sources it takes its value from, the same for all rows; what
it does is the share of rows (base and sources) that come out wrong. Each search starts from one of the worst
of many random sets of random density, steps along the gradient of the mean margin with respect to all choices
at once, of which some share is followed; the worse half of what they find goes on by single changes of the
largest gradient, greedily. What these searches found is compared on other rows, and the worst of it is
measured on fresh ones.
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
"""Random sets that are tried first."""
SHARES = (0.3, 0.1, 0.03)
"""Of all places, how many change their choice in a step by the gradient, where that helps most."""
LOOKS = 3
"""How often the worst set is looked at, on twice as many rows each time."""
GREEDY = 8
"""Single changes that are tried in a greedy step."""
DrawRows = Callable[[RandomDraw, np.random.Generator, int, int, int], Iterator[Chunk]]


@dataclass
class Found:
    """A set: `routes [place]`, 0 or a source, what it does to the search rows, and which search found it."""

    routes: np.ndarray
    wrong: float
    margin: float
    by: str

    @property
    def key(self) -> tuple[float, float]:
        """Sorts the worst first."""
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
        tests: of the network.
        settings: how long to search, and on how many rows at most the worst sets are measured.
        standard: what they have to reach: measuring goes on while that is open.
        draw: draws rows.
        seed: of all draws.
        attempt: how many certificates of the same training were tried before.

    Returns:
        The attacks; none where gradients are no numbers.
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
    """One search. Places are nodes or edges.

    Args:
        tests: of the network.
        settings: how long to search.
        draw: draws rows.
        rng: of rows and random sets.
        places: `[W]`, which place a node is, or `[R, W]`, which one an edge is; -1 for none.
        count: how many places there are.
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
        """Whether some gradient was no number, as 0 times infinity is: the search did not see everything."""
        self._new_rows()

    def _new_rows(self) -> None:
        half = max(1, self.settings.attack_rows // 2)
        self.chunks = [next(self.draw(d, self.rng, half, self.settings.sources, half)) for d in RANDOM_DRAWS]
        self.given = [_given(chunk) for chunk in self.chunks]

    def worst(self) -> Found:
        """Searches."""
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
        """Changes the choices that the gradient says help most, a share of them at a time."""
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
        """Makes single changes, the best of a few that the gradient says help most."""
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
        """Returns masks `[G, W, S]` of nodes, or `[G, R, W, S]` of edges, of sets `[G, place]`."""
        full = np.where(self.places >= 0, routes[:, self.places], 0)
        masks = full[..., None] == np.arange(1, self.settings.sources + 1)
        return torch.from_numpy(masks).to(self.chunks[0].base.stack)

    def _lowest(self, chunk: Chunk, routes: np.ndarray, logits: Tensor) -> Tensor:
        """Returns each row's least margin, relative to its clean one, with G sets patched.

        Args:
            chunk: the rows.
            routes: the sets.
            logits: `[V, T, G, B]`.

        Returns:
            `[G, B]`, 1 where nothing is asked.
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
        """Runs sets `[K, place]` on all search rows."""
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
        """Returns what `_lowest` does of one of the chunks with some sets patched."""
        chunk = self.chunks[number]
        patch = self._patched(masks, self.given[number])
        logits = self.evaluation.network.run_groups(chunk.base.stack[0], patch, len(sets))
        return self._lowest(chunk, sets, logits)

    @staticmethod
    def _patched(masks: Tensor, given: Tensor) -> Interventions:
        return RoutedWriters(masks, given) if masks.ndim == 3 else Routes(masks, given)

    def _gains(self, routes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns places in the order of what changing their choice gains, and the best choice of each.

        To first order, in the mean margin; places that gain nothing are left out.
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
        """Measures a set on fresh rows of a draw, in looks at more and more of them.

        After each look it is over if the bound reaches the standard, or no longer can.
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
        """Runs a set on fresh rows until so many have been."""
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
    """Returns what writers wrote in the source runs, `[W, S, D, T, B]`."""
    return torch.stack([source.stack for source in chunk.sources], 1)
