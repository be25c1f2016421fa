"""Input arrays: from a user's `.npz`, or drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model, Tensor
from tq_hw.sim.engines import InputSet

__all__ = ["draw_inputs", "find_inputs", "input_tensors", "output_arrays"]

Array = npt.NDArray[Any]

#: Inputs of these operators that are indices, and the input whose first axis they count.
_INDICES = {"EMBEDDING_LOOKUP": (0, 1), "GATHER": (1, 0)}


def input_tensors(model: Model) -> list[Tensor]:
    """Return the tensors of the model's inputs."""
    return [model.main.tensors[index] for index in model.main.inputs]


def find_inputs(arrays: Mapping[str, Array], names: Sequence[str], kinds: Sequence[tuple[str, tuple[int, ...]]],
                source: str) -> tuple[list[InputSet], bool]:
    """Return one or more input sets from named arrays, and whether the arrays have an axis of sets.

    Parameters
    ----------
    arrays : by tensor name, or `input_0`, `input_1`, ...; others are ignored
    names, kinds : of each input its tensor's name, and dtype and shape
    source : the file, for messages

    An array has the tensor's shape, or one more axis in front, whose length is the number of sets.
    """
    found = []
    stacked = False
    for position, (name, (dtype, shape)) in enumerate(zip(names, kinds, strict=True)):
        key = name if name in arrays and names.count(name) == 1 else f"input_{position}"
        if key not in arrays:
            raise OptionError(f"{source}: expected an array named {name!r} or 'input_{position}', found "
                              f"{', '.join(map(repr, arrays)) or 'no arrays'}")
        array = arrays[key]
        if array.dtype.name != dtype or (array.shape != shape and array.shape[1:] != shape):
            raise OptionError(f"{source}: array {key!r} must be {dtype}{list(shape)}, alone or with one more axis in "
                              f"front for several sets, found {array.dtype.name}{list(array.shape)}")
        stacked |= array.shape != shape
        found.append(array[None] if array.shape == shape else array)
    counts = {len(array) for array in found}
    if len(counts) > 1:
        raise OptionError(f"{source}: every input must have the same number of sets, found "
                          f"{', '.join(str(len(array)) for array in found)}")
    count = counts.pop() if counts else 1
    if count == 0:
        raise OptionError(f"{source}: expected at least one input set, found none")
    return [tuple(array[number] for array in found) for number in range(count)], stacked


def draw_inputs(model: Model, sets: int, seed: int) -> list[InputSet]:
    """Return `sets` seeded random input sets: integers over their whole range, floats over the range of their QUANTIZE.

    Indices (of GATHER and EMBEDDING_LOOKUP) are drawn in range. The first n sets of a seed are always the same.
    """
    return [tuple(_draw(model, tensor, np.random.default_rng([seed, number, position]))
                  for position, tensor in enumerate(input_tensors(model))) for number in range(sets)]


def _draw(model: Model, tensor: Tensor, rng: np.random.Generator) -> Array:
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(bool)
    if tensor.dtype == "float32":
        low, high = _float_range(model, tensor)
        return rng.uniform(low, high, tensor.shape).astype(np.float32)
    if tensor.dtype in ("int32", "int64"):
        return rng.integers(0, _index_limit(model, tensor), tensor.shape).astype(tensor.dtype)
    info = np.iinfo(tensor.dtype)
    return rng.integers(info.min, info.max + 1, tensor.shape).astype(tensor.dtype)


def _float_range(model: Model, tensor: Tensor) -> tuple[float, float]:
    """Return what the int8 of the QUANTIZE after the tensor can hold, else -1..1."""
    for op in model.main.operators:
        if op.op == "QUANTIZE" and op.inputs[0] == tensor.index:
            target = model.main.tensors[op.outputs[0]]
            info = np.iinfo(target.dtype)
            return target.scale * (info.min - target.zero_point), target.scale * (info.max - target.zero_point)
    return -1.0, 1.0


def _index_limit(model: Model, tensor: Tensor) -> int:
    """Return one more than the largest integer that makes sense for the tensor."""
    for op in model.main.operators:
        if op.op in _INDICES and op.inputs[_INDICES[op.op][0]] == tensor.index:
            table = model.main.tensors[op.inputs[_INDICES[op.op][1]]]
            axis = op.options.get("axis", 0)
            return table.shape[axis if op.op == "GATHER" and isinstance(axis, int) else 0]
    return 128


def output_arrays(outputs: Sequence[Sequence[Array]], stacked: bool) -> dict[str, Array]:
    """Return `output_0`, `output_1`, ... of all sets; `stacked` puts a set axis in front."""
    arrays = {f"output_{position}": np.stack([one[position] for one in outputs])
              for position in range(len(outputs[0]))}
    return arrays if stacked else {name: array[0] for name, array in arrays.items()}
