"""Recipes of random graphs with states: SVDF, LSTM, and variables that CALL_ONCE sets."""

import math
from dataclasses import replace

import numpy as np

from tq_hw.model.graph import Model, Operator, OptionValue, Subgraph, Tensor
from tq_hw.model.random.sketch import Sketch, Unfit

__all__ = ["cached", "lstm", "reassigned", "svdf", "variable", "with_initial_values"]


def _folded(s: Sketch, x: int, rank: int) -> tuple[int, ...]:
    """Return the shape of `x` with other axes: the last ones joined, or new ones in front."""
    shape = (*(1,) * (rank - len(s.shape(x))), *s.shape(x))
    if s.chance(0.5):
        return (*shape[:rank - 1], math.prod(shape[rank - 1:]))
    return (math.prod(shape[:len(shape) - rank + 1]), *shape[len(shape) - rank + 1:])


def svdf(s: Sketch, x: int) -> list[int]:
    """SVDF over the rows of a matrix."""
    batch, depth = _folded(s, x, 2)
    if batch > 4 or depth > 400:
        raise Unfit
    x = s.reshaped(x, (batch, depth))
    rank, memory, units = s.between(1, 2), s.between(1, 6), s.between(1, 18)
    filters = units * rank
    scale = s.b.tensors[x].scale
    feature = s.b.constant(s.rng.integers(-127, 128, (filters, depth)).astype(np.int8), scale=0.01)
    time = s.b.constant(s.rng.integers(-3000, 3000, (filters, memory)).astype(np.int16), scale=0.0001)
    middle = float(np.float32(scale * 0.01 * 74 * 74 * depth ** 0.5 / 8000))
    bias = s.b.constant(s.rng.integers(-9999999, 9999999, units).astype(np.int32), scale=middle * 0.0001)
    state = s.b.tensor((batch, filters * memory), "int16", scale=middle, is_variable=True)
    out = s.out(middle * 8000 * 0.2 * memory ** 0.5 / 60)
    return [s.b.add("SVDF", [x, feature, time, bias, state], rank=rank, fused_activation_function="RELU", **out)]


def lstm(s: Sketch, x: int) -> list[int]:
    """LSTM over the steps of a sequence, in either order of the axes."""
    shape = _folded(s, x, 3)
    if max(shape[:2]) > 8 or shape[2] > 60:
        raise Unfit
    x = s.reshaped(x, shape)
    cells, major = s.between(1, 18), s.chance(0.4)
    batch = shape[1 if major else 0]
    scale, point = float(2.0 ** -7), s.between(-9, 9)

    def matrix(size: int) -> int:
        return s.b.constant(s.rng.integers(-127, 128, (cells, size)).astype(np.int8),
                            scale=float(s.rng.uniform(0.002, 0.01)))
    inputs = [x, *(matrix(shape[2]) for _ in range(4)), *(matrix(cells) for _ in range(4)), -1, -1, -1]
    inputs += [s.b.constant(s.rng.integers(-9999, 9999, cells).astype(np.int32), scale=0.001) for _ in range(4)]
    inputs += [-1, -1, s.b.tensor((batch, cells), scale=scale, zero_point=point, is_variable=True),
               s.b.tensor((batch, cells), "int16", scale=float(2.0 ** -s.between(9, 13)), is_variable=True),
               -1, -1, -1, -1]
    middle = [s.b.tensor((0,), "int16", scale=0.001) for _ in range(4)]
    middle.append(s.b.tensor((0,), scale=scale, zero_point=point))
    output = s.b.tensor((*shape[:2], cells), scale=scale, zero_point=point)
    s.b.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [output], {
        "fused_activation_function": "TANH", "cell_clip": s.pick(0.0, 10.0), "time_major": major,
        "proj_clip": 0.0}, intermediates=middle)
    return [output]


