"""Measures how well a head of a given width can compute IOI's name mover, by two rules for its answer.

The name mover attends to names, each a token or an inhibition, and sums what it reads from them; the answer
is the name with the largest logit. Here only three vectors of the head's width are trained for each name: one
for it as a token, one for it as an inhibition, and one for its logit. Attention to names is uniform, and
inhibitions are given. What is hard for these vectors is hard for a transformer. Rows are base/source pairs of
the task, in 70 % of which S-inhibition is swapped, and the error is that of held-out rows. The rules are:

* scored (the published one): the name with the highest score, which is 10 for each token and -15 for each
  inhibition of it;
* left (this project's): the only name that is not inhibited, if all inhibited names are among the tokens.

Run: `python -m benchmarks.ioi_capacity`.
"""

import argparse

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from interpbench.causal.model import Intervention
from interpbench.core.process import prepare_torch
from interpbench.tasks.catalogue import get_task

TRAINED, TESTED, SWAPPED, BATCH, RATE = 60_000, 20_000, 0.7, 512, 1e-2


def counts(rng: np.random.Generator, rows: int, held_out: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Returns how often each name is a token, and an inhibition, `[row, name]`, and the answers, `[row]`."""
    task = get_task("ioi")
    names = len(task.causal_model.variables["name_mover"].values or ())
    base = task.domain.draw(rng, rows, held_out)
    source = task.causal_model.run(task.domain.sources(rng, base, held_out))["s_inhibition"]
    swap = Intervention(source, rng.random(rows) < SWAPPED)
    trace = task.causal_model.run(base, {"s_inhibition": swap})
    there = (base >= 0)[:, :, None]
    tokens, inhibited = (
        ((trace[name][:, :, None] == np.arange(names)) & there).sum(1) for name in ("tokens", "s_inhibition")
    )
    return (
        torch.from_numpy(tokens).float(),
        torch.from_numpy(inhibited).float(),
        torch.from_numpy(trace["name_mover"].max(1)).long(),
    )


def scored(tokens: Tensor, inhibited: Tensor) -> Tensor:
    """Returns the answers by the published rule, `[row]`; -1 stands for a tie."""
    score = 10 * tokens - 15 * inhibited
    best, answer = score.max(1)
    return torch.where((score == best[:, None]).sum(1) == 1, answer, -1)


def error(width: int, steps: int, rule: str) -> tuple[float, float]:
    """Trains the vectors, and returns the share of wrong rows and the share of rows that have an answer."""
    generator, rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
    trained, tested = counts(rng, TRAINED, False), counts(rng, TESTED, True)
    code = torch.randn(trained[0].shape[1], width, generator=generator) / width**0.5
    vectors = [code.clone(), -1.5 * code, 10 * code]
    optimiser = torch.optim.Adam([vector.requires_grad_() for vector in vectors], lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)

    def logits(tokens: Tensor, inhibited: Tensor) -> Tensor:
        attended = (tokens + inhibited).sum(1, keepdim=True)
        return (tokens @ vectors[0] + inhibited @ vectors[1]) / attended @ vectors[2].T

    def answers(tokens: Tensor, inhibited: Tensor, left: Tensor) -> Tensor:
        return scored(tokens, inhibited) if rule == "scored" else left

    for _ in range(steps):
        rows = torch.randint(TRAINED, (BATCH,), generator=generator)
        batch = [part[rows] for part in trained]
        wanted = answers(*batch)
        optimiser.zero_grad()
        functional.cross_entropy(logits(*batch[:2]), wanted, ignore_index=-1).backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        wanted = answers(*tested)
        wrong = (logits(*tested[:2]).argmax(1) != wanted) & (wanted >= 0)
    return float(wrong.float().mean()), float((wanted >= 0).float().mean())


def main() -> None:
    """Prints a line for each rule and width."""
    parser = argparse.ArgumentParser(description="What heads of some widths can answer in IOI.")
    parser.add_argument("--widths", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--steps", type=int, default=3000)
    options = parser.parse_args()
    prepare_torch(threads=1)
    print("rule    width  wrong rows  rows with an answer")
    for rule in ("scored", "left"):
        for width in options.widths:
            wrong, share = error(width, options.steps, rule)
            print(f"{rule:8}{width:5}{wrong:12.5f}{share:12.2f}", flush=True)


if __name__ == "__main__":
    main()
