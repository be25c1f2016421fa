"""Seeded random graphs: layers of all kinds after and next to each other, what the compiler joins, moves and overlaps.

`graph(seed)` gives a valid int8 model of two to eight layers with branches; a layer reads what came last or something
older, two tensors of one shape meet now and then, and there may be two outputs.
"""

import numpy as np

from tq_hw.model.errors import ModelError
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.samples.layers import LAYERS, image_input
from tq_hw.model.tflite.reader import parse_model

__all__ = ["graph"]

#: How often each kind of layer is drawn.
_SHARES = {"conv": 5, "unary": 4, "depthwise": 3, "transpose_conv": 2}
#: Kinds that take images of int8 and mostly give one.
_KINDS = ("conv", "unary", "depthwise", "transpose_conv", "add", "binary", "quantize", "pad", "max_pool",
          "average_pool", "concatenation", "slice", "split", "resize", "space", "transpose", "pad_any", "rows",
          "softmax", "reduce", "gather", "compare", "mean", "batch_matmul")
_WEIGHTED = tuple(kind for kind in _KINDS for _ in range(_SHARES.get(kind, 1)))
#: Larger tensors are not built upon, nor larger scales: comparisons want scales below 1.
_MOST_ELEMENTS, _MOST_SCALE = 60_000, 0.3

Rng = np.random.Generator


def _is_image(b: ModelBuilder, index: int) -> bool:
    tensor = b.tensors[index]
    return (tensor.dtype == "int8" and len(tensor.shape) == 4 and int(np.prod(tensor.shape)) <= _MOST_ELEMENTS
            and tensor.scale <= _MOST_SCALE)


def _as_image(b: ModelBuilder, index: int) -> int:
    """Reshape a tensor of int8 with two or three axes."""
    tensor = b.tensors[index]
    if tensor.dtype != "int8" or len(tensor.shape) not in (2, 3):
        return index
    shape = (1,) * (4 - len(tensor.shape)) + tensor.shape
    return b.add("RESHAPE", [index, b.constant(list(shape))], shape=shape)


def _meeting(b: ModelBuilder, rng: Rng, made: list[int], x: int) -> int | None:
    """Join `x` with another tensor of its shape, if there is one."""
    tensor = b.tensors[x]
    others = [index for index in made if index != x and _is_image(b, index) and b.tensors[index].shape == tensor.shape]
    if not others:
        return None
    other = others[int(rng.integers(len(others)))]
    op, zero_point = str(rng.choice(("ADD", "MUL", "SUB"))), int(rng.integers(-128, 128))
    return b.add(op, [x, other], scale=2 * max(tensor.scale, b.tensors[other].scale), zero_point=zero_point)


def graph(seed: int) -> Model:
    """Return a random graph, the same for the same seed."""
    rng, b = np.random.default_rng([77, seed]), ModelBuilder(f"graph_{seed}")
    made = [image_input(b, rng, 3 if rng.random() < 0.3 else 1)]
    for _ in range(int(rng.integers(3, 9))):
        x = made[-1] if rng.random() < 0.75 else made[int(rng.integers(len(made)))]
        if not _is_image(b, x):
            continue
        met = _meeting(b, rng, made, x) if rng.random() < 0.2 else None
        try:
            made.append(_as_image(b, LAYERS[str(rng.choice(_WEIGHTED))](b, rng, x)) if met is None else met)
        except ModelError:  # parameters that do not fit this shape
            continue
    made = made if len(made) > 1 else [*made, b.add("RELU", made)]
    outputs = [made[-1]]
    other = made[int(rng.integers(1, len(made)))]
    if rng.random() < 0.3 and other not in outputs:
        outputs.append(other)
    return parse_model(b.build(*outputs), b.name)
