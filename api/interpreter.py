"""`Interpreter`: the methods of LiteRT's, so that a script needs to change only one import.

    from tq_hw import Interpreter       # was: from ai_edge_litert.interpreter import Interpreter
    interpreter = Interpreter("model.tflite")
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    scores = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

The accelerated part of the model runs on `device`, the rest in LiteRT. Every number equals that of LiteRT's reference
kernels. Misuse raises ValueError or RuntimeError, as LiteRT does.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tq_hw.accelerators import Accelerator, BoardAccelerator, ExecutorAccelerator, RtlAccelerator
from tq_hw.boards.catalog.catalog import find_board
from tq_hw.boards.link.device import Device
from tq_hw.boards.link.host import Link
from tq_hw.boards.link.port import SerialPort
from tq_hw.isa.config import Config
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.model.errors import ModelError, OptionError, UnsupportedError
from tq_hw.model.graph import Signature
from tq_hw.session import Session
from tq_hw.signature_runner import SignatureRunner
from tq_hw.sim.engines import Array

__all__ = ["BadModelError", "Interpreter"]

#: Arguments of LiteRT that change no number and have no visible effect here.
_WITHOUT_EFFECT = frozenset({
    "experimental_op_resolver_type", "experimental_disable_delegate_clustering",
    "experimental_default_delegate_latest_features", "experimental_compress_quantization_zero_points",
    "experimental_disable_delegate_node_fusion", "experimental_force_delegate_node_profiling"})


class BadModelError(ModelError, ValueError):
    """The file is not a model. Both an error of the command line and the ValueError that LiteRT raises."""


class Interpreter:
    """Runs one model. Like LiteRT's interpreter, it keeps variables from one `invoke` to the next.

    Parameters
    ----------
    model_path, model_content : the model, as a file or as its bytes; the output of `tq-hw compile --partition` is not
        compiled again
    experimental_delegates : must be empty; `device` selects what runs the model
    num_threads : at least 1; accepted for compatibility, the interpreter always uses one thread
    device : "executor" (exact and quick), "rtl" (the Verilated RTL), a serial port of a board or of `tq-hw emulate`, or
        a Device of `tq_hw.boards.link`
    config : of the accelerator; default: the board's, that of a compiled model, or n16
    board : name of the board at `device`
    memory : the memory that the schedule is searched for, also used by the RTL
    experimental : LiteRT's other arguments, accepted without effect. `experimental_preserve_all_tensors` is refused.
        Results are those of the reference kernels with any `experimental_op_resolver_type`

    Raises `TqError` for a model that cannot run (also a ValueError if the file is not a model) or a board that does not
    answer.
    """

    def __init__(self, model_path: str | bytes | os.PathLike[str] | None = None, model_content: bytes | None = None,
                 experimental_delegates: Sequence[object] | None = None, num_threads: int | None = None, *,
                 device: str | Device = "executor", config: str | Config | None = None, board: str | None = None,
                 memory: Memory = YARDSTICK, **experimental: object):
        if bool(model_path) == bool(model_content):
            raise ValueError("Interpreter needs either model_path or model_content, not both")
        _check_arguments(experimental_delegates, num_threads, experimental)
        if not isinstance(config, str | Config | None):
            raise ValueError(f"config is the name of a configuration, a TOML file's or a Config, found {config!r}")
        self._name = _file_name(model_path) if model_path else "model.tflite"
        self._data = bytes(memoryview(model_content)) if model_content else _read(model_path)
        self._memory = memory
        self._serial: SerialPort | None = None
        self._config = find_board(board).config if config is None and board is not None else config
        self._device = self._open(device, board)
        self._main = self._session()
        #: Sessions of signatures that run a subgraph other than the first.
        self._others: dict[str, Session] = {}

    def _open(self, device: str | Device, board: str | None) -> Device | str:
        if isinstance(device, Device) or device in ("executor", "rtl"):
            return device
        if board is None:
            raise OptionError(f"device {device!r} is taken to be a serial port, which needs board, the name of the "
                              'board there; other devices are "executor" and "rtl"')
        self._serial = SerialPort(device, find_board(board).baud)
        return Device(Link(self._serial))

    def _session(self, signature: str = "") -> Session:
        if isinstance(self._device, Device):
            accelerator: Accelerator = BoardAccelerator(self._device)
        else:
            accelerator = ExecutorAccelerator() if self._device == "executor" else RtlAccelerator(self._memory)
        try:
            return Session(self._data, self._name, accelerator, self._config, self._memory, signature)
        except ModelError as error:
            raise BadModelError(str(error)) from error

    @property
    def host_seconds(self) -> float:
        """Wall time of the host's operators in the last `invoke`."""
        return self._main.host_seconds

    @property
    def crossing_bytes(self) -> int:
        """Bytes between host and accelerator in the last `invoke`."""
        return self._main.crossing_bytes

    def close(self) -> None:
        """Close the serial port, if one is open."""
        if self._serial is not None:
            self._serial.close()

    def allocate_tensors(self) -> None:
        """Compile the model for the current input shapes, unless that is done, and clear its variables."""
        self._main.allocate()

    def get_input_details(self) -> list[dict[str, Any]]:
        """Return a record per input: name, index, shape, shape_signature, dtype, quantization, ..."""
        return self._main.details(self._main.source.main.inputs)

    def get_output_details(self) -> list[dict[str, Any]]:
        """Return a record per output."""
        return self._main.details(self._main.source.main.outputs)

    def num_subgraphs(self) -> int:
        """Return the number of subgraphs in the file."""
        return len(self._main.stored.subgraphs)

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """Return a record per tensor of a subgraph."""
        if not 0 <= subgraph_index < self.num_subgraphs():
            raise ValueError(f"subgraph_index is out of range: {subgraph_index} for the model, which has "
                             f"{self.num_subgraphs()} subgraphs.")
        return self._main.details(subgraph=subgraph_index)

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Change the shape of an input whose shape the model leaves open. Call `allocate_tensors` afterwards.

        ValueError if the tensor is not an input, or the model fixes the dimension, also without `strict`: with
        another size there it would be another model.
        """
        self._main.resize(input_index, tensor_size)

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy an array into an input; ValueError if its type or shape differs from the input's."""
        self._main.set(tensor_index, value)

    def invoke(self) -> None:
        """Run one inference on the current inputs."""
        self._main.invoke()

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """Return a copy of an input, output or constant; ValueError for others, which a part may not produce."""
        if subgraph_index:
            raise ValueError(f"tensors of subgraph {subgraph_index} cannot be looked at")
        return self._main.held(tensor_index).copy()

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """Return a function that returns an input's array, to be written in place, or an output's after `invoke`."""
        return lambda: self._main.held(tensor_index)

    def reset_all_variables(self) -> None:
        """Restore the initial state. This includes resource variables, which LiteRT keeps."""
        for session in (self._main, *self._others.values()):
            session.reset()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Return the input and output names of each signature, by signature name."""
        return {each.name: {"inputs": sorted(each.inputs), "outputs": sorted(each.outputs)}
                for each in self._signatures}

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """Return a runner that takes a signature's inputs by name. The key may be omitted if there is only one.

        ValueError for an unknown signature. `UnsupportedError` if several subgraphs use resource variables: here each
        would have its own copy of them.
        """
        if signature_key is None and len(self._signatures) != 1:
            raise ValueError(f"SignatureDef signature_key is None and model has {len(self._signatures)} Signatures. "
                             "None is only allowed when the model has 1 SignatureDef")
        named = {each.name: each for each in self._signatures}
        key = next(iter(named)) if signature_key is None else signature_key
        if key not in named:
            raise ValueError(f'Invalid signature_key provided: "{key}".')
        if named[key].subgraph == 0:
            return SignatureRunner(self._main, named[key])
        if key not in self._others:
            self._check_resources(named[key])
            self._others[key] = self._session(key)
        return SignatureRunner(self._others[key], named[key])

    @property
    def _signatures(self) -> tuple[Signature, ...]:
        return self._main.stored.signatures

    def _check_resources(self, wanted: Signature) -> None:
        """Raise `UnsupportedError` if this signature's subgraph shares resource variables with another one's."""
        stored = self._main.stored
        using = {each.name: each.subgraph for each in self._signatures
                 if any(op.op == "VAR_HANDLE" for op in stored.subgraphs[each.subgraph].operators)}
        if wanted.name in using and (others := [name for name, subgraph in using.items()
                                                if subgraph != wanted.subgraph]):
            raise UnsupportedError(f"{self._name}: signatures {wanted.name!r} and {others[0]!r} both use resource "
                                   "variables in subgraphs of their own: each would keep its own copy")


def _check_arguments(delegates: Sequence[object] | None, threads: object, experimental: Mapping[str, object]) -> None:
    """Raise for what is not supported; TypeError for an argument that LiteRT's interpreter does not have either."""
    if delegates:
        raise ValueError("experimental_delegates are LiteRT's only: device says what runs the model")
    if threads is not None and not isinstance(threads, int):
        raise ValueError("type of num_threads should be int")
    if threads is not None and threads < 1:
        raise ValueError("num_threads should >= 1")
    for name, value in experimental.items():
        if name == "experimental_preserve_all_tensors":
            if value:
                raise ValueError(f"{name}: tensors other than inputs, outputs and constants cannot be looked at")
        elif name not in _WITHOUT_EFFECT:
            raise TypeError(f"Interpreter.__init__() got an unexpected keyword argument {name!r}")


def _file_name(path: str | bytes | os.PathLike[str]) -> str:
    """Return the file's base name for messages. Bytes that are not UTF-8 are escaped."""
    return os.path.basename(os.fsencode(path)).decode("utf-8", "backslashreplace")


def _read(path: str | bytes | os.PathLike[str] | None) -> bytes:
    assert path is not None
    try:
        return Path(os.fsdecode(path)).read_bytes()
    except OSError as error:
        raise ValueError(f"{os.fsdecode(path)}: cannot read the file: {error.strerror or error}") from error
