"""Seeded small networks of the kinds that are in use: what single layers and chains of them do not show.

`network(kind, seed)` gives a valid int8 model; sizes are odd now and then, zero points stand at both ends.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model

__all__ = ["NETWORKS", "network", "super_resolution"]

Rng = np.random.Generator
_SAME: dict[str, Any] = {"padding": "SAME"}


class _Net:
    """A builder with layers of random weights, whose outputs mostly fit int8."""

    def __init__(self, name: str, seed: int):
        self.b, self.rng = ModelBuilder(f"{name}_{seed}"), np.random.default_rng([sum(name.encode()), seed])

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def point(self, act: str = "NONE") -> int:
        """Zero point that leaves room for what the activation gives."""
        if act != "NONE":
            return int(self.pick(-128, int(self.rng.integers(-128, -90))))
        return int(self.pick(-128, 127, *self.rng.integers(-40, 41, 4)))

    def shape(self, x: int) -> tuple[int, ...]:
        return self.b.tensors[x].shape

    def input(self, *shape: int) -> int:
        return self.b.input(shape, scale=float(self.rng.uniform(0.01, 0.02)), zero_point=self.point())

    def _weights(self, shape: tuple[int, ...], axis: int, taps: int) -> int:
        """Give random weights that keep the spread of the real values."""
        gain = 1.3 / (73 * taps ** 0.5)
        scales = gain * self.rng.uniform(0.5, 1.5, shape[axis] if self.rng.random() < 0.8 else 1)
        return self.b.constant(self.rng.integers(-127, 128, shape).astype(np.int8), scale=scales.tolist(),
                               dimension=axis if len(scales) > 1 else 0)

    def _out(self, act: str = "NONE") -> dict[str, Any]:
        return {"scale": float(self.rng.uniform(0.01, 0.025)), "zero_point": self.point(act)}

    def _mac(self, op: str, x: int, shape: tuple[int, ...], axis: int, taps: int, like: int | None,
             options: dict[str, Any]) -> int:
        weights = self._weights(shape, axis, taps)
        out = self._out(str(options["fused_activation_function"])) if like is None else self.like(like)
        return self.b.add(op, [x, weights, self._bias(x, weights, shape[axis])], **out, **options)

    def _bias(self, x: int, weights: int, count: int) -> int:
        scales = self.b.tensors[weights].quantization
        assert scales is not None
        unit = self.b.tensors[x].scale * np.array(scales.scale)
        return self.b.bias(x, weights, np.round(self.rng.normal(0, 0.3, count) / unit))

    def like(self, x: int) -> dict[str, Any]:
        """Quantization of a tensor, as for what is joined with it."""
        return {"scale": self.b.tensors[x].scale, "zero_point": self.b.tensors[x].zero_point}

    def conv(self, x: int, channels: int, kernel: int = 3, stride: int = 1, dilation: int = 1, *,
             like: int | None = None, act: str = "NONE", padding: str = "SAME") -> int:
        depth = self.shape(x)[3]
        return self._mac("CONV_2D", x, (channels, kernel, kernel, depth), 0, kernel * kernel * depth, like, {
            "padding": padding, "stride_h": stride, "stride_w": stride, "dilation_h_factor": dilation,
            "dilation_w_factor": dilation, "fused_activation_function": act})

    def depthwise(self, x: int, kernel: int = 3, stride: int = 1, dilation: int = 1, *, act: str = "NONE",
                  padding: str = "SAME") -> int:
        return self._mac("DEPTHWISE_CONV_2D", x, (1, kernel, kernel, self.shape(x)[3]), 3, kernel * kernel, None, {
            "padding": padding, "stride_h": stride, "stride_w": stride, "dilation_h_factor": dilation,
            "dilation_w_factor": dilation, "fused_activation_function": act})

    def dense(self, x: int, units: int, act: str = "NONE") -> int:
        depth = self.shape(x)[-1]
        return self._mac("FULLY_CONNECTED", x, (units, depth), 0, depth, None,
                         {"keep_num_dims": True, "fused_activation_function": act})

    def up(self, x: int, channels: int, size: tuple[int, ...], kernel: int, padding: str, like: int) -> int:
        """Transposed convolution of stride 2 to an image of `size`."""
        batch, _, _, depth = self.shape(x)
        weights = self._weights((channels, kernel, kernel, depth), 0, depth * kernel)
        bias = self._bias(x, weights, channels)
        return self.b.add("TRANSPOSE_CONV", [self.b.constant([batch, *size, channels]), weights, x, bias],
                          padding=padding, stride_h=2, stride_w=2, shape=(batch, *size, channels), **self.like(like))

    def resize(self, x: int, size: tuple[int, ...], **flags: bool) -> int:
        return self.b.add("RESIZE_BILINEAR", [x, self.b.constant(list(size))], options=flags)

    def reshape(self, x: int, *shape: int) -> int:
        return self.b.add("RESHAPE", [x, self.b.constant(list(shape))])

    def add(self, x: int, y: int, act: str = "NONE") -> int:
        scales = self.b.tensors[x].scale, self.b.tensors[y].scale
        return self.b.add("ADD", [x, y], scale=max(scales) * 1.3, zero_point=self.point(act),
                          fused_activation_function=act)

    def constant(self, *shape: int) -> int:
        return self.b.constant(self.rng.integers(-128, 128, shape).astype(np.int8), scale=0.02, zero_point=self.point())

    def hard_swish(self, x: int) -> int:
        return self.b.add("HARD_SWISH", [x], scale=self.b.tensors[x].scale * 0.6, zero_point=self.point("RELU"))

    def pool(self, x: int, op: str = "MAX_POOL_2D") -> int:
        return self.b.add(op, [x], filter_height=2, filter_width=2, stride_h=2, stride_w=2, **_SAME)

    def mean(self, x: int, axes: list[int], *, keep: bool = True) -> int:
        return self.b.add("MEAN", [x, self.b.constant(axes)], keep_dims=keep, scale=self.b.tensors[x].scale * 0.5,
                          zero_point=self.point())


def _atrous(n: _Net, x: int, rate: int) -> int:
    """Depthwise convolution of blocks, as converters write a dilated one; the blocks cover the image."""
    _, h, w, _ = n.shape(x)
    pads = n.b.constant(np.array([[rate, rate + -h % rate], [rate, rate + -w % rate]], np.int32))
    crops = n.b.constant(np.array([[0, -h % rate], [0, -w % rate]], np.int32))
    blocks = n.b.add("SPACE_TO_BATCH_ND", [x, n.b.constant([rate, rate]), pads])
    blocks = n.depthwise(blocks, padding="VALID")
    return n.b.add("BATCH_TO_SPACE_ND", [blocks, n.b.constant([rate, rate]), crops])


def _segmentation(n: _Net) -> list[int]:
    h, w = n.pick((32, 32), (33, 29), (24, 40))
    low = n.conv(n.input(1, h, w, 3), n.pick(8, 12), stride=2, act="RELU6")
    x = n.conv(n.depthwise(low, stride=2, act="RELU6"), n.pick(16, 20), 1)
    x = n.add(x, n.conv(_atrous(n, x, n.pick(2, 3)), n.shape(x)[3], 1))
    x = n.add(x, n.conv(n.depthwise(x, dilation=n.pick(2, 4), act="RELU"), n.shape(x)[3], 1), act="RELU")
    size = n.shape(x)[1:3]
    parts = [n.conv(x, 8, 1)]
    parts += [n.conv(n.depthwise(x, dilation=rate), 8, 1, like=parts[0]) for rate in (2, 3)]
    parts += [n.conv(x, 8, 3, dilation=2, like=parts[0]),
              n.resize(n.conv(n.mean(x, [1, 2]), 8, 1, like=parts[0]), size, align_corners=n.pick(False, True))]
    x = n.conv(n.b.add("CONCATENATION", parts, axis=3), 12, 1, act="RELU")
    x = n.resize(x, n.shape(low)[1:3], half_pixel_centers=True)
    x = n.b.add("CONCATENATION", [x, n.conv(low, 6, 1, like=x)], axis=-1)
    x = n.conv(x, n.pick(2, 5, 21))
    x = n.resize(x, (h, w), align_corners=n.pick(False, True))
    return [n.b.add("ARG_MAX", [x, n.b.constant(3)], output_type=n.pick("int32", "int64")), n.b.add("SOFTMAX", [x])]


def _atrous_pyramid(n: _Net) -> list[int]:
    """Depthwise convolutions that see far: dilation up to more than the image."""
    h, w = n.pick((25, 25), (19, 27), (33, 17))
    x = n.conv(n.input(1, h, w, 3), n.pick(16, 24), act="RELU6")
    for rate in (2, 4):
        x = n.add(x, n.conv(n.depthwise(x, dilation=rate, act="RELU"), n.shape(x)[3], 1))
    parts = [n.conv(x, 8, 1)]
    parts += [n.conv(n.depthwise(x, dilation=rate, act="RELU6"), 8, 1, like=parts[0]) for rate in (12, 24)]
    return [n.conv(n.b.add("CONCATENATION", parts, axis=3), n.pick(2, 5, 21))]


def _unet(n: _Net) -> list[int]:
    h, w = n.pick((16, 24), (32, 16), (20, 20))
    x, skips = n.input(n.pick(1, 1, 2), h, w, n.pick(1, 3)), []
    for channels in (6, 12):
        x = n.conv(n.conv(x, channels, act="RELU"), channels, act="RELU")
        skips.append(x)
        x = n.pool(x)
    x = n.conv(x, 20, act="RELU")
    for skip in skips[::-1]:
        kernel, padding = n.pick((2, "VALID"), (3, "SAME"), (4, "SAME"))
        up = n.up(x, n.shape(skip)[3], n.shape(skip)[1:3], kernel, padding, skip)
        x = n.conv(n.b.add("CONCATENATION", [up, skip] if n.pick(0, 1) else [skip, up], axis=3),
                   n.shape(skip)[3], act=n.pick("RELU", "RELU6"))
    return [n.b.add("LOGISTIC", [n.conv(x, n.pick(1, 3), 1)])]


def _recurrent(n: _Net, x: int, cells: int, time_major: bool) -> int:
    depth, leading = n.shape(x)[2], n.shape(x)[:2]
    batch = leading[1 if time_major else 0]
    scale, point = float(2.0 ** -7), int(n.rng.integers(-9, 9))

    def matrix(size: int) -> int:
        return n.b.constant(n.rng.integers(-127, 128, (cells, size)).astype(np.int8),
                            scale=float(n.rng.uniform(0.002, 0.01)))
    inputs = [x, *(matrix(depth) for _ in range(4)), *(matrix(cells) for _ in range(4)), -1, -1, -1]
    inputs += [n.b.constant(n.rng.integers(-9999, 9999, cells).astype(np.int32), scale=0.001) for _ in range(4)]
    inputs += [-1, -1, n.b.tensor((batch, cells), scale=scale, zero_point=point, is_variable=True),
               n.b.tensor((batch, cells), "int16", scale=float(2.0 ** -11), is_variable=True), -1, -1, -1, -1]
    middle = [n.b.tensor((0,), "int16", scale=0.001) for _ in range(4)]
    middle.append(n.b.tensor((0,), scale=scale, zero_point=point))
    output = n.b.tensor((*leading, cells), scale=scale, zero_point=point)
    n.b.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [output], {
        "fused_activation_function": "TANH", "cell_clip": float(n.pick(0.0, 10.0)), "time_major": time_major,
        "proj_clip": 0.0}, intermediates=middle)
    return output


def _lstm(n: _Net) -> list[int]:
    batch, steps, depth = n.pick(1, 1, 2), n.pick(5, 9), n.pick(6, 13)
    x = _recurrent(n, n.input(batch, steps, depth), n.pick(8, 11), False)
    x = n.b.add("TRANSPOSE", [x, n.b.constant([1, 0, 2])])
    x = _recurrent(n, x, n.pick(7, 16), True)
    x = n.b.add("STRIDED_SLICE", [x, n.b.constant([-1, 0, 0]), n.b.constant([0, 0, 0]), n.b.constant([1, 1, 1])],
                shape=(batch, n.shape(x)[2]), begin_mask=6, end_mask=6, shrink_axis_mask=1)
    return [n.b.add("SOFTMAX", [n.dense(n.dense(x, 9, "RELU"), 5)])]


def _attention(n: _Net) -> list[int]:
    batch, steps, heads, depth = n.pick(1, 1, 2), n.pick(7, 12), n.pick(2, 3), n.pick(4, 9)
    width = heads * depth
    x = n.add(n.dense(n.input(batch, steps, n.pick(10, 16)), width), n.constant(1, steps, width))
    queries, keys, values = (n.b.add("TRANSPOSE", [n.reshape(n.dense(x, width), batch, steps, heads, depth),
                                                   n.b.constant([0, 2, 1, 3])]) for _ in range(3))
    scale = n.b.tensors[queries].scale * n.b.tensors[keys].scale * 60 * depth ** 0.5
    if n.pick(0, 1):
        scores = n.b.add("BATCH_MATMUL", [queries, keys], adj_y=True, scale=scale, zero_point=n.point())
    else:
        transposed = n.b.add("TRANSPOSE", [keys, n.b.constant([0, 1, 3, 2])])
        scores = n.b.add("BATCH_MATMUL", [queries, transposed], scale=scale, zero_point=n.point())
    scores = n.b.add("MUL", [scores, n.b.constant(np.array([127], np.int8), scale=0.003)],
                     scale=n.b.tensors[scores].scale * 0.4, zero_point=n.point())
    scores = n.add(scores, n.constant(1, 1, steps, steps))
    mixed = n.b.add("BATCH_MATMUL", [n.b.add("SOFTMAX", [scores]), values], scale=n.b.tensors[values].scale * 0.7,
                    zero_point=n.point())
    mixed = n.reshape(n.b.add("TRANSPOSE", [mixed, n.b.constant([0, 2, 1, 3])]), batch, steps, width)
    x = n.add(x, n.dense(mixed, width))
    x = n.add(x, n.dense(n.hard_swish(n.dense(x, 2 * width)), width))
    x = n.b.add("L2_NORMALIZATION", [x])
    return [n.b.add("LOG_SOFTMAX", [n.dense(n.mean(x, [1], keep=False), 10)])]


def _ssd(n: _Net) -> list[int]:
    x = n.conv(n.input(1, *n.pick((40, 32), (33, 35)), 3), 8, stride=2, act="RELU6")
    boxes: list[int] = []
    classes: list[int] = []
    like = [-1, -1]
    anchors, kinds = n.pick(2, 3), n.pick(2, 7)
    for channels in (12, 16, 24):
        x = n.conv(n.depthwise(x, stride=2, act="RELU6"), channels, 1, act="RELU6")
        _, h, w, _ = n.shape(x)
        for number, (parts, size) in enumerate(((boxes, 4), (classes, kinds))):
            head = n.depthwise(x) if n.pick(0, 1) else x
            head = n.conv(head, anchors * size, n.pick(1, 3), like=like[number] if like[number] >= 0 else None)
            like[number] = head
            parts.append(n.reshape(head, 1, h * w * anchors, size))
    scores = n.b.add("LOGISTIC", [n.b.add("CONCATENATION", classes, axis=1)])
    best = n.b.add("REDUCE_MAX", [scores, n.b.constant([2])], keep_dims=False)
    return [n.b.add("CONCATENATION", boxes, axis=1), scores, best]


def _squeeze(n: _Net, x: int) -> int:
    """Squeeze-excite with a hard sigmoid, as converters write it."""
    channels = n.shape(x)[3]
    y = n.conv(n.conv(n.mean(x, [1, 2]), max(4, channels // 4), 1, act="RELU"), channels, 1)
    three = n.b.constant(np.array([127], np.int8), scale=3 / 127)
    y = n.b.add("ADD", [y, three], scale=6 / 255, zero_point=-128, fused_activation_function="RELU6")
    y = n.b.add("MUL", [y, n.b.constant(np.array([127], np.int8), scale=1 / (6 * 127))], scale=1 / 255, zero_point=-128)
    return n.b.add("MUL", [x, y] if n.pick(0, 1) else [y, x], scale=n.b.tensors[x].scale, zero_point=n.point())


def _mobilenet_v3(n: _Net) -> list[int]:
    x = n.hard_swish(n.conv(n.input(n.pick(1, 1, 2), *n.pick((32, 32), (29, 35)), 3), 8, stride=2))
    for kernel, stride, channels, swish in ((3, 2, 8, False), (5, 1, 8, True), (5, 2, 13, True)):
        expanded = n.conv(x, n.pick(16, 24, 30), 1, act="NONE" if swish else "RELU")
        y = n.depthwise(n.hard_swish(expanded) if swish else expanded, kernel, stride)
        y = n.conv(_squeeze(n, n.hard_swish(y) if swish else y), channels, 1)
        x = n.add(x, y) if stride == 1 else y
    x = n.hard_swish(n.conv(x, 30, 1))
    _, h, w, _ = n.shape(x)
    x = n.b.add("AVERAGE_POOL_2D", [x], filter_height=h, filter_width=w, padding="VALID")
    x = n.reshape(n.conv(n.hard_swish(n.conv(x, 40, 1)), 10, 1), -1, 10)
    return [n.b.add("SOFTMAX", [x])]


def super_resolution(height: int, width: int, channels: int = 32, blocks: int = 5) -> Model:
    """Return a network that makes an image twice as large: residual blocks at full size, then DEPTH_TO_SPACE."""
    n = _Net("super_resolution", 0)
    first = x = n.conv(n.input(1, height, width, 3), channels)
    for _ in range(blocks):
        x = n.add(x, n.conv(n.conv(x, channels, act="RELU"), channels))
    x = n.conv(n.add(n.conv(x, channels), first), 12)
    return parse_model(n.b.build(n.b.add("DEPTH_TO_SPACE", [x], block_size=2)), n.b.name)


#: What `network` makes.
NETWORKS: dict[str, Callable[[_Net], list[int]]] = {
    "segmentation": _segmentation, "atrous_pyramid": _atrous_pyramid, "unet": _unet, "lstm": _lstm,
    "attention": _attention, "ssd": _ssd, "mobilenet_v3": _mobilenet_v3}


def network(kind: str, seed: int) -> Model:
    """Return a random network of `kind`, a key of `NETWORKS`, the same for the same seed."""
    net = _Net(kind, seed)
    return parse_model(net.b.build(*NETWORKS[kind](net)), net.b.name)
