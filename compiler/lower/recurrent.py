"""UNIDIRECTIONAL_SEQUENCE_LSTM and SVDF: matrix products with int16 results, programs over int16 elements, state.

State is in memory region 2 between inferences; the last operation writes it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.ir.lstm import Gate, Lstm
from tq_hw.compiler.ir.staged import Copy, Flat, MatMul, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.lower.legalize import Legalizer, lowers, reshaped
from tq_hw.compiler.programs.words import (
    OUT,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    low,
    reg_a,
    reg_b,
    rescaled,
    to,
)
from tq_hw.isa.uop import Alu, Source
from tq_hw.model.graph import Operator
from tq_hw.model.rules.variables import LSTM_CELL, LSTM_HIDDEN, SVDF_STATE
from tq_hw.sim.golden import recurrent, svdf
from tq_hw.sim.golden.arith import wrap_int32

__all__: list[str] = []

_INT8, _INT16, _INT32 = 0, 1, 2
_CLAMP: Uop = {"clamp": 1, "act_min": -128, "act_max": 127}


@dataclass
class _Builder:
    """Adds the layers of one operator."""

    state: Legalizer
    op: Operator

    def value(self, name: str, shape: tuple[int, int, int, int]) -> Value:
        """Return a new intermediate value; `shape` is in bytes."""
        return Value(f"{self.state.subgraph.tensors[self.op.outputs[0]].name} ({name})", self.op.outputs[0], shape)

    def flat(self, name: str, inputs: Sequence[tuple[Value, int]], count: int, out_type: int, uops: Sequence[Uop],
             table: Sequence[int] | None = None, into: Value | None = None) -> Value:
        """Add a program over elements."""
        size = (1, 2, 4)[out_type] * count
        out = into or self.value(name, (1, 1, 1, size))
        tables = (None if table is None else np.array(table, np.int64), None)
        self.state.layers.append(Flat(
            self.op.index, self.op.op, tuple(v for v, _ in inputs), out, count, tuple(t for _, t in inputs), out_type,
            tuple(uops), tables=tables))
        return out

    def product(self, name: str, lhs: Value, rows: int, position: int, bias: IntArray | None,
                scale: tuple[int, int], zero_point: int, added: Value | None = None) -> Value:
        """Multiply rows by constant weights [out, in]; the result is int16, `zero_point` that of the rows."""
        weights = self.state.constant(self.op, position)
        out_size, depth = weights.shape
        tensor = self.state.tensor(self.op, position)
        matrix = Value(f"{tensor.name} (transposed)", tensor.index, (1, 1, depth, out_size),
                       data=np.ascontiguousarray(weights.T))
        sums = weights.sum(axis=1, dtype=np.int64)
        total = wrap_int32((0 if bias is None else bias.astype(np.int64)) - zero_point * sums)
        out = self.value(name, (1, 1, rows, 2 * out_size))
        inputs = (reshaped(lhs, (1, 1, rows, depth)), matrix, *(() if added is None else (added,)))
        self.state.layers.append(MatMul(self.op.index, self.op.op, inputs, out, ((0, 0),), (0, 0), *scale, 0, total,
                                        True))
        return out

    def move(self, name: str, inputs: Sequence[Value], copies: Sequence[Copy], size: int,
             into: Value | None = None) -> Value:
        """Add copies."""
        out = into or self.value(name, (1, 1, 1, size))
        self.state.layers.append(Move(self.op.index, self.op.op, tuple(inputs), out, tuple(copies)))
        return out


@lowers("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lower_lstm(state: Legalizer, op: Operator) -> None:
    """One layer with all steps."""
    p = recurrent.lstm_params(op, state.subgraph)
    tensor = state.tensor(op, 0)
    steps, batch = tensor.shape[:2] if p.time_major else tensor.shape[1::-1]

    def gate(made: recurrent.LstmGate) -> Gate:
        weights, recurrent_weights = (state.constant(op, at) for at in (made.input_weights, made.recurrent_weights))
        sums, recurrent_sums = (w.sum(axis=1, dtype=np.int64) for w in (weights, recurrent_weights))
        bias = state.constant(op, made.bias).astype(np.int64)
        return Gate(weights, recurrent_weights, wrap_int32(bias - p.input_zero_point * sums),
                    wrap_int32(-p.state_zero_point * recurrent_sums), (made.input_multiplier, made.input_shift),
                    (made.recurrent_multiplier, made.recurrent_shift))

    hidden_state, cell_state = (state.variable(op, at) for at in (LSTM_HIDDEN, LSTM_CELL))
    state.layers.append(Lstm(
        op.index, op.op, (state.input(op, 0), hidden_state, cell_state), state.output(op), steps, batch, p.time_major,
        (gate(p.input_gate), gate(p.forget_gate), gate(p.output_gate), gate(p.cell_gate)), p.cell_scale_log2,
        p.cell_clip, (p.hidden_multiplier, p.hidden_shift, p.hidden_zero_point), p.interpolated))


@lowers("SVDF")
def lower_svdf(state: Legalizer, op: Operator) -> None:
    """Shift features of the input into the state; sum the state times the time weights over memory and rank."""
    p = svdf.svdf_params(op, state.subgraph)
    b = _Builder(state, op)
    batch = state.tensor(op, 0).shape[0]
    time = state.constant(op, 2)
    filters, memory = time.shape
    units, count = filters // p.rank, batch * filters * memory
    feature = b.product("feature", state.input(op, 0), batch, 1, None, (p.multiplier_1, p.shift_1),
                        p.input_zero_point)
    kept = state.variable(op, SVDF_STATE)
    code, size, dtype = (_INT16, 2, "int16") if p.state_bits == 16 else (_INT8, 1, "int8")
    if p.state_bits == 8:
        # The zero point is added after saturation, and may wrap.
        feature = b.flat("feature", [(feature, _INT16)], batch * filters, _INT8, (
            to(0, STREAM_A, immediate(127), alu=Alu.MIN), to(0, reg_a(0), immediate(-128), alu=Alu.MAX),
            {**reg_a(0), **immediate(p.state_zero_point), "alu": Alu.ADD, **OUT}))
    old, new = blank((batch, filters, memory), dtype), blank((batch, filters), dtype)
    target = blank((batch, filters, memory), dtype)
    copies = [copy_between(1, new, new, target[:, :, -1], target)]
    if memory > 1:
        copies.append(copy_between(0, old[:, :, 1:], old, target[:, :, :-1], target))
    shifted_state = b.move("state", [kept, feature], copies, size * count)
    spread = np.ascontiguousarray(np.broadcast_to(time, (batch, filters, memory)).astype(dtype))
    weights = Value("time weights", op.inputs[2], (1, 1, 1, size * count), data=spread)
    products = b.flat("products", [(shifted_state, code), (weights, code)], count, _INT32, (
        to(0, STREAM_A, immediate(p.state_zero_point), alu=Alu.SUB), {**reg_a(0), **STREAM_B, **low(), **OUT}))
    # The sum is over rank and memory, which come before batch and units.
    base = blank((batch, units, p.rank * memory), "int32")
    ordered = base.transpose(2, 0, 1, 3)
    dense = blank(ordered.shape[:-1], "int32")
    rows = b.move("rows", [products], [copy_between(0, ordered, base, dense, dense)], 4 * count)
    bias = state.constant(op, 3) if len(op.inputs) > 3 and op.inputs[3] >= 0 else np.zeros(units, np.int32)
    bias_data = np.ascontiguousarray(np.broadcast_to(bias.reshape(-1), (batch, units)).astype("<i4"))
    bias_value = Value("bias", op.outputs[0], (1, 1, 1, 4 * batch * units), data=bias_data)
    state.layers.append(Flat(
        op.index, op.op, (rows, bias_value), state.output(op), batch * units, (_INT32, _INT32), _INT8,
        (to(0, STREAM_B | {"a_source": Source.IMMEDIATE, "immediate": 0}, alu=Alu.ADD),),
        (to(0, STREAM_A, reg_b(0), alu=Alu.ADD),),
        tuple(rescaled({**reg_a(0), "zero_point": p.output_zero_point, **_CLAMP, **OUT}, p.multiplier_2, p.shift_2, 0)),
        rows=p.rank * memory))
    b.move("state", [shifted_state], [Copy(0, 0, 0, ((size * count, 1, 1),))], 0, kept)
