"""RASP programs: their causal models, the nodes that Tracr computes variables at, and compiled networks."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.rasp.compile import Compiled, compile_program
    from interpbench.rasp.program import Program
    from interpbench.rasp.weights import compiled_network

__all__ = ["Compiled", "Program", "compile_program", "compiled_network"]

__getattr__, __dir__ = exports(
    __name__,
    {
        "Compiled": "interpbench.rasp.compile",
        "Program": "interpbench.rasp.program",
        "compile_program": "interpbench.rasp.compile",
        "compiled_network": "interpbench.rasp.weights",
    },
)
