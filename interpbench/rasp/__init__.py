"""RASP programs: their causal models, the nodes that Tracr computes variables at, and compiled networks."""

from typing import TYPE_CHECKING

from interpbench.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from interpbench.rasp.compile import Compiled, compile_program
    from interpbench.rasp.program import Program
    from interpbench.rasp.weights import compiled_network

__all__ = ["Compiled", "Program", "compile_program", "compiled_network"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Compiled": "compile",
        "Program": "program",
        "compile_program": "compile",
        "compiled_network": "weights",
    },
)
