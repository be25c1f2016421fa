"""Removal of operators whose results are not read, left by other patterns or present in the model."""

from tq_hw.compiler.rewrite.float_moves import MOVES
from tq_hw.compiler.rewrite.island import CHOICES, ENTRIES
from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, pattern
from tq_hw.model.graph import Operator
from tq_hw.model.rules.signatures import FLOAT_COMPUTED, FLOAT_OPERATORS, FLOAT_RESIZES, RANKINGS

__all__ = ["UNUSED"]

#: Operators of float32 and operators that patterns make; none has a state.
_NAMES = tuple(dict.fromkeys((*ENTRIES, *FLOAT_OPERATORS, *FLOAT_COMPUTED, *FLOAT_RESIZES, *MOVES, *CHOICES, *RANKINGS,
                              "TABLE", "CUMSUM", "ADD_N")))


@pattern(*_NAMES)
def unused(graph: Subject, op: Operator) -> Rewrite | None:
    """Remove an operator whose results are read neither by another operator nor by the caller."""
    return None if not op.outputs or any(map(graph.is_used, op.outputs)) else Rewrite([op], [])


#: Tried before all other patterns, so that these see only real readers.
UNUSED = (unused,)
