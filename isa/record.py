"""The contents of a compiled model: regions, commands, inputs and outputs, layers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tq_hw.isa.config import Config

__all__ = ["ALIGN_BYTES", "REGION_ARENA", "REGION_IMAGE", "REGION_STATE", "Layer", "Port", "Record"]

REGION_IMAGE, REGION_ARENA, REGION_STATE = 0, 1, 2

#: Alignment of sections of a file, constants and tensors.
ALIGN_BYTES = 16


@dataclass(frozen=True)
class Port:
    """One input or output tensor, dense and in row-major order in its region.

    Members
    -------
    dtype : element type as stored; a key of `DTYPES`
    scale, zero_point : quantization of the stored values; 0.0 and 0 when there is none
    edge : "none"; "quantize": the model's tensor is float32 and the host makes `dtype` of it before the
        run; "dequantize": the host makes float32 of it after the run
    region : 1 (arena) as a rule, 0 for an output that is a constant, 2 for a state
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    region_offset_bytes: int
    size_bytes: int
    edge: str = "none"
    region: int = REGION_ARENA

    @property
    def model_dtype(self) -> str:
        """Element type of the model's tensor, which a user gives or gets."""
        return self.dtype if self.edge == "none" else "float32"


@dataclass(frozen=True)
class Layer:
    """One operator as the compiler placed it, and its share of each unit's RUN commands.

    Members
    -------
    index, op, name : the operator's index in the model, TFLite's operator name, its output tensor's name
    unit : what computes it: "array", "vector", "load" or "store" (moves), "none" (no command), "host" (float edges)
    bound : what limits it: "compute", "weights", "activations", "vector"
    runs : per unit name ("load", "array", "vector", "store"), ranges (first, last) of RUN indices, both included
    """

    index: int
    op: str
    name: str
    unit: str
    macs: int = 0
    estimated_cycles: int = 0
    bytes_moved: int = 0
    bound: str = ""
    runs: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """One compiled model as it is handed over, unchecked: `isa.program.Program` is a record that keeps the rules.

    Members
    -------
    name : the model's name
    image : region 0: constants, parameters, weights and the commands
    command_offset, command_bytes : where the commands lie in `image`; multiples of 16 and 4
    arena_bytes : size of region 1
    state : first contents of region 2
    meta : anything else that the compiler wants to keep, JSON values by name
    profile : whose arithmetic it computes: "canon", "tflm" or "litert"
    """

    name: str
    config: Config
    image: bytes
    command_offset: int
    command_bytes: int
    arena_bytes: int
    state: bytes = b""
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    layers: tuple[Layer, ...] = ()
    meta: Mapping[str, object] = field(default_factory=dict)
    profile: str = "canon"

    def region_bytes(self, region: int) -> int:
        """Size of region 0, 1 or 2."""
        return (len(self.image), self.arena_bytes, len(self.state))[region]
