"""Generated models of one operator that works on elements, rows or windows."""

from typing import Any

import numpy as np
from random_draws import ACTIVATIONS, Rng, int8, pick, point, scale, shape

from tq_hw.model.samples.build import ModelBuilder

QUANTIZED = {"int8": {"scale": 0.2, "zero_point": 0}}


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
    if op == "TANH" and rng.random() < 0.5:
        options = {"scale": float(np.float32(pick(rng, 0.0004, 0.0057, 1 / 128, 0.3))), "zero_point": point(rng)}
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
    options: dict[str, Any] = {"beta": float(np.float32(pick(rng, 1.0, 0.5, 1.7)))} if op == "SOFTMAX" else {}
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


def from_integer(rng: Rng, op: str) -> bytes:
    """QUANTIZE between integer types; `op` is "source:target"."""
    b = ModelBuilder(op)
    first, second = op.split(":")
    points = [0 if dtype == "int16" or dtype == second == "int32" else point(rng) + (128 if dtype == "uint8" else 0)
              for dtype in (first, second)]
    bits = {"int8": 8, "uint8": 8, "int16": 16, "int32": 24}
    ratio = pick(rng, 0.3, 1, 1, 7) * 2.0 ** (bits[first] - bits[second])
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


def div(rng: Rng, op: str) -> bytes:
    """Divisors of any sign, but not 0."""
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
    """Indices of any value; some are out of range."""
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
    kept = int(rng.integers(1, dims[-1] + 1))
    count = b.constant(kept)
    found = [b.tensor((*dims[:-1], kept), dtype, **QUANTIZED.get(dtype, {}))
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


def divided_integers(rng: Rng, op: str) -> bytes:
    """Divisors of all magnitudes and signs except 0 and -1, for which the quotient of the least number is undefined."""
    b = ModelBuilder(op)
    op, _, dtype = op.partition(":")
    bits, dims = np.iinfo(dtype).bits, shape(rng)
    second = dims if rng.random() < 0.5 else dims[-1:]
    divisors = rng.integers(-1 << bits - 1, 1 << bits - 1, second) >> rng.integers(0, bits, second)
    divisors = np.where((divisors == 0) | (divisors == -1), 1, divisors).astype(dtype)
    quantized: dict[str, Any] = {} if dtype == "int32" else {"scale": 0.2}
    options = {"fused_activation_function": pick(rng, *ACTIVATIONS)} if op == "DIV" else {}
    return b.build(b.add(op, [b.input(dims, dtype, **quantized), b.constant(divisors, **quantized)], **options))


def whole(rng: Rng, op: str) -> bytes:
    """Functions of one int32, and powers of numbers small enough not to overflow."""
    b = ModelBuilder(op)
    op = op.removesuffix(":int32")
    x = b.input(shape(rng), "int32")
    if op != "POW":
        return b.build(b.add(op, [x]))
    exponent = pick(rng, 0, 1, 2, 3, 5, 9, 31, 64)
    most = int((2**31 - 1) ** (1 / exponent)) if exponent else 1 << 30
    x = b.add("MAXIMUM", [b.add("MINIMUM", [x, b.constant(most)]), b.constant(-most)])
    return b.build(b.add(op, [x, b.constant(exponent)]))


def bits(rng: Rng, op: str) -> bytes:
    """Two tensors that broadcast: of any numbers, so that shifts are far out of range, and of small ones."""
    b = ModelBuilder(op)
    op, _, dtype = op.partition(":")
    dims = shape(rng)
    like: dict[str, Any] = {} if dtype == "int32" else {"scale": 0.2}
    left = b.input(dims, dtype, **like)
    if rng.random() < 0.5:
        return b.build(b.add(op, [left, b.input(dims, dtype, **like)]))
    small = rng.integers(-3, 34, pick(rng, dims, dims[-1:])).astype(dtype)
    return b.build(b.add(op, [left, b.constant(small, **like)]))


def double_words(rng: Rng, op: str) -> bytes:
    """Sums and comparisons of int64, with or without broadcasting."""
    b = ModelBuilder(op)
    op, first = op.removesuffix(":int64"), shape(rng)
    second = tuple(pick(rng, 1, size, size) for size in first)[int(rng.integers(0, len(first))):]
    options = {"fused_activation_function": pick(rng, *ACTIVATIONS)} if op in ("ADD", "SUB", "MUL") else {}
    pair = [b.input(first, "int64"), b.input(second, "int64")]
    return b.build(b.add(op, pair if rng.random() < 0.5 else pair[::-1], **options))


def integer_reduction(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    op, dims = op.removesuffix(":int32"), shape(rng, most=9)
    axes = rng.choice(len(dims), int(rng.integers(1, len(dims) + 1)), replace=False).tolist()
    source = b.input(dims, "int32")
    if op.startswith("ARG"):
        source = b.add("MINIMUM", [source, b.constant(pick(rng, 5, 2**31 - 1))])
        return b.build(b.add(op, [source, b.constant(axes[0])], output_type=pick(rng, "int32", "int64")))
    return b.build(b.add(op, [source, b.constant(axes)], keep_dims=bool(rng.integers(2))))


def equal_truth(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    other = tuple(pick(rng, 1, size, size) for size in dims)
    return b.build(b.add(op.removesuffix(":bool"), [b.input(dims, "bool"), b.input(other, "bool")]))


def from_float(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    return b.build(b.add("QUANTIZE", [b.input(shape(rng, most=12), "float32")], scale=scale(rng),
                         zero_point=point(rng)))
