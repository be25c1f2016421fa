"""QUANTIZE, DEQUANTIZE, CAST and BUCKETIZE.

Sources: `reference/requantize.h`, `reference/quantize.h AffineQuantize`,
`integer_ops/dequantize.h`, `quantize.cc`, `cast.cc`, `bucketize.cc`.
"""

from dataclasses import dataclass

import numpy as np

from tq_hw.model.errors import InputError, UnsupportedError
from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.sim.golden.arith import (
    INT32_MIN,
    dtype_range,
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    round_half_away,
    wrap_int32,
)
from tq_hw.sim.golden.registry import (
    Array,
    Inputs,
    kernel,
    narrow,
    output_tensor,
    require,
    require_dtype,
    value,
)

__all__ = ["QuantizeParams", "quantize_params", "quantized"]

_INTEGERS = ("int8", "uint8", "int16")
_OUTPUTS = (*_INTEGERS, "int32")


@dataclass(frozen=True)
class QuantizeParams:
    """Derived integers of an integer to integer QUANTIZE."""

    input_zero_point: int
    multiplier: int
    shift: int
    output_zero_point: int
    act_min: int
    act_max: int


def quantize_params(op: Operator, subgraph: Subgraph) -> QuantizeParams:
    """Derive the integers of a QUANTIZE from int8, uint8 or int16 to those or int32, or from int32 to int8 or int16.

    The factor is a double quotient. Equal scales give the exact multiplier 2^30 with shift 1; the source's shortcut for
    int8 to uint8 is the same function.
    """
    tensor = require_dtype(op, subgraph, *_OUTPUTS)
    output = output_tensor(op, subgraph)
    outputs = ("int8", "int16") if tensor.dtype == "int32" else _OUTPUTS
    require(output.dtype in outputs, f"output must be {' or '.join(outputs)}, not {output.dtype}")
    multiplier, shift = quantize_multiplier(tensor.scale / output.scale)
    return QuantizeParams(tensor.zero_point, multiplier, shift, output.zero_point,
                          *dtype_range(output.dtype))


@kernel("QUANTIZE")
def quantize(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int8, uint8, int16 or float32 to int8, uint8 or int16; the integers to int32 as well; int32 to int8 or int16.

    Raises `InputError` for a float whose quotient is outside int32, where C leaves the conversion undefined, except
    minus infinity.
    """
    tensor = require_dtype(op, subgraph, "float32", *_OUTPUTS)
    output = output_tensor(op, subgraph)
    x = value(inputs, 0)
    if tensor.dtype != "float32":
        p = quantize_params(op, subgraph)
        centred = wrap_int32(x.astype(np.int64) - p.input_zero_point)
        scaled = multiply_by_quantized_multiplier(centred, p.multiplier, p.shift)
        return [narrow(wrap_int32(scaled + p.output_zero_point), p.act_min, p.act_max, output.dtype)]
    return [quantized(x, output)]


def quantized(x: Array, output: Tensor) -> Array:
    """Return the codes of float32 numbers in a tensor like `output`; raise as `quantize` does.

    Minus infinity, such as the logarithm of 0, has the first code; with a negative zero point the sum wraps, and it has
    the last one.
    """
    require(output.dtype in _INTEGERS,
            f"output must be {' or '.join(_INTEGERS)}, not {output.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = round_half_away(x.astype(np.float32) / np.float32(output.scale))
    # x86 converts minus infinity to the least int32; no other processor was tried.
    least = np.isneginf(x)
    rounded = np.where(least, INT32_MIN, rounded)
    bad = ~((np.abs(rounded) < 1 << 31) | least)
    if bad.any():
        raise InputError(f"a float input must be finite and below {output.scale * (1 << 31)} in "
                          f"magnitude, found {x[bad].flat[0]}")
    low, high = dtype_range(output.dtype)
    return narrow(wrap_int32(rounded.astype(np.int64) + output.zero_point), low, high, output.dtype)


@kernel("DEQUANTIZE")
def dequantize(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Int8, uint8 or int16 to float32: a double product, rounded once."""
    tensor = require_dtype(op, subgraph, *_INTEGERS)
    x = value(inputs, 0).astype(np.int64) - tensor.zero_point
    return [(tensor.scale * x.astype(np.float64)).astype(np.float32)]


@kernel("CAST")
def cast(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Convert the raw numbers; integers wrap, floats are truncated.

    Raises `OptionError` for a float outside the target's range, where engines differ.
    """
    known = ("int8", "uint8", "int16", "int32", "int64", "bool", "float32")
    output = output_tensor(op, subgraph)
    x = value(inputs, 0)
    if x.dtype.name not in known or output.dtype not in known:
        raise UnsupportedError(f"cast from {x.dtype.name} to {output.dtype} is not supported; "
                               f"known are {', '.join(known)}")
    if x.dtype.kind == "f" and output.dtype not in ("float32", "bool"):
        signed = not output.dtype.startswith("u")
        limit = 2.0 ** (np.dtype(output.dtype).itemsize * 8 - signed)
        whole = np.trunc(x.astype(np.float64))
        if not np.all((whole >= -limit * signed) & (whole < limit)):
            raise InputError(f"a float input must be within {output.dtype} to be cast to it")
    return [x.astype(output.dtype)]


@kernel("BUCKETIZE")
def bucketize(op: Operator, subgraph: Subgraph, inputs: Inputs) -> list[Array]:
    """Number of boundaries, in ascending order, that are at most equal to a float32 number."""
    require_dtype(op, subgraph, "float32")
    output = output_tensor(op, subgraph)
    require(output.dtype == "int32", f"output must be int32, not {output.dtype}")
    found = op.options.get("boundaries", ())
    boundaries = np.array(found if isinstance(found, tuple) else (), np.float32)
    require(bool((boundaries[1:] >= boundaries[:-1]).all()), "boundaries must not decrease")
    x = value(inputs, 0)
    if np.isnan(x).any():
        raise InputError("a float input must not be NaN")
    return [np.searchsorted(boundaries, x, side="right").astype(np.int32)]
