"""Operators that compute, in generated models of one operator, against the public engines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model

Rng = np.random.Generator
Generator = Callable[[Rng, str], bytes]
ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def scale(rng: Rng) -> float:
    """Random float32 scale, a power of two now and then so that exact halves occur."""
    if rng.random() < 0.35:
        return float(2.0 ** rng.integers(-10, -2))
    return float(np.float32(10.0 ** rng.uniform(-3, -0.6)))


def point(rng: Rng) -> int:
    return int(rng.choice([-128, 127, 0, int(rng.integers(-128, 128))]))


def int8(rng: Rng, *shape: int, low: int = -127) -> np.ndarray:
    return rng.integers(low, 128, shape).astype(np.int8)


def pick(rng: Rng, *options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def shape(rng: Rng, rank: int | None = None, most: int = 6) -> tuple[int, ...]:
    return tuple(int(size) for size in rng.integers(1, most + 1, rank or int(rng.integers(1, 5))))


def output_scale(rng: Rng, product: float, depth: int) -> float:
    """Scale at which accumulators of `depth` random products mostly fit int8."""
    spread = product * depth ** 0.5 * 5000 / 50
    return float(np.float32(spread * pick(rng, 0.02, 0.3, 1.0, 1.0, 3.0)))


def weights(rng: Rng, b: ModelBuilder, dims: tuple[int, ...], axis: int) -> tuple[int, float]:
    """Add weights per tensor or per axis; their index and largest scale."""
    count = dims[axis] if rng.random() < 0.6 else 1
    scales = [scale(rng) for _ in range(count)]
    return b.constant(int8(rng, *dims), scale=scales, dimension=axis if count > 1 else 0), max(scales)


def conv(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    height, width, channels = (int(size) for size in rng.integers(3, 11, 3))
    kernel = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    stride, dilation = rng.integers(1, 4, 2), (1, 1)
    if rng.random() < 0.4:
        dilation = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    padding = pick(rng, "SAME", "VALID")
    if (kernel[0] - 1) * dilation[0] >= height or (kernel[1] - 1) * dilation[1] >= width:
        padding = "SAME"
    source = b.input((int(rng.integers(1, 3)), height, width, channels), scale=scale(rng), zero_point=point(rng))
    depth = kernel[0] * kernel[1]
    if op == "DEPTHWISE_CONV_2D":
        dims, axis = (1, *kernel, channels * int(rng.integers(1, 4))), 3
    else:
        groups = channels if op == "CONV_2D" and rng.random() < 0.15 else 1
        dims, axis = (groups * int(rng.integers(1, 9)), *kernel, channels // groups), 0
        depth *= dims[3]
    filters, largest = weights(rng, b, dims, axis)
    inputs = [source, filters]
    options: dict[str, Any] = {"padding": padding, "stride_h": int(stride[0]), "stride_w": int(stride[1]),
                               "fused_activation_function": pick(rng, *ACTIVATIONS)}
    if op == "TRANSPOSE_CONV":
        sizes = [(size - 1) * int(step) + extent if padding == "VALID" else size * int(step)
                 for size, step, extent in zip((height, width), stride, kernel, strict=True)]
        batch = b.tensors[source].shape[0]
        inputs = [b.constant([batch, *sizes, dims[0]]), filters, source]
    else:
        options |= {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1]}
    count = dims[axis]
    inputs.append(b.bias(source, filters, rng.integers(-20000, 20000, count)))
    product = b.tensors[source].scale * largest
    return b.build(b.add(op, inputs, scale=output_scale(rng, product, depth), zero_point=point(rng), **options))


def fully_connected(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    depth, units = int(rng.integers(1, 200)), int(rng.integers(1, 20))
    source = b.input((*shape(rng, int(rng.integers(1, 3)), 4), depth), scale=scale(rng), zero_point=point(rng))
    matrix, largest = weights(rng, b, (units, depth), 0)
    bias = b.bias(source, matrix, rng.integers(-20000, 20000, units)) if rng.random() < 0.7 else -1
    product = b.tensors[source].scale * largest
    return b.build(b.add(op, [source, matrix, bias], scale=output_scale(rng, product, depth),
                         zero_point=point(rng), keep_num_dims=bool(rng.integers(2)),
                         fused_activation_function=pick(rng, *ACTIVATIONS)))


def batch_matmul(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    rows, depth, cols = (int(size) for size in rng.integers(1, 9, 3))
    adj_x, adj_y, batch = bool(rng.integers(2)), bool(rng.integers(2)), shape(rng, int(rng.integers(1, 3)), 3)
    left = b.input((*batch, *((depth, rows) if adj_x else (rows, depth))), scale=scale(rng), zero_point=point(rng))
    right = b.input((*batch, *((cols, depth) if adj_y else (depth, cols))), scale=scale(rng), zero_point=point(rng))
    product = b.tensors[left].scale * b.tensors[right].scale
    return b.build(b.add(op, [left, right], scale=output_scale(rng, product, depth), zero_point=point(rng),
                         adj_x=adj_x, adj_y=adj_y))


def binary(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    first = shape(rng)
    kind = pick(rng, "same", "scalar", "ones")
    second = first if kind == "same" else (1,) if kind == "scalar" else tuple(pick(rng, 1, size) for size in first)
    pair = [(scale(rng), point(rng)), (scale(rng), point(rng))]
    options: dict[str, Any] = {}
    if op in ("MAXIMUM", "MINIMUM"):
        pair[1] = pair[0]
    elif op in ("ADD", "SUB", "MUL"):
        options["fused_activation_function"] = pick(rng, *ACTIVATIONS)
    left, right = (b.input(dims, scale=each[0], zero_point=each[1])
                   for dims, each in zip((first, second), pair, strict=True))
    if op in ("ADD", "SUB"):
        options |= {"scale": float(np.float32(max(pair)[0] * pick(rng, 0.01, 1, 2))), "zero_point": point(rng)}
    elif op == "MUL":
        options |= {"scale": float(np.float32(pair[0][0] * pair[1][0] * pick(rng, 0.7, 30, 100))),
                    "zero_point": point(rng)}
    elif op == "SQUARED_DIFFERENCE":
        options = {"scale": float(np.float32(max(pair)[0] ** 2 * pick(rng, 0.01, 3, 80, 200))),
                   "zero_point": point(rng)}
    return b.build(b.add(op, [left, right], **options))


def unary(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    source = b.input((256,) if rng.random() < 0.5 else shape(rng), scale=scale(rng) * 4, zero_point=point(rng))
    options: dict[str, Any] = {}
    if op in ("RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "HARD_SWISH", "QUANTIZE", "PRELU"):
        factor = pick(rng, 0.05, 0.5, 1, 2, 3)
        options = {"scale": float(np.float32(b.tensors[source].scale * factor)), "zero_point": point(rng)}
    if op == "LEAKY_RELU":
        options["alpha"] = float(np.float32(pick(rng, 0.01, 0.1, 0.25, 1.5)))
    inputs = [source]
    if op == "PRELU":
        dims = b.tensors[source].shape
        inputs.append(b.constant(int8(rng, *(pick(rng, 1, size) for size in dims)), scale=scale(rng),
                                 zero_point=point(rng)))
    return b.build(b.add(op, inputs, **options))


def softmax(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = (*shape(rng, int(rng.integers(1, 3))), int(rng.integers(1, 300)))
    source = b.input(dims, scale=scale(rng) * pick(rng, 0.1, 1, 8), zero_point=point(rng))
    options = {"beta": float(np.float32(pick(rng, 1.0, 0.5, 1.7)))} if op == "SOFTMAX" else {}
    return b.build(b.add(op, [source], **options))


def l2_normalization(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = (*shape(rng, 3, 3), int(rng.integers(1, 200)))
    return b.build(b.add(op, [b.input(dims, scale=scale(rng), zero_point=point(rng))]))


def pool(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    source = b.input((1, *shape(rng, 3, 12)), scale=scale(rng), zero_point=point(rng))
    _, height, width, _ = b.tensors[source].shape
    return b.build(b.add(op, [source], padding=pick(rng, "SAME", "VALID"),
                         filter_height=int(rng.integers(1, height + 1)), filter_width=int(rng.integers(1, width + 1)),
                         stride_h=int(rng.integers(1, 4)), stride_w=int(rng.integers(1, 4)),
                         fused_activation_function=pick(rng, *ACTIVATIONS)))


def reduction(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng, most=9)
    source = b.input(dims, scale=scale(rng), zero_point=point(rng))
    axes = rng.choice(len(dims), int(rng.integers(1, len(dims) + 1)), replace=False).tolist()
    axes = [axis - len(dims) if rng.random() < 0.3 else axis for axis in axes]
    options: dict[str, Any] = {"keep_dims": bool(rng.integers(2))}
    if op in ("MEAN", "SUM"):
        factor = pick(rng, 0.1, 1, 2) * (np.prod(dims) ** 0.5 if op == "SUM" else 1)
        options |= {"scale": float(np.float32(b.tensors[source].scale * factor)), "zero_point": point(rng)}
    if op.startswith("ARG"):
        axes, options = axes[0], {"output_type": "int32"}
    return b.build(b.add(op, [source, b.constant(axes)], **options))


def resize(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    source = b.input((1, *shape(rng, 3, 9)), scale=scale(rng), zero_point=point(rng))
    align, half = pick(rng, (False, False), (True, False), (False, True))
    size = b.constant([int(rng.integers(1, 20)), int(rng.integers(1, 20))])
    return b.build(b.add(op, [source, size], align_corners=align, half_pixel_centers=half))


def svdf(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    batch, depth, units, rank, memory = (int(size) for size in rng.integers(1, 6, 5))
    source = b.input((batch, depth), scale=scale(rng), zero_point=point(rng))
    feature = b.constant(int8(rng, units * rank, depth), scale=scale(rng))
    time = b.constant(rng.integers(-32767, 32768, (units * rank, memory)).astype(np.int16), scale=2.0 ** -15)
    state_scale = float(np.float32(b.tensors[source].scale * b.tensors[feature].scale * pick(rng, 0.7, 3, 20)))
    out_scale = float(np.float32(state_scale * pick(rng, 20, 200)))
    bias = b.constant(rng.integers(-9999, 9999, units).astype(np.int32),
                      scale=float(np.float32(state_scale) * np.float32(2.0 ** -15)))
    state = b.tensor((batch, units * rank * memory), "int16", scale=state_scale, is_variable=True)
    return b.build(b.add(op, [source, feature, time, bias, state], scale=out_scale, zero_point=point(rng),
                         rank=rank, fused_activation_function="RELU"))


def lstm(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    batch, steps, depth, cells = (int(size) for size in rng.integers(1, 7, 4))
    time_major = bool(rng.integers(2))
    source = b.input((steps, batch, depth) if time_major else (batch, steps, depth), scale=scale(rng),
                     zero_point=point(rng))
    hidden_scale, hidden_point = 2.0 ** -7, int(rng.integers(-5, 5))
    inputs = [source]
    inputs += [b.constant(int8(rng, cells, depth), scale=scale(rng)) for _ in range(4)]
    inputs += [b.constant(int8(rng, cells, cells), scale=scale(rng)) for _ in range(4)]
    inputs += [-1] * 3 + [b.constant(rng.integers(-9999, 9999, cells).astype(np.int32), scale=0.001) for _ in range(4)]
    inputs += [-1] * 2
    inputs.append(b.tensor((batch, cells), scale=hidden_scale, zero_point=hidden_point, is_variable=True))
    inputs.append(b.tensor((batch, cells), "int16", scale=float(2.0 ** rng.integers(-15, -9)), is_variable=True))
    inputs += [-1] * 4
    middle = [b.tensor((0,), "int16", scale=0.001) for _ in range(4)]
    middle.append(b.tensor((0,), scale=hidden_scale, zero_point=hidden_point))
    output = b.tensor((*b.tensors[source].shape[:2], cells), scale=hidden_scale, zero_point=hidden_point)
    clip = float(np.float32(pick(rng, 0.0, 0.0, 1.3, 10.0)))
    b.operator(op, inputs, [output], {"fused_activation_function": "TANH", "cell_clip": clip,
                                      "time_major": time_major}, intermediates=middle)
    return b.build(output)


def from_integer(rng: Rng, op: str) -> bytes:
    """QUANTIZE between integer types; `op` is "source:target"."""
    b = ModelBuilder(op)
    first, second = op.split(":")
    points = [0 if dtype in ("int16", "int32") else point(rng) + (128 if dtype == "uint8" else 0)
              for dtype in (first, second)]
    ratio = pick(rng, 0.3, 1, 1, 7) * 2.0 ** (8 * (first == "int16") - 8 * (second == "int16"))
    source_scale = scale(rng)
    source = b.input((256,), first, scale=source_scale, zero_point=points[0])
    target = b.tensor((256,), second, scale=float(np.float32(source_scale * ratio)), zero_point=points[1])
    b.operator("QUANTIZE", [source], [target])
    return b.build(target)


def cast(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    source = b.input((50,), pick(rng, "int8", "int32"))
    return b.build(b.add(op, [source], in_data_type=b.tensors[source].dtype, out_data_type=pick(
        rng, "int8", "int16", "int32", "float32")))


def without_bias(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    op = op.removesuffix(":bias")
    source = b.input((1, 5, 6, 3), scale=scale(rng), zero_point=point(rng))
    dims, axis = ((1, 3, 2, 3), 3) if op == "DEPTHWISE_CONV_2D" else ((4, 3, 2, 3), 0)
    filters, largest = weights(rng, b, dims, axis)
    return b.build(b.add(op, [source, filters, -1][:2 if op == "DEPTHWISE_CONV_2D" else 3],
                         scale=output_scale(rng, b.tensors[source].scale * largest, 18), zero_point=point(rng)))


def asymmetric(rng: Rng, op: str) -> bytes:
    """FULLY_CONNECTED whose weights have a zero point."""
    b = ModelBuilder(op)
    source = b.input((2, 30), scale=scale(rng), zero_point=point(rng))
    matrix = b.constant(int8(rng, 7, 30, low=-128), scale=scale(rng), zero_point=int(rng.integers(-20, 20)))
    bias = b.bias(source, matrix, rng.integers(-20000, 20000, 7))
    product = b.tensors[source].scale * b.tensors[matrix].scale
    return b.build(b.add("FULLY_CONNECTED", [source, matrix, bias], scale=output_scale(rng, product, 30),
                         zero_point=point(rng)))


def computed(rng: Rng, op: str) -> bytes:
    """FULLY_CONNECTED whose weights are an activation, with a zero point."""
    b = ModelBuilder(op)
    depth, units = int(rng.integers(1, 60)), int(rng.integers(1, 20))
    source = b.input((int(rng.integers(1, 9)), depth), scale=scale(rng), zero_point=point(rng))
    matrix = b.input((units, depth), scale=scale(rng), zero_point=pick(rng, 0, point(rng)))
    bias = b.bias(source, matrix, rng.integers(-20000, 20000, units)) if rng.random() < 0.5 else -1
    product = b.tensors[source].scale * b.tensors[matrix].scale
    return b.build(b.add("FULLY_CONNECTED", [source, matrix, bias], scale=output_scale(rng, product, depth),
                         zero_point=point(rng), fused_activation_function=pick(rng, *ACTIVATIONS)))


def svdf_int8(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    source = b.input((1, 5), scale=scale(rng), zero_point=point(rng))
    feature, time = b.constant(int8(rng, 6, 5), scale=scale(rng)), b.constant(int8(rng, 6, 4), scale=0.01)
    state_scale = float(np.float32(b.tensors[source].scale * b.tensors[feature].scale * pick(rng, 50, 200)))
    bias = b.constant(rng.integers(-999, 999, 3).astype(np.int32),
                      scale=float(np.float32(state_scale) * np.float32(0.01)))
    state = b.tensor((1, 24), scale=state_scale, zero_point=int(rng.integers(-60, 60)), is_variable=True)
    return b.build(b.add("SVDF", [source, feature, time, bias, state], scale=float(np.float32(state_scale)),
                         zero_point=point(rng), rank=2, fused_activation_function="RELU"))


def div(rng: Rng, op: str) -> bytes:
    """By divisors that are no zero, of any sign."""
    b = ModelBuilder(op)
    dims = shape(rng)
    second, points = dims if rng.random() < 0.5 else dims[-1:], (point(rng), point(rng))
    scales = scale(rng), scale(rng)
    data = rng.integers(-128, 128, second)
    data[data == points[1]] += 1 if points[1] < 127 else -1
    left = b.input(dims, scale=scales[0], zero_point=points[0])
    right = b.constant(data.astype(np.int8), scale=scales[1], zero_point=points[1])
    out = float(np.float32(scales[0] / scales[1] * pick(rng, 0.0005, 0.005, 0.02, 0.04, 0.3)))
    return b.build(b.add(op, [left, right], scale=out, zero_point=point(rng),
                         fused_activation_function=pick(rng, *ACTIVATIONS)))


def product(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng, 3, 3)
    axes = sorted(rng.choice(3, int(rng.integers(1, 3)), replace=False).tolist())
    source, zero = scale(rng), point(rng)
    count = int(np.prod([dims[axis] for axis in axes]))
    largest = (source * max(127 - zero, 128 + zero)) ** count
    out = float(np.float32(max(largest / pick(rng, 30, 127, 400), 1e-30)))
    return b.build(b.add(op, [b.input(dims, scale=source, zero_point=zero), b.constant(axes)], scale=out,
                         zero_point=point(rng), keep_dims=bool(rng.integers(2))))


def truth(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    axes = rng.choice(len(dims), int(rng.integers(1, len(dims) + 1)), replace=False).tolist()
    return b.build(b.add(op, [b.input(dims, "bool"), b.constant(axes)], keep_dims=bool(rng.integers(2))))


def one_hot(rng: Rng, op: str) -> bytes:
    """Of any bytes, which are outside now and then."""
    b = ModelBuilder(op)
    indices = b.add("CAST", [b.input(shape(rng, 2, 4), scale=0.5)], out_data_type=pick(rng, "int32", "int64"))
    indices = b.add("MINIMUM", [indices, b.constant(9)]) if b.tensors[indices].dtype == "int32" else indices
    values = [np.array(each, pick(rng, "int8", "int32")) for each in rng.integers(-128, 128, 2)]
    on, off = (b.constant(each.astype(values[0].dtype), **QUANTIZED.get(values[0].dtype.name, {})) for each in values)
    return b.build(b.add(op, [indices, b.constant(int(rng.integers(1, 12))), on, off], axis=pick(rng, -1, 0, 1, 2)))


def top_k(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = (*shape(rng, int(rng.integers(0, 3)) or None, 3)[:2], int(rng.integers(1, 20)))
    x = b.add("RELU6", [b.input(dims, scale=0.2)])
    count = b.constant(int(rng.integers(1, dims[-1] + 1)))
    found = [b.tensor((*dims[:-1], int(b.tensors[count].data)), dtype, **QUANTIZED.get(dtype, {}))
             for dtype in ("int8", "int32")]
    b.operator(op, [x, count], found)
    return b.build(*found)


def integers(rng: Rng, op: str) -> bytes:
    """Elementwise operators on int32."""
    b = ModelBuilder(op)
    op = op.removesuffix(":int32")
    first = shape(rng)
    second = tuple(pick(rng, 1, size, size) for size in first)[int(rng.integers(0, len(first))):]
    pair = [b.input(first, "int32"), b.input(second, "int32")]
    options = {"fused_activation_function": pick(rng, *ACTIVATIONS)} if op in ("ADD", "SUB", "MUL") else {}
    return b.build(b.add(op, pair if rng.random() < 0.5 else pair[::-1], **options))


def from_float(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    return b.build(b.add("QUANTIZE", [b.input(shape(rng, most=12), "float32")], scale=scale(rng),
                         zero_point=point(rng)))


QUANTIZED = {"int8": {"scale": 0.2, "zero_point": 0}}
BOTH, REF, TFLM = ("litert-ref", "tflm"), ("litert-ref",), ("tflm",)
#: Operator -> generator, engines that profile canon equals.
OPERATORS: dict[str, tuple[Generator, tuple[str, ...]]] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"), (conv, BOTH)),
    "FULLY_CONNECTED": (fully_connected, TFLM),
    "BATCH_MATMUL": (batch_matmul, REF),
    **dict.fromkeys(("ADD", "SUB", "MAXIMUM", "MINIMUM", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL",
                     "EQUAL", "NOT_EQUAL", "SQUARED_DIFFERENCE"), (binary, BOTH)),
    "MUL": (binary, REF),
    **dict.fromkeys(("LOGISTIC", "TANH"), (unary, REF)),
    **dict.fromkeys(("PRELU", "HARD_SWISH", "QUANTIZE", "DEQUANTIZE"), (unary, BOTH)),
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU"), (unary, REF)),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX"), (softmax, BOTH)),
    "L2_NORMALIZATION": (l2_normalization, BOTH),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), (pool, BOTH)),
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "ARG_MAX", "ARG_MIN"), (reduction, BOTH)),
    "SUM": (reduction, TFLM),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), (resize, BOTH)),
    "SVDF": (svdf, BOTH), "DIV": (div, REF), "REDUCE_PROD": (product, REF), "ONE_HOT": (one_hot, REF),
    "TOPK_V2": (top_k, REF), **dict.fromkeys(("REDUCE_ANY", "REDUCE_ALL"), (truth, REF)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (lstm, REF),
    "FLOAT_QUANTIZE": (from_float, BOTH),
    # TFLite Micro leaves out the activation of int32.
    **dict.fromkeys(("ADD:int32", "SUB:int32", "MUL:int32", "SQUARED_DIFFERENCE:int32"), (integers, REF)),
    **dict.fromkeys((f"{op}:int32" for op in ("MAXIMUM", "MINIMUM", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL",
                                              "EQUAL", "NOT_EQUAL")), (integers, BOTH)),
    **dict.fromkeys(("uint8:int8", "int8:uint8", "int16:int8"), (from_integer, BOTH)),
    **dict.fromkeys(("int8:int16", "int16:int32", "int8:int32"), (from_integer, TFLM)),
    "CAST": (cast, REF),
    **dict.fromkeys(("CONV_2D:bias", "DEPTHWISE_CONV_2D:bias"), (without_bias, TFLM)),
    "FULLY_CONNECTED:asymmetric": (asymmetric, TFLM),
    "FULLY_CONNECTED:computed": (computed, TFLM),
    "SVDF:int8": (svdf_int8, TFLM),
}


def sweep(op: str, seeds: range, agree: Callable[..., None], random_sets: Callable[..., Any]) -> None:
    generate, engines = OPERATORS[op]
    for seed in seeds:
        data = generate(np.random.default_rng([seed, *op.encode()]), op)
        sets = random_sets(parse_model(data, op, check=False), seed)
        for engine in engines:
            try:
                agree(engine, data, sets, reset=not op.startswith("SVDF"))
            except Exception as error:
                error.add_note(f"{op}, seed {seed}, {engine}")
                raise


@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engines(op: str, agree: Callable[..., None], random_sets: Callable[..., Any]) -> None:
    sweep(op, range(3), agree, random_sets)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("scales", [(1e-6, 1.0), (1e-7, 1e-6), (1e-9, 1e-9), (1e-9, 1e-5), (1e-30, 1e-24), (2e7, 1e9)])
def test_hard_swish_with_shifts_of_16_and_more(scales: tuple[float, float], engine: str,
                                               agree: Callable[..., None]) -> None:
    b = ModelBuilder("hard_swish")
    x = b.input((256,), scale=scales[0], zero_point=3)
    data = b.build(b.add("HARD_SWISH", [x], scale=scales[1], zero_point=-5))
    agree(engine, data, [[np.arange(-128, 128).astype(np.int8)]])


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engines_in_a_sweep(op: str, agree: Callable[..., None],
                                       random_sets: Callable[..., Any]) -> None:
    sweep(op, range(3, 60), agree, random_sets)
