"""One subgraph of a model, as `Interpreter` runs it: its parts, its tensors, and their contents."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tq_hw.accelerators import Accelerator
from tq_hw.cli.subject import DEFAULT_CONFIG
from tq_hw.compiler.partition import partition
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model, Quantization, Tensor
from tq_hw.model.mixed import is_mixed
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import Array
from tq_hw.sim.mixed import AcceleratedPart, HostPart, HostRunner, common_config, run_parts, split

__all__ = ["Session"]

#: Numpy types in the records of details, by dtype.
_TYPES = {"bool": np.bool_, "float32": np.float32, "int8": np.int8, "uint8": np.uint8, "int16": np.int16,
          "int32": np.int32, "int64": np.int64, "float16": np.float16, "float64": np.float64, "uint16": np.uint16,
          "uint32": np.uint32, "uint64": np.uint64}


_NOT_ALLOCATED = "call allocate_tensors first, and again after resize_tensor_input"


class Session:
    """Runs one subgraph.

    Parameters
    ----------
    data, name : the file's contents and name
    accelerator : used by this session only
    config, memory : that the subgraph is compiled for
    signature : selects the subgraph; "" for the first one

    Attributes
    ----------
    host_seconds, crossing_bytes : of the last inference: wall time of the host's operators, and bytes between host and
        accelerator
    """

    def __init__(self, data: bytes, name: str, accelerator: Accelerator, config: str | Config | None, memory: Memory,
                 signature: str = ""):
        self._data, self._name, self._signature = data, name, signature
        self._accelerator, self._config, self._memory = accelerator, config, memory
        self._shapes = dict[str, tuple[int, ...]]()
        self.stored = parse_model(data, name, check=False, shapes=InputShapes(signature=signature))
        self.source = parse_model(data, name, rules=False, shapes=InputShapes(signature=signature))
        self._model: Model = self.source
        self._parts: list[AcceleratedPart | HostPart] | None = None
        self._hosts: list[HostRunner] = []
        self._values: dict[int, Array] = {}
        self.host_seconds, self.crossing_bytes = 0.0, 0

    def allocate(self) -> None:
        """Compile for the current input shapes, unless that is done, and clear variables."""
        if self._parts is None:
            self.source = parse_model(self._data, self._name, rules=False,
                                      shapes=InputShapes(named=self._shapes, signature=self._signature))
            model = self.source
            if not is_mixed(model):
                model = partition(model, self._chosen(), self._memory).model
            parts = split(model)
            self._check_config(parts)
            self._accelerator.open([part.program for part in parts if isinstance(part, AcceleratedPart)])
            self._hosts = [HostRunner(part) for part in parts if isinstance(part, HostPart)]
            self._model, self._parts = model, parts
        self.reset()
        main = self._model.main
        self._values = {index: np.zeros(main.tensors[index].shape, main.tensors[index].dtype)
                        for index in main.inputs} | self._values

    @property
    def is_allocated(self) -> bool:
        """Whether the subgraph is compiled for the current input shapes."""
        return self._parts is not None

    def details(self, indices: Iterable[int] | None = None, subgraph: int = 0) -> list[dict[str, Any]]:
        """Return a record per tensor, by default of all. Subgraphs other than the first are described as stored."""
        if subgraph:
            return [_detail(tensor, _signature(tensor)) for tensor in self.stored.subgraphs[subgraph].tensors]
        wanted = range(len(self.source.main.tensors)) if indices is None else indices
        return [_detail(self._resized(self.source.main.tensors[index]), _signature(self.stored.main.tensors[index]))
                for index in wanted]

    def _resized(self, tensor: Tensor) -> Tensor:
        """Return a tensor's record with the requested shape, which `allocate` may not have applied yet."""
        asked = self._shapes.get(tensor.name) if tensor.index in self.source.main.inputs else None
        return tensor if asked is None else replace(tensor, shape=asked)

    def resize(self, index: int, size: Sequence[int]) -> None:
        """Change an input's shape; ValueError if it is not an input, a dimension is fixed, or a size is below 1."""
        tensor = self._input(index)
        wanted = tuple(int(each) for each in size)
        signature = _signature(self.stored.main.tensors[index])
        if len(wanted) != len(signature) or min(wanted, default=1) < 1 or any(
                old not in (-1, new) for old, new in zip(signature, wanted, strict=True)):
            raise ValueError(f"input {index} ({tensor.name!r}) has shape {list(signature)}, where -1 is open: it "
                             f"cannot be resized to {list(wanted)}")
        if wanted == self._shapes.get(tensor.name, tensor.shape):
            return
        self._shapes[tensor.name] = wanted
        self._parts = None
        self._values = {}

    def set(self, index: int, value: Any) -> None:
        """Copy an array into an input; ValueError if its type or shape differs from the input's."""
        tensor, array = self._input(index), np.asarray(value)
        if array.dtype != tensor.dtype:
            raise ValueError(f"Cannot set tensor: Got value of type {array.dtype} but expected type {tensor.dtype} for "
                             f"input {index}, name: {tensor.name}")
        if array.shape != tensor.shape:
            raise ValueError(f"Cannot set tensor: Got value of shape {list(array.shape)} but expected "
                             f"{list(tensor.shape)} for input {index}, name: {tensor.name}")
        self._allocated()
        self._values[index] = array.copy()

    def invoke(self) -> None:
        """Run one inference on the current inputs."""
        parts = self._ready()
        main = self._model.main
        inputs = tuple(self._values[index] for index in main.inputs)
        outputs, self.host_seconds, self.crossing_bytes = run_parts(
            self._model, parts, self._hosts, inputs, lambda part, given: self._accelerator.run(part.program, given))
        self._values |= dict(zip(main.outputs, outputs, strict=True))

    def held(self, index: int) -> Array:
        """Return the value of an input, output or constant; ValueError for others, which a part may not produce."""
        self._allocated()
        main = self.source.main
        if index not in (*main.inputs, *main.outputs):
            tensors = self.stored.main.tensors
            constant = tensors[index] if index in range(len(tensors)) else None
            if constant is None or constant.data is None or constant.dtype not in _TYPES:
                raise ValueError(f"tensor {index} is neither an input nor an output of the model, nor a constant")
            return constant.data
        if index not in self._values:
            raise ValueError(f"output {index} holds nothing before invoke")
        return self._values[index]

    def reset(self) -> None:
        """Restore the initial state."""
        self._accelerator.reset()
        for host in self._hosts:
            host.reset()

    def _ready(self) -> list[AcceleratedPart | HostPart]:
        if self._parts is None:
            raise RuntimeError(_NOT_ALLOCATED)
        return self._parts

    def _allocated(self) -> None:
        """Raise LiteRT's error for tensors without memory."""
        if self._parts is None:
            raise ValueError(_NOT_ALLOCATED)

    def _chosen(self) -> Config:
        return self._config if isinstance(self._config, Config) else load_config(self._config or DEFAULT_CONFIG)

    def _check_config(self, parts: Iterable[AcceleratedPart | HostPart]) -> None:
        """Raise ValueError if the parts are for several configurations, or not for the requested one."""
        try:
            common_config(parts, None if self._config is None else self._chosen(), "config")
        except OptionError as error:
            raise ValueError(f"{self._name}: {error}") from None

    def _input(self, index: int) -> Tensor:
        if index not in self.source.main.inputs:
            raise ValueError(f"tensor {index} is not an input of the model; inputs are {list(self.source.main.inputs)}")
        return self.source.main.tensors[index]


def _signature(tensor: Tensor) -> tuple[int, ...]:
    """Return a tensor's shape as stored in the file, with -1 for open dimensions."""
    return tensor.shape_signature or tensor.shape


def _detail(tensor: Tensor, signature: tuple[int, ...]) -> dict[str, Any]:
    """Return a tensor's record with LiteRT's keys."""
    quantization = tensor.quantization or Quantization((), ())
    scales, zero_points = quantization.scale, quantization.zero_point
    return {
        "name": tensor.name, "index": tensor.index, "shape": np.array(tensor.shape, np.int32),
        "shape_signature": np.array(signature, np.int32),
        "dtype": _TYPES.get(tensor.dtype, np.object_),
        "quantization": (float(scales[0]), int(zero_points[0])) if len(scales) == 1 else (0.0, 0),
        "quantization_parameters": {
            "scales": np.array(scales, np.float32), "zero_points": np.array(zero_points, np.int32),
            "quantized_dimension": quantization.dimension, "block_size": 0},
        "sparsity_parameters": {}}
