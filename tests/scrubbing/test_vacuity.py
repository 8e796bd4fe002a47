"""What claims say on the inputs at hand, and what the network answers with values of another class."""

from functools import cache

import numpy as np
import torch

from interpbench.alignment.alignment import Alignment
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.runs.subject import subject_of
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.program_claims import program_hypothesis
from interpbench.scrubbing.recovered import ScoredLabels
from interpbench.scrubbing.residual import ScrubbedNetwork
from interpbench.scrubbing.vacuity import claim_reports, negative_tests
from interpbench.transformer.model import Transformer
from tests.builders import setting

INPUTS, SAMPLES = 256, 300


@cache
def released(name: str) -> tuple[Transformer, Alignment, np.ndarray]:
    checkpoint = load_checkpoint(find_checkpoint(name), certificate=False)
    return checkpoint.network, subject_of(checkpoint).alignment, checkpoint.truth.circuit


def scrubbed(network: Transformer, alignment: Alignment):
    """Returns a network on inputs of its task, the program's variables, the behaviour and draws."""
    task = alignment.task
    tokens = task.domain.draw(np.random.default_rng(0), INPUTS)
    trace = task.causal_model.run(tokens)
    labels = trace[task.causal_model.output]
    behaviour = ScoredLabels(labels, task.scored(labels), task.causal_model.numerical, task.tolerance)
    ids = torch.from_numpy(task.token_ids(tokens))
    draws = PathDraws(0, SAMPLES, Classes.of(np.zeros(INPUTS), INPUTS))
    return ScrubbedNetwork(network, ids), trace, behaviour, draws


def test_s17_each_claim_says_how_many_inputs_are_alone_and_what_survives_others_values():
    network, alignment, circuit = released("detect_abc")
    base, trace, behaviour, draws = scrubbed(network, alignment)
    hypothesis = program_hypothesis(alignment, circuit, trace, "features")
    found = claim_reports(base, hypothesis, draws, behaviour)
    assert set(found) == {
        name for name in hypothesis.order if name not in ("embed", "logits") and "<" not in name
    }
    for name, report in found.items():
        known = Classes.of(hypothesis.claims[name].values, INPUTS)
        assert (report.alone, report.effective_size) == (known.alone, known.effective_size)
        assert report.permuted is not None and report.permuted.value < 97, name
    last = found["m2"]
    assert last.permuted is not None and last.permuted.value < 50 and last.alone < 0.2
    structure = program_hypothesis(alignment, circuit, trace, "split")
    for report in claim_reports(base, structure, draws, behaviour).values():
        assert report.alone == 1.0 and report.permuted is None, "identities: vacuous, and nothing to permute"


def test_s18_values_of_another_class_give_what_the_program_says():
    network, alignment, _ = released("detect_abc")
    base, trace, behaviour, draws = scrubbed(network, alignment)
    found = negative_tests(base, alignment, trace, behaviour, draws)
    assert set(map(str, found)) == set(map(str, alignment.aligned_nodes)) - {"embed"}
    for node, test in found.items():
        assert test.right.value > 0.98 and test.kept.value > 0.98, node
        assert test.matters > 0.05, "else the test would ask nothing"


def test_s18_a_network_that_does_not_do_the_task_does_not_pass():
    """Preservation alone may be kept by a network whose answers never change."""
    network, alignment, _ = setting("hist")
    base, trace, behaviour, draws = scrubbed(network, alignment)
    labels = base.logits[:, 1:].argmax(0).T.cpu().numpy()
    own = ScoredLabels(labels, behaviour.scored, False)
    for test in negative_tests(base, alignment, trace, own, draws).values():
        assert test.right.value < 0.5
