"""ONE_HOT and TOPK_V2.

TOPK_V2 finds the largest element of a row, then the largest of those below it, and so on. Each element becomes a unique
number, `code * 2^bits - place`, so that equal codes have an order. For each result all rows are scanned once, cut into
parts that are scanned at the same time.
"""

import math

import numpy as np

from tq_hw.compiler.ir.staged import Flat, Move, OneHot
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import TYPE_CODES, IntArray, Value
from tq_hw.compiler.lower.elementwise import table_pass
from tq_hw.compiler.lower.halves import indices_of
from tq_hw.compiler.lower.legalize import Legalizer, lowers, reshaped
from tq_hw.compiler.lower.moves import move_view, output_blank
from tq_hw.compiler.lower.spread import for_each
from tq_hw.compiler.lower.walks import filled
from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    immediate_a,
    reg_a,
    reg_b,
    set_to,
    shifted,
    to,
)
from tq_hw.isa.latency import UOP_WAIT_CYCLES
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import INT8_CODES
from tq_hw.sim.golden.registry import int_option, normalize_axis, require, require_dtype

__all__: list[str] = []

_INT32 = TYPE_CODES["int32"]
#: Bits of the index in an element's number, by type; the number has 31 bits and a sign.
_PLACE_BITS = {TYPE_CODES["int8"]: 23, TYPE_CODES["int16"]: 15}
#: Most parts of a row; for the choice of parts: cycles of a layer in addition to its program, memory bytes a cycle.
_MOST_PARTS, _LAYER_CYCLES, _CYCLE_BYTES = 1024, 300, 8
_LEAST = -1 << 31
_BEST, _ABOVE, _X, _NUMBER, _PLACE = range(5)


