"""Operators of 16x8 models on elements, rows and windows of int16, in the vector unit."""

import itertools
from collections.abc import Sequence

from tq_hw.compiler.ir.staged import Copy, Flat, Move
from tq_hw.compiler.ir.strided import blank, copy_between, fill_view
from tq_hw.compiler.ir.value import TYPE_CODES, IntArray, Value, element_count
from tq_hw.compiler.ir.window import window_regions
from tq_hw.compiler.lower.constraints import covers_image
from tq_hw.compiler.lower.conv import divide_params
from tq_hw.compiler.lower.legalize import Legalizer, publish
from tq_hw.compiler.lower.moves import move_view
from tq_hw.compiler.lower.spread import for_each
from tq_hw.compiler.programs.sixteen import clamped
from tq_hw.compiler.programs.sixteen_tables import (
    exponential_program,
    gate_program,
    reciprocal_program,
    share_program,
    split_table,
)
from tq_hw.compiler.programs.two_words import high_b, rest
from tq_hw.compiler.programs.words import (
    OUT,
    STREAM_A,
    Uop,
    immediate,
    low,
    reg_a,
    reg_b,
    rescaled,
    set_to,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Multiply, Rounding
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import activation, pooling, product, reduce, sixteen
from tq_hw.sim.golden.registry import require

__all__ = ["lower_extreme_wide", "lower_mean_wide", "lower_pool_wide", "lower_product_wide",
           "lower_softmax_wide", "lower_unary_wide"]

_INT16, _INT32 = TYPE_CODES["int16"], TYPE_CODES["int32"]
_WHOLE = (-(1 << 15), (1 << 15) - 1)
#: Most elements of an average whose division is exact.
_MOST_COUNT = 1 << 13
#: Most taps of windows that are copied out.
_MOST_TAPS = 256

Tables = tuple[IntArray | None, IntArray | None]
Shape = tuple[int, int, int]


def _flat(state: Legalizer, op: Operator, name: str, inputs: Sequence[tuple[Value, int]], count: int, out: int,
          uops: Sequence[Uop], tables: Tables = (None, None)) -> Value:
    """Add a program over elements; return its results, dense."""
    value = Value(f"{state.subgraph.tensors[op.outputs[0]].name} ({name})", op.outputs[0],
                  (1, 1, 1, (1, 2, 4)[out] * count))
    state.layers.append(Flat(op.index, op.op, tuple(each for each, _ in inputs), value, count,
                             tuple(code for _, code in inputs), out, tuple(uops), tables=tables))
    return value


def _walk(state: Legalizer, op: Operator, name: str, value: Value, shape: Shape, first: int, step: Uop,
          after: Sequence[Uop], out: int) -> Value:
    """Reduce [outer, count, inner] to [outer, inner], from `first` on, by `step` of element and register 0."""
    outer, count, inner = shape
    made = Value(f"{state.subgraph.tensors[op.outputs[0]].name} ({name})", op.outputs[0],
                 (1, 1, 1, outer * inner * (1, 2, 4)[out]))
    before = (set_to(0, first),)
    state.layers.append(Flat(op.index, op.op, (value,), made, inner, (_INT16,), out, before,
                             (to(0, STREAM_A, reg_b(0), step),), tuple(after), count, images=outer))
    return made


#: More rows than this are transposed, so that they are reduced together, unless each has this many lanes.
_IMAGES, _LANES = 4, 128
_ADD: Uop = {"alu": Alu.ADD}
_MAX: Uop = {"alu": Alu.MAX}


def lower_unary_wide(state: Legalizer, op: Operator) -> None:
    """RELU, RELU6, LEAKY_RELU, LOGISTIC and TANH."""
    tables: Tables = (None, None)
    uops: tuple[Uop, ...]
    if op.op in ("LOGISTIC", "TANH"):
        uops, tables = gate_program(op.op, sixteen.gate_params(op, state.subgraph))
    elif op.op == "LEAKY_RELU":
        p = activation.leaky_relu_params(op, state.subgraph)
        # The result is the sum of the positive and the negative side, one of which is 0.
        sign = Alu.SUB if p.alpha_multiplier < 0 else Alu.ADD
        uops = (to(0, STREAM_A, immediate(0), alu=Alu.MAX), *rescaled(to(0, reg_a(0)), p.multiplier, p.shift, 0),
                to(1, STREAM_A, immediate(0), alu=Alu.MIN),
                *rescaled(to(1, reg_a(1)), abs(p.alpha_multiplier), p.alpha_shift, 1),
                {**reg_a(0), **reg_b(1), "alu": sign, "clamp": 1, **OUT})
    else:
        require(op.op != "RELU6" or state.subgraph.profile != "tflm", "TFLite Micro does not rescale a RELU6 of int16; "
                                                                     "--profile canon runs it as LiteRT does")
        r = activation.relu_params(op, state.subgraph)
        uops = (to(0, STREAM_A), *clamped(rescaled(reg_a(0), r.multiplier, r.shift, 0), r.act_min, r.act_max))
    value, output = state.input(op, 0), state.output(op)
    state.layers.append(Flat(op.index, op.op, (value,), output, output.size_bytes // 2, (_INT16,), _INT16, uops,
                             tables=tables))


def _grouped(state: Legalizer, op: Operator, axes: tuple[int, ...]) -> tuple[Value, Shape]:
    """Return the input as [outer, reduced, inner], transposed if that is not its form or if it would fill few lanes."""
    tensor = state.tensor(op, 0)
    count = element_count(tuple(tensor.shape[axis] for axis in axes))
    if axes and axes == tuple(range(axes[0], axes[-1] + 1)):
        outer, inner = element_count(tensor.shape[:axes[0]]), element_count(tensor.shape[axes[-1] + 1:])
        if outer <= _IMAGES or inner >= _LANES:
            return state.input(op, 0), (outer, count, inner)
    order = (*axes, *(axis for axis in range(len(tensor.shape)) if axis not in axes))
    value = move_view(state, op, state.input(op, 0), tensor, lambda x: x.transpose(*order, len(order)))
    return value, (1, count, element_count(tensor.shape) // count)


def lower_mean_wide(state: Legalizer, op: Operator) -> None:
    """A sum, and one rescaling that includes the division."""
    p = reduce.mean_params(op, state.subgraph)
    value, shape = _grouped(state, op, p.axes)
    publish(state, op, _walk(state, op, "mean", value, shape, 0, _ADD,
                             tuple(rescaled({**reg_a(0), "clamp": 1, **OUT}, p.multiplier, p.shift, 0)), _INT16))


def lower_extreme_wide(state: Legalizer, op: Operator, axes: tuple[int, ...]) -> None:
    """REDUCE_MAX and REDUCE_MIN."""
    value, shape = _grouped(state, op, axes)
    worst, alu = (_WHOLE[0], Alu.MAX) if op.op == "REDUCE_MAX" else (_WHOLE[1], Alu.MIN)
    publish(state, op, _walk(state, op, "extremes", value, shape, worst, {"alu": alu}, ({**reg_a(0), **OUT},),
                             _INT16))


def lower_product_wide(state: Legalizer, op: Operator, p: product.ProductParams) -> None:
    """REDUCE_PROD: each product has up to 62 bits with its multiplier, and is rounded half up."""
    value, (outer, count, inner) = _grouped(state, op, p.axes)
    made, first, x, fresh, lower = range(5)

    def scaled() -> list[Uop]:
        """(made * x) >> shift: the bits from 31 on, and those below."""
        uops = [to(lower, reg_a(made), reg_b(x), low()), to(made, reg_a(made), reg_b(x), high_b())]
        if p.shift > 31:
            return [*uops, to(made, reg_a(made), shifted(31 - p.shift, Rounding.HALF_UP))]
        return [*uops, rest(lower, p.shift - 1), to(lower, reg_a(lower), shifted(-1, Rounding.HALF_UP)),
                to(made, reg_a(made), shifted(31 - p.shift)), to(made, reg_a(made), reg_b(lower), alu=Alu.ADD)]

    # The first factor is added to the rescaled initial product, which is 0.
    before = set_to(made, 0), set_to(first, 1), set_to(fresh, 0)
    body = (to(fresh, STREAM_A, reg_b(first), low()), to(x, STREAM_A, immediate(p.multiplier), low()), *scaled(),
            to(made, reg_a(made), reg_b(fresh), alu=Alu.ADD), set_to(first, 0))
    after = (set_to(x, p.multiplier), *scaled(), {**reg_a(made), "clamp": 1, **OUT})
    name = state.subgraph.tensors[op.outputs[0]].name
    raw = Value(name, op.outputs[0], (1, 1, 1, 2 * outer * inner))
    state.layers.append(Flat(op.index, op.op, (value,), raw, inner, (_INT16,), _INT16, before, body, after, count,
                             images=outer))
    publish(state, op, raw)


def _divided(count: int, limits: tuple[int, int]) -> tuple[Uop, ...]:
    """Division of a sum of `count` elements, ties away from zero.

    The argument is that of `divide_params`, with sums of up to 2^15 count: the quotient is less than 2^-15 too large.
    Up to 2^14 elements, no quotient but a tie is rounded differently.
    """
    rounding, multiplier, shift = divide_params(count)
    divide: Uop = shifted(shift) if rounding == "shift" else {
        "multiply": Multiply.HIGH_IMMEDIATE, "immediate": multiplier, "truncate": 1,
        **shifted(shift, Rounding.HALF_UP)}
    return tuple(clamped([{**reg_a(0), **divide}], *limits))


def _taps(state: Legalizer, op: Operator, p: pooling.PoolParams, fill: tuple[int, int]) -> tuple[Value, Shape]:
    """Copy the taps of all windows, [tap, output element]; taps outside the image are `fill`, low byte first."""
    tensor, output = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    base = blank(tensor.shape, tensor.dtype)
    taps = list(itertools.product(range(p.filter_height), range(p.filter_width)))
    require(len(taps) <= _MOST_TAPS, f"windows of int16 have at most {_MOST_TAPS} taps, unless one is the whole image, "
                                     f"found {p.filter_height}x{p.filter_width}")
    target = blank((len(taps), *output.shape), tensor.dtype)
    copies: list[Copy] = []
    if p.pad_top or p.pad_left or p.pad_bottom or p.pad_right:
        copies = [fill_view(byte, target[..., at:at + 1], target) for at, byte in enumerate(fill)]
    for number, (row, col) in enumerate(taps):
        spans = []
        for tap, before, stride, size, out in ((row, p.pad_top, p.stride_h, tensor.shape[1], p.out_height),
                                               (col, p.pad_left, p.stride_w, tensor.shape[2], p.out_width)):
            first = max(0, -((tap - before) // stride))
            last = min(out, (size - 1 - tap + before) // stride + 1)
            start = first * stride + tap - before
            spans.append((slice(first, last), slice(start, start + (last - first - 1) * stride + 1, stride)))
            if last <= first:
                break
        else:
            (rows, in_rows), (cols, in_cols) = spans
            copies.append(copy_between(0, base[:, in_rows, in_cols], base, target[number][:, rows, cols], target))
    value = Value(f"{tensor.name} (taps)", tensor.index, (1, 1, 1, 2 * len(taps) * element_count(output.shape)))
    state.layers.append(Move(op.index, op.op, (state.input(op, 0),), value, tuple(copies)))
    return value, (1, len(taps), element_count(output.shape))


def lower_pool_wide(state: Legalizer, op: Operator) -> None:
    """AVERAGE_POOL_2D and MAX_POOL_2D: reductions over images, or over the taps of windows."""
    p, is_max = pooling.params(op, state.subgraph), op.op == "MAX_POOL_2D"
    n, h, w, c = state.tensor(op, 0).shape
    limits = p.act_min, p.act_max
    if covers_image(op, state.subgraph):
        value, shape = state.input(op, 0), (n, h * w, c)
    else:
        value, shape = _taps(state, op, p, (0, 0x80 if is_max else 0))
    if is_max:
        after = clamped([reg_a(0)], *limits)
        publish(state, op, _walk(state, op, "maxima", value, shape, _WHOLE[0], _MAX, after, _INT16))
        return
    regions = [(0, 1, 0, h)], [(0, 1, 0, w)]
    if not covers_image(op, state.subgraph):
        regions = (window_regions(p.out_height, h, p.filter_height, p.stride_h, p.pad_top),
                   window_regions(p.out_width, w, p.filter_width, p.stride_w, p.pad_left))
    parts = [(rows, cols, (rows[3] - rows[2]) * (cols[3] - cols[2])) for rows, cols in itertools.product(*regions)]
    counts = sorted({count for _, _, count in parts})
    require(counts[-1] < _MOST_COUNT, f"windows of int16 have less than {_MOST_COUNT} elements, found {counts[-1]}")
    averages = [_walk(state, op, f"averages of {count}", value, shape, 0, _ADD, _divided(count, limits), _INT16)
                for count in counts]
    if len(counts) == 1:
        publish(state, op, averages[0])
        return
    target = blank(state.subgraph.tensors[op.outputs[0]].shape, "int16")
    copies = []
    for rows, cols, count in parts:
        part = target[:, rows[0]:rows[1], cols[0]:cols[1]]
        copies.append(copy_between(counts.index(count), part, target, part, target))
    state.layers.append(Move(op.index, op.op, tuple(averages), state.output(op), tuple(copies)))


def lower_softmax_wide(state: Legalizer, op: Operator) -> None:
    """Rows are transposed, so that reductions walk along them: maximum, exponentials, sum, reciprocal, products."""
    tensor, p = state.tensor(op, 0), sixteen.softmax_params(op, state.subgraph)
    depth, count = tensor.shape[-1], element_count(tensor.shape)
    outer, name = count // depth, state.subgraph.tensors[op.outputs[0]].name
    exponentials, reciprocals = sixteen.softmax_tables(state.subgraph.profile)

    def transposed(value: Value, into: Value, shape: tuple[int, int]) -> Value:
        if 1 not in shape:
            base, target = blank(shape, "int16"), blank(shape[::-1], "int16")
            state.layers.append(Move(op.index, op.op, (value,), into, (
                copy_between(0, base.transpose(1, 0, 2), base, target, target),)))
            return into
        return value

    across = Value(f"{tensor.name} (across)", tensor.index, (1, 1, 1, 2 * count))
    value = transposed(state.input(op, 0), across, (outer, depth))
    rows = (1, depth, outer)
    most = _walk(state, op, "maxima", value, rows, _WHOLE[0], _MAX, ({**reg_a(0), **OUT},), _INT16)
    mosts = for_each(state, op, most, outer, depth, "int16")
    powers = _flat(state, op, "exponentials", [(value, _INT16), (mosts, _INT16)], count, _INT16,
                   exponential_program(p), split_table(exponentials))
    total = _walk(state, op, "sums", powers, rows, 0, _ADD, ({**reg_a(0), **OUT},), _INT32)
    factor = _flat(state, op, "reciprocals", [(total, _INT32)], outer, _INT32, reciprocal_program(),
                   split_table(reciprocals))
    factors = for_each(state, op, factor, outer, depth, "int32")
    shares = _flat(state, op, "shares", [(powers, _INT16), (factors, _INT32)], count, _INT16, share_program())
    publish(state, op, transposed(shares, Value(name, op.outputs[0], (1, 1, 1, 2 * count)), (depth, outer)))
