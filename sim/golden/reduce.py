"""MEAN, SUM, REDUCE_MAX, REDUCE_MIN, ARG_MAX and ARG_MIN.

Sources: `reference/reduce.h QuantizedMeanOrSum`, `reduce.cc`, `arg_min_max.cc`. SUM follows TFLite Micro. LiteRT's
BUILTIN_REF reads its int8 input as uint8; so does profile litert.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Operator, Subgraph
from tq_hw.sim.golden.arith import (
    dtype_range,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    wrap_int32,
)
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    bool_option,
    kernel,
    narrow,
    normalize_axis,
    output_tensor,
    require,
    require_dtype,
    require_same_quantization,
    value,
)

__all__ = ["MeanParams", "axes", "mean_params", "product_in_order", "reduce_integers", "sum_in_order"]


@dataclass(frozen=True)
class MeanParams:
    """Derived integers of MEAN and SUM.

    Members
    -------
    axes : reduced axes, ascending
    count : elements per result
    multiplier, shift : applied to `sum(x) - count * input_zero_point`; for MEAN they include 1 / count
    unsigned : input and output bytes are read as uint8
    """

    axes: tuple[int, ...]
    count: int
    input_zero_point: int
    multiplier: int
    shift: int
    output_zero_point: int
    unsigned: bool = False


def axes(axis_values: Array, rank: int) -> tuple[int, ...]:
    """Reduced axes, ascending and without repetition; an empty list reduces nothing."""
    listed = {normalize_axis(int(axis), rank) for axis in np.reshape(axis_values, -1)}
    return tuple(sorted(listed))


def mean_params(op: Operator, subgraph: Subgraph, axis_values: Array | None = None) -> MeanParams:
    """Derive the integers of a MEAN or SUM.

    `axis_values` are the contents of input 1; by default its constant data.
    """
    tensor = require_dtype(op, subgraph, "int8", "int16")
    output = output_tensor(op, subgraph)
    require(output.dtype == tensor.dtype, f"output must be {tensor.dtype}, not {output.dtype}")
    if axis_values is None:
        axis_values = require_dtype(op, subgraph, "int32", position=1).data
        if axis_values is None:
            raise ModelError("the axes (input 1) must be constant")
    reduced = axes(axis_values, len(tensor.shape))
    count = int(np.prod([tensor.shape[axis] for axis in reduced], dtype=np.int64))
    require(count >= 1, f"input of shape {tensor.shape} has nothing to reduce")
    multiplier, shift = quantize_multiplier(tensor.scale / output.scale)
    if op.op == "MEAN":
        # One multiplier for scale and 1 / count: shift left to use the bits that the division frees, as far as a right
        # shift of 31 allows, then truncate.
        spare = min(count.bit_length() - 1, 32, 31 + shift)
        multiplier = (multiplier << spare) // count
        shift -= spare
    # LiteRT's SUM of int8 reads and writes uint8.
    unsigned = op.op == "SUM" and subgraph.profile == "litert" and tensor.dtype == "int8"
    return MeanParams(reduced, count, tensor.zero_point, multiplier, shift, output.zero_point, unsigned)


def sum_in_order(x: Array, reduced: tuple[int, ...], *, keep_dims: bool) -> Array:
    """Sums of float32 over axes; elements are added in memory order."""
    # Sums start from 0: a sum of only -0 is 0.
    return _in_order(np.add, x, reduced, keep_dims) + np.float32(0)


def product_in_order(x: Array, reduced: tuple[int, ...], *, keep_dims: bool) -> Array:
    """Products of float32 over axes, from 1 on; elements are multiplied in memory order."""
    return _in_order(np.multiply, x, reduced, keep_dims)


def _in_order(join: np.ufunc, x: Array, reduced: tuple[int, ...], keep_dims: bool) -> Array:
    kept = [axis for axis in range(x.ndim) if axis not in reduced]
    rows = x.transpose(*kept, *reduced).reshape((*(x.shape[axis] for axis in kept), -1))
    made: Array = join.accumulate(rows, axis=-1, dtype=np.float32)[..., -1]
    return made.reshape([1 if axis in reduced else size for axis, size in enumerate(x.shape)]) if keep_dims else made


def _real(op: Operator, x: Array, reduced: tuple[int, ...]) -> list[Array]:
    """Mean or sum of float32: `Reduce`, then one division."""
    count = int(np.prod([x.shape[axis] for axis in reduced], dtype=np.int64))
    require(count >= 1, f"input of shape {x.shape} has nothing to reduce")
    sums = sum_in_order(x, reduced, keep_dims=bool_option(op, "keep_dims"))
    return [np.asarray(sums / np.float32(count) if op.op == "MEAN" else sums, np.float32)]


def reduce_integers(function: np.ufunc, op: Operator, inputs: Inputs) -> list[Array]:
    """Sums or products of int32 or int64 over the axes of input 1; the low bits are kept."""
    x = value(inputs, 0)
    # numpy's integer reductions wrap.
    return [np.asarray(function.reduce(x, axis=axes(value(inputs, 1), x.ndim), dtype=x.dtype,
                                       keepdims=bool_option(op, "keep_dims")))]


@kernel("MEAN", "SUM")
def mean(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int8 or int16 mean or sum over the axes of input 1; of float32; sums of int32 and int64."""
    if value(inputs, 0).dtype == np.float32:
        return _real(op, value(inputs, 0), axes(value(inputs, 1), value(inputs, 0).ndim))
    if op.op == "SUM" and value(inputs, 0).dtype in (np.int32, np.int64):
        return reduce_integers(np.add, op, inputs)
    p = mean_params(op, subgraph, value(inputs, 1))
    x = value(inputs, 0)
    x = x.view(np.uint8) if p.unsigned else x
    total = x.sum(axis=p.axes, dtype=np.int64, keepdims=bool_option(op, "keep_dims"))
    acc = wrap_int32(total - p.input_zero_point * p.count)
    scaled = multiply_by_quantized_multiplier(acc, p.multiplier, p.shift)
    if p.unsigned:
        return [narrow(scaled + p.output_zero_point, 0, 255, "uint8").view(np.int8)]
    return [narrow(scaled + p.output_zero_point, *dtype_range(x.dtype.name), x.dtype.name)]


