"""The graph that every other package reads: plain frozen records, TFLite's own words.

A `Model` holds one or more subgraphs; subgraph 0 is what an inference runs. Tensors and operators are
named by their index in the file, so that a message can point at them. Nothing here is mutable: a
pass that changes a graph makes a new one with `dataclasses.replace`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tq_hw.model.errors import OptionError

__all__ = ["PROFILES", "Model", "Operator", "OptionValue", "Quantization", "Signature", "Subgraph", "Tensor"]

#: Whose arithmetic a model is computed in: LiteRT's reference kernels with FULLY_CONNECTED and SUM of TFLite Micro,
#: TFLite Micro's kernels, LiteRT's reference kernels.
PROFILES = ("canon", "tflm", "litert")

OptionValue = int | float | bool | str | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True)
class Quantization:
    """Affine quantization, `real = scale * (q - zero_point)`.

    Members
    -------
    scale : float32 values widened to Python floats, one (per tensor) or one per slice of `dimension`
    zero_point : as many integers as scales
    dimension : axis of the scales; 0 when there is one
    stored_dimension : the one in the file if it differs: of a tensor with a single axis of several elements, or if the
        tensor has no such axis
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    dimension: int = 0
    stored_dimension: int | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False)
class Tensor:
    """One tensor of a subgraph.

    Members
    -------
    index : position in the subgraph's tensor list
    dtype : "int8", "uint8", "int16", "int32", "int64", "float32", "bool", "resource", ...
    shape : dimensions, all >= 0; () for a scalar
    data : constant contents as an array of `shape` (read-only), or None
    shape_signature : `shape` with -1 at dimensions that the file leaves open; () where it leaves none open
    """

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    quantization: Quantization | None = None
    data: np.ndarray | None = None
    is_variable: bool = False
    shape_signature: tuple[int, ...] = ()

    @property
    def scale(self) -> float:
        """The only scale of a per-tensor quantization."""
        if self.quantization is None or len(self.quantization.scale) != 1:
            raise ValueError(f"tensor {self.index} ({self.name}) has no single scale")
        return self.quantization.scale[0]

    @property
    def zero_point(self) -> int:
        """The only zero point of a per-tensor quantization."""
        if self.quantization is None or len(self.quantization.zero_point) != 1:
            raise ValueError(f"tensor {self.index} ({self.name}) has no single zero point")
        return self.quantization.zero_point[0]


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator: TFLite's name, tensor indices (-1 = absent optional input), options by schema name.

    Option names are the schema's (`stride_h`, `dilation_w_factor`, `fused_activation_function`), absent
    ones carry the schema's default, enumerations are their names ("SAME", "RELU6"). `custom_options` are the bytes of
    a custom operator, whose `op` is "CUSTOM:" and its name.
    """

    index: int
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    intermediates: tuple[int, ...] = ()
    version: int = 1
    custom_options: bytes = b""


@dataclass(frozen=True, eq=False)
class Subgraph:
    """Tensors and operators in execution order, with the indices of inputs and outputs.

    Members
    -------
    profile : whose arithmetic the operators have, one of `PROFILES`; a file says nothing of it
    """

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    profile: str = "canon"


@dataclass(frozen=True)
class Signature:
    """A way to run a model by names.

    Members
    -------
    subgraph : number of the one that is run
    inputs, outputs : tensors of that subgraph by the signature's own names
    """

    name: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Model:
    """A whole file. `name` is the file's stem; subgraph 0 is the entry.

    Members
    -------
    signatures : those of the subgraphs that are here, in the file's order
    is_propagated : shapes follow from the inputs' and are not all those of the file, see `rules/propagate.py`
    """

    name: str
    subgraphs: tuple[Subgraph, ...]
    is_propagated: bool = False
    signatures: tuple[Signature, ...] = ()

    @property
    def main(self) -> Subgraph:
        """The subgraph that an inference runs."""
        return self.subgraphs[0]

    @property
    def profile(self) -> str:
        """Whose arithmetic the model is computed in."""
        return self.main.profile

    def under(self, profile: str) -> "Model":
        """Return the model computed in another arithmetic; raise `OptionError` for an unknown one."""
        if profile not in PROFILES:
            raise OptionError(f"profile must be one of {', '.join(PROFILES)}, not {profile!r}")
        return replace(self, subgraphs=tuple(replace(each, profile=profile) for each in self.subgraphs))
