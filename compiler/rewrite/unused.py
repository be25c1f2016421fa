"""Results that nothing reads: what other patterns leave behind, and what a model comes with."""

from tq_hw.compiler.rewrite.float_moves import MOVES
from tq_hw.compiler.rewrite.island import CHOICES, ENTRIES
from tq_hw.compiler.rewrite.rewrite import Rewrite, Subject, pattern
from tq_hw.model.graph import Operator
from tq_hw.model.rules.signatures import FLOAT_COMPUTED, FLOAT_OPERATORS, FLOAT_RESIZES, RANKINGS

__all__ = ["UNUSED"]

#: Operators that float32 may pass through, and those that patterns make; none has a state.
_NAMES = tuple(dict.fromkeys((*ENTRIES, *FLOAT_OPERATORS, *FLOAT_COMPUTED, *FLOAT_RESIZES, *MOVES, *CHOICES, *RANKINGS,
                              "TABLE", "CUMSUM", "ADD_N")))


@pattern(*_NAMES)
def unused(graph: Subject, op: Operator) -> Rewrite | None:
    """An operator goes where neither another one nor the caller needs a result of it."""
    return None if not op.outputs or any(map(graph.is_used, op.outputs)) else Rewrite([op], [])


#: Tried before all others, which then see no reader that is none.
UNUSED = (unused,)
