"""Seeded models of one operator each, whose scales and zero points are drawn from all that a file may hold.

`sample_scales(op, kind, seed)` gives the file of a model. Scales of kind "ties" are small integers times a power of
two, so that exact halves occur before a rounding; those of kind "wide" lie anywhere in 1e-30..1e30, and so do their
ratios.
Inputs have 256 elements where the operator allows it: every code of an int8.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.scale_draw import ScaleDraw

__all__ = ["SCALE_KINDS", "SCALE_OPERATORS", "sample_scales"]

SCALE_KINDS = ("ties", "wide")
_CODES = 256
_QUANTIZED = ("int8:int8", "uint8:int8", "int8:uint8", "int16:int8", "int8:int16", "int8:int32", "int16:int32",
              "float32:int8")


def _conv(d: ScaleDraw, op: str) -> int:
    source, depthwise = d.input(1, 4, 5, 3), op == "DEPTHWISE_CONV_2D"
    count = 3 if depthwise else 40
    scales = [d.scale() for _ in range(count if d.rng.random() < 0.5 else 1)]
    shape, axis = ((1, 2, 2, count), 3) if depthwise else ((count, 2, 2, 3), 0)
    weights = d.b.constant(d.int8(*shape), scale=scales, dimension=axis if len(scales) > 1 else 0)
    out = d.near(d.b.tensors[source].scale * scales[0] * 100)
    inputs = [source, weights, d.biases(source, weights, out, count)]
    if op == "TRANSPOSE_CONV":
        inputs = [d.b.constant([1, 4, 5, count]), weights, source, inputs[2]]
    return d.b.add(op, inputs, scale=out, zero_point=d.point(), padding="SAME",
                   fused_activation_function=d.activation())


def _fully_connected(d: ScaleDraw, op: str) -> int:
    count = 200
    source = d.input(3, int(d.rng.integers(1, 6)))
    depth = d.b.tensors[source].shape[1]
    scales = [d.scale() for _ in range(count if d.rng.random() < 0.3 else 1)]
    weights = d.b.constant(d.int8(count, depth), scale=scales)
    out = d.near(d.b.tensors[source].scale * scales[0] * 50)
    return d.b.add("FULLY_CONNECTED", [source, weights, d.biases(source, weights, out, count)], scale=out,
                   zero_point=d.point(), fused_activation_function=d.activation())


def _computed(d: ScaleDraw, op: str) -> int:
    source, weights = d.input(7, 9), d.input(40, 9)
    out = d.near(d.b.tensors[source].scale * d.b.tensors[weights].scale * 200)
    return d.b.add("FULLY_CONNECTED", [source, weights, d.biases(source, weights, out, 40)], scale=out,
                   zero_point=d.point())


def _batch_matmul(d: ScaleDraw, op: str) -> int:
    left, right = d.input(30, 7), d.input(7, 40)
    return d.b.add(op, [left, right], zero_point=d.point(),
                   scale=d.near(d.b.tensors[left].scale * d.b.tensors[right].scale * 200))


def _binary(d: ScaleDraw, op: str) -> int:
    """Both operands through all codes: 256 x 1 and 1 x 256."""
    left = d.input(_CODES, 1)
    right = d.input(1, _CODES, scale=d.near(d.b.tensors[left].scale))
    scales = d.b.tensors[left].scale, d.b.tensors[right].scale
    out = d.near(scales[0] * scales[1] * 100 if op == "MUL" else max(scales))
    return d.b.add(op, [left, right], scale=out, zero_point=d.point(), fused_activation_function=d.activation())


def _difference(d: ScaleDraw, op: str) -> int:
    """Both operands through all codes, and no activation."""
    left = d.input(_CODES, 1)
    right = d.input(1, _CODES, scale=d.near(d.b.tensors[left].scale))
    real = max(d.b.tensors[left].scale, d.b.tensors[right].scale)
    return d.b.add(op, [left, right], scale=d.near(real * real * 100), zero_point=d.point())


def _quotient(d: ScaleDraw, op: str) -> int:
    """All codes by all codes but that of 0, by which the kernels do not divide."""
    left, point = d.input(_CODES, 1), d.point()
    codes = np.array([code for code in range(-128, 128) if code != point], np.int8).reshape(1, -1)
    right = d.b.constant(codes, scale=d.near(d.b.tensors[left].scale), zero_point=point)
    real = d.b.tensors[left].scale / d.b.tensors[right].scale
    return d.b.add(op, [left, right], scale=d.near(real), zero_point=d.point(),
                   fused_activation_function=d.activation())


def _prelu(d: ScaleDraw, op: str) -> int:
    source = d.input(99, _CODES)
    alpha = d.b.constant(np.arange(-128, 128).astype(np.int8).reshape(1, _CODES), scale=d.scale(), zero_point=d.point())
    out = d.near(d.b.tensors[source].scale * d.pick(1.0, d.b.tensors[alpha].scale * 100))
    return d.b.add(op, [source, alpha], scale=out, zero_point=d.point())


def _compare(d: ScaleDraw, op: str) -> int:
    left = d.input(_CODES, 1)
    return d.b.add(op, [left, d.input(1, _CODES, scale=d.near(d.b.tensors[left].scale))])


def _unary(d: ScaleDraw, op: str) -> int:
    source = d.input(_CODES)
    real = d.b.tensors[source].scale
    options: dict[str, float] = {}
    if op == "LEAKY_RELU":
        magnitude = d.pick(0.1, 0.25, 1.5) if d.kind == "ties" else 10.0 ** d.rng.uniform(-30, 30)
        options["alpha"] = float(np.float32(d.pick(1, 1, -1) * magnitude))
    if op == "HARD_SWISH" and d.kind == "wide":
        real *= 10.0 ** d.rng.uniform(0, 12)
    return d.b.add(op, [source], scale=d.near(real), zero_point=d.point(), options=options, shape=(_CODES,))


def _float(d: ScaleDraw, op: str) -> int:
    """A float32 operator between DEQUANTIZE and QUANTIZE; a second operand is a constant."""
    source, name = d.input(_CODES), op.partition(":")[0]
    real = d.b.tensors[source].scale
    inputs = [d.b.add("DEQUANTIZE", [source])]
    if name in ("DIV", "POW", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE"):
        number = d.pick(2, 0.5, -1) if name == "POW" else d.pick(1, -1) * d.float32(real * 10.0 ** d.rng.uniform(-1, 3))
        inputs.append(d.b.constant(np.array(number, np.float32)))
    return d.b.add("QUANTIZE", [d.b.add(name, inputs)], scale=d.near(d.pick(real, 0.01)), zero_point=d.point())


def _fixed(d: ScaleDraw, op: str) -> int:
    """Operators whose output has a scale of its own."""
    options: dict[str, Any] = {}
    scale = d.pick(d.scale(), 10.0 ** d.rng.uniform(-9, 1))
    if op.startswith("SOFTMAX"):
        options["beta"] = float(np.float32(d.pick(1.0, 0.5, 1.7, 10.0 ** d.rng.uniform(-20, 20))))
    shape = (_CODES,) if op in ("LOGISTIC", "TANH") else (40, int(d.rng.integers(1, 50)))
    source = d.input(*shape, scale=d.float32(scale))
    if op == "TANH" and d.pick(False, True):
        options |= {"scale": d.near(1.0), "zero_point": d.point()}
    if op == "SOFTMAX:int16":
        options |= {"dtype": "int16", "scale": 2.0**-16, "zero_point": -32768}
    return d.b.add(op.partition(":")[0], [source], **options)


def _quantize(d: ScaleDraw, op: str) -> int:
    """QUANTIZE of all codes; `op` ends in "source:target"."""
    first, second = op.split(":")[1:]
    points = {"int8": d.point(), "uint8": d.point() + 128, "int16": 0, "int32": 0, "float32": 0}
    scale = d.scale()
    if first == "float32":
        source = d.b.input((999,), "float32")
    else:
        source = d.b.input((_CODES if first != "int16" else 999,), first, scale=scale, zero_point=points[first])
    target = d.b.tensor(d.b.tensors[source].shape, second, scale=d.near(scale), zero_point=points[second])
    d.b.operator("QUANTIZE", [source], [target])
    return target


def _dequantize(d: ScaleDraw, op: str) -> int:
    return d.b.add(op, [d.input(_CODES)])


def _mean(d: ScaleDraw, op: str) -> int:
    shape = (60, int(d.rng.integers(1, 9)), int(d.rng.integers(1, 40)))
    source = d.input(*shape)
    axes = d.pick([1], [2], [1, 2])
    count = int(np.prod([shape[axis] for axis in axes]))
    real = d.b.tensors[source].scale * (count**0.5 if op == "SUM" else 1)
    return d.b.add(op, [source, d.b.constant(axes)], scale=d.near(real), zero_point=d.point(),
                   keep_dims=bool(d.rng.integers(2)))


def _product(d: ScaleDraw, op: str) -> int:
    shape = (60, int(d.rng.integers(1, 4)), int(d.rng.integers(1, 4)))
    source, axes = d.input(*shape), d.pick([1], [2], [1, 2])
    count = int(np.prod([shape[axis] for axis in axes]))
    real = d.b.tensors[source].scale ** count * 50.0 ** (count - 1)
    return d.b.add(op, [source, d.b.constant(axes)], scale=d.near(min(max(real, 1e-30), 1e30)), zero_point=d.point(),
                   keep_dims=bool(d.rng.integers(2)))


def _same(d: ScaleDraw, op: str) -> int:
    """Operators that leave scale and zero point as they are."""
    source = d.input(1, 6, 7, 5)
    tensor = d.b.tensors[source]
    pads = d.b.constant(np.array([[1, 0], [0, 2]], np.int32))
    options: dict[str, Any] = {}
    inputs = [source]
    match op:
        case "AVERAGE_POOL_2D" | "MAX_POOL_2D":
            options = {"padding": "SAME", "filter_height": 3, "filter_width": 2, "stride_w": 2,
                       "fused_activation_function": d.activation()}
        case "PAD":
            inputs.append(d.b.constant(np.array([[0, 0], [1, 0], [2, 1], [0, 3]], np.int32)))
        case "SPACE_TO_BATCH_ND":
            inputs += [d.b.constant([1, 3]), pads]
        case "RESIZE_BILINEAR":
            inputs.append(d.b.constant([11, 4]))
            options["half_pixel_centers"] = bool(d.rng.integers(2))
        case "CONCATENATION" | "MAXIMUM" | "MINIMUM" | "PACK":
            inputs.append(d.b.input(tensor.shape, scale=tensor.scale, zero_point=tensor.zero_point))
            options = {"PACK": {"axis": 1, "values_count": 2}, "CONCATENATION": {"axis": 3}}.get(op, {})
        case "ARG_MAX" | "ARG_MIN":
            inputs.append(d.b.constant(1))
            options["output_type"] = "int32"
        case "REDUCE_MAX" | "REDUCE_MIN":
            inputs.append(d.b.constant([1, 2]))
        case "RESIZE_NEAREST_NEIGHBOR":
            inputs.append(d.b.constant([11, 4]))
        case "TRANSPOSE":
            inputs.append(d.b.constant([0, 3, 1, 2]))
        case "GATHER":
            inputs.append(d.b.constant([5, 0, 3]))
            options["axis"] = 1
    return d.b.add(op, inputs, options=options)


def _svdf(d: ScaleDraw, op: str) -> int:
    wide = op == "SVDF"
    source = d.input(2, 5)
    feature = d.b.constant(d.int8(20, 5), scale=d.scale())
    time = d.rng.integers(-32767, 32768, (20, 3)).astype(np.int16) if wide else d.int8(20, 3)
    times = d.b.constant(time, scale=d.scale())
    state_scale = d.near(d.b.tensors[source].scale * d.b.tensors[feature].scale)
    state = d.b.tensor((2, 60), "int16" if wide else "int8", scale=state_scale, zero_point=0 if wide else d.point(),
                       is_variable=True)
    real = state_scale * d.b.tensors[times].scale
    bias = d.b.constant(d.rng.integers(-9999, 9999, 10).astype(np.int32), scale=min(max(real, 2e-38), 3e38))
    return d.b.add("SVDF", [source, feature, times, bias, state], scale=d.near(real * (1e5 if wide else 300)),
                   zero_point=d.point(), rank=2, fused_activation_function="RELU")


def _lstm(d: ScaleDraw, op: str) -> int:
    """An LSTM whose gates are neither dead nor saturated, as a rule."""
    depth, cells = 3, 10
    source = d.input(2, 4, depth)
    hidden_scale = 2.0**-7 if d.kind == "ties" or d.rng.random() < 0.5 else d.float32(10.0 ** d.rng.uniform(-12, 12))
    hidden_point = d.point()

    def like_hidden(*shape: int, is_variable: bool = False) -> int:
        return d.b.tensor(shape, scale=hidden_scale, zero_point=hidden_point, is_variable=is_variable)

    def weights(other: float, size: int) -> int:
        return d.b.constant(d.int8(cells, size), scale=d.near(0.01 / other / 100))

    inputs = [source]
    inputs += [weights(d.b.tensors[source].scale, depth) for _ in range(4)]
    inputs += [weights(hidden_scale, cells) for _ in range(4)]
    inputs += [-1] * 3
    inputs += [d.b.constant(d.rng.integers(-999, 999, cells).astype(np.int32), scale=1e-3) for _ in range(4)]
    inputs += [-1] * 2
    inputs.append(like_hidden(2, cells, is_variable=True))
    inputs.append(d.b.tensor((2, cells), "int16", scale=float(2.0 ** d.rng.integers(-15, -8)), is_variable=True))
    inputs += [-1] * 4
    middle = [d.b.tensor((0,), "int16", scale=0.001) for _ in range(4)] + [like_hidden(0)]
    output = like_hidden(2, 4, cells)
    clip = float(np.float32(d.pick(0.0, 1.3, 10.0, 10.0 ** d.rng.uniform(-30, 30))))
    d.b.operator(op, inputs, [output], {"fused_activation_function": "TANH", "cell_clip": clip}, intermediates=middle)
    return output


#: How a model of an operator is drawn; a name after a colon is of a form of it.
SCALE_OPERATORS: dict[str, Callable[[ScaleDraw, str], int]] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"), _conv),
    "FULLY_CONNECTED": _fully_connected, "FULLY_CONNECTED:computed": _computed, "BATCH_MATMUL": _batch_matmul,
    **dict.fromkeys(("ADD", "SUB", "MUL"), _binary), "PRELU": _prelu, "DIV": _quotient,
    "SQUARED_DIFFERENCE": _difference, "REDUCE_PROD": _product,
    **dict.fromkeys(("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"), _compare),
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LEAKY_RELU", "HARD_SWISH", "ABS", "GELU", "ELU",
                     "EXP", "LOG", "RSQRT", "SQRT", "NEG"), _unary),
    **dict.fromkeys((f"{op}:float32" for op in (
        "NEG", "SQRT", "SQUARE", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SIGN", "ELU", "GELU", "DIV", "POW",
        "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE")), _float),
    **dict.fromkeys(("LOGISTIC", "TANH", "SOFTMAX", "SOFTMAX:int16", "LOG_SOFTMAX", "L2_NORMALIZATION"), _fixed),
    **dict.fromkeys((f"QUANTIZE:{pair}" for pair in _QUANTIZED), _quantize),
    "DEQUANTIZE": _dequantize, "MEAN": _mean, "SUM": _mean,
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "PAD", "SPACE_TO_BATCH_ND", "RESIZE_BILINEAR", "CONCATENATION",
                     "MAXIMUM", "MINIMUM", "PACK", "ARG_MAX", "ARG_MIN", "REDUCE_MAX", "REDUCE_MIN",
                     "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE", "GATHER"), _same),
    "SVDF": _svdf, "SVDF:int8": _svdf, "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}


def sample_scales(op: str, kind: str, seed: int) -> bytes:
    """Return the file of a model of `op`, a key of `SCALE_OPERATORS`, with scales of a kind of `SCALE_KINDS`."""
    draw = ScaleDraw(np.random.default_rng([seed, SCALE_KINDS.index(kind), *op.encode()]), kind, ModelBuilder(op))
    return draw.b.build(SCALE_OPERATORS[op](draw, op))
