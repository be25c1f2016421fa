"""Reductions of many elements in the vector unit: all lanes walk along the reduced axis together.

The input is [outer, count, inner]. If `inner` fills few lanes, the count is split into [steps, lanes] and reduced in
two layers: over the steps, then over the lanes. If the count has no suitable divisor, it is padded to a multiple.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tq_hw.compiler.ir.staged import Flat, Move
from tq_hw.compiler.ir.strided import blank, copy_between, fill_view
from tq_hw.compiler.ir.value import ELEMENT_BYTES, Value
from tq_hw.compiler.lower.conv import divide_params
from tq_hw.compiler.lower.legalize import Legalizer
from tq_hw.compiler.programs.words import (
    OUT,
    SHL,
    STREAM_A,
    Uop,
    immediate,
    immediate_a,
    low,
    reg_a,
    reg_b,
    rescaled,
    set_to,
    shifted,
    to,
)
from tq_hw.isa.latency import UOP_WAIT_CYCLES
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu, Multiply, Rounding
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import wrap_int32
from tq_hw.sim.golden.product import ProductParams
from tq_hw.sim.golden.reduce import MeanParams
from tq_hw.sim.golden.registry import require

__all__ = ["WALK_LIMIT", "filled", "walk_average", "walk_extreme", "walk_index", "walk_product", "walk_sum"]

#: Most parts of a count.
_MOST_LANES = 1024
#: Cycles of a layer; cycles of padding (plus half a cycle a byte).
_LAYER_CYCLES, _FILL_CYCLES = 300, 400
#: Bits of the index in a number that combines element and index: `element * 2^23 - place`.
_PLACE_BITS = 23
#: Most elements whose indices fit in such a number.
WALK_LIMIT = 1 << _PLACE_BITS
_ACC, _INDEX, _KEEP, _COUNT, _X = range(5)

_Uops = tuple[Uop, ...]
#: outer, count, inner
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class _Code:
    """Micro-operations before the walk, for each step, and after the walk; types of elements and results."""

    before: _Uops
    body: _Uops
    after: _Uops
    types: tuple[int, int]


def _walk(state: Legalizer, op: Operator, value: Value, code: _Code, shape: Shape) -> Value:
    """Add the layer; return [1, 1, 1, bytes of the results]."""
    outer, count, inner = shape
    tensor = state.subgraph.tensors[op.outputs[0]]
    zero_point = tensor.zero_point if tensor.quantization is not None else 0
    out = Value(tensor.name, tensor.index, (1, 1, 1, outer * inner * ELEMENT_BYTES[code.types[1]]), zero_point)
    state.layers.append(Flat(op.index, op.op, (value,), out, inner, code.types[:1], code.types[1], code.before,
                             code.body, code.after, count, images=outer))
    return out


def filled(state: Legalizer, op: Operator, value: Value, shape: Shape, more: int, fill: int) -> Value:
    """Return a copy of [outer, count, inner] with `more` rows of `fill` after each count."""
    outer, count, inner = shape
    source, target = blank(shape, "int8"), blank((outer, count + more, inner), "int8")
    out = Value(f"{value.name} (filled)", value.tensor, (outer, count + more, 1, inner), value.zero_point)
    state.layers.append(Move(op.index, op.op, (value,), out, (
        copy_between(0, source, source, target[:, :count], target), fill_view(fill, target[:, count:], target))))
    return out


def _cycles(shape: Shape, lanes: int, sizes: tuple[int, int, int]) -> float:
    """Estimate the cycles with `lanes` parts, at sixteen lanes; `sizes`: bodies of the one layer, and of the two."""
    outer, count, inner = shape

    def walk(steps: int, width: int, size: int) -> float:
        return outer * steps * size * max(UOP_WAIT_CYCLES, width / 16)
    if lanes == 1:
        return walk(count, inner, sizes[0])
    filled = _FILL_CYCLES + outer * count * inner / 2 if count % lanes else 0
    return (walk(ceil_div(count, lanes), lanes * inner, sizes[1]) + walk(lanes, inner, sizes[2]) + filled
            + _LAYER_CYCLES * outer)


def _reduced(state: Legalizer, op: Operator, value: Value, shape: Shape, fill: int,
             codes: Callable[[int], tuple[_Code, _Code, _Code]]) -> Value:
    """Reduce in one layer or two; `codes(lanes)` are the programs of one, and of the first and second of two."""
    outer, count, inner = shape
    sizes = tuple(len(code.body) for code in codes(1))
    choices = {1, *(1 << power for power in range(2, _MOST_LANES.bit_length()))}
    choices |= {lanes for lanes in range(1, _MOST_LANES + 1) if count % lanes == 0}
    lanes = min(sorted(choices), key=lambda lanes: _cycles(shape, lanes, (sizes[0], sizes[1], sizes[2])))
    single, first, second = codes(lanes)
    if lanes == 1:
        return _walk(state, op, value, single, shape)
    more = -count % lanes
    whole = filled(state, op, value, shape, more, fill) if more else value
    partial = _walk(state, op, whole, first, (outer, (count + more) // lanes, lanes * inner))
    return _walk(state, op, partial, second, (outer, lanes, inner))


_WHOLE_RANGE = (-128, 127)


def walk_extreme(state: Legalizer, op: Operator, value: Value, shape: Shape, minimum: bool,
                 clamp: tuple[int, int] = _WHOLE_RANGE) -> Value:
    """Largest or smallest of [outer, count, inner]."""
    worst, alu = (127, Alu.MIN) if minimum else (-128, Alu.MAX)
    code = _Code((set_to(_ACC, worst),), (to(_ACC, STREAM_A, reg_b(_ACC), alu=alu),),
                 ({**reg_a(_ACC), "clamp": 1, "act_min": clamp[0], "act_max": clamp[1], **OUT},), (0, 0))
    return _reduced(state, op, value, shape, worst, lambda _: (code, code, code))


def _summed(state: Legalizer, op: Operator, value: Value, shape: Shape, zero_point: int, out: list[Uop]) -> Value:
    """Sum of [outer, count, inner], less the zero points, which `out` turns into the result."""
    count, fill = shape[1], min(max(zero_point, -128), 127)
    add = (to(_ACC, STREAM_A, reg_b(_ACC), alu=Alu.ADD),)

    def codes(lanes: int) -> tuple[_Code, _Code, _Code]:
        # The padding is subtracted, too.
        filled = ceil_div(count, lanes) * lanes - count
        points = set_to(_ACC, int(wrap_int32(-zero_point * count - fill * filled)))
        return (_Code((points,), add, tuple(out), (0, 0)),
                _Code((set_to(_ACC, 0),), add, ({**reg_a(_ACC), **OUT},), (0, 2)),
                _Code((points,), add, tuple(out), (2, 0)))
    return _reduced(state, op, value, shape, fill, codes)


def walk_sum(state: Legalizer, op: Operator, value: Value, shape: Shape, p: MeanParams) -> Value:
    """Sum of [outer, count, inner], less the zero points, requantized."""
    out: Uop = {**reg_a(_ACC), "zero_point": p.output_zero_point, "clamp": 1, "act_min": -128, "act_max": 127, **OUT}
    return _summed(state, op, value, shape, p.input_zero_point, rescaled(out, p.multiplier, p.shift, _ACC))


def walk_average(state: Legalizer, op: Operator, value: Value, shape: Shape, clamp: tuple[int, int]) -> Value:
    """Average of the codes of [outer, count, inner], ties away from zero."""
    rounding, multiplier, shift = divide_params(shape[1])
    divide: dict[str, Uop] = {
        "divide": {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": multiplier, "truncate": 1,
                   **shifted(shift, Rounding.HALF_UP)},
        "shift": shifted(shift)}
    return _summed(state, op, value, shape, 0, [
        {**reg_a(_ACC), **divide[rounding], "clamp": 1, "act_min": clamp[0], "act_max": clamp[1], **OUT}])


def walk_product(state: Legalizer, op: Operator, value: Value, shape: Shape, p: ProductParams) -> Value:
    """Product of [outer, count, inner], rescaled after each factor and once more.

    Raises UnsupportedError if a product may exceed the 32 bits of the vector unit.
    """
    exponent = 15 - p.shift
    # Round half up: the high product is truncated, and the last bit is shifted out after it.
    left = max(exponent + 1, 0)
    require(p.largest_product << left < 1 << 31, "a product may exceed the 32 bits in which the vector unit "
                                                 "multiplies; a larger output scale or fewer elements help")
    scale: Uop = {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": p.multiplier << 16, "truncate": 1,
                  **shifted(min(exponent, -1), Rounding.HALF_UP)}
    widen = (to(_ACC, reg_a(_ACC), immediate(left), SHL),) if left else ()
    # The first factor is added to the rescaled initial product, which is 0.
    body = (to(_X, STREAM_A, immediate(p.input_zero_point), alu=Alu.SUB), to(_KEEP, reg_a(_X), reg_b(_COUNT), low()),
            to(_ACC, reg_a(_ACC), reg_b(_X), low()), *widen, to(_ACC, reg_a(_ACC), scale),
            to(_ACC, reg_a(_ACC), reg_b(_KEEP), alu=Alu.ADD), set_to(_COUNT, 0))
    out: Uop = {**reg_a(_ACC), **scale, "zero_point": p.output_zero_point, "clamp": 1, "act_min": -128,
                "act_max": 127, **OUT}
    return _walk(state, op, value, _Code((set_to(_ACC, 0), set_to(_COUNT, 1)), body, (*widen, out), (0, 0)), shape)


def _keys(minimum: bool) -> tuple[_Uops, _Uops]:
    """Extreme of `element * 2^23 - place` (minimum: plus), so that the first of equal elements is found."""
    worst = (1 << 31) - 1 if minimum else -1 << 31
    return (set_to(_ACC, worst), set_to(_COUNT, 0)), (
        to(_X, STREAM_A, shifted(_PLACE_BITS)),
        to(_X, reg_a(_X), reg_b(_COUNT), alu=Alu.ADD if minimum else Alu.SUB),
        to(_ACC, reg_a(_ACC), reg_b(_X), alu=Alu.MIN if minimum else Alu.MAX),
        to(_COUNT, reg_a(_COUNT), immediate(1), alu=Alu.ADD))


def _place(minimum: bool) -> _Uops:
    """The index in the extreme number, in `_ACC`."""
    positive = () if minimum else (
        to(_ACC, immediate_a(0), reg_b(_ACC), alu=Alu.SUB),)
    return (*positive, to(_ACC, reg_a(_ACC), immediate(WALK_LIMIT - 1), alu=Alu.AND))


def _first_of_keys(minimum: bool, lanes: int) -> _Code:
    """Find the extreme of the lanes' numbers and its lane, the first of ties: `place * lanes + lane`."""
    keep = (reg_a(_ACC) | reg_b(_X)) if minimum else (reg_a(_X) | reg_b(_ACC))
    body = (
        to(_X, STREAM_A),
        # The old lane stays if the new number is no better: index = (index - lane) * keep + lane.
        to(_KEEP, keep, alu=Alu.LESS_EQUAL),
        to(_INDEX, reg_a(_INDEX), reg_b(_COUNT), alu=Alu.SUB),
        to(_INDEX, reg_a(_INDEX), reg_b(_KEEP), low()),
        to(_INDEX, reg_a(_INDEX), reg_b(_COUNT), alu=Alu.ADD),
        to(_ACC, reg_a(_ACC), reg_b(_X), alu=Alu.MIN if minimum else Alu.MAX),
        to(_COUNT, reg_a(_COUNT), immediate(1), alu=Alu.ADD))
    after = (*_place(minimum), set_to(_X, lanes), to(_ACC, reg_a(_ACC), reg_b(_X), low()),
             {**reg_a(_ACC), **reg_b(_INDEX), "alu": Alu.ADD, **OUT})
    worst = (1 << 31) - 1 if minimum else -1 << 31
    return _Code((set_to(_ACC, worst), set_to(_INDEX, 0), set_to(_COUNT, 0)), body, after, (2, 2))


def walk_index(state: Legalizer, op: Operator, value: Value, shape: Shape) -> Value:
    """Index of the first largest or smallest of [outer, count, inner], as int32."""
    minimum = op.op == "ARG_MIN"
    before, body = _keys(minimum)

    def codes(lanes: int) -> tuple[_Code, _Code, _Code]:
        return (_Code(before, body, (*_place(minimum), {**reg_a(_ACC), **OUT}), (0, 2)),
                _Code(before, body, ({**reg_a(_ACC), **OUT},), (0, 2)), _first_of_keys(minimum, lanes))
    return _reduced(state, op, value, shape, 127 if minimum else -128, codes)
