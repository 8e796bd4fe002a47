"""Random programs: what they compute, that they are what their settings say, and that none is shorter."""

import io
from itertools import product

import numpy as np
import pytest
from rich.console import Console

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.causal.model import NONE
from interpbench.circuits.ground_truth import State
from interpbench.core.errors import InterpBenchError
from interpbench.runs.show import show_task
from interpbench.tasks.catalogue import catalogue, get_task, known_task
from interpbench.tasks.generated.expressions import (
    Changed,
    Combined,
    Counted,
    Expression,
    InputSizes,
    Moved,
    Taken,
)
from interpbench.tasks.generated.growth import Growth, OperationShares
from interpbench.tasks.generated.random_rasp import (
    LEAST_EFFECT,
    LIKELIEST,
    RAREST,
    RandomRasp,
    describe,
    edge_effects,
    find_program,
    task_of,
)
from interpbench.tasks.generated.shorter import read_by, shorter_program
from interpbench.tasks.shapes import shape

SMALL = InputSizes(3, 4, True)
X = Expression(SMALL)


def grown(causal: bool, count: int, layers: int = 2) -> list[Expression]:
    """Returns random expressions of any number of layers."""
    grow = Growth(
        InputSizes(4, 5, causal), OperationShares(1, 1, 1, 0.5, 0.3), np.random.default_rng(int(causal))
    )
    return [grow(layers) for _ in range(count)]


@pytest.mark.parametrize("causal", [True, False])
def test_expressions_are_what_tracr_computes(causal: bool) -> None:
    """As numbers, by Tracr's interpreter, and as a causal model, in at least as many layers."""
    rng = np.random.default_rng(0)
    for made in grown(causal, 12):
        task = task_of(made)
        inputs = rng.integers(4, size=(6, 5))
        numbers = made.of(inputs)
        answers = task.causal_model.outputs(inputs)
        assert set(made.values) == set(task.causal_model.classes or ()), made.key
        for row, tokens in enumerate(inputs.tolist()):
            said = task.program.interpret(tokens)
            wanted = [NONE if value is None else value for value in said]
            assert numbers[row].tolist() == wanted, made.key
            decoded = task.causal_model.decode(task.causal_model.output, answers[[row]])[0]
            assert [NONE if value is None else value for value in decoded] == wanted, made.key
        last = task.homes[task.causal_model.output]
        assert made.layers <= last.layer + 1 and (made.half % 2 == 0) == (last.head is None), made.key


@pytest.mark.parametrize("settings", [{}, {"causal": False, "heads": 1}, {"depth": 3, "values": 6}])
def test_accepted_programs_are_what_is_asked_for(settings: dict[str, int]) -> None:
    """Judged by the ground truth of their tasks, and on inputs that they were not drawn with."""
    for seed in range(4):
        p = RandomRasp(seed=seed, **settings)  # type: ignore[arg-type]
        made = find_program(p)[0]
        task = task_of(made)
        inputs = np.random.default_rng(1).integers(p.values, size=(4000, p.length)).astype(np.int16)
        outputs = made.of(inputs)
        answers = outputs[outputs != NONE]
        shares = np.unique(answers, return_counts=True)[1] / answers.size
        assert (
            len(shares) == len(made.values)
            and shares.min() > 0.8 * RAREST
            and shares.max() < 1.05 * LIKELIEST
        )
        alignment = align(task, shape(task).graph)
        truth = find_truth(alignment)
        graph = alignment.graph
        found = [graph.readers[reader] for reader, _ in np.argwhere(truth.qkv_edges == State.REQUIRED)]
        inside = [reader for reader in found if reader.slot != "logits"]
        effects = edge_effects(task, inputs)
        assert len(inside) == len(effects) >= 4 and len({reader.layer for reader in inside}) >= 2
        assert min(effects.values()) > 0.8 * LEAST_EFFECT
        assert max(node.layer for node in alignment.aligned_nodes) == p.depth - 1
        heads = [node for node in alignment.aligned_nodes if node.head is not None]
        assert max(sum(node.layer == layer for node in heads) for layer in range(p.depth)) <= p.heads
        assert shorter_program(made, inputs) is None


def test_programs_of_fewer_layers_are_all_tried() -> None:
    """The literal search makes every program and compares all outputs, on all inputs."""
    inputs = np.array(list(product(range(3), repeat=4)))
    one = read_by(SMALL, 1)
    mlps = [each for each in one if each.half < 2]
    literal = {each.key: each for each in one if each.half == 2}
    for function in ("least", "is", "most", "plus"):
        for each, constant in product(mlps, range(3)):
            made = Changed(SMALL, function, constant, each)
            literal[made.key] = made
    for function in ("equal", "less", "larger", "smaller", "sum", "distance"):
        for first, second in product(mlps, repeat=2):
            made = Combined(SMALL, function, first, second)
            literal[made.key] = made
    outputs = {each.of(inputs).tobytes() for each in (*literal.values(), *one)}
    rng = np.random.default_rng(0)
    grow = Growth(SMALL, OperationShares(1, 1, 1, 0.5, 0.3), rng)
    deep = [made for made in (grow(2) for _ in range(300)) if made.layers == 2]
    deep += [Changed(SMALL, "plus", 0, Moved(SMALL, -1, Moved(SMALL, -1, X)))]
    told = [shorter_program(made, inputs) is not None for made in deep]
    assert any(told) and not all(told)
    for made, shorter in zip(deep, told):
        if shorter or made.of(inputs).min() != NONE:  # else a shorter program may answer more than is asked
            assert shorter or made.of(inputs).tobytes() not in outputs, made.key


