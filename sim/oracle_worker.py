"""Worker process of a public engine: it answers requests of `oracles.py` on its standard input."""

import importlib
import io
import os
import re
import struct
import sys
import time
from collections.abc import Callable
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tq_hw.model.tflite.versions import with_version

__all__ = ["ENGINES", "pack", "unpack"]

Array = npt.NDArray[Any]

#: By engine name: package, module to import, LiteRT's op resolver or "".
ENGINES = {
    "litert-ref": ("ai-edge-litert", "ai_edge_litert.interpreter", "BUILTIN_REF"),
    "litert-opt": ("ai-edge-litert", "ai_edge_litert.interpreter", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"),
    "litert-xnn": ("ai-edge-litert", "ai_edge_litert.interpreter", "AUTO"),
    "tflm": ("tflite-micro", "tflite_micro.python.tflite_micro.runtime", ""),
}

_ARENA_BYTES = 64 << 20
#: The resolver with every version that the package's kernels support.
_ALL_VERSIONS = "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
_NO_VERSION = re.compile(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'")


def pack(arrays: dict[str, Array]) -> bytes:
    """Return named arrays as bytes."""
    stream = io.BytesIO()
    members: dict[str, Any] = dict(arrays)
    np.savez(stream, **members)
    return stream.getvalue()


def unpack(data: bytes) -> dict[str, Array]:
    """Return the arrays of such bytes."""
    with np.load(io.BytesIO(data)) as archive:
        return dict(archive)


def _interpreter(module: Any, model: bytes, resolver: object) -> Any:
    """Return an interpreter; if the resolver lacks an operator's version, the model gets an older version number.

    BUILTIN_REF registers fewer versions than its kernels support, such as TILE of int8. The other resolver's kernels
    come from the same sources. A version that it lacks too may be unknown to all kernels here, and is refused.
    """
    def create(contents: bytes, kernels: object) -> Any:
        return module.Interpreter(model_content=contents, experimental_op_resolver_type=kernels, num_threads=1)

    first = None
    while True:
        try:
            return create(model, resolver)
        except ValueError as error:
            missing = _NO_VERSION.search(str(error))
            if first is None:
                first = error
                is_known = missing is not None and _makes(create, model, module.OpResolverType[_ALL_VERSIONS])
            if missing is None or not is_known or int(missing[2]) < 2:
                raise first from None
            model = with_version(model, missing[1], int(missing[2]) - 1)


def _makes(create: Callable[[bytes, object], Any], model: bytes, resolver: object) -> bool:
    try:
        create(model, resolver)
    except ValueError:
        return False
    return True


class _LiteRt:
    """One LiteRT interpreter."""

    def __init__(self, engine: str, model: bytes):
        module = importlib.import_module(ENGINES[engine][1])
        resolver = getattr(module.OpResolverType, ENGINES[engine][2])
        self.interpreter = _interpreter(module, model, resolver)
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


class _Kept:
    """A persistent LiteRT interpreter with its variables; input sizes may change at each inference."""

    def __init__(self, engine: str, model: bytes):
        self.interpreter = _LiteRt(engine, model).interpreter
        self.shapes: list[tuple[int, ...]] | None = None

    def infer(self, inputs: list[Array]) -> tuple[list[Array], float]:
        """Return the outputs and the seconds of the inference."""
        details = self.interpreter.get_input_details()
        shapes = [array.shape for array in inputs]
        if shapes != self.shapes:
            for detail, array in zip(details, inputs, strict=True):
                if tuple(detail["shape"]) != array.shape:
                    self.interpreter.resize_tensor_input(detail["index"], array.shape)
            self.interpreter.allocate_tensors()
            self.shapes = shapes
        for detail, array in zip(details, inputs, strict=True):
            self.interpreter.set_tensor(detail["index"], array)
        start = time.perf_counter()
        self.interpreter.invoke()
        seconds = time.perf_counter() - start
        outputs = [self.interpreter.get_tensor(detail["index"]) for detail in self.interpreter.get_output_details()]
        return outputs, seconds


def _answer_kept(engine: str, request: dict[str, Array], kept: dict[int, _Kept]) -> dict[str, Array]:
    key = int(request["keep"])
    for dropped in request["drop"].tolist():
        kept.pop(dropped, None)
    try:
        if "model" in request:
            kept[key] = _Kept(engine, request["model"].tobytes())
        outputs, seconds = kept[key].infer([request[f"0_{position}"] for position in range(int(request["counts"]))])
    except (RuntimeError, ValueError, SystemError) as error:
        return {"error": np.array(" ".join(str(error).split()))}
    return {"0_count": np.array(len(outputs)), "seconds": np.array(seconds)} | {
        f"0_{position}": array for position, array in enumerate(outputs)}


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise SystemExit(0)
    return data


def _serve(engine: str) -> None:
    """Answer requests on standard input until it closes; the engines' own output goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    kept: dict[int, _Kept] = {}
    while True:
        size = struct.unpack("<Q", _read_exactly(sys.stdin.buffer, 8))[0]
        request = unpack(_read_exactly(sys.stdin.buffer, size))
        reply = pack(_answer_kept(engine, request, kept) if "keep" in request else _answer(engine, request))
        answers.write(struct.pack("<Q", len(reply)) + reply)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
