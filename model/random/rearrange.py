"""Recipes of random graphs that repeat, mirror, pick and order parts of tensors, and that choose between two."""

import math
from typing import Any

import numpy as np

from tq_hw.model.random.elementwise import compare
from tq_hw.model.random.sketch import Sketch, Unfit

__all__ = ["among", "choice", "divided", "float_choices", "hot", "logical", "mirrored", "moving", "places", "repeated",
           "reversed_axes", "top"]


def repeated(s: Sketch, x: int) -> list[int]:
    """TILE, or BROADCAST_TO of axes of size 1."""
    shape = s.shape(x)
    if not shape or len(shape) > 4:
        raise Unfit
    if 1 in shape and s.chance(0.4):
        target = [s.between(1, 4) if size == 1 else size for size in shape]
        return [s.b.add("BROADCAST_TO", [x, s.indices(([s.between(1, 2)] if len(shape) < 4 else []) + target)])]
    counts = [s.pick(1, 1, 2, 2, 3) if s.chance(0.5) else 1 for _ in shape]
    if math.prod(shape) * math.prod(counts) > s.most_elements:
        raise Unfit
    return [s.b.add("TILE", [x, s.indices(counts)])]


def reversed_axes(s: Sketch, x: int) -> list[int]:
    """Reverse adjacent axes."""
    rank = len(s.shape(x))
    if not rank:
        raise Unfit
    first = s.between(0, rank - 1)
    return [s.b.add("REVERSE_V2", [x, s.indices(range(first, s.between(first, rank - 1) + 1))])]


def among(s: Sketch, x: int) -> list[int]:
    """Elements among others: on diagonals, at steps, at indices, reversed up to a length; or one value everywhere."""
    tensor, shape = s.b.tensors[x], s.shape(x)
    if not shape or len(shape) > 4 or tensor.dtype == "bool":
        raise Unfit
    same: dict[str, Any] = {} if tensor.quantization is None else s.like(x)
    value = s.b.constant(np.array(s.between(0, 100), tensor.dtype), **same)
    if tensor.dtype == "int8" and s.chance(0.15):
        largest = s.b.add("REDUCE_MAX", [x, s.indices(range(len(shape)))], keep_dims=False)
        return [s.b.add("FILL", [s.indices([s.between(1, 4), s.between(1, 9)]), largest])]
    if len(shape) > 1 and tensor.dtype == "int8" and s.chance(0.3):
        x = s.b.add("CAST", [x], in_data_type="int8", out_data_type=s.pick("int32", "int64"))
        tensor, same = s.b.tensors[x], {}
        value = s.b.constant(np.array(5, tensor.dtype))
    if len(shape) > 1 and tensor.dtype != "int8" and s.chance(0.6):
        along, batch = (int(axis) for axis in s.rng.choice(len(shape), 2, replace=False))
        return [s.b.add("REVERSE_SEQUENCE", [x, s.indices(s.rng.integers(0, shape[along] + 1, shape[batch]))],
                        options={"seq_dim": along, "batch_dim": batch})]
    if len(shape) > 1 and s.chance(0.4):
        line = s.b.add("GATHER", [x, s.indices(0)], axis=len(shape) - 1, batch_dims=0)
        if s.shape(line)[-1] == min(shape[-2:]):
            return [s.b.add("MATRIX_SET_DIAG", [x, line])]
    if s.chance(0.5) and math.prod(shape) * shape[-1] <= s.most_elements:
        return [s.b.add("MATRIX_DIAG", [x])]
    steps = [s.pick(1, 1, 2, 3) for _ in shape]
    if tensor.dtype != "int16" and math.prod(shape) < 100 and s.chance(0.5):
        count = math.prod(shape)
        places, line = s.rng.integers(0, 2 * count, count), s.reshaped(x, (count,))
        return [s.b.add("SPARSE_TO_DENSE", [s.indices(places), s.indices([2 * count]), line, value])]
    if math.prod(size * step for size, step in zip(shape, steps, strict=True)) > 2 * s.most_elements:
        raise Unfit
    return [s.b.add("DILATE", [x, s.indices(steps), value])]


