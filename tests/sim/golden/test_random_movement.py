"""Operators that move values, in generated models of one operator: the results of the public engines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_places import PLACES

from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model

Rng = np.random.Generator


def pick(rng: Rng, *options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def shape(rng: Rng, rank: int | None = None, most: int = 5) -> tuple[int, ...]:
    return tuple(int(size) for size in rng.integers(1, most + 1, rank or int(rng.integers(1, 5))))


def source(rng: Rng, b: ModelBuilder, dims: tuple[int, ...]) -> int:
    return b.input(dims, scale=0.0625, zero_point=int(rng.integers(-128, 128)))


def concatenation(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims, point = shape(rng), int(rng.integers(-128, 128))
    axis = int(rng.integers(-len(dims), len(dims)))
    parts = []
    for _ in range(int(rng.integers(1, 5))):
        each = list(dims)
        each[axis] = int(rng.integers(1, 5))
        parts.append(b.input(each, scale=0.5, zero_point=point))
    return b.build(b.add(op, parts, axis=axis))


def reshape(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    new = list(rng.permutation(dims)) + [1] * int(rng.integers(2))
    new[int(rng.integers(len(new)))] = -1
    return b.build(b.add(op, [source(rng, b, dims), b.constant([int(size) for size in new])]))


def squeeze(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = tuple(pick(rng, 1, 1, 3) for _ in range(4))
    ones = [axis - pick(rng, 0, 4) for axis, size in enumerate(dims) if size == 1]
    return b.build(b.add(op, [source(rng, b, dims)], squeeze_dims=tuple(ones[:int(rng.integers(len(ones) + 1))])))


def expand_dims(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng, int(rng.integers(1, 4)))
    axis = int(rng.integers(-len(dims) - 1, len(dims) + 1))
    return b.build(b.add(op, [source(rng, b, dims), b.constant(axis)]))


def transpose(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng, int(rng.integers(1, 6)))
    return b.build(b.add(op, [source(rng, b, dims), b.constant(rng.permutation(len(dims)).astype(np.int32))]))


def pad(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    inputs = [source(rng, b, dims), b.constant(rng.integers(0, 4, (len(dims), 2)).astype(np.int32))]
    if op == "PADV2":
        tensor = b.tensors[inputs[0]]
        inputs.append(b.constant(np.array(int(rng.integers(-128, 128)), np.int8), scale=tensor.scale,
                                 zero_point=tensor.zero_point))
    return b.build(b.add(op, inputs))


def space_depth(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    block = int(rng.integers(1, 4))
    batch, height, width, depth = shape(rng, 4, 3)
    dims = ((batch, height * block, width * block, depth) if op == "SPACE_TO_DEPTH"
            else (batch, height, width, depth * block * block))
    return b.build(b.add(op, [source(rng, b, dims)], block_size=block))


def space_batch(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    spatial = 2 if rng.random() < 0.8 else 1
    block = [int(size) for size in rng.integers(1, 4, spatial)]
    if op == "BATCH_TO_SPACE_ND":
        dims = (int(rng.integers(1, 3)) * int(np.prod(block)), *shape(rng, spatial + 1))
        pairs = [[int(rng.integers(0, min(size * step, 2))), 0] for size, step in zip(dims[1:], block, strict=False)]
    else:
        dims = shape(rng, spatial + 2)
        before = [int(rng.integers(0, 3)) for _ in block]
        pairs = [[first, -(size + first) % step] for first, size, step in zip(before, dims[1:], block, strict=False)]
    return b.build(b.add(op, [source(rng, b, dims), b.constant(block), b.constant(pairs)]))


def gather(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    axis = int(rng.integers(len(dims)))
    batch_dims = int(rng.integers(axis + 1))
    indices = rng.integers(0, dims[axis], (*dims[:batch_dims], *shape(rng, int(rng.integers(1, 3)), 3)))
    return b.build(b.add(op, [source(rng, b, dims), b.constant(indices.astype(np.int32))],
                         axis=axis - pick(rng, 0, len(dims)), batch_dims=batch_dims))


def slice_(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    begin = [int(rng.integers(size)) for size in dims]
    size = [pick(rng, -1, int(rng.integers(1, extent - first + 1))) for extent, first in zip(dims, begin, strict=True)]
    return b.build(b.add(op, [source(rng, b, dims), b.constant(begin), b.constant(size)]))


def strided_slice(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng, most=7)
    begin, end, strides, shrink = [], [], [], 0
    for axis, size in enumerate(dims):
        first, last = sorted(int(value) for value in rng.choice(size + 1, 2, replace=False))
        step = int(rng.integers(1, 4))
        if rng.random() < 0.3:
            first, last, step = last - 1, first - 1 if first else -size - 1, -step
        elif rng.random() < 0.3:
            shrink |= 1 << axis
            step = 1
        begin.append(first - (size if rng.random() < 0.3 else 0))
        end.append(last)
        strides.append(step)
    begin_mask = int(rng.integers(1 << len(dims))) if rng.random() < 0.4 else 0
    end_mask = int(rng.integers(1 << len(dims))) if rng.random() < 0.4 else 0
    return b.build(b.add(op, [source(rng, b, dims), b.constant(begin), b.constant(end), b.constant(strides)],
                         begin_mask=begin_mask, end_mask=end_mask, shrink_axis_mask=shrink))


def strided_slice_masks(rng: Rng, op: str) -> bytes:
    """An ellipsis over at least one axis, new axes, ranges and shrunk axes."""
    b = ModelBuilder(op)
    dims = shape(rng, int(rng.integers(2, 5)))
    covered = int(rng.integers(1, len(dims)))
    first = int(rng.integers(0, len(dims) - covered + 1))
    words: list[int | str] = [*range(first), "...", *range(first + covered, len(dims))]
    for _ in range(int(rng.integers(0, 3))):
        words.insert(int(rng.integers(len(words) + 1)), "new")
    begin, end, masks = [], [], {"ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
    for entry, word in enumerate(words):
        start = int(rng.integers(dims[word])) if isinstance(word, int) else 0
        begin.append(start)
        end.append(dims[word] if isinstance(word, int) else 0)
        kind = {"...": "ellipsis_mask", "new": "new_axis_mask"}.get(str(word))
        kind = kind or ("shrink_axis_mask" if rng.random() < 0.4 else None)
        if kind:
            masks[kind] |= 1 << entry
    return b.build(b.add("STRIDED_SLICE", [source(rng, b, dims), b.constant(begin), b.constant(end),
                                           b.constant([1] * len(words))], options=masks))


def split(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims, parts = list(shape(rng)), int(rng.integers(1, 4))
    axis = int(rng.integers(-len(dims), len(dims)))
    if op == "SPLIT":
        dims[axis] *= parts
        inputs = [b.constant(axis), source(rng, b, tuple(dims))]
    else:
        sizes = [int(size) for size in rng.integers(1, 4, parts)]
        dims[axis] = sum(sizes)
        inputs = [source(rng, b, tuple(dims)), b.constant(sizes), b.constant(axis)]
    return b.build(*b.add_many(op, inputs, parts))


def pack(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims, point = shape(rng, int(rng.integers(1, 4))), int(rng.integers(-128, 128))
    parts = [b.input(dims, scale=0.5, zero_point=point) for _ in range(int(rng.integers(1, 4)))]
    return b.build(b.add(op, parts, axis=int(rng.integers(-len(dims) - 1, len(dims) + 1))))


def unpack(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    axis = int(rng.integers(-len(dims), len(dims)))
    return b.build(*b.add_many(op, [source(rng, b, dims)], dims[axis], options={"axis": axis}))


def embedding_lookup(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    ids = b.constant(rng.integers(0, 9, 6).astype(np.int32))
    return b.build(b.add(op, [ids, source(rng, b, (9, int(rng.integers(1, 6))))]))


def tile(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    return b.build(b.add(op, [source(rng, b, dims), b.constant(rng.integers(1, 4, len(dims)).astype(np.int32))]))


def broadcast_to(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = tuple(pick(rng, 1, size) for size in shape(rng))
    target = [int(rng.integers(1, 4)) if size == 1 else size for size in dims]
    if len(dims) < 4 and rng.random() < 0.5:
        target.insert(0, int(rng.integers(1, 4)))
    return b.build(b.add(op, [source(rng, b, dims), b.constant(target)]))


def reverse(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    first = int(rng.integers(len(dims)))
    axes = rng.permutation(np.arange(first, int(rng.integers(first, len(dims))) + 1)) - pick(rng, 0, len(dims))
    return b.build(b.add(op, [source(rng, b, dims), b.constant(axes.astype(np.int32))], scale=0.3))


def mirror_pad(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims, mode = shape(rng), pick(rng, "REFLECT", "SYMMETRIC")
    most = np.array([[size + (mode == "SYMMETRIC")] * 2 for size in dims])
    return b.build(b.add(op, [source(rng, b, dims), b.constant(rng.integers(0, most).astype(np.int32))], mode=mode))


def gather_nd(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    count = shape(rng, int(rng.integers(1, 3)), 3)
    indices = np.stack([rng.integers(0, size, count) for size in dims[:int(rng.integers(1, len(dims) + 1))]], axis=-1)
    return b.build(b.add(op, [source(rng, b, dims), b.constant(indices.astype(np.int32))]))


def scatter_nd(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    target = shape(rng)
    depth = int(rng.integers(1, len(target) + 1))
    every = np.stack(np.unravel_index(rng.permutation(int(np.prod(target[:depth]))), target[:depth]), axis=-1)
    indices = every[:int(rng.integers(1, len(every) + 1))].astype(np.int32)
    indices = np.concatenate([indices, indices[:pick(rng, 0, 1)]])  # values at a repeated index are added
    updates = source(rng, b, (len(indices), *target[depth:]))
    return b.build(b.add(op, [b.constant(indices), updates, b.constant([int(size) for size in target])]))


def update_slice(rng: Rng, op: str) -> bytes:
    """Start indices may be out of range."""
    b = ModelBuilder(op)
    dims = shape(rng)
    part = tuple(int(rng.integers(1, size + 1)) for size in dims)
    start = b.constant([int(rng.integers(-2, size + 2)) for size in dims])
    return b.build(b.add(op, [source(rng, b, dims), source(rng, b, part), start]))


def select(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    ones = [tuple(pick(rng, 1, size) for size in dims)[pick(rng, 0, 0, 1):] for _ in range(3)]
    condition = pick(rng, dims, (), dims[:1]) if op == "SELECT" else ones[0]
    x, y = (source(rng, b, dims if op == "SELECT" else each) for each in ones[1:])
    return b.build(b.add(op, [b.input(condition, "bool"), x, y]))


def logical(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    dims = shape(rng)
    second = tuple(pick(rng, 1, size) for size in dims)
    inputs = [b.input(each, "bool") for each in ((dims,) if op == "LOGICAL_NOT" else (dims, second))]
    return b.build(b.add(op, inputs))


def shape_of(rng: Rng, op: str) -> bytes:
    b = ModelBuilder(op)
    return b.build(b.add(op, [source(rng, b, shape(rng))]))


BOTH, REF, TFLM = ("litert-ref", "tflm"), ("litert-ref",), ("tflm",)
#: Operator -> generator, engines that run it: TFLite Micro pads SPACE_TO_BATCH_ND with an unset value.
OPERATORS: dict[str, tuple[Callable[[Rng, str], bytes], tuple[str, ...]]] = {
    "CONCATENATION": (concatenation, BOTH), "RESHAPE": (reshape, BOTH), "SQUEEZE": (squeeze, BOTH),
    "EXPAND_DIMS": (expand_dims, BOTH), "TRANSPOSE": (transpose, BOTH), "PAD": (pad, BOTH), "PADV2": (pad, BOTH),
    "SPACE_TO_DEPTH": (space_depth, BOTH), "DEPTH_TO_SPACE": (space_depth, BOTH),
    "SPACE_TO_BATCH_ND": (space_batch, REF), "BATCH_TO_SPACE_ND": (space_batch, BOTH),
    "GATHER": (gather, BOTH), "SLICE": (slice_, BOTH), "STRIDED_SLICE": (strided_slice, BOTH),
    "STRIDED_SLICE:masks": (strided_slice_masks, ("litert-ref",)),
    "SPLIT": (split, BOTH), "SPLIT_V": (split, BOTH), "PACK": (pack, BOTH), "UNPACK": (unpack, BOTH),
    "EMBEDDING_LOOKUP": (embedding_lookup, BOTH), "SHAPE": (shape_of, BOTH),
    "TILE": (tile, REF), "BROADCAST_TO": (broadcast_to, REF), "REVERSE_V2": (reverse, REF),
    "MIRROR_PAD": (mirror_pad, BOTH), "GATHER_ND": (gather_nd, BOTH), "SCATTER_ND": (scatter_nd, REF),
    "DYNAMIC_UPDATE_SLICE": (update_slice, BOTH), "SELECT": (select, REF), "SELECT_V2": (select, BOTH),
    "LOGICAL_AND": (logical, BOTH), "LOGICAL_OR": (logical, BOTH), "LOGICAL_NOT": (logical, BOTH),
    **{op: (generate, REF) for op, generate in PLACES.items()}, "FILL:tflm": (PLACES["FILL"], TFLM),
}


def sweep(op: str, seeds: range, agree: Callable[..., None], random_sets: Callable[..., Any]) -> None:
    generate, engines = OPERATORS[op]
    for seed in seeds:
        data = generate(np.random.default_rng([seed, *op.encode()]), op)
        sets = random_sets(parse_model(data, op), seed, 1)
        for engine in engines:
            try:
                agree(engine, data, sets)
            except Exception as error:
                error.add_note(f"{op}, seed {seed}, {engine}")
                raise


@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engines(op: str, agree: Callable[..., None], random_sets: Callable[..., Any]) -> None:
    sweep(op, range(4), agree, random_sets)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_equals_the_engines_in_a_sweep(op: str, agree: Callable[..., None],
                                       random_sets: Callable[..., Any]) -> None:
    sweep(op, range(4, 60), agree, random_sets)
