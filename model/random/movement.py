"""Recipes of random graphs that move bytes: concatenations, also nested ones, and parts, of any type."""

import math

import numpy as np

from tq_hw.model.random.compute import conv_to
from tq_hw.model.random.sketch import Sketch, Unfit

__all__ = ["blocks", "concatenation", "gather", "inception", "pack", "pad", "part", "reshape", "resize",
           "shapes_only", "shuffle", "space", "split", "transpose", "unpack"]


def _alike(s: Sketch, x: int, dims: tuple[int, ...]) -> int:
    """Return a tensor of `dims` with type and quantization of `x`: an existing or a new one."""
    found = s.partners(x, lambda shape: shape == dims)
    tensor = s.b.tensors[x]
    if tensor.dtype != "int8" or tensor.quantization is None:
        if not found:
            raise Unfit
        return int(s.pick(*found))
    if found and s.chance(0.7):
        return int(s.pick(*found))
    same = [y for y in s.live if s.shape(y) == dims]
    if same and s.chance(0.5):
        return s.b.add(s.pick("QUANTIZE", "RELU", "RELU6"), [s.pick(*same)], **s.like(x))
    images = [y for y in s.live if len(s.shape(y)) == 4 and s.shape(y)[:3] == dims[:3]]
    if len(dims) == 4 and images and s.chance(0.8):
        return conv_to(s, s.pick(*images), dims[3], s.like(x), s.pick(1, 1, 3))
    return s.constant(dims, **s.like(x)) if s.chance(0.3) else s.input(dims, **s.like(x))


def _concatenated(s: Sketch, x: int, axis: int, depth: int, whole: bool) -> int:
    """Join `x` with others along `axis`; some of the others are joins, too.

    `whole` asks for channels that fill the scratchpad's words, as what parts are written into must.
    """
    shape = s.shape(x)
    parts = [x]
    for _ in range(s.pick(1, 1, 1, 2, 2, 3)):
        fitting = s.partners(x, lambda other: len(other) == len(shape) and all(
            a == b for i, (a, b) in enumerate(zip(other, shape, strict=True)) if i != axis))
        choice = s.rng.random()
        if choice < 0.06:
            part = s.pick(*parts)
        elif fitting and choice < 0.4:
            part = s.pick(*fitting)
        else:
            size = s.channels() if axis == len(shape) - 1 else s.between(1, 6)
            if whole and axis == len(shape) - 1:
                size = s.pick(8, 8, 16, 16, 32)
            part = _alike(s, x, (*shape[:axis], size, *shape[axis + 1:]))
        if depth and s.chance(0.4):
            inner = s.between(0, len(shape) - 1) if s.chance(0.25) else axis
            joined = _concatenated(s, part, inner, depth - 1, whole)
            if all(a == b for i, (a, b) in enumerate(zip(s.shape(joined), shape, strict=True)) if i != axis):
                part = joined
        parts.insert(s.between(0, len(parts)), part)
    joined = s.b.add("CONCATENATION", parts, axis=axis - len(shape) if s.chance(0.3) else axis)
    s.check(joined)
    return joined


def concatenation(s: Sketch, x: int) -> list[int]:
    """Concatenation, half of the time along the channels, of parts that may be concatenations."""
    rank = len(s.shape(x))
    if not rank:
        raise Unfit
    # Rows one below the other have no gaps, so that parts of parts lie in the whole.
    axis = s.pick(3, 3, 3, 3, 1, 1, 1, 2, 0) if rank == 4 else s.between(0, rank - 1)
    whole = s.chance(0.5)
    if whole and rank == 4 and s.b.tensors[x].dtype == "int8":
        x = conv_to(s, x, s.pick(8, 8, 16, 32), s.out())
    joined = _concatenated(s, x, axis, 2, whole)
    if rank == 4 and s.b.tensors[x].dtype == "int8" and s.chance(0.5):
        return [joined, conv_to(s, joined, s.channels(), s.out(), s.pick(1, 1, 3))]
    return [joined]


def inception(s: Sketch, x: int) -> list[int]:
    """Branches of one image that are joined, some of them before others, and an operator that reads the result."""
    x = s.rank4(x)
    axis, whole = s.pick(3, 3, 3, 1, 2), s.chance(0.7)
    quantization = s.out()

    def branch(depth: int, channels: int) -> int:
        if depth and s.chance(0.5):
            parts = [branch(depth - 1, channels) for _ in range(s.between(2, 3))]
            return s.b.add("CONCATENATION", parts, axis=axis)
        size = channels if axis != 3 else s.pick(8, 16, 16, 32) if whole else s.channels()
        y = conv_to(s, x, size, quantization, s.pick(1, 1, 1, 3))
        return s.b.add("RELU", [y], **quantization) if s.chance(0.15) else y
    channels = s.pick(8, 16) if whole else s.channels()
    depth = s.pick(0, 1, 1, 2)
    parts = [branch(depth, channels) for _ in range(s.between(2, 3))]
    if axis == 3 and s.chance(0.2):
        parts.append(conv_to(s, x, s.channels(), quantization))
    joined = s.b.add("CONCATENATION", parts, axis=axis)
    s.check(joined)
    if s.chance(0.2):
        return [joined, s.b.add("ADD", [joined, joined], **s.out())]
    if s.chance(0.2):
        return [joined, s.pick(*parts)]
    return [joined, conv_to(s, joined, s.channels(), s.out(), s.pick(1, 1, 3))]


