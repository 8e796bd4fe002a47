"""The leaderboard as a Markdown page: tables of a board, beside the figures of `leaderboard_figures`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from interpbench.circuits.ground_truth import Level
from interpbench.core.estimate import Estimate
from interpbench.core.text import markdown
from interpbench.reports.labels import NOTHING, number
from interpbench.scoring.comparison import Comparison
from interpbench.scoring.hypotheses import LEVEL, TESTS
from interpbench.scoring.leaderboard_data import Board
from interpbench.scoring.leaderboard_rows import HEADLINE_LEVEL, TRUTH
from interpbench.scoring.metric import ScoreMetric
from interpbench.scoring.ranking_metrics import HEADLINE, RANKING, auroc, average_precision
from interpbench.scoring.row_metrics import columns, cpr, jaccard_over_seeds, recovered

FIGURES = {
    "scores": "Means over programs with 95 % intervals",
    "pairs": "Every two methods: mean difference of AUROC, and what of it is significant",
    "cost": "Accuracy against compute",
    "tasks": "AUROC at edges, model by model",
    "roc": "ROC curves at edges: every model, and their mean",
}
"""The figures, each in a file of its own."""
READING = """\
- Every cell is the mean over programs (of the mean over the models of each) and, in brackets, its 95 %
  interval: a bootstrap of programs (where all agree it is a point). A method that was run on fewer models
  than others says on how many: compare it with others in the tables of differences, which pair
  models. Shares of models have exact binomial intervals. The intervals of one method on one model are in
  [leaderboard.json](leaderboard.json): Newcombe's score interval for AUROC, exact binomial for shares, a
  bootstrap of edges (required and forbidden separately) or of pairs of inputs for everything else.
- *AUROC*: the probability that a required edge outranks a forbidden one, ties half. The staircase is what
  older papers report instead. *MIB's AUROC* is what MIB's code computes: circuits grow from the logits to ten
  sizes, every edge outside the truth is wrong, area counts from the first size on; it has no interval on a
  single model. Never compare across columns. Precision at the true size is recall, too.
- *Baselines*, in italics, look at neither answers nor gradients: weight_norm at the sizes of weights,
  activation_std at how much activations vary, fitted_features at a dozen such numbers, weighed by a
  logistic regression on the truth of the released models of all other programs (of all released models, if
  the model is none of them). A method that does not beat the best of them says nothing of these models that
  a look at their weights does not say.
- Methods that score nodes alone are in the second table; what could be said of edges from that is in the
  records. A method that trains for fewer steps than its authors' says which share of them it took.
- Required edges change an output of the program, forbidden ones are outside it; what is in the program but
  changes nothing is asked of nobody. *Above random*: on how many models AUROC beats 95 % of random scores.
