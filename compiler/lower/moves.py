"""Moves of a lowering: views of the bytes of inputs and outputs, and the copies between them."""

from collections.abc import Callable, Sequence

from tq_hw.compiler.ir.staged import Copy, Move
from tq_hw.compiler.ir.strided import ByteView, blank, copy_between
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.lower.legalize import Legalizer
from tq_hw.model.graph import Operator, Tensor

__all__ = ["add_move", "add_view", "input_blank", "move_view", "output_blank"]


def output_blank(state: Legalizer, op: Operator, position: int = 0) -> ByteView:
    """Return the bytes of an output, as a base of views."""
    tensor = state.subgraph.tensors[op.outputs[position]]
    return blank(tensor.shape, tensor.dtype)


def input_blank(state: Legalizer, op: Operator, position: int = 0) -> ByteView:
    """Return the bytes of an input, as a base of views."""
    tensor = state.tensor(op, position)
    return blank(tensor.shape, tensor.dtype)


def add_move(state: Legalizer, op: Operator, inputs: Sequence[Value], copies: Sequence[Copy],
             position: int = 0) -> None:
    """Add a move that writes an output of the operator."""
    value = state.new_value(state.subgraph.tensors[op.outputs[position]])
    state.values[op.outputs[position]] = value
    state.layers.append(Move(op.index, op.op, tuple(inputs), value, tuple(copies)))


def add_view(state: Legalizer, op: Operator, view: Callable[[ByteView], ByteView], source: int = 0,
              position: int = 0) -> None:
    """Add one copy: the output is `view` of the input's bytes."""
    base, target = input_blank(state, op, source), output_blank(state, op, position)
    picked = view(base)
    copy = copy_between(0, picked, base, target.reshape(picked.shape), target)
    add_move(state, op, [state.input(op, source)], [copy], position)


def move_view(state: Legalizer, op: Operator, source: Value, tensor: Tensor,
              view: Callable[[ByteView], ByteView]) -> Value:
    """Add a move that writes `view` of a tensor's bytes densely; return the new value, in the output's view."""
    base = blank(tensor.shape, tensor.dtype)
    picked = view(base)
    target = blank(picked.shape[:-1], tensor.dtype)
    value = Value(f"{tensor.name} ({op.op})", tensor.index, state.view(picked.shape[:-1], tensor.dtype),
                  source.zero_point)
    state.layers.append(Move(op.index, op.op, (source,), value, (copy_between(0, picked, base, target, target),)))
    return value