@pytest.mark.parametrize(
    ("made", "shorter"),
    [
        (Moved(SMALL, -1, Moved(SMALL, -1, X)), "move(-2,x)"),
        (Changed(SMALL, "least", 1, Changed(SMALL, "is", 1, Taken(SMALL, X))), "is(take(x),1)"),
        (Combined(SMALL, "larger", Counted(SMALL, "less", X, X), X), None),
        (Counted(SMALL, "equal", Taken(SMALL, X), X), None),
    ],
)
def test_what_a_program_of_fewer_layers_computes_is_found(made: Expression, shorter: str | None) -> None:
    inputs = np.random.default_rng(0).integers(3, size=(500, 4))
    assert made.layers == 2
    found = shorter_program(made, inputs)
    assert (found and found.key) == shorter


def test_equal_programs_have_one_canonical_form() -> None:
    count = Counted(SMALL, "less", X, Moved(SMALL, -1, X))
    assert Combined(SMALL, "sum", X, count).key == Combined(SMALL, "sum", count, X).key
    assert Combined(SMALL, "less", X, count).key != Combined(SMALL, "less", count, X).key
    assert Counted(SMALL, "less", Moved(SMALL, -1, X), X).key != count.key
    assert [each.key for each in Combined(SMALL, "sum", count, Moved(SMALL, -1, X))].count("move(-1,x)") == 1


def test_a_program_is_described_in_words() -> None:
    count = Counted(SMALL, "less", X, Moved(SMALL, -1, X))
    assert describe(Combined(SMALL, "less", count, X)) == (
        "A is the token 1 to the left; "
        "B is the number of positions up to here whose token is less than A here; "
        "the output is whether B is less than the token."
    )
    assert describe(Counted(SMALL, "equal", X, X)) == (
        "the output is the number of positions up to here whose token is equal to the token here."
    )


def test_the_whole_description_is_shown() -> None:
    name = "random_rasp[seed=7,depth=3,values=6]"
    console = Console(record=True, width=1000, file=io.StringIO())
    show_task(console, name)
    said = get_task(name).description
    assert len(said) > 200 and said in console.export_text()


def test_members_are_got_by_name_and_are_not_in_the_catalogue() -> None:
    name = "random_rasp[seed=7,depth=3,values=6]"
    task = get_task("random_rasp[values=6,depth=3,heads=2,seed=7]")
    assert task.name == name and known_task(name) is task and len(task.vocab) == 6
    assert task.listing() == get_task(name).listing() and len(task.listing()) >= 3
    default = get_task("random_rasp")
    assert default.name == "random_rasp" and default.listing() == get_task("random_rasp[seed=0]").listing()
    assert not any("random_rasp" in each for each in catalogue())
    assert get_task("random_rasp[seed=7,regime=rare]").name == "random_rasp[seed=7,regime=rare]"
    assert known_task("random_rasp[seed=123456]") is None, "a name from a file draws nothing"


def test_variables_are_spread_at_random() -> None:
    """In an order that computes them, at heads and layers that the program does not tell."""
    seen: dict[str, set[str]] = {}
    for seed in range(12):
        plain = get_task(f"random_rasp[seed={seed}]")
        task = get_task(f"random_rasp[seed={seed},spread=4]")
        assert task.listing() == plain.listing() and set(task.alignment) == set(task.homes) - {
            "tokens",
            "indices",
        }
        nodes = align(task, shape(task).graph).aligned_nodes  # refuses what cannot be computed in order
        assert len(nodes) == len(align(plain, shape(plain).graph).aligned_nodes)
        assert (shape(task).n_layers, shape(task).n_heads) == (4, 4)
        last = task.homes[task.causal_model.output]
        seen.setdefault("layer", set()).add(str(last.layer))
        seen.setdefault("head", set()).update(str(node.head) for node in nodes if node.head is not None)
    assert seen == {"layer": {"1", "2", "3"}, "head": {"0", "1", "2", "3"}}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("random_rasp[spread=1]", "spread=1: the program has 2 layers"),
        ("random_rasp[depth=9]", "depth"),
        ("random_rasp[sead=9]", "seed"),
        ("random_rasp[moves=0,counts=0,takes=0]", "one of them has to be more"),
        pytest.param(
            *("random_rasp[depth=4,values=2,length=3,counts=0,takes=0]", "try other settings"),
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_what_cannot_be_drawn_says_so(name: str, said: str) -> None:
    with pytest.raises(InterpBenchError, match=said):
        get_task(name)
