"""The kernel table, and typed access to an operator's tensors and options.

A kernel is a plain function `(op, subgraph, inputs) -> outputs`, registered under TFLite's operator name. Kernels and
parameter functions raise `UnsupportedError` with only the reason; `located` adds the operator and the model.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import ModelError, OptionError, TqError, UnsupportedError
from tq_hw.model.graph import Operator, Subgraph, Tensor
from tq_hw.model.rules.advice import whole_type

__all__ = ["KERNELS", "Array", "Inputs", "Kernel", "bool_option", "float_option", "input_tensor",
           "int_option", "ints_option", "kernel", "located", "narrow", "normalize_axis",
           "output_tensor", "require", "require_dtype", "require_same_quantization", "str_option",
           "value"]

Array = npt.NDArray[Any]
Inputs = Sequence[Array | None]
Kernel = Callable[[Operator, Subgraph, Inputs], list[Array]]

KERNELS: dict[str, Kernel] = {}


def kernel(*names: str) -> Callable[[Kernel], Kernel]:
    """Register the decorated function as the kernel of each operator in `names`."""
    def register(function: Kernel) -> Kernel:
        for name in names:
            if name in KERNELS:
                raise ValueError(f"kernel {name} must be registered once")
            KERNELS[name] = function
        return function
    return register


@contextmanager
def located(op: Operator) -> Iterator[None]:
    """Prefix any `TqError` raised inside with the operator's index and name."""
    prefix = f"operator {op.index} ({op.op}): "
    try:
        yield
    except TqError as error:
        if error.reason.startswith("operator "):
            raise
        raise error.reworded(prefix + error.reason) from error


def require(condition: bool, reason: str) -> None:
    """Raise `UnsupportedError(reason)` unless `condition` holds."""
    if not condition:
        raise UnsupportedError(reason)


def input_tensor(op: Operator, subgraph: Subgraph, position: int) -> Tensor | None:
    """Record of an input, or None when it is absent (-1 or past the end of the list)."""
    if position >= len(op.inputs) or op.inputs[position] < 0:
        return None
    return subgraph.tensors[op.inputs[position]]


def output_tensor(op: Operator, subgraph: Subgraph, position: int = 0) -> Tensor:
    """Record of an output."""
    if position >= len(op.outputs):
        raise ModelError(f"expected at least {position + 1} outputs, found {len(op.outputs)}")
    return subgraph.tensors[op.outputs[position]]


def require_dtype(op: Operator, subgraph: Subgraph, *dtypes: str, position: int = 0) -> Tensor:
    """Record of an input that must exist and have one of `dtypes`."""
    tensor = input_tensor(op, subgraph, position)
    if tensor is None:
        raise ModelError(f"input {position} is missing")
    if tensor.dtype not in dtypes:
        wanted = whole_type(subgraph.tensors) if "int16" in dtypes else "int8"
        raise UnsupportedError(f"input {position} (tensor {tensor.index}, {tensor.name!r}) must be "
                               f"{' or '.join(dtypes)}, not {tensor.dtype}; quantize the model to {wanted}")
    if tensor.dtype in ("int8", "uint8", "int16") and tensor.quantization is None:
        raise ModelError(f"input {position} (tensor {tensor.index}, {tensor.name!r}) has no "
                         "quantization parameters")
    return tensor


def require_same_quantization(op: Operator, subgraph: Subgraph, tolerance: float = 0.0) -> None:
    """Require equal scale (within `tolerance`) and zero point of all quantized inputs and outputs.

    Operators that copy raw bytes need this; LiteRT checks it in `Prepare`.
    """
    output = output_tensor(op, subgraph)
    for position, index in enumerate(op.inputs):
        tensor = subgraph.tensors[index] if index >= 0 else None
        if tensor is None or tensor.dtype != output.dtype or output.quantization is None:
            continue
        if tensor.quantization is None:
            raise ModelError(f"input {position} (tensor {index}) has no quantization parameters")
        if (abs(tensor.scale - output.scale) > tolerance
                or tensor.zero_point != output.zero_point):
            raise UnsupportedError(
                f"inputs and output must share scale and zero point; input {position} has "
                f"{tensor.scale}, {tensor.zero_point}, the output {output.scale}, "
                f"{output.zero_point}; insert QUANTIZE")


def value(inputs: Inputs, position: int) -> Array:
    """Contents of an input that must be present."""
    if position >= len(inputs):
        raise ModelError(f"expected at least {position + 1} inputs, found {len(inputs)}")
    array = inputs[position]
    if array is None:
        raise ModelError(f"input {position} is missing")
    return array


def narrow(x: npt.NDArray[Any], act_min: int, act_max: int, dtype: str = "int8") -> Array:
    """Clamp to `[act_min, act_max]` and convert to `dtype`; the last step of most kernels."""
    result: Array = np.clip(x, act_min, act_max).astype(dtype)
    return result


def normalize_axis(axis: int, rank: int) -> int:
    """Convert a negative axis to 0..rank-1."""
    if not -rank <= axis < rank:
        raise ModelError(f"axis must be in {-rank}..{rank - 1}, not {axis}")
    return axis + rank if axis < 0 else axis


def _option(op: Operator, name: str) -> Any:
    if name not in op.options:
        raise OptionError(f"option {name} is missing from the record")
    return op.options[name]


def int_option(op: Operator, name: str) -> int:
    """Integer option `name`."""
    return int(_option(op, name))


def float_option(op: Operator, name: str) -> float:
    """Float option `name`: a float32 widened to a Python float."""
    return float(_option(op, name))


def bool_option(op: Operator, name: str) -> bool:
    """Boolean option `name`."""
    return bool(_option(op, name))


def str_option(op: Operator, name: str) -> str:
    """Text of enumeration or string option `name`."""
    return str(_option(op, name))


def ints_option(op: Operator, name: str) -> tuple[int, ...]:
    """Integer vector option `name`."""
    return tuple(int(item) for item in _option(op, name))
