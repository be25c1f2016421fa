"""Recipes of random graphs for float32 that no table replaces: arg-extremes, interpolation, channel constants.

Some results are outputs of the model.
"""

import numpy as np

from tq_hw.model.random.sketch import Sketch, Unfit

__all__ = ["float_arg", "float_channels", "float_given", "float_resize"]


def _function(s: Sketch, x: int) -> int:
    """Float32 of a tensor of bytes, half of the time after a function."""
    real = s.b.add("DEQUANTIZE", [x])
    op = s.pick("", "", "", "NEG", "ABS", "SQUARE", "FLOOR", "TANH", "RELU", "SIGN")
    return s.b.add(op, [real]) if op else real


def float_arg(s: Sketch, x: int) -> list[int]:
    """Index of the largest or smallest float32 number, of one tensor or of two joined ones, moved or not."""
    shape = s.shape(x)
    if not shape or len(shape) > 4:
        raise Unfit
    axis = s.between(0, len(shape) - 1)
    made = _function(s, x)
    same = [y for y in s.live if s.shape(y) == shape]
    if s.chance(0.3):
        other = s.b.add("SIGN", [s.b.add("DEQUANTIZE", [s.pick(*same)])])
        made = s.b.add("FLOOR", [made]) if s.chance(0.7) else made
        made = s.b.add("CONCATENATION", [made, other], options={"axis": axis})
    elif s.chance(0.3):
        made = s.b.add("PAD", [made, s.indices(s.rng.integers(0, 3, (len(shape), 2)))])
    elif s.chance(0.3):
        made = s.b.add("REVERSE_V2", [made, s.indices([axis])])
    return [s.b.add(s.pick("ARG_MAX", "ARG_MIN"), [made, s.indices(axis)],
                    options={"output_type": s.pick("int32", "int32", "int64")})]


def float_resize(s: Sketch, x: int) -> list[int]:
    """Resize rows and columns, sometimes after a function; the result is quantized, or added to another tensor.

    With equal scales exact ties occur.
    """
    x = s.rank4(x)
    (_, h, w, _), (scale, zero_point) = s.shape(x), s.quantization(x)
    size = [s.pick(1, 2, 2, 2, 4) * side if s.chance(0.7) else s.between(1, 9) for side in (h, w)]
    if h * w > 40 or s.b.tensors[x].shape[3] > 40:
        raise Unfit
    flags = {"align_corners": False, "half_pixel_centers": False} | s.pick(
        {}, {"half_pixel_centers": True}, {"half_pixel_centers": True}, {"align_corners": True})
    real = s.b.add("DEQUANTIZE", [x]) if s.chance(0.8) else _function(s, x)
    made = s.b.add("RESIZE_BILINEAR", [real, s.indices(size)], options=flags)
    if s.chance(0.2):
        other = s.b.add("DEQUANTIZE", [s.input(s.shape(made))])
        made = s.b.add("ADD", [made, other], options={"fused_activation_function": s.pick("NONE", "RELU")})
    same = {"scale": scale, "zero_point": zero_point}
    return [s.b.add("QUANTIZE", [made], **(same if s.chance(0.6) else s.out(scale)))]


def float_channels(s: Sketch, x: int) -> list[int]:
    """Differences, products and PRELU with a constant per channel, as in PyTorch's batch normalization."""
    shape, scale = s.shape(x), s.quantization(x)[0]
    if not shape:
        raise Unfit
    made, factor = s.b.add("DEQUANTIZE", [x]), 1.0
    for op in s.pick(("SUB", "MUL"), ("MUL", "ADD"), ("MUL",), ("PRELU",), ("SUB", "MUL", "PRELU")):
        dims = (1,) * (len(shape) - 1) + shape[-1:] if s.chance(0.5) else shape[-1:]
        numbers = s.rng.normal(0, 40 * scale if op in ("SUB", "ADD") else 1.5, dims)
        fuses = {} if op == "PRELU" else {"fused_activation_function": s.pick("NONE", "RELU")}
        made = s.b.add(op, [made, s.b.constant(numbers.astype(np.float32))], options=fuses)
        factor *= 1.5 if op == "MUL" else 1
    return [s.b.add("QUANTIZE", [made], **s.out(scale * factor))]


def float_given(s: Sketch, x: int) -> list[int]:
    """Float32 for the caller, or ranked or compared: a function, sums and products of two, rows of SOFTMAX, means."""
    shape = s.shape(x)
    if not shape:
        raise Unfit
    made = _function(s, x)
    if s.chance(0.5):
        other = s.b.add("DEQUANTIZE", [s.pick(*(y for y in s.live if s.shape(y) == shape))])
        op, fused = s.pick("ADD", "ADD", "SUB", "MUL", "MAXIMUM"), s.pick("NONE", "NONE", "RELU", "RELU6")
        made = s.b.add(op, [made, other], options={} if op == "MAXIMUM" else {"fused_activation_function": fused})
    kind = s.pick("", "", "LOGISTIC", "SOFTMAX", "LOG_SOFTMAX", "MEAN", "RELU", "ABS")
    if kind == "MEAN":
        axes = s.indices([axis for axis in range(len(shape)) if s.chance(0.5)] or [len(shape) - 1])
        made = s.b.add(kind, [made, axes], options={"keep_dims": s.chance(0.5)})
    elif kind:
        made = s.b.add(kind, [made])
    if s.chance(0.2) and s.shape(made):
        return [s.b.add(s.pick("ARG_MAX", "ARG_MIN"), [made, s.indices(s.between(0, len(s.shape(made)) - 1))])]
    if s.chance(0.2):
        limit = s.b.constant(np.array(s.rng.normal(), np.float32))
        return [s.b.add(s.pick("LESS", "GREATER_EQUAL", "NOT_EQUAL"), [made, limit], dtype="bool")]
    return [made]