def pack(s: Sketch, x: int) -> list[int]:
    """Tensors of one shape along a new axis."""
    shape = s.shape(x)
    if len(shape) > 4:
        raise Unfit
    parts = [x, *(_alike(s, x, shape) for _ in range(s.between(0, 2)))]
    return [s.b.add("PACK", parts[::-1] if s.chance(0.5) else parts, axis=s.between(0, len(shape)))]


def unpack(s: Sketch, x: int) -> list[int]:
    """The parts of a tensor along an axis that goes away."""
    axes = [axis for axis, size in enumerate(s.shape(x)) if size <= 6]
    if not axes or len(s.shape(x)) < 2:
        raise Unfit
    axis = s.pick(*axes)
    return s.b.add_many("UNPACK", [x], s.shape(x)[axis], options={"axis": axis})


def split(s: Sketch, x: int) -> list[int]:
    """Parts along an axis, sometimes joined in another order."""
    shape = s.shape(x)
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes:
        raise Unfit
    axis = s.pick(*axes)
    count = s.between(2, min(4, shape[axis]))
    if shape[axis] % count == 0 and s.chance(0.5):
        parts = s.b.add_many("SPLIT", [s.indices(axis), x], count)
    else:
        cuts = sorted(s.rng.choice(np.arange(1, shape[axis]), count - 1, replace=False).tolist())
        sizes = np.diff([0, *cuts, shape[axis]]).tolist()
        parts = s.b.add_many("SPLIT_V", [x, s.indices(sizes), s.indices(axis)], count)
    if s.chance(0.3):
        return [*parts, s.b.add("CONCATENATION", parts[::-1], axis=axis)]
    return parts


def part(s: Sketch, x: int) -> list[int]:
    """SLICE, or STRIDED_SLICE in either direction; half of the time several parts of one tensor."""
    shape = s.shape(x)
    if not shape:
        raise Unfit
    return [_part(s, x, shape) for _ in range(s.pick(1, 1, 2))]


def _part(s: Sketch, x: int, shape: tuple[int, ...]) -> int:
    cut = [s.chance(0.5) for _ in shape]
    begin = [s.between(0, size - 1) if some else 0 for size, some in zip(shape, cut, strict=True)]
    size = [s.between(1, length - at) if some else length for length, at, some in zip(shape, begin, cut, strict=True)]
    if s.chance(0.5):
        return s.b.add("SLICE", [x, s.indices(begin), s.indices(size)])
    strides = [s.pick(1, 1, 1, 2, 3) for _ in shape]
    end = [at + length for at, length in zip(begin, size, strict=True)]
    if s.chance(0.15):
        axis = s.between(0, len(shape) - 1)
        begin[axis], end[axis], strides[axis] = shape[axis] - 1, -shape[axis] - 1, s.pick(-1, -2)
    axis = s.between(0, len(shape) - 1)
    mask = 1 << axis if len(shape) > 1 and strides[axis] > 0 and s.chance(0.25) else 0
    return s.b.add("STRIDED_SLICE", [x, s.indices(begin), s.indices(end), s.indices(strides)], begin_mask=0,
                   end_mask=0, shrink_axis_mask=mask)


def reshape(s: Sketch, x: int) -> list[int]:
    """Another shape of the same bytes."""
    count = math.prod(s.shape(x))
    dims: list[int] = []
    rest = count
    for _ in range(s.between(0, 3)):
        divisors = [n for n in range(1, min(rest, 64) + 1) if rest % n == 0]
        dims.append(s.pick(*divisors))
        rest //= dims[-1]
    dims.insert(s.between(0, len(dims)), rest)
    return [s.b.add("RESHAPE", [x, s.indices(dims)], shape=dims)]


def shapes_only(s: Sketch, x: int) -> list[int]:
    """SQUEEZE or EXPAND_DIMS."""
    shape = s.shape(x)
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    if ones and len(shape) > 2 and s.chance(0.5):
        return [s.b.add("SQUEEZE", [x], squeeze_dims=(s.pick(*ones),))]
    if len(shape) > 3:
        raise Unfit
    return [s.b.add("EXPAND_DIMS", [x, s.indices(s.between(0, len(shape)))])]


def transpose(s: Sketch, x: int) -> list[int]:
    """Axes in another order."""
    if len(s.shape(x)) < 2:
        raise Unfit
    return [s.b.add("TRANSPOSE", [x, s.indices(s.rng.permutation(len(s.shape(x))))])]


