"""A contest tried end to end, with methods as entries, and with entries that patch and follow nothing.

`interpbench contest make --models 10 --task 'random_rasp[spread=0]'` makes a contest of dead networks, and
without `--task` one of living networks; each has a table of its own. Methods answer by
`interpbench contest answer`. Each size that `interpbench shortcuts` measures of edges is an entry of its own,
so are baselines, and so is an adversary who follows weights back from the logits
(`benchmarks.copied_networks`). All answers are scored as `interpbench contest score` does, and the contest is
revealed. The tables are in `docs/contest.md`.

Run: `python -m benchmarks.contest_trial contest`.
"""

import argparse
import logging
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.copied_networks import path_norms
from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.blind import load_problem
from interpbench.checkpoints.contests import (
    contest_id,
    fitting_task,
    private_of,
    problems_of,
    read_contest,
    read_sealed,
)
from interpbench.circuits.graph import Graph
from interpbench.circuits.io.form import Contents, forms
from interpbench.circuits.scores import Scores
from interpbench.core.files import write_text
from interpbench.discovery.fitted_features import EDGE_FEATURES, NODE_FEATURES, features
from interpbench.discovery.known_methods import EXAMPLES
from interpbench.reports.models_page import put
from interpbench.runs.contest import (
    ContestResults,
    answer_contest,
    check_contest,
    reveal_contest,
    score_contest,
)
from interpbench.scoring.ranked_entries import AGAINST_COPIES
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape

METHODS = ("acdc", "eap", "eap_ig", "edge_sp", "exact")
"""The methods that enter."""
DRAWS = 60
PLACES = "places in other draws"
"""An entry that looks at no network, and the number of programs that it draws instead."""
PATHS = "paths back from the logits"
"""The entry of the adversary."""
BASELINES = ("activation_std", "fitted_features", "random", "weight_norm")
"""Entries that patch nothing and follow no gradient."""
SIZES = [name for name in EDGE_FEATURES if "score as a node" not in name]
"""The sizes of edges that enter."""
TITLES = {AGAINST_COPIES: "AUROC against copies", "auroc": "AUROC", "average_precision": "average precision"}
PAGE = Path("docs/contest.md")
BEGIN = "<!-- made by `python -m benchmarks.contest_trial` -->"
LIVING = "<!-- made by `python -m benchmarks.contest_trial`, of living networks -->"
"""Where the table of a contest in which all circuits have copies begins."""


@torch.no_grad()
def answer_by_sizes(folder: Path, answers: Path) -> None:
    """Writes an entry for each size of edges, and that of the adversary."""
    for problem in read_contest(folder).problems:
        opened = load_problem(folder / problem, EXAMPLES)
        graph = opened.graph
        columns = features(opened).edge(np.zeros(len(NODE_FEATURES) + 1)).T
        entries = {PATHS: path_norms(opened.network, graph)[graph.legal]}
        entries |= {name: columns[EDGE_FEATURES.index(name)] for name in SIZES}
        for name, values in entries.items():
            scores = np.full(graph.legal.shape, np.nan)
            scores[graph.legal] = values
            told = forms()["csv"].write(Contents(graph, Scores(graph, scores)))
            write_text(answers / name / f"{problem}.csv", told)


def answer_by_places(folder: Path, answers: Path, task: str) -> None:
    """Writes an entry of somebody who knows how programs are drawn, and looks at no network.

    An edge scores as often as it is of the circuit in other networks of this shape. Where there are none, all
    edges score alike.

    Args:
        folder: the contest.
        answers: the folder of entries.
        task: the task without its seed.
    """
    circuits: dict[Graph, list[np.ndarray]] = defaultdict(list)
    for problem in range(DRAWS):
        drawn = get_task(fitting_task("0" * 64, task, f"{problem:03}", 0))
        truth = find_truth(align(drawn, shape(drawn).graph), 100)
        circuits[truth.graph].append(truth.circuit)
    for problem, record in problems_of(folder, read_contest(folder)).items():
        graph = record.shape.graph
        often = np.mean(circuits[graph] or [graph.legal], axis=0)
        told = forms()["csv"].write(Contents(graph, Scores(graph, np.where(graph.legal, often, np.nan))))
        write_text(answers / PLACES / f"{problem}.csv", told)


def table(found: ContestResults, tasks: Sequence[str], problems: int) -> str:
    """Returns the table of entries, the best first."""
    kinds = dict.fromkeys(SIZES, "size") | dict.fromkeys((*BASELINES, PLACES), "baseline")
    kinds[PATHS] = "adversary"
    metrics = list(next(iter(found.entries.values())).means)
    said = ", ".join(f"`{task}`" for task in tasks)
    rows = [
        f"Contest `{found.contest[:12]}`: {problems} networks of {said}.",
        "",
        f"| entry | kind | {' | '.join(TITLES[metric] for metric in metrics)} |",
        f"| --- | --- |{' --: |' * len(metrics)}",
    ]
    for name, entry in found.entries.items():
        cells = [f"{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]" for mean in entry.means.values()]
        rows.append(f"| {name} | {kinds.get(name, 'method')} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    """Enters, scores and reveals a contest, and writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("contest", type=Path, help="the contest, with its private folder beside it")
    folder = parser.parse_args().contest
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    answers = folder.with_name("answers")
    check_contest(folder)
    for method in (*METHODS, *BASELINES):
        answer_contest(folder, method, answers / method)
    answer_by_sizes(folder, answers)
    tasks = read_sealed(private_of(folder), read_contest(folder)).tasks
    answer_by_places(folder, answers, tasks[0])
    found = score_contest(folder, answers)
    reveal_contest(folder)
    assert found.contest == contest_id(folder)
    living = all(AGAINST_COPIES in entry.means for entry in found.entries.values())
    made = table(found, tasks, len(read_contest(folder).problems))
    write_text(PAGE, put(PAGE.read_text(), made, LIVING if living else BEGIN))


if __name__ == "__main__":
    main()
