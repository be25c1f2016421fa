"""`Interpreter`: the methods of LiteRT's, so that a script changes one import.

    from tq_hw import Interpreter       # was: from ai_edge_litert.interpreter import Interpreter
    interpreter = Interpreter("model.tflite")
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    scores = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

What the accelerator takes of the model runs on `device`, the rest in LiteRT. Every number equals that of LiteRT's
reference kernels. Misuse raises ValueError or RuntimeError, as LiteRT does.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tq_hw.accelerators import Accelerator, BoardAccelerator, ExecutorAccelerator, RtlAccelerator
from tq_hw.boards.catalog.catalog import find_board
from tq_hw.boards.link.device import Device
from tq_hw.boards.link.host import Link, SerialPort
from tq_hw.cli.subject import DEFAULT_CONFIG
from tq_hw.compiler.partition import partition
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model, Tensor
from tq_hw.model.mixed import is_mixed
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import Array
from tq_hw.sim.mixed import AcceleratedPart, HostPart, HostRunner, run_parts, split

__all__ = ["Interpreter"]

#: What details say of a tensor's type.
_TYPES = {"bool": np.bool_, "float32": np.float32, "int8": np.int8, "uint8": np.uint8, "int16": np.int16,
          "int32": np.int32, "int64": np.int64, "float16": np.float16, "float64": np.float64, "uint16": np.uint16,
          "uint32": np.uint32, "uint64": np.uint64}


class Interpreter:
    """Runs one model; like LiteRT's, it keeps variables from one `invoke` to the next.

    Parameters
    ----------
    model_path, model_content : the model, as a file or as its bytes; one that `tq-hw compile --partition` wrote is not
        compiled again
    num_threads : accepted for scripts that name it; there is one
    device : "executor" (exact and quick), "rtl" (the Verilated RTL), a serial port of a board or of `tq-hw emulate`, or
        a Device of `tq_hw.boards.link`
    config : of the accelerator, by default the board's, that of a compiled model, or n16
    board : name of the board at `device`
    memory : that the schedule is searched for, and that the RTL sees

    Raises `TqError` for a model that cannot be run, or a board that does not answer.
    """

    def __init__(self, model_path: str | os.PathLike[str] | None = None, model_content: bytes | None = None,
                 num_threads: int | None = None, *, device: str | Device = "executor",
                 config: str | Config | None = None, board: str | None = None, memory: Memory = YARDSTICK):
        if (model_path is None) == (model_content is None):
            raise ValueError("Interpreter needs model_path or model_content, and not both")
        self._name = "model.tflite" if model_path is None else Path(model_path).name
        self._data = bytes(model_content) if model_content is not None else _read(model_path)
        self._memory, self._shapes = memory, dict[str, tuple[int, ...]]()
        self._serial: SerialPort | None = None
        self._config = find_board(board).config if config is None and board is not None else config
        self._accelerator = self._open(device, board)
        self._stored = parse_model(self._data, self._name, check=False)
        self._source = parse_model(self._data, self._name, rules=False)
        self._model: Model = self._source
        self._parts: list[AcceleratedPart | HostPart] | None = None
        self._hosts: list[HostRunner] = []
        self._values: dict[int, Array] = {}
        self.host_seconds, self.crossing_bytes = 0.0, 0

    def _open(self, device: str | Device, board: str | None) -> Accelerator:
        if isinstance(device, Device):
            return BoardAccelerator(device)
        if device in ("executor", "rtl"):
            return ExecutorAccelerator() if device == "executor" else RtlAccelerator(self._memory)
        if board is None:
            raise OptionError(f"device {device!r} is taken for a serial port, which needs board, the name of the board "
                              'there; other devices are "executor" and "rtl"')
        self._serial = SerialPort(device, find_board(board).baud)
        return BoardAccelerator(Device(Link(self._serial)))

    def close(self) -> None:
        """Close the serial port, if there is one."""
        if self._serial is not None:
            self._serial.close()

    def allocate_tensors(self) -> None:
        """Compile the model for the shapes of its inputs, where that is not done, and clear variables."""
        if self._parts is None:
            self._source = parse_model(self._data, self._name, rules=False, shapes=InputShapes(named=self._shapes))
            model = self._source
            if not is_mixed(model):
                chosen = self._config if isinstance(self._config, Config) else load_config(
                    self._config or DEFAULT_CONFIG)
                model = partition(model, chosen, self._memory).model
            parts = split(model)
            self._accelerator.open([part.program for part in parts if isinstance(part, AcceleratedPart)])
            self._hosts = [HostRunner(part) for part in parts if isinstance(part, HostPart)]
            self._model, self._parts = model, parts
        self.reset_all_variables()
        main = self._model.main
        self._values = {index: np.zeros(main.tensors[index].shape, main.tensors[index].dtype)
                        for index in main.inputs} | self._values

    def get_input_details(self) -> list[dict[str, Any]]:
        """Return a record per input: name, index, shape, shape_signature, dtype, quantization, ..."""
        return self._details(self._source.main.inputs)

    def get_output_details(self) -> list[dict[str, Any]]:
        """Return a record per output."""
        return self._details(self._source.main.outputs)

    def get_tensor_details(self) -> list[dict[str, Any]]:
        """Return a record per tensor of the model."""
        return self._details(range(len(self._source.main.tensors)))

    def _details(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        return [_detail(self._source.main.tensors[index], _signature(self._stored.main.tensors[index]))
                for index in indices]

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Give an input another shape, where the model leaves it open; `allocate_tensors` has to follow.

        ValueError for what is no input, or a dimension that the model fixes, also without `strict`: the model would
        be another one.
        """
        tensor = self._input(input_index)
        size = tuple(int(each) for each in tensor_size)
        signature = _signature(self._stored.main.tensors[input_index])
        if len(size) != len(signature) or any(old not in (-1, new) for old, new in zip(signature, size, strict=True)):
            raise ValueError(f"input {input_index} ({tensor.name!r}) has shape {list(signature)}, where -1 is open: it "
                             f"cannot be resized to {list(size)}")
        self._shapes[tensor.name] = size
        self._parts = None
        self._values = {}

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy an array into an input; ValueError unless it has the input's type and shape."""
        tensor, array = self._input(tensor_index), np.asarray(value)
        if array.dtype != tensor.dtype:
            raise ValueError(f"Cannot set tensor: Got value of type {array.dtype} but expected type {tensor.dtype} for "
                             f"input {tensor_index}, name: {tensor.name}")
        if array.shape != tensor.shape:
            raise ValueError(f"Cannot set tensor: Got value of shape {list(array.shape)} but expected "
                             f"{list(tensor.shape)} for input {tensor_index}, name: {tensor.name}")
        self._ready()
        self._values[tensor_index] = array.copy()

    def invoke(self) -> None:
        """Run one inference on what the inputs hold."""
        parts = self._ready()
        main = self._model.main
        inputs = tuple(self._values[index] for index in main.inputs)
        outputs, self.host_seconds, self.crossing_bytes = run_parts(
            self._model, parts, self._hosts, inputs, lambda part, given: self._accelerator.run(part.program, given))
        self._values |= dict(zip(main.outputs, outputs, strict=True))

    def get_tensor(self, tensor_index: int) -> Array:
        """Return a copy of an input or output; ValueError for others, which an accelerated part may never make."""
        self._ready()
        return self._held(tensor_index).copy()

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """Return a function that gives an input's array, to be written in place, or an output's after `invoke`."""
        def view() -> Array:
            self._ready()
            return self._held(tensor_index)
        return view

    def reset_all_variables(self) -> None:
        """Go back to the initial state."""
        self._accelerator.reset()
        for host in self._hosts:
            host.reset()

    def _ready(self) -> list[AcceleratedPart | HostPart]:
        if self._parts is None:
            raise RuntimeError("call allocate_tensors first, and again after resize_tensor_input")
        return self._parts

    def _input(self, index: int) -> Tensor:
        if index not in self._source.main.inputs:
            raise ValueError(f"tensor {index} is no input of the model; inputs are {list(self._source.main.inputs)}")
        return self._source.main.tensors[index]

    def _held(self, index: int) -> Array:
        main = self._source.main
        if index not in (*main.inputs, *main.outputs):
            raise ValueError(f"tensor {index} is neither an input nor an output of the model")
        if index not in self._values:
            raise ValueError(f"output {index} holds nothing before invoke")
        return self._values[index]


def _read(path: str | os.PathLike[str] | None) -> bytes:
    assert path is not None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{os.fspath(path)}: cannot read the file: {error.strerror or error}") from error


def _signature(tensor: Tensor) -> tuple[int, ...]:
    """Return a tensor's shape as the file has it, with -1 at open dimensions."""
    return tensor.shape_signature or tensor.shape


def _detail(tensor: Tensor, signature: tuple[int, ...]) -> dict[str, Any]:
    """Return what LiteRT says of a tensor, with the same keys."""
    quantization = tensor.quantization
    scales = quantization.scale if quantization is not None else ()
    zero_points = quantization.zero_point if quantization is not None else ()
    single = len(scales) == 1
    return {
        "name": tensor.name, "index": tensor.index, "shape": np.array(tensor.shape, np.int32),
        "shape_signature": np.array(signature, np.int32),
        "dtype": _TYPES.get(tensor.dtype, np.object_),
        "quantization": (float(scales[0]), int(zero_points[0])) if single else (0.0, 0),
        "quantization_parameters": {
            "scales": np.array(scales, np.float32), "zero_points": np.array(zero_points, np.int32),
            "quantized_dimension": quantization.dimension if quantization is not None else 0, "block_size": 0},
        "sparsity_parameters": {}}

