"""Recipes of random graphs for elements and rows: tables, sums, reductions, comparisons, other types."""

from typing import Any

import numpy as np

from tq_hw.model.random.sketch import Sketch, Unfit

__all__ = ["arg", "binary", "compare", "dequantize", "float_sums", "floats", "integers", "largest", "quantize",
           "reduce", "rows", "types", "unary"]


def unary(s: Sketch, x: int) -> list[int]:
    """A function of one byte."""
    op = s.pick("LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "HARD_SWISH", "ABS", "RELU_0_TO_1",
                "GELU", "ELU", "EXP", "LOG", "RSQRT", "SQRT")
    if op == "TANH" and s.chance(0.3):
        return [s.b.add(op, [x], **s.out(0.01))]
    if op in ("LOGISTIC", "TANH"):
        return [s.b.add(op, [x])]
    scale, zero_point = s.quantization(x)
    if (op in ("RSQRT", "SQRT") and zero_point != -128) or (op == "EXP" and scale * (127 - zero_point) > 15):
        raise Unfit
    natural = {"EXP": float(np.exp(scale * (127 - zero_point)) / 200), "LOG": 0.04, "RSQRT": 0.06 / scale**0.5,
               "SQRT": (255 * scale)**0.5 / 200}
    out = s.out(natural.get(op, scale))
    if op == "HARD_SWISH" and s.b.tensors[x].scale >= 100 * out["scale"]:
        raise Unfit
    options = {"alpha": float(np.float32(s.rng.uniform(-0.5, 1.5)))} if op == "LEAKY_RELU" else {}
    return [s.b.add(op, [x], **out, options=options)]


def quantize(s: Sketch, x: int) -> list[int]:
    """Requantize to another scale and zero point."""
    return [s.b.add("QUANTIZE", [x], **s.out(s.b.tensors[x].scale))]


def floats(s: Sketch, x: int) -> list[int]:
    """Float32 operators between a DEQUANTIZE and a QUANTIZE: of one number, with a constant, of two results."""
    scale, _ = s.quantization(x)
    first = s.b.add("DEQUANTIZE", [x])
    values = [first]
    for _ in range(s.pick(1, 1, 2, 3)):
        # The square of a number beyond the codes' range could overflow QUANTIZE.
        op = s.pick("NEG", "ABS", "SQUARE" if len(values) == 1 else "SIN", "COS", "FLOOR", "SIGN", "LOGISTIC", "TANH",
                    "RELU", "HARD_SWISH", "ADD", "SUB", "MUL", "DIV", "MAXIMUM")
        inputs = [s.pick(*values)]
        if op in ("ADD", "SUB", "MUL", "DIV", "MAXIMUM"):
            constant = s.b.constant(np.array(s.pick(-1, 1) * s.rng.uniform(0.5, 3), np.float32))
            inputs.append(constant if op in ("MUL", "DIV") or s.chance(0.5) else s.pick(*values))
        values.append(s.b.add(op, inputs))
    return [s.b.add("QUANTIZE", [values[-1]], **s.out(s.pick(scale, 0.01)))]


def float_sums(s: Sketch, x: int) -> list[int]:
    """Float32 sums of two or more tensors, as in PyTorch's residuals; some are quantized in between, or averaged."""
    current, scale, shape = s.b.add("DEQUANTIZE", [x]), s.quantization(x)[0], s.shape(x)
    made = []
    if s.chance(0.15):
        others = [s.input(shape) for _ in range(s.between(1, 3))]
        total = s.b.add("ADD_N", [current, *(s.b.add("DEQUANTIZE", [other]) for other in others)])
        return [s.b.add("QUANTIZE", [total], **s.out(scale + sum(s.quantization(other)[0] for other in others)))]
    for _ in range(s.between(2, 4)):
        same = [y for y in s.live if s.shape(y) == shape]
        second = s.pick(*same) if s.chance(0.6) else s.input(shape if s.chance(0.7) else shape[-1:])
        scale += s.quantization(second)[0]
        other = s.b.add("DEQUANTIZE", [second])
        other = s.b.add("LEAKY_RELU", [other], options={"alpha": 0.01}) if s.chance(0.3) else other
        if shape and s.chance(0.15):
            other = s.b.add("MUL", [other, s.b.constant(s.rng.normal(0, 1, s.shape(other)[-1:]).astype(np.float32))])
        pair = [current, other] if s.chance(0.7) else [other, current]
        op = s.pick("ADD", "ADD", "SUB") if pair[1] == other else "ADD"
        current = s.b.add(op, pair, options={"fused_activation_function": s.pick("NONE", "NONE", "RELU")})
        if s.chance(0.5):
            made.append(s.b.add("QUANTIZE", [current], **s.out(scale * 0.7)))
    if shape and s.chance(0.4):
        made.append(_float_mean(s, s.pick(current, other), scale * 0.4))
    return [*made, s.b.add("QUANTIZE", [current], **s.out(scale * 0.7))]


