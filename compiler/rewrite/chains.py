"""Float32 sums of int8 tensors that neither a table nor a pair computes: additions of float32 numbers in int32 words.

`sum_parts.py` finds the parts of a sum; RESIZE_BILINEAR has four products, which come from tables. A word represents a
float32 number exactly, and an addition rounds as float32 does. Comparison with the thresholds of QUANTIZE turns a word
into a code. The result of a sum of any number of tensors is therefore that of LiteRT's kernels.
"""

import math

import numpy as np

from tq_hw.compiler.rewrite.island import label
from tq_hw.compiler.rewrite.rewrite import Subject
from tq_hw.compiler.rewrite.sum_parts import Leaf, Looked, Resized, Sum, find_part
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, OptionValue, Tensor
from tq_hw.sim.golden.arith import INT32_MIN, IntArray, quantize_multiplier
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.libm import Float32
from tq_hw.sim.golden.pair import settle
from tq_hw.sim.golden.raw_float import ordered
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.registry import bool_option
from tq_hw.sim.golden.soft_float import BIAS, EXPONENT_BITS, FINE_BITS, FRACTION_BITS, pack

__all__ = ["add_chain", "add_reduction", "code_tables"]

#: Distance from the zero point below which a code's threshold is in the table of finer units.
_NEAR = 16


def add_chain(graph: Subject, op: Operator) -> list[Operator]:
    """Return operators that compute the output of the QUANTIZE `op`; raise `UnsupportedError` if there are none."""
    leaves = list[Leaf]()
    part = find_part(graph, op.inputs[0], leaves)
    if isinstance(part, Leaf | Looked):
        raise UnsupportedError("it is not a sum of int8 tensors quantized to int8")
    exponent = _exponent(leaves, len(leaves))
    made: list[Operator] = []
    if isinstance(part, Resized):
        return [_interpolated(graph, op, part, exponent)]
    words = _emit(graph, op, part, exponent, made)
    return [*made, _quantized(graph, op, words, exponent, 1)]


def add_reduction(graph: Subject, op: Operator, reduction: Operator) -> list[Operator]:
    """Return operators that compute the QUANTIZE `op` of a MEAN or SUM; raise `UnsupportedError` as above.

    Division keeps the order of numbers, so the thresholds of a mean are found as thresholds of its sum. A RESHAPE
    before the reduction, such as in poolings of PyTorch, is another view of the words.
    """
    leaves, axis_values = list[Leaf](), graph.constant(reduction, 1)
    source, before = graph.input(reduction), graph.maker(reduction.inputs[0])
    order = tuple(range(len(source.shape)))
    if before is not None and before.op == "TRANSPOSE" and (given := graph.constant(before, 1)) is not None:
        order, source = tuple(int(axis) % len(order) for axis in given), graph.input(before)
    if axis_values is None or 0 in source.shape:
        raise UnsupportedError("its axes are computed, or it has no elements")
    reduced = axes(axis_values, len(order))
    places = [[order[axis] for axis in range(len(order)) if (axis in reduced) == is_reduced]
              for is_reduced in (True, False)]
    if sorted(order) != list(range(len(order))) or any(each != sorted(each) for each in places):
        raise UnsupportedError("a TRANSPOSE before it changes the order of additions")
    viewed = before if before is not None and before.op == "RESHAPE" else None
    part = find_part(graph, source.index if viewed is None else viewed.inputs[0], leaves)
    count = math.prod(source.shape[order[axis]] for axis in reduced)
    exponent = _exponent(leaves, len(leaves) * count)
    made: list[Operator] = []
    table = -1
    if isinstance(part, Leaf):
        words, table = part.source.index, graph.add_constant(pack(part.values, exponent).astype(np.int32))
        if part.source.shape != (source if viewed is None else graph.input(viewed)).shape:
            raise UnsupportedError(f"{label(source)}'s shape differs from its source's")
    else:
        words = _emit(graph, op, part, exponent, made)
    if viewed is not None:
        view = graph.add_tensor(graph.tensors[words], source.shape)
        shape = graph.add_constant(np.array(source.shape, np.int32))
        made.append(Operator(op.index, "RESHAPE", (words, shape), (view,)))
        words = view
    summed = graph.add_tensor(Tensor(0, source.name, "int32", graph.output(reduction).shape))
    along = graph.add_constant(np.array(places[0], np.int32))
    made.append(Operator(op.index, "FLOAT_REDUCE", (words, along, table), (summed,),
                         {"exponent": exponent, "keep_dims": bool_option(reduction, "keep_dims")}))
    return [*made, _quantized(graph, op, summed, exponent, count if reduction.op == "MEAN" else 1)]


def _quantized(graph: Subject, op: Operator, words: int, exponent: int, count: int) -> Operator:
    """Return the operator that quantizes words divided by `count`."""
    target = graph.output(op)
    if target.dtype != "int8":
        raise UnsupportedError(f"{label(target)} is {target.dtype}, and sums of float32 must become int8")
    tables, options = code_tables(graph, op, exponent, count)
    inputs = (words, *(graph.add_constant(table.astype(np.int32)) for table in tables))
    return Operator(op.index, "FLOAT_CODES", inputs, op.outputs, {"exponent": exponent, "count": count, **options})


