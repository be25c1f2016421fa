"""Activations and extremes of packed numbers: sums, products and comparisons in the order of LiteRT's kernels."""

import math
from dataclasses import replace

import numpy as np

from tq_hw.compiler.rewrite.bounds import exponent
from tq_hw.compiler.rewrite.integer_bounds import integer_bounds
from tq_hw.compiler.rewrite.island import label
from tq_hw.compiler.rewrite.packing import Packed, Packing, Rows, plain
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Operator, Tensor
from tq_hw.sim.golden.arith import INT32_MAX, INT32_MIN, UINT8_CODES
from tq_hw.sim.golden.float32 import CUTOFF, LEAST
from tq_hw.sim.golden.packed_float import MOST_LOG, keys_of, packed
from tq_hw.sim.golden.registry import bool_option, float_option, str_option
from tq_hw.sim.golden.signs import least_number

__all__ = ["ELEMENTS", "between", "chosen", "extreme", "fused", "logarithm"]

#: Relative error bound of a logarithm.
_MORE = 1 + 2.0**-22
#: Limits of an activation.
_CLAMPS = {"RELU6": (0.0, 6.0), "RELU_0_TO_1": (0.0, 1.0), "RELU_N1_TO_1": (-1.0, 1.0)}


def extreme(packing: Packing, op: Operator, one: Packed, other: Packed, *, least: bool) -> Packed:
    """Add the elementwise maximum of two tensors, or with `least` the minimum."""
    choose = min if least else max
    return packing.add(op, "PACKED_MIN" if least else "PACKED_MAX", (one.index, other.index), packing.graph.output(op),
                       (choose(one.low, other.low), choose(one.high, other.high)))


def between(packing: Packing, op: Operator, part: Packed, low: float, high: float) -> Packed:
    """Add a clamp to `low`..`high`."""
    part = extreme(packing, op, part, packing.number(low), least=False)
    return extreme(packing, op, part, packing.number(high), least=True)


def _of_two(packing: Packing, op: Operator) -> Packed:
    # Packed numbers are finite. JAX's softmax takes the maximum with minus infinity, in case a row is empty.
    end, like = np.inf if op.op == "MINIMUM" else -np.inf, packing.graph.output(op)
    for position in (0, 1):
        given, kept = packing.graph.input(op, position).data, packing.graph.input(op, 1 - position)
        if given is not None and (given == end).all() and kept.shape == like.shape:
            return packing.packed(kept.index)
    one, other = (packing.packed(index) for index in op.inputs)
    return extreme(packing, op, one, other, least=op.op == "MINIMUM")


def _of_two_fused(packing: Packing, op: Operator) -> Packed:
    """Add an ADD, SUB, MUL or DIV and its fused activation."""
    name = str_option(op, "fused_activation_function") if "fused_activation_function" in op.options else "NONE"
    if name == "NONE" or (name == "RELU" and op.op != "DIV"):
        return packing.of_two(op)
    return fused(packing, op, packing.of_two(plain(op)))


def fused(packing: Packing, op: Operator, made: Packed) -> Packed:
    """Add the fused activation of an operator after its result."""
    name = str_option(op, "fused_activation_function")
    if name == "NONE":
        return made
    if name == "RELU":
        return packing.positive(op, made, packing.graph.output(op))
    if name not in _CLAMPS:
        raise UnsupportedError(f"operator {op.index} ({op.op}) has {name}; float32 has RELU, "
                               f"{', '.join(_CLAMPS)}")
    return between(packing, op, made, *_CLAMPS[name])


def _clamped(packing: Packing, op: Operator) -> Packed:
    return between(packing, op, packing.packed(op.inputs[0]), *_CLAMPS[op.op])


def _negative(packing: Packing, op: Operator) -> Packed:
    return packing.binary(plain(op), "SUB", packing.number(0), packing.packed(op.inputs[0]),
                          packing.graph.output(op))


def _magnitude(packing: Packing, op: Operator) -> Packed:
    made = extreme(packing, op, packing.packed(op.inputs[0]), _negative(packing, op), least=False)
    return replace(made, low=max(made.low, 0.0))


