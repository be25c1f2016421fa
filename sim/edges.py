"""Convert a user's arrays to bytes of a program's ports and back; includes the host's quantization at float edges."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.program import Port, Program
from tq_hw.model.errors import OptionError
from tq_hw.sim.golden.arith import dtype_range, round_half_away

__all__ = ["check_inputs", "from_port", "to_port"]

Array = npt.NDArray[Any]


def check_inputs(program: Program, inputs: Sequence[Array]) -> None:
    """Raise OptionError unless there is one array of the right dtype and shape per input."""
    if len(inputs) != len(program.inputs):
        raise OptionError(f"{program.name}: expected {len(program.inputs)} inputs, found {len(inputs)}")
    for position, (port, array) in enumerate(zip(program.inputs, inputs, strict=True)):
        if array.dtype.name != port.model_dtype or array.shape != port.shape:
            raise OptionError(f"{program.name}: input {position} ({port.name!r}) must be {port.model_dtype}"
                              f"{list(port.shape)}, found {array.dtype.name}{list(array.shape)}")


def to_port(port: Port, array: Array) -> bytes:
    """Return the bytes stored at `port`; a float edge quantizes as TFLite's QUANTIZE does."""
    if port.edge == "quantize":
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = round_half_away(array / np.float32(port.scale))
        if not np.all(np.abs(rounded) < 1 << 31):
            raise OptionError(f"input {port.name!r} must be finite and below {port.scale * (1 << 31)} in magnitude")
        low, high = dtype_range(port.dtype)
        array = np.clip(rounded.astype(np.int64) + port.zero_point, low, high)
    return array.astype(np.dtype(port.dtype).newbyteorder("<")).tobytes()


def from_port(port: Port, data: bytes) -> Array:
    """Return the array stored at `port`; a float edge dequantizes as TFLite's DEQUANTIZE does."""
    array = np.frombuffer(data, np.dtype(port.dtype).newbyteorder("<")).reshape(port.shape).astype(port.dtype)
    if port.edge == "dequantize":
        return (port.scale * (array.astype(np.int64) - port.zero_point).astype(np.float64)).astype(np.float32)
    return array
