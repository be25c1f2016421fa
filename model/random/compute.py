"""Recipes of random graphs that multiply and accumulate: convolutions, matrix products, pooling, chains of them."""

import math
from typing import Any

from tq_hw.model.random.sketch import Sketch, Unfit

__all__ = ["batch_matmul", "computed_weights", "conv", "conv_to", "depthwise", "dilated", "fully_connected", "pool",
           "residual", "squeeze_excite", "transpose_conv"]


def _window(s: Sketch, size: tuple[int, ...], most: int = 5) -> tuple[list[int], dict[str, Any]]:
    """Return a kernel and options whose extent fits the image, or SAME."""
    options: dict[str, Any] = {"padding": s.pick("SAME", "VALID")}
    kernel = []
    for axis, length in zip("hw", size, strict=True):
        extent = s.between(1, most if options["padding"] == "SAME" else min(most, length))
        room = (length - 1) // (extent - 1) if extent > 1 and options["padding"] == "VALID" else 4
        options[f"dilation_{axis}_factor"] = s.between(1, max(1, min(4, room))) if s.chance(0.25) else 1
        options[f"stride_{axis}"] = 1 if s.chance(0.6) else s.between(1, 3)
        kernel.append(extent)
    return kernel, options


def _mac(s: Sketch, op: str, x: int, dims: tuple[int, ...], axis: int, taps: int, out: dict[str, Any],
         options: dict[str, Any]) -> int:
    weights = s.weights(dims, axis, taps, s.b.tensors[x].scale, out["scale"])
    inputs = [x, weights, s.bias(x, weights, out["scale"], dims[axis])]
    return s.b.add(op, inputs, **out, options={**options, **s.activation()})


def conv_to(s: Sketch, x: int, channels: int, out: dict[str, Any], kernel: int = 1, dilation: int = 1) -> int:
    """Add a convolution that keeps rows and columns."""
    depth = s.shape(x)[3]
    return _mac(s, "CONV_2D", x, (channels, kernel, kernel, depth), 0, kernel * kernel * depth, out,
                {"padding": "SAME", "dilation_h_factor": dilation, "dilation_w_factor": dilation})