def _float_mean(s: Sketch, x: int, scale: float) -> int:
    rank = len(s.shape(x))
    if not rank:
        raise Unfit
    axes = s.rng.choice(rank, s.between(1, rank), replace=False).tolist()
    mean = s.b.add(s.pick("MEAN", "MEAN", "SUM"), [x, s.indices(axes)], keep_dims=s.chance(0.5))
    return s.b.add("QUANTIZE", [mean], **s.out(scale))


def _second(s: Sketch, x: int, same: dict[str, Any] | None = None) -> int:
    """Return a second operand: an existing tensor, a constant or an input, of the same or a broadcastable shape."""
    shape = s.shape(x)

    def broadcasts(other: tuple[int, ...]) -> bool:
        return len(other) <= len(shape) and all(
            size in (1, mine) for size, mine in zip(other[::-1], shape[::-1], strict=False))
    found = [y for y in s.live if broadcasts(s.shape(y)) and (same is None or s.like(y) == same)]
    if found and s.chance(0.7):
        others = [y for y in found if y != x]
        return int(s.pick(*(others or found)))
    dims = tuple(size if s.chance(0.6) else 1 for size in shape)
    dims = shape if s.chance(0.3) else dims[s.between(0, len(dims)):] if s.chance(0.4) else dims
    return s.constant(dims, **(same or {})) if s.chance(0.7) else s.input(dims, **(same or {}))


def binary(s: Sketch, x: int) -> list[int]:
    """Sum, difference, product, square of a difference, or PRELU."""
    op = s.pick("ADD", "ADD", "ADD", "SUB", "MUL", "MUL", "PRELU", "SQUARED_DIFFERENCE")
    other = _second(s, x)
    pair = [x, other] if op == "PRELU" or s.chance(0.5) else [other, x]
    scales = s.b.tensors[x].scale, s.b.tensors[other].scale
    natural = 1.5 * max(scales) if op in ("ADD", "SUB") else scales[0] * scales[1] * 60
    fuses = op in ("ADD", "SUB", "MUL")
    return [s.b.add(op, pair, **s.out(natural), options=s.activation() if fuses else {})]


def largest(s: Sketch, x: int) -> list[int]:
    """MAXIMUM or MINIMUM, whose operands share a quantization."""
    other = _second(s, x, s.like(x))
    return [s.b.add(s.pick("MAXIMUM", "MINIMUM"), [x, other] if s.chance(0.5) else [other, x])]


