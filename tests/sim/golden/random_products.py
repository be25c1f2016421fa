"""Generated models of one operator that multiplies by weights, or by a second tensor."""

from typing import Any

import numpy as np
from random_draws import ACTIVATIONS, Rng, int8, output_scale, pick, point, scale, shape, weights

from tq_hw.model.samples.build import ModelBuilder


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
