"""Elements wider than a byte: QUANTIZE and CAST between integer types, and look-up by run-time indices.

A look-up is a product of rows that are 1 at the index and 0 elsewhere with the table; an index outside the table gives
zeros.
"""

import numpy as np

from tq_hw.compiler.ir.layers import TYPE_CODES, Flat, Mac, MatMul, Move, OneHot, Value, _size
from tq_hw.compiler.ir.strided import blank, copy_between, move_view
from tq_hw.compiler.legalize import Legalizer, lowers, publish, reshaped
from tq_hw.compiler.programs import OUT, STREAM_A, STREAM_B, Uop, immediate, reg_a, reg_b, rescale, to
from tq_hw.isa.uop import Alu, Source
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden import quantize
from tq_hw.sim.golden.registry import int_option, normalize_axis

__all__ = ["look_up", "quantize_wide"]
#: Multiplier and shift that change nothing.
_ONE = (1 << 30, 1)


def quantize_wide(state: Legalizer, op: Operator) -> None:
    """QUANTIZE with int16 or int32 on a side."""
    source, target = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    p = quantize.quantize_params(op, state.subgraph)
    centre = to(0, STREAM_A, immediate(p.input_zero_point), alu=Alu.SUB)
    scaled: Uop = {**reg_a(0), **rescale(p.multiplier, p.shift), "zero_point": p.output_zero_point}
    uops: tuple[Uop, ...]
    if target.dtype == "uint8":
        uops = (centre, to(0, scaled), to(0, reg_a(0), immediate(0), alu=Alu.MAX),
                {**reg_a(0), **immediate(255), "alu": Alu.MIN, **OUT})
    else:
        clamp: Uop = {} if target.dtype == "int32" else {"clamp": 1, "act_min": -128, "act_max": 127}
        uops = (centre, {**scaled, **clamp, **OUT})
    state.layers.append(Flat(op.index, op.op, (state.input(op, 0),), state.output(op), _size(target.shape),
                             (TYPE_CODES[source.dtype],), TYPE_CODES[target.dtype] % 3, uops))


@lowers("CAST")
def lower_cast(state: Legalizer, op: Operator) -> None:
    """Integers to integers of another width; to bool by comparison with 0; the host makes floats of an output."""
    source, target = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    if target.dtype == "float32" and source.dtype in TYPE_CODES:
        state.edges[target.index] = source.index
        state.plain_edges.add(target.index)
        state.input(op, 0)
        return
    if not {source.dtype, target.dtype} <= {*TYPE_CODES, "int64"}:
        raise UnsupportedError(f"CAST from {source.dtype} to {target.dtype} is not supported; known are "
                               f"{', '.join(TYPE_CODES)}, int64, and float32 as an output of the model")
    count = _size(target.shape)
    value, dtype = state.input(op, 0), source.dtype
    if (source.dtype, target.dtype) == ("int64", "bool"):
        low, high = (_half(state, op, 0, part) for part in range(2))
        state.layers.append(Flat(op.index, op.op, (low, high), state.output(op), count, (TYPE_CODES["int32"],) * 2, 0, (
            to(0, STREAM_A, immediate(0), alu=Alu.NOT_EQUAL),
            to(1, {"a_source": Source.IMMEDIATE, "immediate": 0}, STREAM_B, alu=Alu.NOT_EQUAL),
            {**reg_a(0), **reg_b(1), "alu": Alu.MAX, **OUT})))
        return
    if source.dtype == "int64":
        value, dtype = _half(state, op, 0, 0), "int32"
    if target.dtype == "int64":
        _to_int64(state, op, value, dtype, count)
        return
    compare: Uop = {**immediate(0), "alu": Alu.NOT_EQUAL} if target.dtype == "bool" else {}
    state.layers.append(Flat(op.index, op.op, (value,), state.output(op), count, (TYPE_CODES[dtype],),
                             TYPE_CODES[target.dtype] % 3, ({**STREAM_A, **compare, **OUT},)))


def _half(state: Legalizer, op: Operator, position: int, part: int) -> Value:
    """Low (`part` 0) or high 32 bits of an int64 input."""
    tensor = state.tensor(op, position)
    count = _size(tensor.shape)
    base, target = blank((count,), "int64"), blank((count,), "int32")
    half = Value(f"{tensor.name} ({('low', 'high')[part]} int32)", tensor.index, (1, 1, 1, 4 * count))
    state.layers.append(Move(op.index, op.op, (state.input(op, position),), half, (
        copy_between(0, base[:, 4 * part:4 * part + 4], base, target, target),)))
    return half


