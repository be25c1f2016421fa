"""The layer of a UNIDIRECTIONAL_SEQUENCE_LSTM, and its steps as layers of their own where it does not fit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir import Copy, Flat, IntArray, Layer, MatMul, Move, Staged, Value
from tq_hw.compiler.lstm_interpolated import interpolated_activation
from tq_hw.compiler.lstm_programs import Activation
from tq_hw.compiler.lstm_table import activation
from tq_hw.compiler.programs import OUT, STREAM_A, STREAM_B, Uop, immediate, low, reg_a, rescale, shifted, to
from tq_hw.compiler.strided import blank, copy_between
from tq_hw.isa.config import Config
from tq_hw.isa.uop import Alu

__all__ = ["CLAMP", "TANH_FRACTION", "Gate", "Lstm", "clip_uops", "hidden_uops", "steps_of"]

_INT8, _INT16 = 0, 1
_INT16_MAX = (1 << 15) - 1
#: Fraction bits of the argument of `isa.uop.Activation.TANH`.
TANH_FRACTION = 13
CLAMP: Uop = {"clamp": 1, "act_min": -128, "act_max": 127}


@dataclass(frozen=True, eq=False)
class Gate:
    """Two products that are rescaled to Q3.12 and added.

    Members
    -------
    input_weights, recurrent_weights : int8 [cells, inputs] and [cells, cells]
    input_bias, recurrent_bias : int32 [cells], less zero point times the sum of the weights
    input_scale, recurrent_scale : multiplier and shift
    """

    input_weights: npt.NDArray[np.int8]
    recurrent_weights: npt.NDArray[np.int8]
    input_bias: IntArray
    recurrent_bias: IntArray
    input_scale: tuple[int, int]
    recurrent_scale: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Lstm(Staged):
    """All steps; inputs are the sequence, the hidden state (int8) and the cell state (int16, as bytes).

    Members
    -------
    steps, batch, time_major : of the sequence, [batch, steps, inputs] or [steps, batch, inputs]
    gates : input, forget, output and cell gate
    cell_scale_log2, cell_clip : the cell state's scale, and its largest magnitude or None
    hidden : multiplier, shift and zero point of the hidden state
    interpolated : as in the golden model's `LstmParams`
    """

    steps: int
    batch: int
    time_major: bool
    gates: tuple[Gate, Gate, Gate, Gate]
    cell_scale_log2: int
    cell_clip: int | None
    hidden: tuple[int, int, int]
    interpolated: bool = False

    @property
    def cells(self) -> int:
        """Cells, and elements of a hidden state."""
        return int(self.gates[0].recurrent_weights.shape[0])

    @property
    def macs(self) -> int:
        """Useful multiply-accumulates."""
        return self.steps * self.batch * sum(g.input_weights.size + g.recurrent_weights.size for g in self.gates)

    def activates(self, config: Config) -> bool:
        """Whether the vector unit's activations serve: arguments of a tanh have 13 fraction bits there."""
        return config.activation_lanes > 0 and self.cell_scale_log2 >= -TANH_FRACTION and not self.interpolated

    @property
    def activation(self) -> Activation:
        """Program of logistic and tanh."""
        make = interpolated_activation if self.interpolated else activation
        return make(self.cell_scale_log2)

    def product_uops(self, shift: int) -> list[Uop]:
        """Product of both streams shifted right: rounded, or rounded twice and saturated to int16; see `to`."""
        product: Uop = {**STREAM_A, **STREAM_B, **low()}
        if not self.interpolated:
            return [{**product, **shifted(-shift)}]
        return [to(0, product), {**reg_a(0), **rescale(1 << 30, 1 - shift), "clamp": 1}]

    def width(self, config: Config) -> int:
        """Cells of a block: as many in each, as the array waits for the weights' rows."""
        return -(-self.cells // -(-self.cells // config.block))

    def weight_rows(self, config: Config) -> int:
        """Rows of recurrent weights that the array takes in a step."""
        return self.width(config) if config.slices == 1 else config.gemm_rows

    def buffers(self, config: Config) -> dict[str, int]:
        """Return the scratchpad words of everything that stays there during all steps, by name."""
        blocks = -(-self.cells // config.block)
        wide = -(-2 * config.block // config.word_bytes)
        rows = config.slices * self.weight_rows(config)
        vector, gates = blocks * self.batch * wide, 4 * blocks
        inputs = -(-self.gates[0].input_weights.shape[1] // config.block)
        return {
            "weights": gates * config.sub_blocks * blocks * rows,
            "parameters": gates * config.sub_blocks * config.param_words,
            "sequence": self.steps * self.batch * inputs, "products": self.steps * 4 * vector,
            "hidden": (self.steps + 1) * blocks * self.batch, "active": 4 * vector, "cell": vector, "squashed": vector,
            **({} if self.activates(config) else {"codes": gates + 1, "sums": 4 * vector})}

    def minimum_words(self, config: Config) -> int:
        """All buffers."""
        return sum(self.buffers(config).values())


def clip_uops(total: Uop, clip: int | None) -> tuple[Uop, ...]:
    """An int16 sum, clipped to a magnitude if there is one, as output."""
    if clip is None:
        return ({**total, **CLAMP, **OUT},)
    above = () if clip == _INT16_MAX else (to(0, reg_a(0), immediate(clip), alu=Alu.MIN),)
    return (to(0, {**total, **CLAMP}), *above, {**reg_a(0), **immediate(-clip), "alu": Alu.MAX, **OUT})


def hidden_uops(multiplier: int, shift: int, zero_point: int) -> tuple[Uop, ...]:
    """Hidden state of the output gate and the squashed cell state."""
    return (to(0, STREAM_A, STREAM_B, low()),
            {**reg_a(0), **rescale(multiplier, shift), "zero_point": zero_point, **CLAMP, **OUT})


@dataclass
class _Steps:
    """Adds layers of one operator."""

    layer: Lstm
    layers: list[Layer]
    active: Activation

    def value(self, name: str, size: int) -> Value:
        """Make an intermediate value of so many bytes."""
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
        """Add logistic or tanh, by a code for every element."""
        count = value.size_bytes // 2
        codes = Value(f"{self.layer.output.name} (code {code})", self.layer.output.tensor, (1, 1, 1, count),
                      data=np.full(count, code).astype(np.uint8).view(np.int8))
        return self.flat(name, [(value, _INT16), (codes, _INT8)], count, _INT16, self.active.uops, self.active.tables)


def steps_of(layer: Lstm) -> list[Layer]:
    """Return layers that make the same output through memory, step by step."""
    b = _Steps(layer, [], layer.activation)
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
        *first, last = layer.product_uops(15)
        kept = b.flat("kept", [(f, _INT16), (c, _INT16)], count, _INT16, (*first, {**last, **OUT}))
        *first, last = layer.product_uops(30 + log2)
        new = b.flat("added", [(i, _INT16), (g, _INT16)], count, _INT16, (*first, {**last, **OUT}))
        total_uop: Uop = {**STREAM_A, **STREAM_B, "alu": Alu.ADD}
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