def moving(s: Sketch, x: int) -> list[int]:
    """A part from a computed start along one axis, sometimes written back at another start."""
    shape = s.shape(x)
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes or len(shape) > 4:
        raise Unfit
    axis = s.pick(*axes)
    width = s.between(1, shape[axis] - 1)
    part = [width if each == axis else size for each, size in enumerate(shape)]

    def start(most: int) -> int:
        """A number up to `most` for this axis, 0 for the others."""
        found = s.b.add("ARG_MAX", [s.input((len(shape), most + 1)), s.indices(1)], output_type="int32")
        return s.b.add("MUL", [found, s.indices([int(each == axis) for each in range(len(shape))])])
    taken = s.b.add("SLICE", [x, start(shape[axis] - width), s.indices(part)], shape=part)
    if s.b.tensors[x].dtype == "bool" or s.chance(0.4):
        return [taken]
    return [taken, s.b.add("DYNAMIC_UPDATE_SLICE", [x, taken, start(shape[axis] - width + 1)])]


def mirrored(s: Sketch, x: int) -> list[int]:
    """Mirrored borders along some axes."""
    shape = s.shape(x)
    if not shape:
        raise Unfit
    mode = s.pick("REFLECT", "SYMMETRIC")
    most = [min(3, size - (mode == "REFLECT")) if s.chance(0.5) else 0 for size in shape]
    return [s.b.add("MIRROR_PAD", [x, s.indices([[s.between(0, each), s.between(0, each)] for each in most])],
                    mode=mode)]


def places(s: Sketch, x: int) -> list[int]:
    """GATHER_ND at constant and computed indices, SCATTER_ND of slices among zeros, a tensor with another one in it."""
    shape = s.shape(x)
    if not shape:
        raise Unfit
    if s.chance(0.4) and s.b.tensors[x].dtype not in ("int16", "uint8"):
        target = (s.between(shape[0], 2 * shape[0] + 1), *shape[1:])
        indices = s.rng.permutation(target[0])[:shape[0], None]
        return [s.b.add("SCATTER_ND", [s.indices(indices), x, s.indices(target)])]
    if s.chance(0.3):
        smaller = s.partners(x, lambda other: len(other) == len(shape) and all(
            a <= b for a, b in zip(other, shape, strict=True)))
        if smaller:
            start = [s.between(-1, size) for size in shape]
            return [s.b.add("DYNAMIC_UPDATE_SLICE", [x, s.pick(*smaller), s.indices(start)])]
    depth = s.between(1, len(shape))
    count = (s.between(1, 6),) if s.chance(0.7) else (s.between(1, 3), s.between(1, 3))
    indices = np.stack([s.rng.integers(0, size, count) for size in shape[:depth]], axis=-1)
    if len(count) + len(shape) - depth > 5:
        raise Unfit
    if s.chance(0.4):
        source = s.input((*count, depth, min(shape[:depth])))
        computed = s.b.add("ARG_MAX", [source, s.indices(len(count) + 1)],
                           options={"output_type": s.pick("int32", "int64")})
        return [s.b.add("GATHER_ND", [x, computed])]
    return [s.b.add("GATHER_ND", [x, s.indices(indices)])]


def _condition(s: Sketch, x: int) -> int:
    """Return bool of the shape of `x`, or a constant one that broadcasts."""
    if s.b.tensors[x].dtype == "int8" and s.chance(0.5):
        return compare(s, x)[0]
    found = [y for y in s.others if s.b.tensors[y].dtype == "bool" and s.shape(y) == s.shape(x)]
    if found and s.chance(0.7):
        return int(s.pick(*found))
    dims = tuple(size if s.chance(0.7) else 1 for size in s.shape(x))
    return s.b.constant(np.asarray(s.rng.random(dims) < s.pick(0.5, 0.5, 1.1)))


def choice(s: Sketch, x: int) -> list[int]:
    """One of two tensors, or a constant."""
    shape, tensor = s.shape(x), s.b.tensors[x]
    if not shape or len(shape) > 4:
        raise Unfit
    condition = _condition(s, x)
    others = s.partners(x, lambda other: other == shape)
    if others and s.chance(0.6):
        other = int(s.pick(*others))
    elif tensor.dtype == "int8" and tensor.quantization is not None:
        dims: tuple[int, ...] = tuple(size if s.chance(0.6) else 1 for size in shape)
        like: dict[str, Any] = s.like(x)
        other = s.constant(() if s.chance(0.5) else dims, **like) if s.chance(0.6) else s.input(shape, **like)
    else:
        raise Unfit
    pair = [x, other] if s.chance(0.5) else [other, x]
    plain = s.shape(other) == shape and s.shape(condition) == shape and s.chance(0.4)
    return [s.b.add("SELECT" if plain else "SELECT_V2", [condition, *pair])]


