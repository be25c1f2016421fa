"""UNIDIRECTIONAL_SEQUENCE_LSTM and SVDF: matrix products with int16 results, programs over int16 elements, state.

State lies in memory region 2 from one inference to the next; the last step writes it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.ir import Copy, Flat, IntArray, MatMul, Move, Value
from tq_hw.compiler.legalize import Legalizer, lowers, reshaped
from tq_hw.compiler.lstm_programs import FACTOR_TABLE, logistic, tanh
from tq_hw.compiler.programs import OUT, STREAM_A, STREAM_B, Uop, immediate, low, reg_a, reg_b, rescale, shifted, to
from tq_hw.compiler.strided import blank, copy_between
from tq_hw.isa.uop import Alu, Source
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import recurrent
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
        """Make an intermediate value of so many bytes."""
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
    """Products of all steps with the input weights at once, then step by step."""
    p = recurrent.lstm_params(op, state.subgraph)
    b = _Builder(state, op)
    tensor, output = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    steps, batch = tensor.shape[:2] if p.time_major else tensor.shape[1::-1]
    cells, count = output.shape[2], output.shape[2] * batch
    x = state.input(op, 0)
    if not p.time_major and batch > 1:
        base = blank(tensor.shape, "int8")
        swapped = base.swapaxes(0, 1)
        dense = blank(swapped.shape[:-1], "int8")
        x = b.move("time major", [x], [copy_between(0, swapped, base, dense, dense)], x.size_bytes)
    gates = (p.input_gate, p.forget_gate, p.cell_gate, p.output_gate)
    from_input = [b.product("input product", x, steps * batch, gate.input_weights, state.constant(op, gate.bias),
                            (gate.input_multiplier, gate.input_shift), p.input_zero_point) for gate in gates]
    hidden_state, cell_state = (state.variable(op, at) for at in (recurrent.LSTM_HIDDEN, recurrent.LSTM_CELL))
    h, c = hidden_state, cell_state
    parts = []
    for step in range(steps):
        ready = []
        for number, gate in enumerate(gates):
            this_step = Copy(0, 2 * count * step, 0, ((2 * count, 1, 1),))
            added = b.move("step", [from_input[number]], [this_step], 2 * count)
            total = b.product("gate", h, batch, gate.recurrent_weights, None,
                              (gate.recurrent_multiplier, gate.recurrent_shift), p.state_zero_point, added)
            program = tanh(3) if number == 2 else logistic(3)
            ready.append(b.flat("activation", [(total, _INT16)], count, _INT16, program, FACTOR_TABLE))
        i, f, g, o = ready
        kept = b.flat("kept", [(f, _INT16), (c, _INT16)], count, _INT16, _product_shift(15))
        new = b.flat("added", [(i, _INT16), (g, _INT16)], count, _INT16, _product_shift(30 + p.cell_scale_log2))
        last = step == steps - 1
        c = b.flat("cell", [(kept, _INT16), (new, _INT16)], count, _INT16, _sum_clipped(p.cell_clip),
                   into=cell_state if last else None)
        squashed = b.flat("cell tanh", [(c, _INT16)], count, _INT16, tanh(15 + p.cell_scale_log2), FACTOR_TABLE)
        h = b.flat("hidden", [(o, _INT16), (squashed, _INT16)], count, _INT8, (
            to(0, STREAM_A, STREAM_B, low()),
            {**reg_a(0), **rescale(p.hidden_multiplier, p.hidden_shift), "zero_point": p.hidden_zero_point, **_CLAMP,
             **OUT}))
        parts.append(h)
    b.move("hidden state", [h], [Copy(0, 0, 0, ((count, 1, 1),))], count, hidden_state)
    target = blank(output.shape, "int8")
    view = target if p.time_major else target.swapaxes(0, 1)
    part = blank((batch, cells), "int8")
    b.move("output", parts, [copy_between(at, part, part, view[at], target) for at in range(steps)], 0,
           state.output(op))


def _product_shift(shift: int) -> tuple[Uop, ...]:
    return (to(0, STREAM_A, STREAM_B, low()), {**reg_a(0), **shifted(-shift), **OUT})


def _sum_clipped(clip: int) -> tuple[Uop, ...]:
    total: Uop = {**STREAM_A, **STREAM_B, "alu": Alu.ADD, **_CLAMP}
    if clip == 0:
        return ({**total, **OUT},)
    return (to(0, total), to(0, reg_a(0), immediate(clip), alu=Alu.MIN),
            {**reg_a(0), **immediate(-clip), "alu": Alu.MAX, **OUT})


@lowers("SVDF")
def lower_svdf(state: Legalizer, op: Operator) -> None:
    """Features of the input enter the state; the state times the time weights is summed over memory and rank."""
    p = recurrent.svdf_params(op, state.subgraph)
    b = _Builder(state, op)
    batch = state.tensor(op, 0).shape[0]
    time = state.constant(op, 2)
    filters, memory = time.shape
    units, count = filters // p.rank, batch * filters * memory
    feature = b.product("feature", state.input(op, 0), batch, 1, None, (p.multiplier_1, p.shift_1),
                        p.input_zero_point)
    kept = state.variable(op, recurrent.SVDF_STATE)
    code, size, dtype = (_INT16, 2, "int16") if p.state_bits == 16 else (_INT8, 1, "int8")
    if p.state_bits == 8:
        # The zero point is added after the saturation and may wrap.
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
    # Rows of the sum: rank and memory; behind them batch and units.
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
        ({**reg_a(0), **rescale(p.multiplier_2, p.shift_2), "zero_point": p.output_zero_point, **_CLAMP, **OUT},),
        rows=p.rank * memory))
    b.move("state", [shifted_state], [Copy(0, 0, 0, ((size * count, 1, 1),))], 0, kept)