def _to_int64(state: Legalizer, op: Operator, value: Value, dtype: str, count: int) -> None:
    """The number as int32, and its sign behind it."""
    name, words, parts = state.subgraph.tensors[op.outputs[0]].name, (1, 1, 1, 4 * count), []
    signed: Uop = {**immediate(31), "alu": Alu.SAR}
    for part, change in (("low", {}), ("high", signed)):
        parts.append(Value(f"{name} ({part})", op.outputs[0], words))
        state.layers.append(Flat(op.index, op.op, (value,), parts[-1], count, (TYPE_CODES[dtype],),
                                 TYPE_CODES["int32"], ({**STREAM_A, **change, **OUT},)))
    base, target = blank((count,), "int32"), blank((count,), "int64")
    state.layers.append(Move(op.index, op.op, tuple(parts), state.output(op), tuple(
        copy_between(number, base, base, target[:, 4 * number:4 * number + 4], target) for number in range(2))))


def look_up(state: Legalizer, op: Operator, indices: int, table: Value, shape: tuple[int, int, int]) -> Value:
    """Return [1, tables, indices, row bytes] at the run-time indices of an input; `shape`: tables, rows, bytes."""
    tables, rows, row_bytes = shape
    tensor = state.tensor(op, indices)
    count = _size(tensor.shape)
    name = state.subgraph.tensors[op.outputs[0]].name
    # Indices are not negative: the low half of an int64 is the index.
    value = _half(state, op, indices, 0) if tensor.dtype == "int64" else state.input(op, indices)
    hot = Value(f"{name} (one-hot)", tensor.index, (1, count, 1, rows))
    state.layers.append(OneHot(op.index, op.op, (value,), hot))
    lhs = reshaped(hot, (1, tables, count // tables, rows))
    out = Value(name, op.outputs[0], (1, tables, count // tables, row_bytes), table.zero_point)
    if table.data is not None and tables == 1:
        weights = np.frombuffer(table.data.tobytes(), np.int8).reshape(rows, row_bytes).T
        state.layers.append(Mac(
            op.index, op.op, (lhs,), out, depthwise=False,
            weights=np.ascontiguousarray(weights).reshape(row_bytes, 1, 1, rows), bias=np.zeros(row_bytes, np.int64),
            multiplier=np.full(row_bytes, _ONE[0]), shift=np.full(row_bytes, _ONE[1]), stride=(1, 1), dilation=(1, 1),
            pad=(0, 0), pad_value=0, zero_point=0, act_min=-128, act_max=127))
    else:
        state.layers.append(MatMul(
            op.index, op.op, (lhs, reshaped(table, (1, tables, rows, row_bytes))), out,
            tuple((number, number) for number in range(tables)), (0, 0), *_ONE, 0))
    return out


def gather_by_index(state: Legalizer, op: Operator, x: Tensor) -> None:
    """GATHER with run-time indices: the axis comes to the front of each batch, is looked up in, and goes back."""
    axis = normalize_axis(int_option(op, "axis"), len(x.shape))
    indices = state.tensor(op, 1)
    batch_dims = int_option(op, "batch_dims")
    batch_dims += len(indices.shape) if batch_dims < 0 else 0
    table, rank = state.input(op, 0), len(x.shape)
    if axis > batch_dims:
        order = [*range(batch_dims), axis, *(a for a in range(batch_dims, rank) if a != axis)]
        table = move_view(state, op, table, x, lambda v: v.transpose(*order, rank))
    tables, rows, element = _size(x.shape[:batch_dims]), x.shape[axis], np.dtype(x.dtype).itemsize
    out = look_up(state, op, 1, table, (tables, rows, _size(x.shape) // (tables * rows) * element))
    if axis > batch_dims:
        count = _size(indices.shape) // tables
        before, behind = _size(x.shape[batch_dims:axis]), _size(x.shape[axis + 1:])
        base, target = blank((tables, count, before, behind), x.dtype), blank((tables, before, count, behind), x.dtype)
        moved = Value(out.name, out.tensor, (1, 1, 1, out.size_bytes), out.zero_point)
        state.layers.append(Move(op.index, op.op, (out,), moved, (
            copy_between(0, base.transpose(0, 2, 1, 3, 4), base, target, target),)))
        out = moved
    publish(state, op, out)


def embedding_by_index(state: Legalizer, op: Operator, table: Tensor) -> None:
    """EMBEDDING_LOOKUP with run-time indices."""
    rows = table.shape[0]
    row_bytes = _size(table.shape[1:]) * np.dtype(table.dtype).itemsize
    publish(state, op, look_up(state, op, 0, state.input(op, 1), (1, rows, row_bytes)))
