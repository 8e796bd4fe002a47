"""A contest tried end to end, with methods as entries, and with sizes of weights that should tell nothing.

`interpbench contest make --models 8 --task 'random_rasp[regime=alive]'` makes the contest. Methods answer by
`interpbench contest answer`. Each size that `interpbench shortcuts` measures of edges is an entry of its own,
and so are baselines. All answers are scored as `interpbench contest score` does, and the contest is revealed.
The table is in `docs/contest.md`.

Run: `python -m benchmarks.contest_trial contest`.
"""

import argparse
import logging
from pathlib import Path

import numpy as np
import torch

from interpbench.checkpoints.blind import load_problem
from interpbench.checkpoints.contests import contest_id, read_contest
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

METHODS = ("acdc", "eap", "eap_ig", "edge_sp", "exact")
"""The methods that enter."""
BASELINES = ("activation_std", "fitted_features", "random", "weight_norm")
"""Entries that patch nothing and follow no gradient."""
SIZES = [name for name in EDGE_FEATURES if "score as a node" not in name]
"""The sizes of edges that enter."""
PAGE = Path("docs/contest.md")
BEGIN = "<!-- made by `python -m benchmarks.contest_trial` -->"


@torch.no_grad()
def answer_by_sizes(folder: Path, answers: Path) -> None:
    """Writes an entry for each size of edges."""
    for problem in read_contest(folder).problems:
        opened = load_problem(folder / problem, EXAMPLES)
        graph = opened.graph
        columns = features(opened).edge(np.zeros(len(NODE_FEATURES) + 1)).T
        for name in SIZES:
            scores = np.full(graph.legal.shape, np.nan)
            scores[graph.legal] = columns[EDGE_FEATURES.index(name)]
            told = forms()["csv"].write(Contents(graph, Scores(graph, scores)))
            write_text(answers / name / f"{problem}.csv", told)


def table(found: ContestResults, problems: int) -> str:
    """Returns the table of entries, the best first."""
    kinds = dict.fromkeys(SIZES, "size") | dict.fromkeys(BASELINES, "baseline")
    rows = [
        f"Contest `{found.contest[:12]}`, {problems} networks.",
        "",
        "| entry | kind | AUROC | average precision |",
        "| --- | --- | --: | --: |",
    ]
    for name, entry in found.entries.items():
        cells = [
            f"{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
            for mean in (entry.means["auroc"], entry.means["average_precision"])
        ]
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
    found = score_contest(folder, answers)
    reveal_contest(folder)
    assert found.contest == contest_id(folder)
    write_text(PAGE, put(PAGE.read_text(), table(found, len(read_contest(folder).problems)), BEGIN))


if __name__ == "__main__":
    main()