def shuffle(s: Sketch, x: int) -> list[int]:
    """Interleaved channels of groups, as in ShuffleNets; some of them go into a convolution."""
    shape = s.shape(x)
    groups = s.pick(2, 2, 3, 4)
    if len(shape) != 4 or shape[3] % groups or s.b.tensors[x].dtype != "int8":
        raise Unfit
    count = shape[3] // groups
    y = s.b.add("RESHAPE", [x, s.indices((*shape[:3], groups, count))], shape=(*shape[:3], groups, count))
    y = s.b.add("TRANSPOSE", [y, s.indices((0, 1, 2, 4, 3))])
    y = s.b.add("RESHAPE", [y, s.indices(shape)], shape=shape)
    if s.chance(0.5):
        y = s.b.add("SLICE", [y, s.indices((0, 0, 0, shape[3] - count)), s.indices((*shape[:3], count))],
                    shape=(*shape[:3], count))
    if s.chance(0.5):
        return [y, conv_to(s, y, s.channels(), s.out(s.b.tensors[x].scale), s.pick(1, 3))]
    return [y]


def pad(s: Sketch, x: int) -> list[int]:
    """Zero points, or another value, around the rows and columns or along any axis; a convolution after it."""
    shape = s.shape(x)
    if not shape:
        raise Unfit
    pads = s.rng.integers(0, 3, (len(shape), 2)) * (s.rng.random((len(shape), 1)) < 0.6)
    if len(shape) == 4 and s.chance(0.6):
        pads[0] = pads[3] = 0
    if s.b.tensors[x].dtype == "int8" and s.chance(0.35):
        y = s.b.add("PADV2", [x, s.indices(pads), s.constant((1,), **s.like(x))])
    else:
        y = s.b.add("PAD", [x, s.indices(pads)])
    s.check(y)
    if len(shape) == 4 and s.b.tensors[x].dtype == "int8" and s.chance(0.4):
        return [y, conv_to(s, y, s.channels(), s.out(s.b.tensors[x].scale), s.pick(1, 3))]
    return [y]


def space(s: Sketch, x: int) -> list[int]:
    """SPACE_TO_DEPTH or DEPTH_TO_SPACE."""
    if len(s.shape(x)) != 4:
        raise Unfit
    _, h, w, c = s.shape(x)
    fitting = [("SPACE_TO_DEPTH", n) for n in (2, 3) if h % n == w % n == 0]
    fitting += [("DEPTH_TO_SPACE", n) for n in (2, 3) if c % (n * n) == 0]
    if not fitting:
        raise Unfit
    op, size = s.pick(*fitting)
    return [s.b.add(op, [x], block_size=size)]


def blocks(s: Sketch, x: int) -> list[int]:
    """SPACE_TO_BATCH_ND or BATCH_TO_SPACE_ND with pads and crops."""
    if len(s.shape(x)) != 4:
        raise Unfit
    n, h, w, _ = s.shape(x)
    steps = [s.between(1, 3), s.between(1, 3)]
    if n % (steps[0] * steps[1]) == 0 and n > 1:
        crops = [[s.between(0, 1) if size * step > 2 else 0, 0] for size, step in zip((h, w), steps, strict=True)]
        return [s.b.add("BATCH_TO_SPACE_ND", [x, s.indices(steps), s.indices(crops)])]
    pads = [[low := s.between(0, 2), -(size + low) % step] for size, step in zip((h, w), steps, strict=True)]
    return [s.b.add("SPACE_TO_BATCH_ND", [x, s.indices(steps), s.indices(pads)])]


def gather(s: Sketch, x: int) -> list[int]:
    """Parts by constant indices, or by those of another tensor's largest values."""
    shape = s.shape(x)
    if not shape:
        raise Unfit
    axis = s.between(0, len(shape) - 1)
    if s.chance(0.6):
        count = () if s.chance(0.15) and len(shape) > 1 else (s.between(1, 6),)
        indices = s.b.constant(s.rng.integers(0, shape[axis], count).astype(np.int32))
        return [s.b.add("GATHER", [x, indices], axis=axis, batch_dims=0)]
    found = [y for y in s.live if s.shape(y) and s.shape(y)[-1] == shape[axis]]
    source = s.pick(*found) if found and s.chance(0.6) else s.input((s.between(1, 4), shape[axis]))
    indices = s.b.add("ARG_MAX", [source, s.indices(len(s.shape(source)) - 1)], options={"output_type": "int32"})
    if len(s.shape(indices)) + len(shape) > 6:
        raise Unfit
    return [s.b.add("GATHER", [x, indices], axis=axis, batch_dims=0)]


def resize(s: Sketch, x: int) -> list[int]:
    """Another number of rows and columns; half of the time twice as many."""
    x = s.rank4(x)
    _, h, w, _ = s.shape(x)
    size = [2 * h, 2 * w] if s.chance(0.5) else [s.between(1, 14), s.between(1, 14)]
    flags = s.pick({}, {"align_corners": True}, {"half_pixel_centers": True})
    flags = {"align_corners": False, "half_pixel_centers": False} | flags
    return [s.b.add(s.pick("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), [x, s.indices(size)], options=flags)]