def _exponent(leaves: list[Leaf], terms: int) -> int:
    """Return an exponent of words that fits all sums; the last bit of a sum is not below the leaves' last bits."""
    values = np.concatenate([leaf.values for leaf in leaves])
    powers = np.frexp(values[values != 0].astype(np.float64))[1] - FRACTION_BITS
    if not powers.size:
        return 0
    exponent = int(powers.min()) - FRACTION_BITS
    most = int(powers.max()) + terms.bit_length() + 1 - exponent
    if most >= 1 << EXPONENT_BITS or np.abs(values[values != 0]).min() < np.finfo(np.float32).tiny:
        raise UnsupportedError(f"its values reach from 2^{int(powers.min()) + FRACTION_BITS - 1} to "
                               f"2^{int(powers.max()) + FRACTION_BITS}, more than words of int32 hold")
    return exponent


def code_tables(graph: Subject, op: Operator, exponent: int,
                count: int) -> tuple[tuple[IntArray, IntArray], dict[str, OptionValue]]:
    """Return the tables of thresholds, and the constants that rescale a word to an estimate of its code.

    Thresholds are in fixed point, with a unit for which the largest one, 255.5 output scales, is below 2^31. Thresholds
    near 0 can fall between two multiples of that unit and have a table with a finer unit.
    """
    target = graph.output(op)
    codes = np.arange(-127, 128)
    begins, scale = _begins(graph, op, codes, count), target.scale * count
    unit = math.ceil(math.log2(scale * 255.5)) - 31
    scaled = [np.ldexp(begins.astype(np.float64), -unit + bits) for bits in (0, FINE_BITS)]
    near = np.abs(codes - target.zero_point) < _NEAR
    multiplier, shift = quantize_multiplier(math.ldexp(scale, -unit) ** -1)
    about = np.clip(settle(np.floor(scaled[0]).astype(np.int64) + BIAS, multiplier, shift) + target.zero_point,
                    -128, 127)
    used = np.where(near, scaled[1], scaled[0])
    if (used != np.floor(used)).any() or not (about == codes).all() or not -31 <= shift <= 0:
        raise UnsupportedError(f"codes of an output scale of {target.scale:.3g} begin between 32-bit values")
    tables = []
    for rows, numbers in ((~near, scaled[0]), (near, scaled[1])):
        table = np.full(256, INT32_MIN, np.int64)
        table[codes[rows] & 0xFF] = numbers[rows].astype(np.int64)
        tables.append(table)
    return (tables[0], tables[1]), {"left": exponent - EXPONENT_BITS - unit, "multiplier": multiplier, "shift": shift}


def _begins(graph: Subject, op: Operator, codes: IntArray, count: int) -> Float32:
    """Return the thresholds by bisection: for each code the least float32 number that, over `count`, gives the code."""
    scale = graph.output(op).scale * count
    low, high = (ordered(np.full(codes.shape, sign * 300 * scale, np.float32).view(np.int32).astype(np.int64))
                 for sign in (-1, 1))
    for _ in range(33):
        middle = (low + high) >> 1
        values = ordered(middle).astype(np.int32).view(np.float32)
        reached = KERNELS["QUANTIZE"](op, graph.subgraph, [values / np.float32(count)])[0] >= codes
        low, high = np.where(reached, low, np.minimum(middle + 1, high)), np.where(reached, middle, high)
    found: Float32 = ordered(high).astype(np.int32).view(np.float32)
    return found


def _interpolated(graph: Subject, op: Operator, part: Resized, exponent: int) -> Operator:
    """Return the operator that quantizes an interpolation; raise `UnsupportedError` as above."""
    codes = _quantized(graph, op, part.source.index, exponent, 1)
    inputs = (part.source.index, graph.add_constant(part.values), *codes.inputs[1:])
    return Operator(op.index, "FLOAT_RESIZE", inputs, op.outputs,
                    {**part.op.options, **codes.options, "relu": part.relu})


def _emit(graph: Subject, op: Operator, part: Looked | Resized | Sum, exponent: int, made: list[Operator]) -> int:
    """Add the operators of a sum, and return its tensor of words."""
    inputs, tables = [], []
    if isinstance(part, Looked):
        output = graph.add_tensor(Tensor(0, part.name, "int32", part.shape))
        table = np.zeros((256, 256), np.int32)
        table[:part.values.shape[1]] = pack(part.values, exponent).T
        constants = (graph.add_constant(part.places.astype(np.uint8)), graph.add_constant(table.reshape(-1)))
        made.append(Operator(op.index, "TABLE_OF_TWO", (part.source.index, *constants), (output,)))
        return output
    if isinstance(part, Resized):
        source = graph.output(part.op)
        output = graph.add_tensor(Tensor(0, source.name, "int32", source.shape))
        made.append(Operator(op.index, "FLOAT_RESIZE", (part.source.index, graph.add_constant(part.values)), (output,),
                             {**part.op.options, "exponent": exponent, "relu": part.relu}))
        return output
    for each in part.parts:
        if isinstance(each, Leaf):
            inputs.append(each.source.index)
            tables.append(graph.add_constant(pack(each.values, exponent).astype(np.int32)))
        else:
            inputs.append(_emit(graph, op, each, exponent, made))
            tables.append(-1)
    source = graph.output(part.op)
    output = graph.add_tensor(Tensor(0, source.name, "int32", source.shape))
    made.append(Operator(op.index, "FLOAT_SUM", (*inputs, *tables), (output,),
                         {"exponent": exponent, "relu": part.relu}))
    return output
