"""Compilation of a program with Tracr up to its craft model (matrices in named bases), without JAX.

Labels in these bases contain expression ids, which Tracr counts up in the order of use. Here they are set
from the program alone, so that the result does not depend on what has been compiled before.
"""

from dataclasses import dataclass
from typing import Any

from tracr.compiler import (
    basis_inference,
    craft_graph_to_model,
    expr_to_craft_graph,
    nodes,
    rasp_to_graph,
    validating,
)
from tracr.craft import bases, transformers
from tracr.rasp import rasp

from interpbench.core.errors import TaskError
from interpbench.rasp.parallel import whole_matrices
from interpbench.rasp.program import Program

BOS = "compiler_bos"
"""The name of Tracr's token for the beginning of a sequence."""
PAD = "compiler_pad"
"""The name of Tracr's token for padding."""
MLP_EXACTNESS = 1000
"""The exactness of Tracr's MLPs; its default of 100 leaves margins as small as 0.003, 1000 about 1."""


@dataclass(frozen=True)
class Compiled:
    """A program that Tracr has compiled to a craft model.

    Attributes:
        program: the program.
        craft: the craft model.
        output_basis: the directions of the residual stream that the logits are read from.
        labels: the names of variables, by Tracr's labels of their expressions.
    """

    program: Program
    craft: transformers.SeriesWithResiduals
    output_basis: list[bases.BasisDirection]
    labels: dict[str, str]


def number_expressions(program: Program) -> None:
    """Sets Tracr's ids of a program's expressions to their numbers in the program."""
    for key, data in program.graph.nodes.items():
        data["expression"].__dict__["unique_id"] = key + 1


def compile_program(program: Program, mlp_exactness: int = MLP_EXACTNESS) -> Compiled:
    """Compiles a program with Tracr's passes up to the craft model.

    Raises:
        TaskError: if Tracr cannot compile the program; the message has every reason.
    """
    number_expressions(program)
    problems = validating.static_validate(program.expression)
    if problems:
        raise TaskError("Tracr cannot compile: " + "; ".join(f"{p.expr.name}: {p.reason}" for p in problems))
    if not program.expression.children:
        raise TaskError(
            f"Tracr cannot compile {program.expression.name}: it is an input; map it, as by rasp.Map"
        )
    extracted = rasp_to_graph.extract_rasp_graph(program.expression)
    graph, sink = extracted.graph, extracted.sink
    bos: Any = bases.BasisDirection(rasp.tokens.label, BOS)
    try:
        basis_inference.infer_bases(graph, sink, set(program.vocab), program.length)
        expr_to_craft_graph.add_craft_components_to_rasp_graph(
            graph, bos_dir=bos, mlp_exactness=mlp_exactness
        )
    except NotImplementedError as error:
        raise TaskError("Tracr cannot compile: " + " ".join(map(str, error.args))) from error
    with whole_matrices():
        craft = craft_graph_to_model.craft_graph_to_model(graph, extracted.sources)
    labels = {program.graph.nodes[key]["expression"].label: name for key, name in program.names.items()}
    return Compiled(program, craft, list(sink[nodes.OUTPUT_BASIS]), labels)