- *Average of random scores*: the mean of 1,000 random rankings of each model, and the middle 95 % of it."""
GROUPS = ("small", "deep", "categorical", "numerical", "trivial")
"""The groups of models that have a column, by their names in `checkpoint=`."""
READING_GROUPS = """\
AUROC at edges by groups of models, with their numbers: *small* ones have two layers, *deep* ones more; the
output is a class or a number. In *trivial* ones a single node computes the output: they are in no other mean
on this page, in no comparison and in no figure."""
BEHAVIOUR = """\
On pairs of inputs that discovery did not see; edges outside a circuit carry what the corrupted input gives.
*CPR* and *CMD* (Mueller et al. 2025): area under the faithfulness of the circuits of ten sizes, and under its
distance from 1 (lower is better). The rest is of each method's circuit of the true size. *% loss recovered*
(Chan et al. 2022): what is left of the network's answers if all outside the circuit is resampled for each
node on every path (causal scrubbing, `interpbench scrub`); outputs on other inputs have 0. *Gap* (Wang et al.
2023): the largest difference between circuit and network when the same nodes are knocked out of both (0 is
complete). *Least effect*: what knocking out the least necessary node changes at most (0 is not minimal). The
tests are those of Shi et al. (2024): on how many models the circuit passes. *truth* is the true circuit,
scored as if a method had found it, all other edges in random order. Where it fails a test, that is no fault
of the circuit: in networks this small many random circuits share an edge with it, so that knocking them out
does as much (necessity), and what is outside it may shift logits, though never an answer (equivalence)."""
MADE = """\
`evaluate.py … board=…` adds models and methods, one by one. The project's own are made anew by
`make leaderboard` and `make leaderboard-learned`."""
NAMED = 12
"""The most models without rows that the page names."""
STABILITY = """\
Runs on bootstrap samples of the pairs are compared two by two: the Jaccard index of the circuits of the true
size, Spearman's correlation of all edges, and the standard deviation of AUROC. Méloux et al. (2025) ask for a
Jaccard index of at least 0.8. A dash: one run is too expensive to be repeated, or scores all edges alike. A
pass is one example through the network, forward or backward; seconds are those of one CPU core; memory is how
far that of the process rose."""


def leaderboard_markdown(board: Board, figures: Callable[[str], str]) -> str:
    """Returns the page.

    Args:
        board: the rows.
        figures: name of a figure to the link to its file.
    """
    parts = [
        "# Leaderboard",
        MADE,
        _summary(board),
        _left_out(board),
        "## Accuracy",
        _image("scores", figures),
        _edges(board),
        _table(["method", *(one.title for one in RANKING.values()), "above random"], _accuracy(board)),
        "Nodes and head edges:",
        _table(
            ["method", "nodes: AUROC", "average precision", "head edges: AUROC", "average precision"],
            _levels(board),
        ),
        READING,
        _groups(board),
        _image("tasks", figures),
        _image("roc", figures),
        "## Comparison",
        _image("pairs", figures),
        _comparison(board),
        "## Behaviour of the circuits found",
        BEHAVIOUR,
        _table(["method", *map(_title, _behaviour_columns(board)), *TESTS], _behaviour(board)),
        "## Cost and stability",
        _image("cost", figures),
        STABILITY,
        _table(
            [
                "method",
                "pairs",
                *(one.title for one in columns("cost")),
                *(one.title for one in _stability_columns(board)),
            ],
            _stability(board),
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def interval(estimate: Estimate | None) -> str:
    """Formats a mean with its interval."""
    if estimate is None:
        return NOTHING
    value, low, high = (number(x) for x in (estimate.value, *estimate.ends))
    return f"{value} [{low}, {high}]"


def amount(value: float | None) -> str:
    """Formats a positive number with about two significant digits."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 9.5 else f"{value:.2g}"


def _summary(board: Board) -> str:
    programs = {board.programs[model] for model in board.models}
    examples = {r.method: r.examples for r in board.rows if r.method != TRUTH}
    most, least = max(examples.values(), default=0), min(examples.values(), default=0)
    counts = f"{len(board.methods)} methods, {len(board.models)} models, {len(programs)} programs"
    text = f"{counts}; {most} pairs of inputs"
    if fewer := sorted(name for name, count in examples.items() if count < most):
        named = ", ".join(map(markdown, fewer))
        text += f", {least} for {named}, which train for hundreds of steps on all of them"
    if any(r.structural for r in board.rows):
        text += ". Structural scores: what is in the program without effect counts as required"
    if board.trivial:
        text += f". {len(board.trivial)} more models are trivial, and a group of their own below"
    if board.missing:
        names = f": {', '.join(map(markdown, board.missing))}" if len(board.missing) <= NAMED else ""
        count = len(board.missing)
        text += f". {count} released {'task has' if count == 1 else 'tasks have'} no model here{names}"
    return f"{text}."


def _left_out(board: Board) -> str:
    said = [f"- {markdown(model)}: {'; '.join(map(markdown, why))}" for model, why in board.left_out.items()]
    if not said:
        return (
            "No model is left out: every corruption changes answers, and every model has something required "
            "and something forbidden at each level."
        )
    return "\n".join(["Left out of all means and comparisons:", "", *said])