def _leaky(packing: Packing, op: Operator) -> Packed:
    """Add LEAKY_RELU: the larger of a number and its product with alpha."""
    alpha = float_option(op, "alpha")
    if not 0 <= alpha <= 1:
        raise UnsupportedError(f"operator {op.index} (LEAKY_RELU) of float32 has alpha {alpha:.3g}, which must be from "
                               "0 to 1")
    part = packing.packed(op.inputs[0])
    less = packing.binary(plain(op), "MUL", part, packing.number(alpha), packing.graph.output(op))
    return extreme(packing, op, part, less, least=False)


def _of_channels(packing: Packing, op: Operator) -> Packed:
    """PRELU: what is above 0, and what is below times a number of its own; one of the two is 0."""
    like, part = packing.graph.output(op), packing.packed(op.inputs[0])
    below = extreme(packing, op, part, packing.number(0), least=True)
    product = packing.binary(plain(op), "MUL", below, packing.packed(op.inputs[1]), like)
    return packing.binary(plain(op), "ADD", packing.positive(op, part, like), product, like)


def _hard_swish(packing: Packing, op: Operator) -> Packed:
    like, part = packing.graph.output(op), packing.packed(op.inputs[0])
    moved = packing.binary(plain(op), "ADD", part, packing.number(3), like)
    made = packing.binary(plain(op), "MUL", part, between(packing, op, moved, 0, 6), like)
    return packing.binary(plain(op), "DIV", made, packing.number(6), like)


def _power(packing: Packing, op: Operator) -> Packed:
    return packing.power(op, packing.packed(op.inputs[0]), packing.graph.output(op))


def _half_power(packing: Packing, op: Operator) -> Packed:
    """Add x^0.5 as the library computes it: not always the nearest float32, as SQRT is."""
    power = exponent(packing.graph, op)
    if power != 0.5:
        has = "no constant exponent" if power is None else f"exponent {power:.9g}"
        raise UnsupportedError(f"operator {op.index} (POW) of float32 has {has}; it must be 0.5 or a single positive "
                               "whole number")
    return packing.root(op, packing.graph.output(op))


def _logarithm(packing: Packing, op: Operator) -> Packed:
    return logarithm(packing, op, packing.packed(op.inputs[0]), packing.graph.output(op))


def logarithm(packing: Packing, op: Operator, part: Packed, like: Tensor) -> Packed:
    """Add the natural logarithm of numbers from 1 to 2^23."""
    if part.low < 1 or part.high >= MOST_LOG:
        raise UnsupportedError(f"operator {op.index} ({op.op}) is the logarithm of numbers between {part.low:.3g} and "
                               f"{part.high:.3g}; it is computed from 1 to 2^23")
    # One more rounding, because the library's error is slightly more than half a unit in the last place.
    return packing.add(op, "PACKED_LOG", (part.index,), like, (math.log(part.low) / _MORE,
                                                                   math.log(part.high) * _MORE))


def chosen(packing: Packing, op: Operator, where: tuple[str, Packed, float], one: Packed, other: Packed) -> Packed:
    """Add a selection: `one` where a comparison with a constant is true, else `other`."""
    graph, like = packing.graph, packing.graph.output(op)
    name, part, limit = where
    key = packing.add(op, "PACKED_KEY", (part.index,), like, (part.low, part.high))
    bound = graph.add_constant(keys_of(packed(np.array(limit, np.float32))))
    holds = graph.add_tensor(Tensor(0, like.name, "bool", like.shape))
    packing.new.append(Operator(op.index, name, (key.index, bound), (holds,)))
    return packing.add(op, "SELECT_V2", (holds, one.index, other.index), like,
                       (min(one.low, other.low), max(one.high, other.high)))


