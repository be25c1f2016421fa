"""Seeded random layers of the operators other than convolutions: elementwise, movement, reductions, products."""

from collections.abc import Callable

import numpy as np

from tq_hw.model.samples.build import ModelBuilder

__all__ = ["OPERATOR_LAYERS"]

Rng = np.random.Generator
_ACTIVATIONS = ("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def _point(rng: Rng) -> int:
    return int(rng.choice((-128, 127, 0, int(rng.integers(-128, 128)))))


def _pick(rng: Rng, *options: str) -> str:
    return str(rng.choice(options))


def _int8(rng: Rng, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _unary(b: ModelBuilder, rng: Rng, x: int) -> int:
    op = _pick(rng, "LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "HARD_SWISH")
    if op in ("LOGISTIC", "TANH"):
        return b.add(op, [x])
    options: dict[str, float] = {"alpha": float(np.float32(rng.uniform(-0.5, 1.5)))} if op == "LEAKY_RELU" else {}
    return b.add(op, [x], scale=b.tensors[x].scale * float(rng.uniform(0.4, 3)), zero_point=_point(rng),
                 options=options)


def _other(b: ModelBuilder, rng: Rng, x: int, scale: float, zero_point: int) -> int:
    """Give a second operand: of the same shape, or of one that broadcasts, constant or not."""
    dims = [size if rng.random() < 0.6 else 1 for size in b.tensors[x].shape]
    dims = dims[int(rng.integers(0, 4)):] if rng.random() < 0.4 else dims
    if rng.random() < 0.3:
        dims = list(b.tensors[x].shape)
    if rng.random() < 0.4:
        return b.constant(_int8(rng, *dims), scale=scale, zero_point=zero_point)
    return b.input(dims, scale=scale, zero_point=zero_point)


def _binary(b: ModelBuilder, rng: Rng, x: int) -> int:
    op = _pick(rng, "ADD", "SUB", "MUL", "PRELU", "SQUARED_DIFFERENCE")
    scale = float(rng.uniform(0.005, 0.1))
    other = _other(b, rng, x, scale, _point(rng))
    pair = [x, other] if op == "PRELU" or rng.random() < 0.5 else [other, x]
    options = {} if op in ("PRELU", "SQUARED_DIFFERENCE") else {"fused_activation_function": _pick(rng, *_ACTIVATIONS)}
    out = max(b.tensors[x].scale, scale) if op in ("ADD", "SUB") else b.tensors[x].scale * scale * 80
    return b.add(op, pair, scale=out * float(rng.uniform(0.5, 3)), zero_point=_point(rng), options=options)


def _compare(b: ModelBuilder, rng: Rng, x: int) -> int:
    op = _pick(rng, "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL", "MAXIMUM", "MINIMUM")
    tensor = b.tensors[x]
    scale = tensor.scale * float(rng.choice((1.0, 0.5, 3.1)))
    if op in ("MAXIMUM", "MINIMUM"):
        scale = tensor.scale
    return b.add(op, [x, _other(b, rng, x, scale, tensor.zero_point)])


def _integers(b: ModelBuilder, rng: Rng, x: int) -> int:
    """Arithmetic of int32: of positions and of constants."""
    op = _pick(rng, "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "LESS", "LESS_EQUAL", "GREATER", "EQUAL")
    first = b.add("ARG_MAX", [x, b.constant(int(rng.integers(0, 4)))], output_type="int32")
    dims = tuple(size if rng.random() < 0.6 else 1 for size in b.tensors[first].shape)
    second = b.constant(rng.integers(-9, 9, dims).astype(np.int32))
    if rng.random() < 0.5:
        second = b.add("CAST", [b.input(dims, scale=0.1)], out_data_type="int32")
    options = {"fused_activation_function": _pick(rng, *_ACTIVATIONS)} if op in ("ADD", "SUB", "MUL") else {}
    return b.add(op, [first, second] if rng.random() < 0.5 else [second, first], options=options)


def _rearranged(b: ModelBuilder, rng: Rng, x: int) -> int:
    """Repeats, mirrored borders, axes turned round, picked and scattered slices."""
    shape = b.tensors[x].shape
    op = _pick(rng, "TILE", "REVERSE_V2", "MIRROR_PAD", "GATHER_ND", "SCATTER_ND")
    if op == "TILE":
        return b.add(op, [x, b.constant(rng.integers(1, 3, 4).astype(np.int32))])
    if op == "REVERSE_V2":
        first = int(rng.integers(0, 4))
        return b.add(op, [x, b.constant(list(range(first, int(rng.integers(first, 4)) + 1)))])
    if op == "MIRROR_PAD":
        mode = _pick(rng, "REFLECT", "SYMMETRIC")
        most = np.array([[min(4, size - (mode == "REFLECT"))] * 2 for size in shape])
        return b.add(op, [x, b.constant(rng.integers(0, most + 1).astype(np.int32))], mode=mode)
    if op == "GATHER_ND":
        depth = int(rng.integers(1, 5))
        indices = np.stack([rng.integers(0, size, 5) for size in shape[:depth]], axis=-1)
        return b.add(op, [x, b.constant(indices.astype(np.int32))])
    target = (2 * shape[0] + 1, *shape[1:])
    indices = rng.permutation(target[0])[:shape[0], None].astype(np.int32)
    return b.add(op, [b.constant(indices), x, b.constant(list(target))])


def _choice(b: ModelBuilder, rng: Rng, x: int) -> int:
    """One of two by a comparison or a constant condition."""
    tensor = b.tensors[x]
    other = _other(b, rng, x, tensor.scale, tensor.zero_point)
    if rng.random() < 0.5:
        condition = b.add(_pick(rng, "LESS", "GREATER"), [x, other])
        third = b.add("EQUAL", [x, other])
        condition = b.add(_pick(rng, "LOGICAL_AND", "LOGICAL_OR"), [condition, third])
        condition = b.add("LOGICAL_NOT", [condition]) if rng.random() < 0.5 else condition
    else:
        condition = b.constant(rng.random([size if rng.random() < 0.7 else 1 for size in tensor.shape]) < 0.5)
    return b.add("SELECT_V2", [condition, x, other] if rng.random() < 0.5 else [condition, other, x])


def _concatenation(b: ModelBuilder, rng: Rng, x: int) -> int:
    tensor = b.tensors[x]
    axis = int(rng.integers(0, 4))
    parts = [x]
    for _ in range(int(rng.integers(1, 4))):
        dims = list(tensor.shape)
        dims[axis] = int(rng.integers(1, 20))
        parts.insert(int(rng.integers(0, len(parts) + 1)),
                     b.input(dims, scale=tensor.scale, zero_point=tensor.zero_point))
    return b.add("CONCATENATION", parts, axis=axis - 4 if rng.random() < 0.3 else axis)


def _slice(b: ModelBuilder, rng: Rng, x: int) -> int:
    shape = b.tensors[x].shape
    begin = [int(rng.integers(0, size)) for size in shape]
    if rng.random() < 0.5:
        size = [int(rng.integers(1, s - o + 1)) for s, o in zip(shape, begin, strict=True)]
        return b.add("SLICE", [x, b.constant(begin), b.constant(size)])
    strides = [int(rng.choice((1, 2, 3, -1, -2))) for _ in shape]
    end = [(size if s > 0 else -size - 1) for size, s in zip(shape, strides, strict=True)]
    # An axis that is shrunk has a positive stride.
    shrunk = int(rng.choice((0, 0, 1, 4, 8))) & sum((stride > 0) << axis for axis, stride in enumerate(strides))
    return b.add("STRIDED_SLICE", [x, b.constant(begin), b.constant(end), b.constant(strides)], begin_mask=0,
                 end_mask=0, shrink_axis_mask=shrunk)


def _transpose(b: ModelBuilder, rng: Rng, x: int) -> int:
    return b.add("TRANSPOSE", [x, b.constant(rng.permutation(4).astype(np.int32))])


def _split(b: ModelBuilder, rng: Rng, x: int) -> int:
    """Take apart and join again in another order."""
    shape = b.tensors[x].shape
    axis = int(rng.integers(0, 4))
    if rng.random() < 0.5:
        parts = b.add_many("UNPACK", [x], shape[axis], options={"axis": axis})
        return b.add("PACK", parts[::-1], axis=int(rng.integers(0, 4)))
    first = int(rng.integers(1, shape[axis] + 1))
    sizes = [first, shape[axis] - first] if shape[axis] > first else [first]
    parts = b.add_many("SPLIT_V", [x, b.constant(sizes), b.constant(axis)], len(sizes))
    return b.add("CONCATENATION", parts[::-1], axis=axis)


def _space(b: ModelBuilder, rng: Rng, x: int) -> int:
    n, h, w, c = b.tensors[x].shape
    block = [int(rng.integers(1, 4)), int(rng.integers(1, 4))]
    op = _pick(rng, "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
    if op.endswith("_ND"):
        before = rng.integers(0, 3, 2)
        after = [-(size + int(low)) % step for size, low, step in zip((h, w), before, block, strict=True)]
        pads = b.constant(np.array([before, after], np.int32).T)
        y = b.add("SPACE_TO_BATCH_ND", [x, b.constant(block), pads])
        return y if op.startswith("SPACE") else b.add("BATCH_TO_SPACE_ND", [y, b.constant(block), pads])
    source = (n, h * block[0], w * block[0], c) if op == "SPACE_TO_DEPTH" else (n, h, w, c * block[0] ** 2)
    tensor = b.tensors[x]
    return b.add(op, [b.input(source, scale=tensor.scale, zero_point=tensor.zero_point)], block_size=block[0])


def _gather(b: ModelBuilder, rng: Rng, x: int) -> int:
    shape = b.tensors[x].shape
    axis = int(rng.integers(0, 4))
    if rng.random() < 0.5:
        indices = b.constant(rng.integers(0, shape[axis], int(rng.integers(1, 6))).astype(np.int32))
    else:
        # Run-time indices below the axis' size: the places of another tensor's largest values.
        source = b.input((int(rng.integers(1, 5)), shape[axis]), scale=0.1)
        indices = b.add("ARG_MAX", [source, b.constant(1)], options={"output_type": _pick(rng, "int32", "int64")})
        if axis and rng.random() < 0.5:
            rows, cols = shape[0], int(rng.integers(1, 5))
            source = b.input((rows, cols, shape[axis]), scale=0.1)
            indices = b.add("ARG_MAX", [source, b.constant(2)], options={"output_type": "int32"})
            return b.add("GATHER", [x, indices], axis=axis, batch_dims=1)
    return b.add("GATHER", [x, indices], axis=axis, batch_dims=0)


def _pad_any(b: ModelBuilder, rng: Rng, x: int) -> int:
    pads = b.constant(rng.integers(0, 3, (4, 2)).astype(np.int32))
    if rng.random() < 0.5:
        return b.add("PAD", [x, pads])
    tensor = b.tensors[x]
    return b.add("PADV2", [x, pads, b.constant(_int8(rng, 1), scale=tensor.scale, zero_point=tensor.zero_point)])


def _resize(b: ModelBuilder, rng: Rng, x: int) -> int:
    size = rng.integers(1, 25, 2).astype(np.int32)
    flags = {"align_corners": False, "half_pixel_centers": False}
    flags |= [{}, {"align_corners": True}, {"half_pixel_centers": True}][int(rng.integers(0, 3))]
    return b.add(_pick(rng, "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), [x, b.constant(size)], options=flags)


def _reduce(b: ModelBuilder, rng: Rng, x: int) -> int:
    axes = sorted(rng.choice(4, int(rng.integers(1, 4)), replace=False).tolist())
    op = _pick(rng, "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "ARG_MAX", "ARG_MIN")
    if op.startswith("ARG"):
        return b.add(op, [x, b.constant(axes[0])], options={"output_type": _pick(rng, "int32", "int64")})
    tensor = b.tensors[x]
    scale = None if op.startswith("REDUCE") else tensor.scale * float(rng.uniform(0.3, 4))
    return b.add(op, [x, b.constant(axes)], keep_dims=bool(rng.random() < 0.5), scale=scale,
                 zero_point=None if scale is None else _point(rng))


def _rows(b: ModelBuilder, rng: Rng, x: int) -> int:
    return b.add(_pick(rng, "L2_NORMALIZATION", "LOG_SOFTMAX"), [x])


def _transpose_conv(b: ModelBuilder, rng: Rng, x: int) -> int:
    n, h, w, c = b.tensors[x].shape
    kernel, stride = rng.integers(1, 6, 2), rng.integers(1, 4, 2)
    out = int(rng.choice((1, 3, 8, 17)))
    weights = b.constant(rng.integers(-127, 128, (out, *kernel, c)).astype(np.int8),
                         scale=rng.uniform(0.0005, 0.01, out).tolist(), dimension=0)
    padding = _pick(rng, "SAME", "VALID")
    size = [s * int(t) if padding == "SAME" else (s - 1) * int(t) + int(k)
            for s, t, k in zip((h, w), stride, kernel, strict=True)]
    shape = b.constant([n, *size, out])
    inputs = [shape, weights, x]
    if rng.random() < 0.7:
        inputs.append(b.bias(x, weights, rng.integers(-5000, 5000, out)))
    return b.add("TRANSPOSE_CONV", inputs, padding=padding, stride_h=int(stride[0]), stride_w=int(stride[1]),
                 shape=(n, *size, out), scale=b.tensors[x].scale * 0.05 * float(rng.uniform(1, 20)),
                 zero_point=_point(rng))


def _batch_matmul(b: ModelBuilder, rng: Rng, x: int) -> int:
    shape = b.tensors[x].shape
    adj_x, adj_y = bool(rng.random() < 0.4), bool(rng.random() < 0.4)
    depth, cols = shape[2 if adj_x else 3], int(rng.integers(1, 20))
    dims = ((cols, depth) if adj_y else (depth, cols))
    batch = [size if rng.random() < 0.6 else 1 for size in shape[:2]][int(rng.integers(0, 3)):]
    scale, point = float(rng.uniform(0.005, 0.05)), _point(rng)
    if rng.random() < 0.3:
        other = b.constant(_int8(rng, *batch, *dims), scale=scale, zero_point=point)
    else:
        other = b.input((*batch, *dims), scale=scale, zero_point=point)
    return b.add("BATCH_MATMUL", [x, other], adj_x=adj_x, adj_y=adj_y, zero_point=_point(rng),
                 scale=b.tensors[x].scale * scale * 80 * float(np.sqrt(depth)))


def _computed_weights(b: ModelBuilder, rng: Rng, x: int) -> int:
    """FULLY_CONNECTED whose weights are an activation."""
    depth, units = b.tensors[x].shape[3], int(rng.integers(1, 20))
    point = int(rng.choice((0, _point(rng))))
    weights = b.input((units, depth), scale=float(rng.uniform(0.005, 0.05)), zero_point=point)
    bias = b.bias(x, weights, rng.integers(-5000, 5000, units)) if rng.random() < 0.5 else -1
    return b.add("FULLY_CONNECTED", [x, weights, bias], zero_point=_point(rng),
                 scale=b.tensors[x].scale * b.tensors[weights].scale * 80 * float(np.sqrt(depth)),
                 fused_activation_function=_pick(rng, *_ACTIVATIONS))


#: Layers by kind, as in `tq_hw.model.samples.layers`.
OPERATOR_LAYERS: dict[str, Callable[[ModelBuilder, Rng, int], int]] = {
    "unary": _unary, "binary": _binary, "compare": _compare, "integers": _integers,
    "rearranged": _rearranged, "choice": _choice,
    "concatenation": _concatenation, "slice": _slice, "transpose": _transpose, "split": _split, "space": _space,
    "gather": _gather, "pad_any": _pad_any,
    "resize": _resize, "reduce": _reduce, "rows": _rows, "transpose_conv": _transpose_conv,
    "batch_matmul": _batch_matmul, "computed_weights": _computed_weights,
}