def _read(s: Sketch, x: int) -> tuple[int, int]:
    """A variable like `x`: its handle, and what it holds since the last inference."""
    handle, before = s.b.tensor((), "resource"), s.b.tensor(s.shape(x), **s.like(x))
    options: dict[str, OptionValue] = {"container": "", "shared_name": f"variable{len(s.variables)}"}
    s.b.operator("VAR_HANDLE", [], [handle], options)
    s.b.operator("READ_VARIABLE", [handle], [before])
    return handle, before


def _assign(s: Sketch, handle: int, value: int) -> None:
    s.b.operator("ASSIGN_VARIABLE", [handle, value], [])
    s.variables.append((s.b.tensors[value], s.int8(*s.shape(value)), f"variable{len(s.variables)}"))


def variable(s: Sketch, x: int) -> list[int]:
    """What a variable holds since the last inference; then it takes `x`, or what both of them give."""
    handle, before = _read(s, x)
    joined = s.b.add(s.pick("MAXIMUM", "MINIMUM"), [before, x])
    after = s.pick(x, joined)
    _assign(s, handle, after)
    return [before, joined]


def cached(s: Sketch, x: int) -> list[int]:
    """Attention to the last inference's rows, which `x` takes the place of: before it, between its products, after."""
    shape = s.shape(x)
    if len(shape) < 2 or math.prod(shape[:-2]) * shape[-2] ** 2 > s.most_elements:
        raise Unfit
    handle, before = _read(s, x)
    when = s.between(0, 3)

    def step(at: int) -> None:
        if at == when:
            _assign(s, handle, x)
    step(0)
    keys, turned = before, s.chance(0.5)
    if not turned:
        keys = s.b.add("TRANSPOSE", [before, s.indices([*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])])
    step(1)
    scores = s.b.add("BATCH_MATMUL", [x, keys], adj_y=turned,
                     **s.out(s.b.tensors[x].scale ** 2 * 100 * shape[-1] ** 0.5))
    step(2)
    weights = s.b.add("SOFTMAX", [scores], options={"beta": 1.0})
    made = s.b.add("BATCH_MATMUL", [weights, s.pick(x, before)], **s.out(s.b.tensors[x].scale))
    step(3)
    return [made]


def reassigned(s: Sketch, x: int) -> list[int]:
    """A variable that is read and written in turn, by what was read before, as it was or moved or compared."""
    if not s.shape(x):
        raise Unfit
    handle, before = _read(s, x)
    _assign(s, handle, x)
    made = [before]
    for _ in range(s.between(1, 3)):
        again = s.b.tensor(s.shape(x), **s.like(x))
        s.b.operator("READ_VARIABLE", [handle], [again])
        made += [again, s.b.add("REVERSE_V2", [again, s.indices([len(s.shape(x)) - 1])]) if s.chance(0.5) else
                 s.b.add("MAXIMUM", [again, s.pick(x, *made)])]
        if s.chance(0.7):
            s.b.operator("ASSIGN_VARIABLE", [handle, s.pick(x, *made)], [])
    return made


def with_initial_values(s: Sketch, main: Subgraph, name: str) -> Model:
    """Return the model, with a subgraph that gives the variables their first contents and a CALL_ONCE of it."""
    if not s.variables:
        return Model(name, (main,))
    tensors: list[Tensor] = []
    operators: list[Operator] = []
    for held, contents, shared in s.variables:
        at = len(tensors)
        tensors.append(Tensor(at, f"handle_{shared}", "resource", ()))
        tensors.append(replace(held, index=at + 1, name=f"first_{shared}", data=contents))
        operators.append(Operator(len(operators), "VAR_HANDLE", (), (at,), {"container": "", "shared_name": shared}))
        operators.append(Operator(len(operators), "ASSIGN_VARIABLE", (at, at + 1), ()))
    once = Operator(0, "CALL_ONCE", (), (), {"init_subgraph_index": 1})
    kept = (once, *(replace(op, index=op.index + 1) for op in main.operators))
    return Model(name, (replace(main, operators=kept), Subgraph("once", tuple(tensors), tuple(operators), (), ())))