@lowers("ONE_HOT")
def lower_one_hot(state: Legalizer, op: Operator) -> None:
    """One-hot rows, a table for each byte of an element, and a move to the axis."""
    indices, output = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    count, depth = math.prod(indices.shape), int(state.constant(op, 1).reshape(-1)[0])
    value = indices_of(state, op, 0)
    hot = Value(f"{output.name} (one-hot)", output.index, (1, count, 1, depth))
    state.layers.append(OneHot(op.index, op.op, (value,), hot))
    on, off = (np.frombuffer(state.constant(op, position).tobytes(), np.int8) for position in (2, 3))
    planes = [Value(f"{output.name} (byte {byte})", output.index, hot.shape) for byte in range(len(on))]
    axis = normalize_axis(int_option(op, "axis"), len(output.shape))
    if len(planes) == 1 and math.prod(output.shape[axis + 1:]) == 1:
        rows = reshaped(hot, state.view(output.shape, output.dtype))
        table_pass(state, op, rows, np.where(INT8_CODES != 0, on[0], off[0]))
        return
    for plane, high, low in zip(planes, on, off, strict=True):
        table_pass(state, op, hot, np.where(INT8_CODES != 0, high, low), plane)
    after = math.prod(output.shape[axis + 1:])
    base, target = blank((count // after, after, depth), "int8"), output_blank(state, op)
    parts = target.reshape(count // after, depth, after, len(planes)).transpose(0, 2, 1, 3)
    made = state.output(op)
    state.layers.append(Move(op.index, op.op, tuple(planes), made, tuple(
        copy_between(byte, base[..., 0], base, parts[..., byte], target) for byte in range(len(planes)))))


@lowers("TOPK_V2")
def lower_top_k(state: Legalizer, op: Operator) -> None:
    """The largest number, then the largest of those below it, and so on; last, their codes and indices."""
    tensor, (codes, places) = state.tensor(op, 0), (state.subgraph.tensors[index] for index in op.outputs)
    value, kind = state.input(op, 0), TYPE_CODES[require_dtype(op, state.subgraph, "int8", "int16").dtype]
    place_bits = _PLACE_BITS[kind]
    require(tensor.shape[-1] < 1 << place_bits,
            f"rows of {tensor.dtype} must have less than {1 << place_bits} elements, found {tensor.shape[-1]}")
    rank, length = len(tensor.shape), tensor.shape[-1]
    rows, best = math.prod(tensor.shape[:-1]), codes.shape[-1]
    order = (rank - 1, *range(rank - 1), rank)
    transposed = move_view(state, op, value, tensor, lambda x: x.transpose(order))
    codes_value, places_value = state.new_value(codes), state.new_value(places)
    parts = min(range(min(length, _MOST_PARTS) + 1), key=lambda parts: _cycles(length, rows, best, parts))
    source = _numbers(state, op, transposed, (length, rows), parts, kind) if parts else transposed
    found: list[Value] = []
    for _ in range(best):
        found.append(_best(state, op, source, (length, rows), parts, kind, found[-1] if found else None))
    keys = found[0]
    if best > 1:
        keys = _new(state, op, "best", rows * best)
        base, target = blank((rows,), "int32"), blank((rows, best), "int32")
        state.layers.append(Move(op.index, op.op, tuple(found), keys, tuple(
            copy_between(number, base, base, target[:, number], target) for number in range(best))))
    negative = to(0, immediate_a(0), reg_b(1), alu=Alu.SUB)
    first = to(1, STREAM_A)
    code = (first, negative, to(0, reg_a(0), immediate(place_bits), SAR),
            {**immediate_a(0), **reg_b(0), "alu": Alu.SUB, **OUT})
    place: tuple[Uop, ...] = (first, negative, {**reg_a(0), **immediate((1 << place_bits) - 1), "alu": Alu.AND, **OUT})
    for value, out_type, uops in ((codes_value, kind, code), (places_value, _INT32, place)):
        state.values[value.tensor] = value
        state.layers.append(Flat(op.index, op.op, (keys,), value, rows * best, (_INT32,), out_type, uops))


def _new(state: Legalizer, op: Operator, what: str, count: int, data: IntArray | None = None) -> Value:
    """Return a value of int32 elements."""
    tensor = state.subgraph.tensors[op.outputs[0]]
    return Value(f"{tensor.name} ({what})", tensor.index, (1, 1, 1, 4 * count), data=data)


def _cycles(length: int, rows: int, best: int, parts: int) -> float:
    """Estimate the cycles of finding the `best` of rows in `parts`, at sixteen lanes.

    With 0 parts the numbers are computed on the fly. Otherwise they are in memory: four bytes an element, and four of
    its index.
    """
    def program(steps: int, width: int, size: int) -> float:
        return steps * size * max(UOP_WAIT_CYCLES, width / 16)
    if not parts:
        return sum(program(length, rows, len(_body(True, number > 0))) for number in (0, *(1,) * (best - 1)))
    read = 4 * length * rows / _CYCLE_BYTES
    walk = max(read, program(ceil_div(length, parts), parts * rows, len(_body(False, True))))
    joins = 2 * _LAYER_CYCLES + program(parts, rows, len(_body(False, False))) if parts > 1 else 0
    return 2 * read + 2 * _LAYER_CYCLES + best * (walk + joins)


def _body(is_made: bool, is_below: bool, place_bits: int = 0) -> tuple[Uop, ...]:
    """Return the program for each element: a maximum; with `is_below`, only of numbers below the last result.

    The number is in stream A, or with `is_made` computed from its code and a counter.
    """
    number = reg_a(_NUMBER) if is_made else STREAM_A
    below = (to(_X, number, reg_b(_ABOVE), alu=Alu.LESS), to(_X, immediate_a(_LEAST), reg_b(_X), alu=Alu.SUB),
             to(_X, number, reg_b(_X), alu=Alu.MIN), to(_BEST, reg_a(_BEST), reg_b(_X), alu=Alu.MAX))
    body = below if is_below else (to(_BEST, number, reg_b(_BEST), alu=Alu.MAX),)
    if not is_made:
        return body
    return (to(_NUMBER, STREAM_A, shifted(place_bits)), to(_NUMBER, reg_a(_NUMBER), reg_b(_PLACE), alu=Alu.SUB), *body,
            to(_PLACE, reg_a(_PLACE), immediate(1), alu=Alu.ADD))


def _numbers(state: Legalizer, op: Operator, value: Value, shape: tuple[int, int], parts: int, kind: int) -> Value:
    """Compute `code * 2^bits - place` of [length, rows], padded with smaller numbers to a multiple of `parts`."""
    length, rows = shape
    places = _new(state, op, "places", length * rows, np.repeat(np.arange(length, dtype=np.int32), rows))
    made = _new(state, op, "numbers", length * rows)
    state.layers.append(Flat(op.index, op.op, (value, places), made, length * rows, (kind, _INT32), _INT32, (
        to(0, STREAM_A, shifted(_PLACE_BITS[kind])), {**reg_a(0), **STREAM_B, "alu": Alu.SUB, **OUT})))
    # Four bytes of -128 are less than the number of any element.
    more = -length % parts
    return filled(state, op, made, (1, length, 4 * rows), more, -128) if more else made


def _best(state: Legalizer, op: Operator, source: Value, shape: tuple[int, int], parts: int, kind: int,
          above: Value | None) -> Value:
    """Return the largest number of each row, of those below the number in `above` if that is given."""
    (length, rows), give = shape, ({**reg_a(_BEST), **OUT},)
    inputs, before = [source], [set_to(_BEST, _LEAST)]
    if not parts:
        before.append(set_to(_PLACE, 0))
    if above is not None:
        inputs.append(for_each(state, op, above, rows, parts, "int32") if parts > 1 else above)
        before.append(to(_ABOVE, immediate_a(0), STREAM_B, alu=Alu.ADD))
    width = max(parts, 1) * rows
    made = _new(state, op, "best of parts" if parts > 1 else "best of all", width)
    state.layers.append(Flat(
        op.index, op.op, tuple(inputs), made, width, ((_INT32 if parts else kind), _INT32)[:len(inputs)], _INT32,
        tuple(before), _body(not parts, above is not None, _PLACE_BITS[kind]), give, ceil_div(length, max(parts, 1))))
    if parts < 2:
        return made
    best = _new(state, op, "best of all", rows)
    state.layers.append(Flat(op.index, op.op, (made,), best, rows, (_INT32,), _INT32, (set_to(_BEST, _LEAST),),
                             _body(False, False), give, parts))
    return best