def _logistic(packing: Packing, op: Operator) -> Packed:
    """Add 1 / (1 + e^-x): 1 above an upper limit, e^x below a lower one."""
    like, part, one = packing.graph.output(op), packing.packed(op.inputs[0]), packing.number(1)
    least, cutoff = float(LEAST), float(CUTOFF)
    middle = between(packing, op, part, least, cutoff)
    power = packing.power(op, packing.binary(plain(op), "SUB", packing.number(0), middle, like), like)
    made = packing.binary(plain(op), "DIV", one, packing.binary(plain(op), "ADD", one, power, like), like)
    if part.high > cutoff:
        made = chosen(packing, op, ("GREATER", part, cutoff), one, made)
    if part.low < least:
        low = packing.power(op, extreme(packing, op, part, packing.number(least), least=True), like)
        made = chosen(packing, op, ("LESS", part, least), low, made)
    return made


def _extreme_of_rows(packing: Packing, op: Operator) -> Packed:
    graph, along = packing.graph, packing.graph.constant(op, 1)
    if along is None:
        raise UnsupportedError(f"operator {op.index} ({op.op}) has computed axes")
    row = Tensor(0, graph.output(op).name, "float32", graph.output(op).shape)
    return packing.extreme(op, packing.packed(op.inputs[0]), along, graph.input(op), row, op.op,
                           keep_dims=bool_option(op, "keep_dims"))


def _dequantized(packing: Packing, op: Operator) -> Packed:
    """Add DEQUANTIZE of int16: a product of 24 and 16 bits, rounded once here and in the kernel, which uses double."""
    source, like = packing.graph.input(op), packing.graph.output(op)
    if source.dtype != "int16" or source.zero_point:
        raise UnsupportedError(f"{label(source)} is {source.dtype} with zero point {source.zero_point}; float32 must "
                               "come from int8, or from int16 with zero point 0")
    codes = packing.add(op, "PACKED_INTEGER", op.inputs, like, (-2.0**15, 2.0**15 - 1))
    made = packing.binary(plain(op), "MUL", codes, packing.number(source.scale), like)
    return replace(made, low=max(made.low, least_number(packing.graph.subgraph, source.index)))


def _of_integers(packing: Packing, op: Operator) -> Packed:
    """Add the numbers of int32, or of int64 that has no more bits, or 0 and 1 of a comparison's result."""
    graph, source, inputs = packing.graph, packing.graph.input(op), op.inputs
    if source.dtype in ("int32", "int64"):
        low, high = integer_bounds(graph, source.index)
        if low < INT32_MIN or high > INT32_MAX:
            raise UnsupportedError(f"{label(source)} is int64 and may exceed int32; a CAST to float32 must be of "
                                   "int32, bool, or int64 that holds places or counts")
        if source.dtype == "int64":
            inputs = (graph.add_tensor(Tensor(0, source.name, "int32", source.shape)),)
            packing.new.append(Operator(op.index, "CAST", op.inputs, inputs,
                                        {"in_data_type": "int64", "out_data_type": "int32"}))
        ends = float(np.float32(low)), float(np.float32(high))
        return packing.add(op, "PACKED_INTEGER", inputs, graph.output(op), ends)
    if source.dtype != "bool":
        raise UnsupportedError(f"{label(source)} is {source.dtype}; a CAST to float32 must be of int32, int64 or bool")
    numbers = packing.graph.add_constant(packed((UINT8_CODES != 0).astype(np.float32)))
    return packing.add(op, "TABLE", (source.index, numbers), packing.graph.output(op), (0.0, 1.0))


ELEMENTS: dict[str, Rows] = {
    "DEQUANTIZE": _dequantized, "CAST": _of_integers, **dict.fromkeys(("ADD", "SUB", "MUL", "DIV"), _of_two_fused),
    "MAXIMUM": _of_two, "MINIMUM": _of_two, **dict.fromkeys(_CLAMPS, _clamped), "NEG": _negative, "ABS": _magnitude,
    "LEAKY_RELU": _leaky, "PRELU": _of_channels, "HARD_SWISH": _hard_swish, "EXP": _power, "POW": _half_power,
    "LOG": _logarithm, "LOGISTIC": _logistic, "REDUCE_MAX": _extreme_of_rows, "REDUCE_MIN": _extreme_of_rows}