def conv(s: Sketch, x: int) -> list[int]:
    """Convolution, 1x1 half of the time, sometimes in groups."""
    x = s.rank4(x)
    _, h, w, depth = s.shape(x)
    channels = s.channels()
    if s.chance(0.4):
        return [conv_to(s, x, channels, s.out(s.b.tensors[x].scale))]
    kernel, options = _window(s, (h, w))
    if depth > 1 and s.chance(0.12):
        groups = s.pick(*[n for n in range(2, depth + 1) if depth % n == 0])
        depth //= groups
        channels = groups * s.between(1, max(1, 24 // groups))
    dims = (channels, *kernel, depth)
    return [_mac(s, "CONV_2D", x, dims, 0, kernel[0] * kernel[1] * depth, s.out(s.b.tensors[x].scale), options)]


def depthwise(s: Sketch, x: int) -> list[int]:
    """Depthwise convolution, sometimes with several outputs per channel."""
    x = s.rank4(x)
    _, h, w, depth = s.shape(x)
    kernel, options = _window(s, (h, w), 7)
    times = s.pick(1, 1, 1, 1, 2, 3) if depth <= 20 else 1
    options["depth_multiplier"] = times
    dims = (1, *kernel, depth * times)
    return [_mac(s, "DEPTHWISE_CONV_2D", x, dims, 3, kernel[0] * kernel[1], s.out(s.b.tensors[x].scale), options)]


def transpose_conv(s: Sketch, x: int) -> list[int]:
    """Transposed convolution of stride 1 to 3."""
    x = s.rank4(x)
    n, h, w, depth = s.shape(x)
    kernel, stride, channels = (s.between(1, 4), s.between(1, 4)), (s.between(1, 3), s.between(1, 3)), s.channels()
    padding = s.pick("SAME", "VALID")
    # Several sizes are scaled down to the input's.
    size = [length * step - s.pick(0, 0, s.between(0, step - 1)) if padding == "SAME"
            else (length - 1) * step + extent + s.pick(0, 0, s.between(0, step - 1))
            for length, step, extent in zip((h, w), stride, kernel, strict=True)]
    out = s.out(s.b.tensors[x].scale)
    weights = s.weights((channels, *kernel, depth), 0, depth * kernel[0] * kernel[1], s.b.tensors[x].scale,
                        out["scale"])
    shape = (n, *size, channels)
    inputs = [s.indices(shape), weights, x]
    if s.chance(0.7):
        inputs.append(s.bias(x, weights, out["scale"], channels))
    return [s.b.add("TRANSPOSE_CONV", inputs, padding=padding, stride_h=stride[0], stride_w=stride[1], shape=shape,
                    **out, options=s.activation())]


def fully_connected(s: Sketch, x: int) -> list[int]:
    """FULLY_CONNECTED over the last axis, or after a flattening RESHAPE."""
    shape = s.shape(x)
    if not shape:
        raise Unfit
    depth, units = shape[-1], s.channels()
    total = 1
    for size in shape[1:]:
        total *= size
    if s.chance(0.4) and 1 < total <= 1500:
        x = s.b.add("RESHAPE", [x, s.indices([shape[0], total])], shape=(shape[0], total))
        depth = total
    out = s.out(s.b.tensors[x].scale)
    weights = s.weights((units, depth), 0, depth, s.b.tensors[x].scale, out["scale"])
    bias = s.bias(x, weights, out["scale"], units) if s.chance(0.8) else -1
    return [s.b.add("FULLY_CONNECTED", [x, weights, bias], keep_num_dims=s.chance(0.5), **out, options=s.activation())]


def _spread(s: Sketch, left: int, right: int, depth: int) -> float:
    return s.b.tensors[left].scale * s.b.tensors[right].scale * 100 * math.sqrt(depth)


def computed_weights(s: Sketch, x: int) -> list[int]:
    """FULLY_CONNECTED whose weights are an activation."""
    depth = s.shape(x)[-1] if s.shape(x) else 0
    found = [y for y in s.live if y != x and len(s.shape(y)) == 2 and s.shape(y)[1] == depth and s.shape(y)[0] <= 40]
    if not depth:
        raise Unfit
    weights = s.pick(*found) if found else s.input((s.between(1, 20), depth))
    bias = -1
    if s.chance(0.5):
        bias = s.b.bias(x, weights, s.rng.integers(-3000, 3000, s.shape(weights)[0]))
    return [s.b.add("FULLY_CONNECTED", [x, weights, bias], keep_num_dims=s.chance(0.5),
                    **s.out(_spread(s, x, weights, depth)), options=s.activation())]


def batch_matmul(s: Sketch, x: int) -> list[int]:
    """Product of two activations, or of one and a constant, either of them transposed."""
    shape = s.shape(x)
    if len(shape) < 2:
        raise Unfit
    adj_x, adj_y = s.chance(0.4), s.chance(0.4)
    depth = shape[-2 if adj_x else -1]
    axis = -1 if adj_y else -2
    found = [y for y in s.live if len(s.shape(y)) in (2, len(shape)) and s.shape(y)[axis] == depth
             and s.shape(y)[:-2] in ((), shape[:-2], (1,) * (len(shape) - 2))]
    if found and s.chance(0.7):
        other = s.pick(*found)
    else:
        cols = s.between(1, 20)
        dims = (*(size if s.chance(0.6) else 1 for size in shape[:-2]), *((cols, depth) if adj_y else (depth, cols)))
        dims = dims if s.chance(0.7) else dims[-2:]
        other = s.constant(dims) if s.chance(0.4) else s.input(dims)
    return [s.b.add("BATCH_MATMUL", [x, other], adj_x=adj_x, adj_y=adj_y, **s.out(_spread(s, x, other, depth)))]


def pool(s: Sketch, x: int) -> list[int]:
    """Average or maximum pooling, sometimes over the whole image."""
    x = s.rank4(x)
    _, h, w, _ = s.shape(x)
    kernel, options = _window(s, (h, w), 4)
    if s.chance(0.2):
        kernel, options["padding"] = [h, w], "VALID"
    return [s.b.add(s.pick("AVERAGE_POOL_2D", "MAX_POOL_2D"), [x], filter_height=kernel[0], filter_width=kernel[1],
                    stride_h=options["stride_h"], stride_w=options["stride_w"], padding=options["padding"],
                    options=s.activation())]


def dilated(s: Sketch, x: int) -> list[int]:
    """Convolution between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND, as converters write a dilated one."""
    x = s.rank4(x)
    _, h, w, depth = s.shape(x)
    rate, kernel = s.pick(2, 2, 3), s.pick(3, 3, 1, 2)
    before = (kernel - 1) // 2 * rate
    after = (kernel - 1) * rate - before
    pads = [[before, after + -(h + before + after) % rate], [before, after + -(w + before + after) % rate]]
    crops = [[0, -(h + before + after) % rate], [0, -(w + before + after) % rate]]
    blocks = s.b.add("SPACE_TO_BATCH_ND", [x, s.indices([rate, rate]), s.indices(pads)])
    out = s.out(s.b.tensors[x].scale)
    if s.chance(0.5):
        y = _mac(s, "DEPTHWISE_CONV_2D", blocks, (1, kernel, kernel, depth), 3, kernel * kernel, out,
                 {"padding": "VALID"})
    else:
        channels = s.channels()
        y = _mac(s, "CONV_2D", blocks, (channels, kernel, kernel, depth), 0, kernel * kernel * depth, out,
                 {"padding": "VALID"})
    return [s.b.add("BATCH_TO_SPACE_ND", [y, s.indices([rate, rate]), s.indices(crops)])]


def residual(s: Sketch, x: int) -> list[int]:
    """Two convolutions, and the sum of their result and their input."""
    x = s.rank4(x)
    depth = s.shape(x)[3]
    y = conv_to(s, x, s.channels(), s.out(s.b.tensors[x].scale), s.pick(1, 1, 3))
    if s.chance(0.4):
        y = _mac(s, "DEPTHWISE_CONV_2D", y, (1, 3, 3, s.shape(y)[3]), 3, 9, s.out(s.b.tensors[y].scale),
                 {"padding": "SAME"})
    y = conv_to(s, y, depth, s.out(s.b.tensors[x].scale), s.pick(1, 1, 3))
    pair = [x, y] if s.chance(0.5) else [y, x]
    return [y, s.b.add("ADD", pair, **s.out(2 * max(s.b.tensors[i].scale for i in pair)), options=s.activation())]


def squeeze_excite(s: Sketch, x: int) -> list[int]:
    """Scale the channels of an image by a function of their averages."""
    x = s.rank4(x)
    depth = s.shape(x)[3]
    mean = s.b.add("MEAN", [x, s.indices([1, 2])], keep_dims=True, **s.out(s.b.tensors[x].scale * 0.3))
    y = conv_to(s, conv_to(s, mean, s.between(1, 16), s.out()), depth, s.out())
    gate = s.b.add("LOGISTIC", [y])
    pair = [x, gate] if s.chance(0.5) else [gate, x]
    return [s.b.add("MUL", pair, **s.out(s.b.tensors[x].scale))]