def float_choices(s: Sketch, x: int) -> list[int]:
    """Float32 between bytes: one of two tensors, an extreme, a margin of any number, a tensor in another."""
    shape = s.shape(x)
    if not shape or len(shape) > 4:
        raise Unfit
    real = s.b.add("DEQUANTIZE", [x])
    same = [y for y in s.live if s.shape(y) == shape]
    kind = s.pick("SELECT_V2", "REDUCE", "PADV2", "DYNAMIC_UPDATE_SLICE")
    if kind == "SELECT_V2":
        number = s.b.constant(np.array(s.rng.normal(0, 2), np.float32))
        other = number if s.chance(0.5) else s.b.add("DEQUANTIZE", [s.pick(*same)])
        made = s.b.add(kind, [_condition(s, x), *s.pick((real, other), (other, real))])
    elif kind == "REDUCE":
        axis = s.between(0, len(shape) - 1)
        made = s.b.add(s.pick("REDUCE_MAX", "REDUCE_MIN"), [real, s.indices([axis])], keep_dims=s.chance(0.5))
    elif kind == "PADV2":
        pads = s.rng.integers(0, 3, (len(shape), 2)).astype(np.int32)
        made = s.b.add(kind, [real, s.b.constant(pads), s.b.constant(np.array(s.rng.normal(0, 2), np.float32))])
    else:
        start = [s.between(-1, size) for size in shape]
        made = s.b.add(kind, [real, s.b.add("DEQUANTIZE", [s.pick(*same)]), s.indices(start)])
    return [s.b.add("QUANTIZE", [made], **s.out(s.quantization(x)[0]))]


def logical(s: Sketch, x: int) -> list[int]:
    """Arithmetic of truth values."""
    found = [y for y in s.others if s.b.tensors[y].dtype == "bool"]
    first = int(s.pick(*found)) if found and s.chance(0.6) else compare(s, x)[0]
    if s.chance(0.3):
        return [first, s.b.add("LOGICAL_NOT", [first])]
    same = [y for y in found if y != first and s.shape(y) == s.shape(first)]
    dims = tuple(size if s.chance(0.7) else 1 for size in s.shape(first))
    second = int(s.pick(*same)) if same else s.b.constant(np.asarray(s.rng.random(dims) < 0.5))
    return [first, s.b.add(s.pick("LOGICAL_AND", "LOGICAL_OR"), [first, second])]


def divided(s: Sketch, x: int) -> list[int]:
    """Quotient by constants other than 0, or product of a few elements."""
    shape, (scale, _) = s.shape(x), s.quantization(x)
    if shape and s.chance(0.3) and shape[-1] <= 4:
        return [s.b.add("REDUCE_PROD", [x, s.indices([len(shape) - 1])], keep_dims=s.chance(0.5),
                        **s.out(min((scale * 60) ** shape[-1] / 60, 0.5)))]
    other, zero = s.scale(), s.point()
    data = s.rng.integers(-128, 128, shape[-1:] if s.chance(0.5) else shape)
    data = np.where(data == zero, 1 if zero == 0 else 0, data).astype(np.int8)
    divisor = s.b.constant(data, scale=other, zero_point=zero)
    return [s.b.add("DIV", [x, divisor], **s.out(scale / other * 0.03), options=s.activation())]


def hot(s: Sketch, x: int) -> list[int]:
    """Rows with one value at the index of the largest element, or truth of a row."""
    if not s.shape(x):
        raise Unfit
    if s.chance(0.5):
        y = compare(s, x)[0]
        return [y, s.b.add(s.pick("REDUCE_ANY", "REDUCE_ALL"), [y, s.indices([len(s.shape(y)) - 1])],
                           keep_dims=s.chance(0.5))]
    index = s.b.add("ARG_MAX", [x, s.indices(len(s.shape(x)) - 1)], options={"output_type": s.pick("int32", "int64")})
    if math.prod(s.shape(index)) > 24 or len(s.shape(index)) > 3:
        raise Unfit
    like: dict[str, Any] = s.like(x)
    on, off = (s.constant((), **like) for _ in range(2))
    return [s.b.add("ONE_HOT", [index, s.indices(s.between(1, 9)), on, off], axis=s.pick(-1, -1, 0))]


def top(s: Sketch, x: int) -> list[int]:
    """The largest elements of rows, and their indices."""
    if not s.shape(x):
        raise Unfit
    return s.b.add_many("TOPK_V2", [x, s.indices(s.between(1, min(4, s.shape(x)[-1])))], 2)
