"""Limits of a model's size, checked early: a small file can ask for enormous tensors.

The compiled file limits the size of inputs and outputs, and of all memory together.
"""

from collections.abc import Sequence

from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.ir.staged import Staged
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.places import Plan
from tq_hw.compiler.plan.rectangle_cycles import rectangle_count
from tq_hw.compiler.stream.stream import MOST_COMMANDS
from tq_hw.isa.config import Config
from tq_hw.isa.program_rules import ProgramError, check_tensor_bytes
from tq_hw.model.errors import UnsupportedError

__all__ = ["check_commands", "check_tensors"]


def check_tensors(name: str, graph: Graph) -> None:
    """Refuse inputs or outputs that are too large for a compiled file (UnsupportedError)."""
    sides: tuple[tuple[str, Sequence[Value]], ...] = (("inputs", graph.inputs), ("outputs", graph.outputs))
    try:
        for what, values in sides:
            check_tensor_bytes(what, sum(value.size_bytes for value in values))
    except ProgramError as error:
        raise UnsupportedError(f"{name}: {error}; use smaller tensors") from None


def check_commands(graph: Graph, plan: Plan, config: Config) -> None:
    """Refuse a layer whose rectangles need too many commands (UnsupportedError)."""
    for layer, made in zip(graph.layers, plan.layers, strict=True):
        if isinstance(layer, Staged):
            continue
        # Each rectangle has a load, a store, and an operation.
        each = 1 + any(made.in_words) + (made.out_words > 0)
        least = each * rectangle_count(layer, made, config)
        if least > MOST_COMMANDS:
            raise UnsupportedError(f"operator {layer.index} ({layer.op}) takes at least {least} commands, a model may "
                                   f"have {MOST_COMMANDS}; use a larger configuration or smaller tensors")