@kernel("REDUCE_MAX", "REDUCE_MIN")
def reduce_extreme(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Largest or smallest raw value over the axes of input 1; also of float32."""
    x = value(inputs, 0)
    if x.dtype != np.float32:
        require_dtype(op, subgraph, "int8", "int16", "int32", "int64")
        require_same_quantization(op, subgraph)
    reduced = axes(value(inputs, 1), x.ndim)
    keep_dims = bool_option(op, "keep_dims")
    result = (x.max(axis=reduced, keepdims=keep_dims) if op.op == "REDUCE_MAX"
              else x.min(axis=reduced, keepdims=keep_dims))
    return [np.asarray(result)]


@kernel("REDUCE_ANY", "REDUCE_ALL")
def reduce_logical(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Whether any or all elements are true, over the axes of input 1."""
    x = value(inputs, 0)
    choose = np.any if op.op == "REDUCE_ANY" else np.all
    return [np.asarray(choose(x, axis=axes(value(inputs, 1), x.ndim), keepdims=bool_option(op, "keep_dims")))]


@kernel("ARG_MAX", "ARG_MIN")
def arg_extreme(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Position of the largest or smallest value along the axis of input 1, the first of ties."""
    require_dtype(op, subgraph, "int8", "int32", "float32")
    output = output_tensor(op, subgraph)
    require(output.dtype in ("int32", "int64"),
            f"output must be int32 or int64, not {output.dtype}")
    x = value(inputs, 0)
    require(not np.isnan(x).any(), "a float input must not be NaN")
    axis = normalize_axis(int(value(inputs, 1).reshape(-1)[0]), x.ndim)
    choose = np.argmax if op.op == "ARG_MAX" else np.argmin
    return [np.asarray(choose(x, axis=axis)).astype(output.dtype)]
