"""Inputs and outputs of a network: a record of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Tensor

__all__ = ["Array", "TensorInfo", "describe", "named_arrays"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a network.

    Members
    -------
    name, dtype, shape : of the tensor
    scale, zero_point : real = scale * (integer - zero_point); None unless the tensor has one scale
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float | None = None
    zero_point: int | None = None

    def quantize(self, real: npt.ArrayLike) -> Array:
        """Quantize real numbers: round to nearest, ties to even, and clamp to the type's range.

        Raises OptionError if the tensor has no scale.
        """
        scale, zero_point = self._quantization()
        info = np.iinfo(self.dtype)
        integers: npt.NDArray[np.float64] = np.rint(np.asarray(real, np.float64) / scale) + zero_point
        return np.clip(integers, info.min, info.max).astype(np.dtype(self.dtype))

    def dequantize(self, integers: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Dequantize integers; OptionError if the tensor has no scale."""
        scale, zero_point = self._quantization()
        return (np.asarray(integers, np.float64) - zero_point) * scale

    def _quantization(self) -> tuple[float, int]:
        if self.scale is None or self.zero_point is None:
            raise OptionError(f"{self.name!r} is {self.dtype} without a single scale: it cannot be quantized")
        return self.scale, self.zero_point


def describe(tensor: Tensor) -> TensorInfo:
    """Return the record of a tensor in the graph."""
    quantization = tensor.quantization
    if quantization is None or len(quantization.scale) != 1 or tensor.dtype in ("float32", "bool"):
        return TensorInfo(tensor.name, tensor.dtype, tensor.shape)
    return TensorInfo(tensor.name, tensor.dtype, tensor.shape, tensor.scale, tensor.zero_point)


def named_arrays(given: object, count: int) -> dict[str, Array]:
    """Return arrays under the names of an archive: a mapping's own, else `input_0`, `input_1`, ...

    `given` is an array for a single input, a sequence of one array per input, or a mapping by name.
    """
    if isinstance(given, Mapping):
        return {str(name): np.asarray(array) for name, array in given.items()}
    arrays: Sequence[Any] = given if isinstance(given, list | tuple) and count != 1 else [given]
    if isinstance(given, list | tuple) and count == 1 and len(given) == 1 and isinstance(given[0], np.ndarray):
        arrays = given
    if len(arrays) != count:
        raise OptionError(f"the network has {count} inputs: expected one array of each, in a list or by name, found "
                          f"{len(arrays)}")
    return {f"input_{position}": np.asarray(array) for position, array in enumerate(arrays)}
