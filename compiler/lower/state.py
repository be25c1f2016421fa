"""Resource variables (VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, CALL_ONCE), and copies of variable tensors.

A variable is a value in memory region 2. CALL_ONCE's subgraph, which has no inputs, assigns its initial contents; the
golden model evaluates it at compile time.
"""

from tq_hw.compiler.ir.staged import Copy, Move
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator

__all__: list[str] = []


@lowers("VAR_HANDLE", "CALL_ONCE")
def lower_nothing(state: Legalizer, op: Operator) -> None:
    """Add no layer: names and initial contents are known at compile time."""


def _variable(state: Legalizer, op: Operator) -> Value:
    name = state.variable_names[op.inputs[0]]
    if name not in state.resources:
        raise UnsupportedError(f"variable {name!r} must be initialized by a subgraph that CALL_ONCE runs")
    tensor = state.tensor(op, 1) if op.op == "ASSIGN_VARIABLE" else state.subgraph.tensors[op.outputs[0]]
    if tensor.dtype == "float32":
        raise UnsupportedError(f"variable {name!r} is float32; supported are variables read only by QUANTIZE, to int8 "
                               "of one scale, and written by DEQUANTIZE")
    return state.resources[name]


def _whole(source: Value) -> tuple[Copy, ...]:
    return (Copy(0, 0, 0, ((source.size_bytes, 1, 1),)),)


@lowers("READ_VARIABLE")
def lower_read(state: Legalizer, op: Operator) -> None:
    """A copy, because a later assignment must not change the value."""
    source = _variable(state, op)
    state.layers.append(Move(op.index, op.op, (source,), state.output(op), _whole(source)))


@lowers("ASSIGN_VARIABLE")
def lower_assign(state: Legalizer, op: Operator) -> None:
    """A copy into the state."""
    source = state.input(op, 1)
    state.layers.append(Move(op.index, op.op, (source,), _variable(state, op), _whole(source)))


@lowers("STATE_COPY")
def lower_state_copy(state: Legalizer, op: Operator) -> None:
    """A copy of a variable tensor."""
    source = state.variable(op, 0)
    state.layers.append(Move(op.index, op.op, (source,), state.output(op), _whole(source)))
