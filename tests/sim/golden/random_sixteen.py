"""Generated 16x8 models of one operator: int16 activations, int8 weights."""

from typing import Any

import numpy as np
from random_draws import ACTIVATIONS, Generator, Rng, int8, pick, shape

from tq_hw.model.samples.build import ModelBuilder

#: Usual scale of inputs; half of the time it is a power of two.
_SCALES = (2.0**-15, 2.0**-12, 2.0**-11, 3e-5, 2.3e-4, 0.0113)


def _input(rng: Rng, b: ModelBuilder, *dims: int) -> int:
    return b.input(dims, "int16", scale=float(np.float32(pick(rng, *_SCALES))))


def _weights(rng: Rng, b: ModelBuilder, dims: tuple[int, ...], axis: int) -> int:
    count = dims[axis] if rng.random() < 0.7 else 1
    scales = [float(np.float32(each)) for each in 10.0 ** rng.uniform(-4, -1, count)]
    return b.constant(int8(rng, *dims), scale=scales, dimension=axis if count > 1 else 0)


def _bias(rng: Rng, b: ModelBuilder, source: int, weights: int, count: int, options: dict[str, Any]) -> int:
    if options.get("quantized_bias_type") == "int32":
        return b.constant(rng.integers(-2**24, 2**24, count).astype(np.int32), scale=_product(b, source, weights))
    large = 1 << int(rng.integers(1, 36))
    return b.constant(rng.integers(-large, large, count), scale=_product(b, source, weights))


def _product(b: ModelBuilder, source: int, weights: int) -> list[float]:
    quantization = b.tensors[weights].quantization
    assert quantization is not None
    return [float(np.float32(b.tensors[source].scale * each)) for each in quantization.scale]


def _scale(rng: Rng, b: ModelBuilder, source: int, weights: int, depth: int) -> float:
    wanted = max(_product(b, source, weights)) * depth ** 0.5 * 19000 * 70 / 12000
    return float(np.float32(wanted * pick(rng, 0.3, 1, 1, 3, 100)))