def compare(s: Sketch, x: int) -> list[int]:
    """Comparison of two tensors of one quantization or of two; gives bool."""
    op = s.pick("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
    other = _second(s, x, s.like(x) if s.chance(0.5) else None)
    return [s.b.add(op, [x, other] if s.chance(0.5) else [other, x])]


def reduce(s: Sketch, x: int) -> list[int]:
    """Mean, sum or extreme over any axes."""
    rank = len(s.shape(x))
    if not rank:
        raise Unfit
    axes = sorted(s.rng.choice(rank, s.between(1, rank), replace=False).tolist())
    if rank == 4 and s.chance(0.4):
        axes = [1, 2]
    op = s.pick("MEAN", "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
    out = {} if op.startswith("REDUCE") else s.out(s.b.tensors[x].scale * (0.4 if op == "MEAN" else 3.0))
    axes = [axis - rank if s.chance(0.2) else axis for axis in axes]
    return [s.b.add(op, [x, s.indices(axes)], keep_dims=s.chance(0.6), **out)]


def arg(s: Sketch, x: int) -> list[int]:
    """Index of the largest or smallest value; gives int32 or int64."""
    if not s.shape(x):
        raise Unfit
    axis = s.between(0, len(s.shape(x)) - 1)
    return [s.b.add(s.pick("ARG_MAX", "ARG_MIN"), [x, s.indices(axis)],
                    options={"output_type": s.pick("int32", "int32", "int64")})]


def rows(s: Sketch, x: int) -> list[int]:
    """Functions of the last axis."""
    op = s.pick("SOFTMAX", "SOFTMAX", "L2_NORMALIZATION", "LOG_SOFTMAX")
    if not s.shape(x) or s.shape(x)[-1] > 400:
        raise Unfit
    return [s.b.add(op, [x], options={"beta": s.pick(1.0, 1.0, 0.5, 3.0)} if op == "SOFTMAX" else {})]


def integers(s: Sketch, x: int) -> list[int]:
    """Arithmetic of int32, and sums and comparisons of int64."""
    wide = [y for y in s.others if s.b.tensors[y].dtype == "int64"]
    if wide and s.chance(0.4):
        x = s.pick(*wide)
        dims = tuple(size if s.chance(0.6) else 1 for size in s.shape(x))
        other = s.b.constant(np.asarray(s.rng.integers(-9, 9, dims) * s.pick(1, 1 << 31, 1 << 40), np.int64))
        op = s.pick("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "LESS", "GREATER_EQUAL", "NOT_EQUAL")
        return [s.b.add(op, [x, other] if s.chance(0.5) else [other, x])]
    found = [y for y in s.others if s.b.tensors[y].dtype == "int32"]
    if found and s.chance(0.6):
        first = s.pick(*found)
    elif s.chance(0.5):
        first = s.b.add("CAST", [x], in_data_type="int8", out_data_type="int32")
    else:
        first = arg(s, x)[0]
        if s.b.tensors[first].dtype != "int32":
            raise Unfit
    same = [y for y in found if y != first and s.shape(y) == s.shape(first)]
    if same and s.chance(0.7):
        second = s.pick(*same)
    else:
        dims = tuple(size if s.chance(0.6) else 1 for size in s.shape(first))
        second = s.b.constant(s.rng.integers(-9, 9, dims).astype(np.int32))
    if s.chance(0.5):
        return [first, _whole_numbers(s, first, second) if s.chance(0.7) else _whole_reduced(s, first)]
    op = s.pick("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "LESS", "GREATER", "EQUAL", "BITWISE_XOR", "RIGHT_SHIFT")
    return [first, s.b.add(op, [first, second] if s.chance(0.5) else [second, first],
                           options=s.activation() if op in ("ADD", "SUB", "MUL") else {})]


def _whole_numbers(s: Sketch, x: int, y: int) -> int:
    """A function of one int32, a power that fits, or a quotient or remainder with a divisor of at least 1."""
    op = s.pick("NEG", "ABS", "SIGN", "POW", "FLOOR_DIV", "FLOOR_MOD", "DIV")
    if op in ("NEG", "ABS", "SIGN"):
        return s.b.add(op, [x])
    if op == "POW":
        x = s.b.add("MINIMUM", [s.b.add("MAXIMUM", [x, s.b.constant(-1290)]), s.b.constant(1290)])
        return s.b.add(op, [x, s.b.constant(s.between(0, 3))])
    y = s.b.add("MAXIMUM", [y, s.b.constant(s.between(1, 9))])
    return s.b.add(op, [x, y], options=s.activation() if op == "DIV" else {})


def _whole_reduced(s: Sketch, x: int) -> int:
    """A sum, product or extreme of int32, or the index of an extreme."""
    if not s.shape(x):
        raise Unfit
    op, rank = s.pick("SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "ARG_MAX", "ARG_MIN"), len(s.shape(x))
    if op.startswith("ARG"):
        return s.b.add(op, [x, s.indices(s.between(0, rank - 1))], options={"output_type": "int32"})
    axes = sorted(s.rng.choice(rank, s.between(1, rank), replace=False).tolist())
    return s.b.add(op, [x, s.indices(axes)], keep_dims=s.chance(0.6))


def types(s: Sketch, x: int) -> list[int]:
    """QUANTIZE and CAST between types: uint8 with the same codes or others, int16, int32, int64, bool."""
    tensor = s.b.tensors[x]
    if tensor.dtype in ("uint8", "int16") and tensor.quantization is not None:
        if tensor.dtype == "uint8" and s.chance(0.5):
            return [s.b.add("QUANTIZE", [x], dtype="int8", scale=tensor.scale, zero_point=tensor.zero_point - 128)]
        return [s.b.add("QUANTIZE", [x], dtype="int8", **s.out(tensor.scale))]
    if tensor.dtype == "int8" and tensor.quantization is not None and s.chance(0.6):
        scale, zero_point = s.quantization(x)
        if s.chance(0.3):
            return [s.b.add("QUANTIZE", [x], dtype="int16", scale=scale / s.pick(1, 100, 256), zero_point=0)]
        if s.chance(0.5):
            return [s.b.add("QUANTIZE", [x], dtype="uint8", scale=scale, zero_point=zero_point + 128)]
        return [s.b.add("QUANTIZE", [x], dtype="uint8", scale=s.out(scale)["scale"], zero_point=s.between(0, 255))]
    dtype = s.pick(*sorted({"int32", "int64", "bool"} - {tensor.dtype}))
    return [s.b.add("CAST", [x], in_data_type=tensor.dtype, out_data_type=dtype)]


def dequantize(s: Sketch, x: int) -> list[int]:
    """A float32 result; nothing may read it."""
    s.b.add("DEQUANTIZE", [x])
    return [len(s.b.tensors) - 1]
