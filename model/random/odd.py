"""Recipes of legal but rare structures: states that others read, operands that both broadcast.

Also: operators that take one tensor twice, copies with another scale, slices by masks, rows of batches.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tq_hw.model.random.sketch import Sketch, Unfit
from tq_hw.model.random.states import lstm, svdf

__all__ = ["both_sides", "masked", "peeked", "picked", "rescaled", "twice"]


def _seen(s: Sketch, state: int) -> int:
    """A result that an operator other than the owner computes from a state, possibly through a view."""
    shape = s.shape(state)
    make: Callable[[], int] = s.pick(
        lambda: s.b.add("RESHAPE", [state, s.indices([-1])], shape=(int(np.prod(shape)),)),
        lambda: s.b.add("TRANSPOSE", [state, s.indices([1, 0])]),
        lambda: s.b.add("SLICE", [state, s.indices([0, shape[1] // 2]), s.indices([shape[0], -1])]),
        lambda: s.b.add("CONCATENATION", [state, state], axis=0),
        lambda: s.b.add("NEG", [s.b.add("DEQUANTIZE", [state])]),
        lambda: state)
    made = make()
    if s.b.tensors[made].dtype == "float32" or (made == state or s.chance(0.5)):
        return s.b.add("QUANTIZE", [made], **s.out(0.05))
    return made


def peeked(s: Sketch, x: int) -> list[int]:
    """An SVDF or LSTM, and readers of its state before and after it."""
    made = s.pick(svdf, lstm)(s, x)
    owner = s.b.operators.pop()
    states = [index for index in owner.inputs if index >= 0 and s.b.tensors[index].is_variable]
    before = [_seen(s, s.pick(*states)) for _ in range(s.between(0, 2))]
    if len(states) > 1 and s.chance(0.3):
        # Before the owner changes it, of the same codes: nothing is left to do.
        before.append(s.b.add("RELU", [states[0]], scale=s.b.tensors[states[0]].scale, zero_point=-128))
    s.b.operator(owner.op, owner.inputs, owner.outputs, dict(owner.options), intermediates=owner.intermediates)
    after = [_seen(s, s.pick(*states)) for _ in range(s.between(0 if before else 1, 1))]
    return [*before, *after, *made]


def both_sides(s: Sketch, x: int) -> list[int]:
    """Two operands, each of which broadcasts along axes of the other."""
    shape = s.shape(x)
    if len(shape) < 2 or max(shape) < 2 or len(shape) > 4:
        raise Unfit
    axis = s.pick(*(at for at, size in enumerate(shape) if size > 1))
    one = s.b.add("REDUCE_MAX", [x, s.indices([axis])], keep_dims=True)
    dims = tuple(size if at == axis else s.pick(1, 1, size) for at, size in enumerate(shape))
    other = s.constant(dims, **s.like(x)) if s.chance(0.3) else s.input(dims[s.pick(0, 0, axis):], **s.like(x))
    pair = [one, other] if s.chance(0.5) else [other, one]
    op = s.pick("ADD", "SUB", "MUL", "MAXIMUM", "SQUARED_DIFFERENCE", "LESS", "SELECT_V2")
    if op == "SELECT_V2":
        return [s.b.add(op, [s.b.add("GREATER", pair), *pair])]
    keeps = op in ("MAXIMUM", "LESS")
    return [s.b.add(op, pair, **({} if keeps else s.out(s.b.tensors[x].scale)))]


def twice(s: Sketch, x: int) -> list[int]:
    """An operator that takes one tensor for both inputs."""
    shape, scale = s.shape(x), s.b.tensors[x].scale
    if not shape:
        raise Unfit
    op = s.pick("ADD", "SUB", "MUL", "MAXIMUM", "LESS", "PRELU", "SELECT_V2", "CONCATENATION", "PACK", "BATCH_MATMUL",
                "FULLY_CONNECTED", "DYNAMIC_UPDATE_SLICE", "GATHER")
    if op in ("ADD", "SUB", "MUL", "PRELU"):
        return [s.b.add(op, [x, x], **s.out(scale if op != "MUL" else scale * scale * 60))]
    if op == "CONCATENATION":
        return [s.b.add(op, [x] * s.between(2, 3), axis=s.between(-len(shape), len(shape) - 1))]
    if op == "PACK" and len(shape) < 5:
        return [s.b.add(op, [x] * s.between(2, 3), axis=s.between(-len(shape) - 1, len(shape)))]
    if op == "SELECT_V2":
        return [s.b.add(op, [s.b.add("GREATER", [x, s.constant((), **s.like(x))]), x, x])]
    if op == "BATCH_MATMUL" and len(shape) > 1:
        turned = s.chance(0.5)
        return [s.b.add(op, [x, x], adj_x=turned, adj_y=not turned, **s.out(scale * scale * 100 * shape[-1]**0.5))]
    if op == "FULLY_CONNECTED" and len(shape) == 2 and shape[0] <= 40:
        return [s.b.add(op, [x, x, -1], keep_num_dims=s.chance(0.5), **s.out(scale * scale * 100 * shape[-1]**0.5),
                        options=s.activation())]
    if op == "DYNAMIC_UPDATE_SLICE":
        return [s.b.add(op, [x, x, s.indices([0] * len(shape))])]
    if op == "GATHER" and len(shape) < 4:
        places = s.b.add("ARG_MAX", [x, s.indices(-1)], options={"output_type": "int32"})
        return [s.b.add(op, [x, places], axis=-1, batch_dims=0)]
    return [s.b.add(s.pick("MAXIMUM", "EQUAL"), [x, x])]


def rescaled(s: Sketch, x: int) -> list[int]:
    """A copy with another scale and zero point than its source, and a reader of it."""
    shape, other = s.shape(x), s.out(s.b.tensors[x].scale)
    if not shape or len(shape) > 4:
        raise Unfit
    op = s.pick("TILE", "REVERSE_V2", "GATHER_ND", "SELECT_V2", "SELECT_V2", "DYNAMIC_UPDATE_SLICE", "TOPK_V2")
    inputs = {"TILE": [s.indices([1] * len(shape))], "REVERSE_V2": [s.indices([s.between(0, len(shape) - 1)])],
              "GATHER_ND": [s.indices([[s.between(0, shape[0] - 1)] for _ in range(shape[0])])],
              "DYNAMIC_UPDATE_SLICE": [s.constant((1,) * len(shape), **s.like(x)), s.indices([0] * len(shape))]}
    if op == "TOPK_V2":
        made = s.b.add_many(op, [x, s.indices(shape[-1])], 2, **other)[0] if shape[-1] < 6 else x
    elif op == "SELECT_V2":
        # Known and the same everywhere, or of one row.
        dims = tuple(size if s.chance(0.7) else 1 for size in shape)
        pair = [x, s.constant(tuple(size if s.chance(0.5) else 1 for size in shape), **s.like(x))]
        made = s.b.add(op, [s.b.constant(np.full(dims, s.chance(0.5))), *(pair if s.chance(0.7) else pair[::-1])],
                       **other)
    else:
        made = s.b.add(op, [x, *inputs[op]], **other)
    return _followed(s, made) if s.chance(0.7) else [made]


def _followed(s: Sketch, x: int) -> list[int]:
    """An operator that uses the zero point of its input."""
    pads = [[0, 0], [s.between(0, 2), 1], [1, s.between(0, 2)], [0, 0]][:len(s.shape(x))]
    op = s.pick("PAD", "PAD", "MEAN", "L2_NORMALIZATION", "SPACE_TO_BATCH_ND", "AVERAGE_POOL_2D")
    if op == "MEAN":
        return [x, s.b.add(op, [x, s.indices([-1])], keep_dims=True, **s.out(s.b.tensors[x].scale))]
    if op == "L2_NORMALIZATION" and s.shape(x)[-1] <= 100:
        return [x, s.b.add(op, [x])]
    if op == "SPACE_TO_BATCH_ND" and len(s.shape(x)) == 4:
        return [s.b.add(op, [x, s.indices([1, 1]), s.indices(pads[1:3])])]
    if op == "AVERAGE_POOL_2D" and len(s.shape(x)) == 4:
        return [s.b.add(op, [x], filter_height=2, filter_width=3, padding="SAME", options=s.activation())]
    return [s.b.add("PAD", [x, s.indices(pads)])]


def masked(s: Sketch, x: int) -> list[int]:
    """STRIDED_SLICE with begins and ends from the back, masks, an ellipsis, and new axes."""
    shape = s.shape(x)
    if not shape or len(shape) > 4:
        raise Unfit

    def mask(probability: float) -> int:
        return sum(1 << axis for axis in range(len(shape)) if s.chance(probability))
    begin, end = ([s.between(-size - 1, size + 1) for size in shape] for _ in range(2))
    strides = [s.pick(1, 1, 1, 2, -1, -2, 3) for _ in shape]
    masks: dict[str, Any] = {"begin_mask": mask(0.4), "end_mask": mask(0.4), "shrink_axis_mask": mask(0.1),
                             "ellipsis_mask": 1 << s.between(0, len(shape) - 1) if s.chance(0.3) else 0,
                             "new_axis_mask": mask(0.3) if s.chance(0.2) else 0}
    return [s.b.add("STRIDED_SLICE", [x, *map(s.indices, (begin, end, strides))], options=masks)]


def picked(s: Sketch, x: int) -> list[int]:
    """GATHER from each part of a batch by indices of its own, constant or computed."""
    shape = s.shape(x)
    if not 1 < len(shape) <= 4:
        raise Unfit
    batch = s.between(1, len(shape) - 1)
    axis = s.between(batch, len(shape) - 1)
    dims = (*shape[:batch], *s.pick((2,), (1,), (3,), ()))
    if s.chance(0.5):
        places = s.b.constant(s.rng.integers(0, shape[axis], dims).astype(np.int32))
    else:
        source = s.input((*dims, shape[axis]))
        places = s.b.add("ARG_MAX", [source, s.indices(-1)], options={"output_type": s.pick("int32", "int64")})
    return [s.b.add("GATHER", [x, places], axis=s.pick(axis, axis - len(shape)),
                    batch_dims=s.pick(batch, batch - len(dims)))]