def _edges(board: Board) -> str:
    """Says which edges are meant wherever a page speaks of *edges*."""
    if not board.with_free_edges:
        return "Edges, here and below, are edges into single inputs q, k and v:"
    named = ", ".join(map(markdown, board.with_free_edges))
    return (
        "Edges, here and below, are edges into single inputs q, k and v; of models whose program leaves free "
        f"through which of the three its heads read ({named}) they are head edges. MIB's AUROC is of edges "
        "into single inputs everywhere:"
    )


def _image(name: str, figures: Callable[[str], str]) -> str:
    return f"![{FIGURES[name]}]({figures(name)})"


def _table(header: Sequence[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _names(board: Board) -> list[str]:
    """Returns the methods, and the truth last."""
    return [*board.methods, *([TRUTH] if any(r.method == TRUTH for r in board.rows) else [])]


def _accuracy(board: Board) -> Iterator[list[str]]:
    metrics = [one.at(HEADLINE_LEVEL) for one in RANKING.values()]
    for method in board.edge_methods:
        means = [interval(board.mean(method, metric)) for metric in metrics]
        yield [_with_budget(method, board), *means, _of(board.better_than_random(method))]
    yield ["*average of random scores*", *(interval(board.null(metric)) for metric in metrics), ""]


def _groups(board: Board) -> str:
    """Compares the methods on groups of models; nothing if there is but one group."""
    parts = {kind: board.of_kind(kind) for kind in GROUPS}
    parts = {kind: part for kind, part in parts.items() if part.models}
    if len(parts) < 2:
        return ""
    heads = [f"{kind} ({len(part.models)})" for kind, part in parts.items()]
    cells = (
        [_with_budget(method, board), *(interval(part.mean(method, HEADLINE)) for part in parts.values())]
        for method in board.edge_methods
    )
    nulls = ["*average of random scores*", *(interval(part.null(HEADLINE)) for part in parts.values())]
    table = _table(["method", *heads], chain(cells, [nulls]))
    return f"{READING_GROUPS}\n\n{table}"


def _levels(board: Board) -> Iterator[list[str]]:
    levels: tuple[Level, ...] = ("node", "head_edge")
    metrics = [metric.at(level) for level in levels for metric in (auroc, average_precision)]
    for method in sorted(board.methods, key=lambda name: -_node_auroc(board, name)):
        edges = method in board.edge_methods
        cells = [
            interval(board.mean(method, metric)) if edges or metric.level == "node" else NOTHING
            for metric in metrics
        ]
        yield [_with_budget(method, board), *cells]
    yield ["*average of random scores*", *(interval(board.null(metric)) for metric in metrics)]


def _node_auroc(board: Board, method: str) -> float:
    mean = board.mean(method, auroc.at("node"))
    return -1.0 if mean is None else mean.value


def _behaviour(board: Board) -> Iterator[list[str]]:
    for method in _names(board):
        means = [_of_models(board, method, metric) for metric in _behaviour_columns(board)]
        yield [_name(method, board), *means, *(_of(board.passed(method, test)) for test in TESTS)]


def _of_models(board: Board, method: str, metric: ScoreMetric) -> str:
    """Formats a mean, and says of how many models it is if these are not all of the method's."""
    count = len(board.values(method, metric))
    said = interval(board.mean(method, metric))
    return said if count in (0, len(board.values(method, cpr))) else f"{said} ({count} models)"


def _behaviour_columns(board: Board) -> list[ScoreMetric]:
    """Returns the metrics; what causal scrubbing recovers only if that was measured."""
    scrubbed = any(row.recovered is not None for row in board.rows)
    return [metric for metric in columns("behaviour") if scrubbed or metric is not recovered]


def _stability(board: Board) -> Iterator[list[str]]:
    for method in board.methods:
        costs = [board.mean(method, metric) for metric in columns("cost")]
        pairs = board.first(method).examples
        cells = [NOTHING if cost is None else _amount_interval(cost) for cost in costs]
        stable = [interval(board.mean(method, metric)) for metric in _stability_columns(board)]
        yield [_name(method, board), str(pairs), *cells, *stable]


def _stability_columns(board: Board) -> list[ScoreMetric]:
    """Returns the metrics; what is said of other seeds only if methods that draw were run with some."""
    seeds = any("seeds" in row.stability for row in board.rows)
    return [metric for metric in columns("stability") if seeds or metric is not jaccard_over_seeds]


def _title(metric: ScoreMetric) -> str:
    """Returns the head of a column, with an arrow where less is better."""
    return metric.title if metric.larger_is_better else f"{metric.title} ↓"


def _amount_interval(estimate: Estimate) -> str:
    low, high = estimate.ends
    return f"{amount(estimate.value)} [{amount(low)}, {amount(high)}]"


def _of(counts: tuple[int, int]) -> str:
    """Formats a share of models, with its exact interval."""
    hits, tries = counts
    if not tries:
        return NOTHING
    low, high = Estimate.share(hits, tries).ends
    return f"{hits}/{tries} [{number(low, 2)}, {number(high, 2)}]"


def _name(method: str, board: Board) -> str:
    """Returns a method's name, in italics if it is the truth or a baseline."""
    return f"*{markdown(method)}*" if method == TRUTH or board.first(method).baseline else markdown(method)


def _with_budget(method: str, board: Board) -> str:
    """Returns the name, and which share of its authors' steps of training the method took, if not all."""
    budget = board.first(method).budget
    said = [] if budget is None or budget >= 1 else [f"{budget:.0%} of its authors' steps"]
    if (count := len(board.values(method, HEADLINE))) < len(board.models):
        said.append(f"{count} of {len(board.models)} models")
    return _name(method, board) + (f" ({'; '.join(said)})" if said else "")


def _comparison(board: Board) -> str:
    """Says what the tests say, and lists the methods by their mean rank."""
    compared, ranks = board.compare(HEADLINE), board.ranks(HEADLINE)
    if not compared:
        return ""
    programs = max(one.programs for one in compared)
    text = (
        f"AUROC at edges, paired across models: exact two-sided Wilcoxon signed-rank tests of the "
        f"differences of {programs} programs, corrected for all {len(compared)} comparisons (Holm). With "
        f"{programs} programs no p-value can be below {2 / 2**programs:.2g}. "
        f"{sum(one.adjusted < LEVEL for one in compared)} differences are significant at {LEVEL} after "
        f"correction, {sum(one.p < LEVEL for one in compared)} before. In the matrix, A12 is the "
        f"probability that the method of the row is above that of the column on models drawn at random, "
        f"ties half (Vargha and Delaney). Below, each method against the best baseline (that with the best "
        f"mean) and against the average of random scores, each corrected for their number."
    )
    null = {one.first: one for one in board.against_random()}
    rows: list[list[str]] = []
    above = {one.first: one for one in board.against_baseline()}
    for method in sorted(ranks, key=lambda name: ranks[name]):
        cells = [_name(method, board), number(ranks[method], 1)]
        rows.append([*cells, *_difference(above.get(method)), *_difference(null[method])])
    best = markdown(board.best_baseline() or "baselines")
    header = ["method", "mean rank", f"AUROC above {best}", "p after Holm", "above random", "p after Holm"]
    parts = [text, _table(header, iter(rows)), _against_baseline_at_nodes(board)]
    return "\n\n".join(part for part in parts if part)


def _difference(one: Comparison | None) -> list[str]:
    """Formats a mean difference, and its p-value."""
    if one is None:
        return [NOTHING, NOTHING]
    return [interval(one.difference), f"{one.adjusted:.2g}"]


def _against_baseline_at_nodes(board: Board) -> str:
    """Compares all methods with the best baseline at nodes."""
    best = board.best_baseline("node")
    if best is None:
        return ""
    found = sorted(board.against_baseline("node"), key=lambda one: -one.difference.value)
    rows = [[_name(one.first, board), *_difference(one)] for one in found]
    header = ["method", f"nodes: AUROC above {markdown(best)}", "p after Holm"]
    return f"The same at nodes, against the best baseline there:\n\n{_table(header, iter(rows))}"
