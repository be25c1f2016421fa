"""Public TFLite engines to hold results against: LiteRT and TFLite Micro, each in a process of its own.

The engines abort the whole process on some models (a CHECK in C++), so they run in a worker. Both come
as wheels that the product does not need: `pip install "tq-hw[oracles]"`.

`run_litert` and `run_tflm` run one inference; an `Oracle` keeps its process for many models and input sets.
"""

import contextlib
import importlib
import importlib.util
import io
import os
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import MissingToolError, OptionError, ToolError

__all__ = ["ENGINES", "Oracle", "available", "run_litert", "run_tflm"]

Array = npt.NDArray[Any]
ModelSource = str | os.PathLike[str] | bytes

#: Engine name -> (package, module to import, LiteRT's op resolver or "").
ENGINES = {
    "litert-ref": ("ai-edge-litert", "ai_edge_litert.interpreter", "BUILTIN_REF"),
    "litert-opt": ("ai-edge-litert", "ai_edge_litert.interpreter", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"),
    "litert-xnn": ("ai-edge-litert", "ai_edge_litert.interpreter", "AUTO"),
    "tflm": ("tflite-micro", "tflite_micro.python.tflite_micro.runtime", ""),
}

_ARENA_BYTES = 64 << 20


def available(engine: str) -> bool:
    """Whether the engine's wheel is installed."""
    return importlib.util.find_spec(ENGINES[engine][1].partition(".")[0]) is not None


def run_litert(model: ModelSource, inputs: Sequence[Array], kind: str = "ref") -> tuple[Array, ...]:
    """Run one inference by LiteRT from the initial state.

    Parameters
    ----------
    model : path or contents of a `.tflite` file
    inputs : one array per model input
    kind : "ref" = reference kernels (BUILTIN_REF), "opt" = optimized kernels, "xnn" = XNNPACK,
        LiteRT's default

    Raises `MissingToolError` without the wheel, `ToolError` when the engine refuses or aborts.
    """
    with Oracle(f"litert-{kind}") as oracle:
        return oracle.run(model, inputs)


def run_tflm(model: ModelSource, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Run one inference by TFLite Micro from the initial state; errors as `run_litert`."""
    with Oracle("tflm") as oracle:
        return oracle.run(model, inputs)


class Oracle:
    """One engine in a worker process, which is replaced when the engine takes it down.

    Parameters
    ----------
    engine : a key of `ENGINES`
    timeout_seconds : limit for one call of `run` or `run_sets`

    Raises `OptionError` for an unknown engine, `MissingToolError` when its wheel is not installed.
    """

    def __init__(self, engine: str, timeout_seconds: float = 300.0):
        if engine not in ENGINES:
            raise OptionError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
        if not available(engine):
            raise MissingToolError(f"{ENGINES[engine][0]} is not installed; run: "
                                   'pip install "tq-hw[oracles]"')
        self.engine = engine
        self.timeout_seconds = timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None
        # A file cannot fill up as a pipe does when the engine is talkative.
        self._messages, path = tempfile.mkstemp(prefix="tq-hw-oracle-")
        os.unlink(path)

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the worker process; the object is of no use afterwards."""
        self._stop()
        os.close(self._messages)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            # What is left of a request cannot be written any more.
            with contextlib.suppress(BrokenPipeError), process:
                process.wait()

    def _last_message(self) -> str:
        """Return the last lines that the engine printed since the request."""
        size_bytes = os.lseek(self._messages, 0, os.SEEK_END)
        text = os.pread(self._messages, size_bytes, 0).decode(errors="replace")
        lines = text.strip().splitlines()
        return _shorten(" | ".join(lines[-3:])) or "no message"

    def run(self, model: ModelSource, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Run one inference from the initial state and return its outputs."""
        return self.run_sets(model, [inputs])[0]

    def run_sets(self, model: ModelSource, sets: Sequence[Sequence[Array]],
                 reset: bool = True) -> list[tuple[Array, ...]]:
        """Run several inferences and return the outputs of each.

        `reset` starts each one from the initial state; without it they are consecutive inferences of
        one interpreter. Raises `ToolError` when the engine refuses the model, aborts or takes longer
        than the limit.
        """
        contents = model if isinstance(model, bytes) else Path(model).read_bytes()
        arrays = {f"{number}_{position}": array for number, inputs in enumerate(sets)
                  for position, array in enumerate(inputs)}
        arrays["model"] = np.frombuffer(contents, np.uint8)
        arrays["counts"] = np.array([len(inputs) for inputs in sets] + [int(reset)])
        reply = self._exchange(_pack(arrays))
        if "error" in reply:
            raise ToolError(f"{self.engine} refused the model: {_shorten(str(reply['error']))} "
                            f"({self._last_message()})")
        outputs = []
        for number in range(len(sets)):
            count = int(reply[f"{number}_count"])
            outputs.append(tuple(reply[f"{number}_{position}"] for position in range(count)))
        return outputs

    def _exchange(self, request: bytes) -> dict[str, Array]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen([sys.executable, "-m", "tq_hw.sim.oracles", self.engine],
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=self._messages)
        process = self._process
        assert process.stdin is not None
        os.ftruncate(self._messages, 0)
        os.lseek(self._messages, 0, os.SEEK_SET)
        try:
            process.stdin.write(struct.pack("<Q", len(request)) + request)
            process.stdin.flush()
            deadline = time.monotonic() + self.timeout_seconds
            size = struct.unpack("<Q", self._read(process, 8, deadline))[0]
            return _unpack(self._read(process, size, deadline))
        except (EOFError, OSError) as error:
            code = process.wait()
            self._stop()
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise ToolError(f"{self.engine} {how}: {self._last_message()}") from error

    def _read(self, process: subprocess.Popen[bytes], size: int, deadline: float) -> bytes:
        """Read `size` bytes of the worker's answer before `deadline`."""
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        parts = bytearray()
        while len(parts) < size:
            ready, _, _ = select.select([descriptor], [], [], max(deadline - time.monotonic(), 0.0))
            if not ready:
                self._stop()
                raise ToolError(f"{self.engine} took longer than {self.timeout_seconds:g} s; "
                                "give it more time or a smaller model")
            part = os.read(descriptor, size - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)


def _shorten(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}..."


def _pack(arrays: dict[str, Array]) -> bytes:
    stream = io.BytesIO()
    members: dict[str, Any] = dict(arrays)
    np.savez(stream, **members)
    return stream.getvalue()


def _unpack(data: bytes) -> dict[str, Array]:
    with np.load(io.BytesIO(data)) as archive:
        return dict(archive)


class _LiteRt:
    """One LiteRT interpreter."""

    def __init__(self, engine: str, model: bytes):
        module = importlib.import_module(ENGINES[engine][1])
        resolver = getattr(module.OpResolverType, ENGINES[engine][2])
        self.interpreter = module.Interpreter(model_content=model,
                                              experimental_op_resolver_type=resolver, num_threads=1)
        self.is_allocated = False

    def infer(self, inputs: list[Array]) -> list[Array]:
        if not self.is_allocated:
            # Only dimensions that the file leaves open can have another size.
            for detail, array in zip(self.interpreter.get_input_details(), inputs, strict=True):
                if tuple(detail["shape"]) != array.shape:
                    self.interpreter.resize_tensor_input(detail["index"], array.shape, strict=True)
            self.interpreter.allocate_tensors()
            self.is_allocated = True
        for detail, array in zip(self.interpreter.get_input_details(), inputs, strict=True):
            self.interpreter.set_tensor(detail["index"], array)
        self.interpreter.invoke()
        return [self.interpreter.get_tensor(detail["index"])
                for detail in self.interpreter.get_output_details()]


class _Tflm:
    """One TFLite Micro interpreter."""

    def __init__(self, engine: str, model: bytes):
        module = importlib.import_module(ENGINES[engine][1])
        self.interpreter = module.Interpreter.from_bytes(model, arena_size=_ARENA_BYTES)
        schema = importlib.import_module(
            "tflite_micro.tensorflow.lite.micro.python.schema_py_generated")
        self.output_count = schema.Model.GetRootAs(model, 0).Subgraphs(0).OutputsLength()

    def infer(self, inputs: list[Array]) -> list[Array]:
        for position, array in enumerate(inputs):
            self.interpreter.set_input(array, position)
        self.interpreter.invoke()
        return [np.array(self.interpreter.get_output(position))
                for position in range(self.output_count)]


def _answer(engine: str, request: dict[str, Array]) -> dict[str, Array]:
    model = request["model"].tobytes()
    *counts, reset = request["counts"].tolist()
    create = _Tflm if engine == "tflm" else _LiteRt
    answer: dict[str, Array] = {}
    try:
        interpreter: _Tflm | _LiteRt | None = None
        for number, count in enumerate(counts):
            if interpreter is None or reset:
                interpreter = create(engine, model)
            outputs = interpreter.infer([request[f"{number}_{position}"]
                                         for position in range(count)])
            answer[f"{number}_count"] = np.array(len(outputs))
            answer |= {f"{number}_{position}": array for position, array in enumerate(outputs)}
    except (RuntimeError, ValueError, SystemError) as error:
        return {"error": np.array(" ".join(str(error).split()))}
    return answer


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise SystemExit(0)
    return data


def _serve(engine: str) -> None:
    """Answer requests on standard input until it closes; the engines' own output goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        size = struct.unpack("<Q", _read_exactly(sys.stdin.buffer, 8))[0]
        reply = _pack(_answer(engine, _unpack(_read_exactly(sys.stdin.buffer, size))))
        answers.write(struct.pack("<Q", len(reply)) + reply)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