def conv(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    size, kernel = rng.integers(3, 9, 2), rng.integers(1, 4, 2)
    channels, depthwise = int(rng.integers(1, 12)), op.startswith("DEPTHWISE")
    source = _input(rng, b, int(rng.integers(1, 3)), *map(int, size), channels)
    groups = channels if not depthwise and rng.random() < 0.15 else 1
    dims = (1, *map(int, kernel), channels * pick(rng, 1, 1, 2)) if depthwise else (
        groups * int(rng.integers(1, 12)), *map(int, kernel), channels // groups)
    axis = 3 if depthwise else 0
    weights = _weights(rng, b, dims, axis)
    options: dict[str, Any] = {"padding": pick(rng, "SAME", "VALID"), "stride_h": int(rng.integers(1, 3)),
                               "stride_w": int(rng.integers(1, 3)),
                               "fused_activation_function": pick(rng, *ACTIVATIONS)}
    if not depthwise:
        options["quantized_bias_type"] = pick(rng, "int64", "int64", "float32", "int32")
    if rng.random() < 0.3:
        options |= {"padding": "SAME", "dilation_h_factor": int(rng.integers(1, 4)),
                    "dilation_w_factor": int(rng.integers(1, 4))}
    taps = int(np.prod(kernel)) * (1 if depthwise else channels)
    bias = _bias(rng, b, source, weights, dims[axis], options)
    return b.build(b.add(op, [source, weights, bias], scale=_scale(rng, b, source, weights, taps), **options))


def transpose_conv(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    size, kernel, stride = rng.integers(1, 7, 2), rng.integers(1, 4, 2), rng.integers(1, 4, 2)
    source = _input(rng, b, int(rng.integers(1, 3)), *map(int, size), int(rng.integers(1, 9)))
    padding, channels, depth = pick(rng, "SAME", "VALID"), int(rng.integers(1, 9)), b.tensors[source].shape[3]
    extent = [int(n * step if padding == "SAME" else (n - 1) * step + taps)
              for n, step, taps in zip(size, stride, kernel, strict=True)]
    weights = _weights(rng, b, (channels, *map(int, kernel), depth), 0)
    # In TFLite Micro the result with an int32 bias is undefined.
    options: dict[str, Any] = {"quantized_bias_type": pick(rng, "int64", "float32"), "padding": padding,
                               "stride_h": int(stride[0]), "stride_w": int(stride[1]),
                               "fused_activation_function": pick(rng, *ACTIVATIONS)}
    shape = (b.tensors[source].shape[0], *extent, channels)
    inputs = [b.constant(list(shape)), weights, source]
    if rng.random() < 0.8:
        inputs.append(_bias(rng, b, source, weights, channels, options))
    return b.build(b.add(op, inputs, scale=_scale(rng, b, source, weights, depth * int(np.prod(kernel))), shape=shape,
                         **options))


def fully_connected(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    depth, units = int(rng.integers(1, 100)), int(rng.integers(1, 20))
    source = _input(rng, b, *shape(rng, int(rng.integers(1, 3)), 4), depth)
    weights = _weights(rng, b, (units, depth), 0)
    options: dict[str, Any] = {"quantized_bias_type": pick(rng, "int64", "float32", "int32"),
                               "keep_num_dims": bool(rng.integers(2)),
                               "fused_activation_function": pick(rng, *ACTIVATIONS)}
    bias = _bias(rng, b, source, weights, units, options) if rng.random() < 0.7 else -1
    return b.build(b.add(op, [source, weights, bias], scale=_scale(rng, b, source, weights, depth), **options))


def matmul(rng: Rng, op: str) -> bytes:
    """Both operands computed, or one of them a constant; leading axes broadcast."""
    b = ModelBuilder(op)
    rows, depth, cols = (int(size) for size in rng.integers(1, 20, 3))
    batch = pick(rng, (), shape(rng, 1, 3), shape(rng, 2, 3))
    adj_x, adj_y = bool(rng.integers(2)), bool(rng.integers(2))
    left = _input(rng, b, *batch, *((depth, rows) if adj_x else (rows, depth)))
    other = batch if rng.random() < 0.6 else (1,) * len(batch)
    dims = (*other, *((cols, depth) if adj_y else (depth, cols)))
    scale = pick(rng, *_SCALES)
    if rng.random() < 0.2:
        right = b.constant(rng.integers(-32768, 32768, dims).astype(np.int16), scale=scale)
    else:
        right = b.input(dims, "int16", scale=scale)
    wanted = b.tensors[left].scale * b.tensors[right].scale * depth ** 0.5 * 12000 * pick(rng, 0.3, 1, 1, 3, 100)
    return b.build(b.add(op, [left, right], scale=float(np.float32(wanted)), adj_x=adj_x, adj_y=adj_y))


def binary(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    left = _input(rng, b, *dims)
    other = tuple(1 if rng.random() < 0.25 else size for size in dims) if rng.random() < 0.4 else dims
    scale = b.tensors[left].scale
    if op in ("MAXIMUM", "MINIMUM"):
        return b.build(b.add(op, [left, b.input(other, "int16", scale=scale)]))
    right = b.input(other, "int16", scale=float(np.float32(scale * 10.0 ** rng.uniform(-2, 2))))
    scales = scale, b.tensors[right].scale
    natural = scales[0] * scales[1] * 12000 if op == "MUL" else max(scales)
    options: dict[str, Any] = {} if op == "MUL" else {"pot_scale_int16": False}
    return b.build(b.add(op, [left, right], scale=float(np.float32(natural * pick(rng, 0.4, 1, 2, 9))),
                         fused_activation_function=pick(rng, *ACTIVATIONS), **options))


def compare(rng: Rng, op: str) -> bytes:
    """Equal and very different scales; some numbers are equal."""
    b = ModelBuilder(op)
    dims = shape(rng)
    left = _input(rng, b, *dims)
    other = tuple(1 if rng.random() < 0.25 else size for size in dims) if rng.random() < 0.4 else dims
    scale = b.tensors[left].scale * pick(rng, 1, 1, 0.37, 2.9, 80)
    return b.build(b.add(op, [left, b.input(other, "int16", scale=float(np.float32(scale)))]))


def squared_difference(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    left = _input(rng, b, *dims)
    other = tuple(1 if rng.random() < 0.25 else size for size in dims) if rng.random() < 0.4 else dims
    right = b.input(other, "int16", scale=float(np.float32(b.tensors[left].scale * 10.0 ** rng.uniform(-2, 2))))
    larger = max(b.tensors[left].scale, b.tensors[right].scale)
    return b.build(b.add(op, [left, right], scale=float(np.float32(larger**2 * 20000 * pick(rng, 0.01, 0.4, 1, 2, 9)))))


def div(rng: Rng, op: str) -> bytes:
    """Quotients of all magnitudes, including small ones; divisors of any sign and magnitude."""
    b, dims = ModelBuilder(op), shape(rng)
    left = _input(rng, b, *dims)
    other = dims if rng.random() < 0.5 else dims[-1:]
    divisors = rng.integers(-32768, 32768, other) >> rng.integers(0, 16, other)
    divisors = np.where(divisors == 0, 5, divisors).astype(np.int16)
    right = b.constant(divisors, scale=float(np.float32(10.0 ** rng.uniform(-5, -1))))
    natural = b.tensors[left].scale / b.tensors[right].scale
    return b.build(b.add(op, [left, right], scale=float(np.float32(natural * pick(rng, 5e-5, 0.01, 1, 30, 3000))),
                         fused_activation_function=pick(rng, *ACTIVATIONS)))


def prelu(rng: Rng, op: str) -> bytes:
    """int8 slopes, one per channel or per element."""
    b = ModelBuilder(op)
    dims = shape(rng, 4)
    source = _input(rng, b, *dims)
    slopes = b.constant(int8(rng, *pick(rng, (1, 1, dims[3]), dims[1:], (1, 1, 1))),
                        scale=float(np.float32(10.0 ** rng.uniform(-4, -1))), zero_point=pick(rng, 0, 0, 7, -128))
    return b.build(b.add(op, [source, slopes], scale=float(np.float32(b.tensors[source].scale * pick(rng, 0.4, 1, 3)))))


def pool(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    source = _input(rng, b, 1, *shape(rng, 3, 12))
    _, height, width, _ = b.tensors[source].shape
    return b.build(b.add(op, [source], padding=pick(rng, "SAME", "VALID"),
                         filter_height=int(rng.integers(1, height + 1)), filter_width=int(rng.integers(1, width + 1)),
                         stride_h=int(rng.integers(1, 4)), stride_w=int(rng.integers(1, 4)),
                         fused_activation_function=pick(rng, *ACTIVATIONS)))


def unary(rng: Rng, op: str) -> bytes:
    """Every code; scales with arguments far beyond a table's range, and far within it."""
    b = ModelBuilder(op)
    scale = float(np.float32(2.0 ** -12 if rng.random() < 0.2 else 10.0 ** rng.uniform(-6, -1)))
    source = b.input((999,), "int16", scale=scale)
    options: dict[str, Any] = {}
    if op in ("RELU", "RELU6", "LEAKY_RELU"):
        options["scale"] = float(np.float32(scale * pick(rng, 0.6, 1, 2.7)))
    if op == "LEAKY_RELU":
        options["alpha"] = float(np.float32(rng.uniform(-0.5, 1.5)))
    return b.build(b.add(op, [source], **options))


def pointwise(rng: Rng, op: str) -> bytes:
    """Functions of any code; for roots, only of codes that are not negative."""
    b = ModelBuilder(op)
    # From 88 on, the exponential is infinite in float32.
    scale = float(np.float32(10.0 ** rng.uniform(-6, -2.7 if op == "EXP" else -2.5)))
    source = b.input((999,), "int16", scale=scale)
    if op in ("RSQRT", "SQRT"):
        source = b.add("RELU", [source])
    most = 32767 * scale
    natural = {"EXP": np.exp(most) / 32767, "LOG": 0.03 / 128, "RSQRT": scale**-0.5 / 9000,
               "SQRT": most**0.5 / 32767}.get(op, scale)
    options = {"approximate": bool(rng.integers(2))} if op == "GELU" else {}
    return b.build(b.add(op, [source], shape=(999,), scale=float(np.float32(natural * pick(rng, 1, 0.3, 1.7, 3))),
                         options=options))


def softmax(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    source = _input(rng, b, *shape(rng, most=20))
    return b.build(b.add(op, [source], beta=pick(rng, 1.0, 1.0, 0.5, 3.0)))


def mean(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng, most=9)
    source = _input(rng, b, *dims)
    axes = rng.choice(len(dims), int(rng.integers(1, len(dims) + 1)), replace=False).tolist()
    if op not in ("MEAN", "SUM"):
        return b.build(b.add(op, [source, b.constant(axes)], keep_dims=bool(rng.integers(2))))
    return b.build(b.add(op, [source, b.constant(axes)], keep_dims=bool(rng.integers(2)),
                         scale=float(np.float32(b.tensors[source].scale * pick(rng, 0.1, 1, 2)))))


def resize(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng, 4)
    source = _input(rng, b, *dims)
    sizes = [dims[axis] * pick(rng, 2, 2, 3, 4) if rng.random() < 0.6 else int(rng.integers(1, 12)) for axis in (1, 2)]
    flags = pick(rng, (False, False), (True, False), (False, True), (False, True))
    return b.build(b.add(op, [source, b.constant(sizes)], align_corners=flags[0], half_pixel_centers=flags[1]))


def move(rng: Rng, op: str) -> bytes:
    """Moves of two-byte elements."""
    b = ModelBuilder(op)
    n, height, width, channels = dims = shape(rng, 4)
    source = _input(rng, b, *dims)
    second = b.input(dims, "int16", scale=b.tensors[source].scale)
    made = {
        "RESHAPE": lambda: b.add(op, [source, b.constant([n * height, width * channels])],
                                 shape=(n * height, width * channels)),
        "CONCATENATION": lambda: b.add(op, [source, second], axis=int(rng.integers(4))),
        "PAD": lambda: b.add(op, [source, b.constant(rng.integers(0, 3, (4, 2)).astype(np.int32))]),
        "TRANSPOSE": lambda: b.add(op, [source, b.constant(rng.permutation(4).tolist())]),
        "SLICE": lambda: b.add(op, [source, b.constant([0, height // 2, 0, channels // 2]), b.constant([-1] * 4)]),
        "PACK": lambda: b.add(op, [source, second], axis=int(rng.integers(5))),
        "RESIZE_NEAREST_NEIGHBOR": lambda: b.add(op, [source, b.constant([2 * height, width + 3])]),
    }
    return b.build(made[op]())


def quantize(rng: Rng, op: str) -> bytes:
    """QUANTIZE from one type to another; `op` names both."""
    b = ModelBuilder(op)
    first, second = op.split(":")
    source = b.input((999,), first, scale=float(np.float32(10.0 ** rng.uniform(-4, -2))))
    target = b.tensors[source].scale * {"int8:int16": 1 / 256, "int16:int8": 256}.get(op, 1)
    return b.build(b.add("QUANTIZE", [source], dtype=second, zero_point=0,
                         scale=float(np.float32(target * pick(rng, 0.5, 1, 1.7)))))


_MOVES = ("RESHAPE", "CONCATENATION", "PAD", "TRANSPOSE", "SLICE", "PACK", "RESIZE_NEAREST_NEIGHBOR")
def top_k(rng: Rng, op: str) -> bytes:
    """Rows with many equal codes, or with few."""
    b = ModelBuilder(op)
    dims = (*shape(rng, int(rng.integers(0, 3)) or None, 3)[:2], int(rng.integers(1, 20)))
    x = _input(rng, b, *dims)
    if rng.random() < 0.5:
        small = b.add("QUANTIZE", [x], scale=b.tensors[x].scale * 8192, zero_point=0)
        x = b.add("QUANTIZE", [small], dtype="int16", scale=b.tensors[x].scale, zero_point=0)
    return b.build(*b.add_many(op, [x, b.constant(int(rng.integers(1, dims[-1] + 1)))], 2))


OPERATORS: dict[str, Generator] = {
    "CONV_2D": conv, "DEPTHWISE_CONV_2D": conv, "TRANSPOSE_CONV": transpose_conv, "FULLY_CONNECTED": fully_connected,
    **dict.fromkeys(("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"), binary),
    **dict.fromkeys(("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"), compare),
    "SQUARED_DIFFERENCE": squared_difference, "PRELU": prelu, "DIV": div,
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), pool),
    **dict.fromkeys(("LOGISTIC", "TANH", "RELU", "RELU6", "LEAKY_RELU"), unary),
    **dict.fromkeys(("ABS", "NEG", "EXP", "LOG", "GELU", "RSQRT", "SQRT"), pointwise),
    "BATCH_MATMUL": matmul, "RESIZE_BILINEAR": resize, "SOFTMAX": softmax, "MEAN": mean, "SUM": mean,
    "REDUCE_MAX": mean, "REDUCE_MIN": mean, "TOPK_V2": top_k, **dict.fromkeys(_MOVES, move),
    **dict.fromkeys(("int16:int8", "int8:int16", "int16:int16"), quantize),
}
