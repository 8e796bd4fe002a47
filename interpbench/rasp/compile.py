"""Compiles a program with Tracr as far as the craft model: matrices in named bases, no JAX assembly.

Labels in those bases contain expression ids that Tracr hands out in the order of use. They are set here
from the program alone, so the result does not depend on what was compiled before.
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
PAD = "compiler_pad"
MLP_EXACTNESS = 1000
"""Tracr's default of 100 leaves decoding margins as small as 0.003; 1000 restores them to about 1."""


@dataclass(frozen=True)
class Compiled:
    """A craft model with the spaces at its two ends."""

    program: Program
    craft: transformers.SeriesWithResiduals
    output_basis: list[bases.BasisDirection]
    labels: dict[str, str]
    """Tracr's label of an expression to the name of the variable."""


def number_expressions(program: Program) -> None:
    """Sets Tracr's expression ids to the program's own numbering."""
    for key, data in program.graph.nodes.items():
        data["expression"].__dict__["unique_id"] = key + 1


def compile_program(program: Program, mlp_exactness: int = MLP_EXACTNESS) -> Compiled:
    """Runs Tracr's passes up to the craft model.

    Raises:
        TaskError: if Tracr cannot compile the program, with every reason.
    """
    number_expressions(program)
    problems = validating.static_validate(program.expression)
    if problems:
        raise TaskError("Tracr cannot compile: " + "; ".join(f"{p.expr.name}: {p.reason}" for p in problems))
    if not program.expression.children:
        raise TaskError(
            f"Tracr cannot compile {program.expression.name}: it is an input, nothing computes it"
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
