"""Input arrays: read from a user's `.npz`, or drawn at random."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.program import Port
from tq_hw.model.errors import OptionError, UnsupportedError
from tq_hw.model.graph import Model, Tensor
from tq_hw.sim.engines import InputSet

__all__ = ["Array", "InputKind", "draw_inputs", "find_inputs", "float_range", "input_kinds", "input_tensors",
           "output_arrays", "port_kinds"]

Array = npt.NDArray[Any]

_INTEGERS = ("int8", "uint8", "int16")
#: Types that are drawn over their whole range.
_DRAWN = (*_INTEGERS, "uint16", "uint32")
#: Index inputs of these operators, and the input whose first axis they count.
_INDICES = {"EMBEDDING_LOOKUP": (0, 1), "GATHER": (1, 0)}
#: Operators that make indices from indices.
_OF_INDICES = ("ADD", "CAST", "EXPAND_DIMS", "MAXIMUM", "MINIMUM", "RESHAPE", "SELECT", "SELECT_V2", "SQUEEZE", "SUB")


def input_tensors(model: Model) -> list[Tensor]:
    """Return the tensors of the model's inputs."""
    return [model.main.tensors[index] for index in model.main.inputs]


@dataclass(frozen=True)
class InputKind:
    """The required array of an input; scale and zero point if the input is quantized as a whole."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    quantization: tuple[float, int] | None = None

    def hint(self, array: Array) -> str:
        """Return how to make the array fit, if that is known: real numbers for a quantized input."""
        if array.dtype.kind != "f" or self.quantization is None or self.dtype not in _INTEGERS:
            return ""
        scale, zero_point = self.quantization
        info = np.iinfo(self.dtype)
        return (f"; quantize real numbers: np.clip(np.rint(x / {scale!r}) + {zero_point}, {info.min}, "
                f"{info.max}).astype(np.{self.dtype})")


def input_kinds(model: Model) -> list[InputKind]:
    """Return what `find_inputs` expects for a model."""
    return [InputKind(tensor.name, tensor.dtype, tensor.shape, _whole_quantization(tensor))
            for tensor in input_tensors(model)]


def port_kinds(ports: Sequence[Port]) -> list[InputKind]:
    """Return what `find_inputs` expects for a compiled file."""
    return [InputKind(port.name, port.model_dtype, port.shape, (port.scale, port.zero_point) if port.scale else None)
            for port in ports]


def _whole_quantization(tensor: Tensor) -> tuple[float, int] | None:
    quantization = tensor.quantization
    if quantization is None or len(quantization.scale) != 1:
        return None
    return quantization.scale[0], quantization.zero_point[0]


def find_inputs(arrays: Mapping[str, Array], kinds: Sequence[InputKind],
                source: str) -> tuple[list[InputSet], bool]:
    """Return one or more input sets from named arrays, and whether the arrays have an axis of sets.

    Parameters
    ----------
    arrays : by tensor name, or `input_0`, `input_1`, ...; others are ignored
    kinds : of each input
    source : the file, for messages

    An array has the tensor's shape, or that with a leading axis, whose length is the number of sets.
    """
    names = [kind.name for kind in kinds]
    found = []
    stacked = False
    for position, kind in enumerate(kinds):
        key = kind.name if kind.name in arrays and names.count(kind.name) == 1 else f"input_{position}"
        if key not in arrays:
            raise OptionError(f"{source}: no array for input {position}: expected one named {kind.name!r}, as the "
                              f"tensor, or 'input_{position}', found {', '.join(map(repr, arrays)) or 'no arrays'}")
        array = arrays[key]
        shape = kind.shape
        if array.dtype.name != kind.dtype or (array.shape != shape and array.shape[1:] != shape):
            raise OptionError(f"{source}: array {key!r} must be {kind.dtype}{list(shape)}, alone or with one more axis "
                              f"in front for several sets, found {array.dtype.name}{list(array.shape)}"
                              + kind.hint(array))
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
    """Return `sets` random input sets: integers over their whole range, floats over the range of their QUANTIZE.

    Indices (of GATHER and EMBEDDING_LOOKUP) are drawn in range. A seed's first n sets do not depend on `sets`.
    Raises `UnsupportedError` for an input of another type, such as string.
    """
    return [tuple(_draw(model, tensor, np.random.default_rng([seed, number, position]))
                  for position, tensor in enumerate(input_tensors(model))) for number in range(sets)]


def _draw(model: Model, tensor: Tensor, rng: np.random.Generator) -> Array:
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(bool)
    if tensor.dtype == "float32":
        low, high = float_range(model, tensor)
        return rng.uniform(low, high, tensor.shape).astype(np.float32)
    if tensor.dtype in ("int32", "int64"):
        return rng.integers(0, _index_limit(model, tensor), tensor.shape).astype(tensor.dtype)
    if tensor.dtype not in _DRAWN:
        raise UnsupportedError(f"model input {tensor.name[:60]!r} (tensor {tensor.index}) is {tensor.dtype}; random "
                               f"inputs must be {', '.join(_DRAWN)}, int32, int64, bool or float32")
    info = np.iinfo(tensor.dtype)
    return rng.integers(info.min, info.max + 1, tensor.shape).astype(tensor.dtype)


def float_range(model: Model, tensor: Tensor) -> tuple[float, float]:
    """Return the range of the QUANTIZE after a float32 input; word numbers if it is cast; else -1..1."""
    if any(op.op == "CAST" and op.inputs[0] == tensor.index for op in model.main.operators):
        return 0.0, float(_index_limit(model, tensor))
    for op in model.main.operators:
        if op.op == "QUANTIZE" and op.inputs[0] == tensor.index:
            target = model.main.tensors[op.outputs[0]]
            info = np.iinfo(target.dtype)
            return target.scale * (info.min - target.zero_point), target.scale * (info.max - target.zero_point)
    return -1.0, 1.0


def _index_limit(model: Model, tensor: Tensor) -> int:
    """Return one more than the largest useful index of the tensor: that of the smallest table that it reaches.

    Keras adds the rows of a table to negative indices, and chooses between the two.
    """
    reached, limits = {tensor.index}, []
    for op in model.main.operators:
        if op.op in _INDICES and op.inputs[_INDICES[op.op][0]] in reached:
            table = model.main.tensors[op.inputs[_INDICES[op.op][1]]]
            axis = op.options.get("axis", 0)
            limits.append(table.shape[axis if op.op == "GATHER" and isinstance(axis, int) else 0])
        elif op.op in _OF_INDICES and reached & set(op.inputs):
            reached.update(op.outputs)
    return min(limits, default=128)


def output_arrays(outputs: Sequence[Sequence[Array]], stacked: bool) -> dict[str, Array]:
    """Return the outputs of all sets as `output_0`, `output_1`, ...; `stacked` adds a leading axis of sets."""
    arrays = {f"output_{position}": np.stack([one[position] for one in outputs])
              for position in range(len(outputs[0]))}
    return arrays if stacked else {name: array[0] for name, array in arrays.items()}
