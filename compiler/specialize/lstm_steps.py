"""The steps of a UNIDIRECTIONAL_SEQUENCE_LSTM as separate layers, if its layer does not fit the scratchpad."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.layers import Layer
from tq_hw.compiler.ir.lstm import Lstm
from tq_hw.compiler.ir.staged import Copy, Flat, MatMul, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.programs.interpolated import activation_of, product_uops
from tq_hw.compiler.programs.lstm import ActivationProgram, clip_uops, hidden_uops
from tq_hw.compiler.programs.words import OUT, STREAMS, Uop
from tq_hw.isa.uop import Alu

__all__ = ["steps_of"]

_INT8, _INT16 = 0, 1


@dataclass
class _Steps:
    """Adds layers of one operator."""

    layer: Lstm
    layers: list[Layer]
    active: ActivationProgram

    def value(self, name: str, size: int) -> Value:
        """Return a new intermediate value of `size` bytes."""
        output = self.layer.output
        return Value(f"{output.name} ({name})", output.tensor, (1, 1, 1, size))

    def flat(self, name: str, inputs: Sequence[tuple[Value, int]], count: int, out_type: int, uops: Sequence[Uop],
             tables: tuple[IntArray | None, IntArray | None] = (None, None), into: Value | None = None) -> Value:
        """Add a program over elements."""
        out = into or self.value(name, (1, 2)[out_type] * count)
        self.layers.append(Flat(
            self.layer.index, self.layer.op, tuple(v for v, _ in inputs), out, count, tuple(t for _, t in inputs),
            out_type, tuple(uops), tables=tables))
        return out

    def product(self, name: str, lhs: Value, rows: int, weights: npt.NDArray[np.int8], bias: IntArray,
                scale: tuple[int, int], added: Value | None = None) -> Value:
        """Multiply rows by constant weights [out, in]; the result is int16."""
        out_size, depth = weights.shape
        matrix = Value(f"{self.layer.output.name} (weights)", self.layer.output.tensor, (1, 1, depth, out_size),
                       data=np.ascontiguousarray(weights.T))
        out = Value(f"{self.layer.output.name} ({name})", self.layer.output.tensor, (1, 1, rows, 2 * out_size))
        seen = Value(lhs.name, lhs.tensor, (1, 1, rows, depth), lhs.zero_point, lhs.flip, lhs)
        self.layers.append(MatMul(self.layer.index, self.layer.op, (seen, matrix, *(() if added is None else (added,))),
                                  out, ((0, 0),), (0, 0), *scale, 0, bias, True, saturates=self.layer.interpolated))
        return out

    def move(self, name: str, inputs: Sequence[Value], copies: Sequence[Copy], size: int,
             into: Value | None = None) -> Value:
        """Add copies."""
        out = into or self.value(name, size)
        self.layers.append(Move(self.layer.index, self.layer.op, tuple(inputs), out, tuple(copies)))
        return out

    def activation(self, name: str, value: Value, code: int) -> Value:
        """Add logistic or tanh, selected by a code for each element."""
        count = value.size_bytes // 2
        codes = Value(f"{self.layer.output.name} (code {code})", self.layer.output.tensor, (1, 1, 1, count),
                      data=np.full(count, code).astype(np.uint8).view(np.int8))
        return self.flat(name, [(value, _INT16), (codes, _INT8)], count, _INT16, self.active.uops, self.active.tables)


def steps_of(layer: Lstm) -> list[Layer]:
    """Return layers that compute the same output through memory, step by step."""
    b = _Steps(layer, [], activation_of(layer))
    x, hidden_state, cell_state = layer.inputs
    steps, batch, cells, log2 = layer.steps, layer.batch, layer.cells, layer.cell_scale_log2
    count = cells * batch
    if not layer.time_major and batch > 1:
        base = blank((batch, steps, layer.gates[0].input_weights.shape[1]), "int8")
        swapped = base.swapaxes(0, 1)
        dense = blank(swapped.shape[:-1], "int8")
        x = b.move("time major", [x], [copy_between(0, swapped, base, dense, dense)], x.size_bytes)
    from_input = [b.product("input product", x, steps * batch, gate.input_weights, gate.input_bias, gate.input_scale)
                  for gate in layer.gates]
    h, c = hidden_state, cell_state
    parts = []
    for step in range(steps):
        ready = []
        for number, gate in enumerate(layer.gates):
            this_step = Copy(0, 2 * count * step, 0, ((2 * count, 1, 1),))
            added = b.move("step", [from_input[number]], [this_step], 2 * count)
            total = b.product("gate", h, batch, gate.recurrent_weights, gate.recurrent_bias, gate.recurrent_scale,
                              added)
            ready.append(b.activation("activation", total, b.active.tanh if number == 3 else b.active.logistic))
        i, f, o, g = ready
        *first, last = product_uops(layer, 15)
        kept = b.flat("kept", [(f, _INT16), (c, _INT16)], count, _INT16, (*first, {**last, **OUT}))
        *first, last = product_uops(layer, 30 + log2)
        new = b.flat("added", [(i, _INT16), (g, _INT16)], count, _INT16, (*first, {**last, **OUT}))
        total_uop: Uop = {**STREAMS, "alu": Alu.ADD}
        c = b.flat("cell", [(kept, _INT16), (new, _INT16)], count, _INT16, clip_uops(total_uop, layer.cell_clip),
                   into=cell_state if step == steps - 1 else None)
        squashed = b.activation("cell tanh", c, b.active.cell)
        h = b.flat("hidden", [(o, _INT16), (squashed, _INT16)], count, _INT8, hidden_uops(*layer.hidden))
        parts.append(h)
    b.move("hidden state", [h], [Copy(0, 0, 0, ((count, 1, 1),))], count, hidden_state)
    target = blank((steps, batch, cells) if layer.time_major else (batch, steps, cells), "int8")
    view = target if layer.time_major else target.swapaxes(0, 1)
    part = blank((batch, cells), "int8")
    b.move("output", parts, [copy_between(at, part, part, view[at], target) for at in range(steps)], 0, layer.output)
    return b.layers
