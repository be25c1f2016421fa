"""Public TFLite engines as references: LiteRT and TFLite Micro, each in a process of its own.

The engines abort the whole process on some models (a CHECK in C++), so they run in a worker. Both are wheels that the
product does not need: `pip install "tq-hw[oracles]"`.

`run_litert` and `run_tflm` run one inference; an `Oracle` keeps its process for many models and input sets.
"""

import contextlib
import importlib.util
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
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.model.errors import MissingToolError, OptionError, ToolError
from tq_hw.sim.oracle_worker import ENGINES, pack, unpack

__all__ = ["ENGINES", "Oracle", "available", "run_litert", "run_tflm"]

Array = npt.NDArray[Any]
ModelSource = str | os.PathLike[str] | bytes

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
    """One engine in a worker process, which is restarted after the engine has crashed it.

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
        self._kept: set[int] = set()
        self._dropped: list[int] = []
        # A file, unlike a pipe, cannot fill up when the engine prints much.
        self._messages, path = tempfile.mkstemp(prefix="tq-hw-oracle-")
        os.unlink(path)

    def __enter__(self) -> "Oracle":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether there is a worker process."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """End the worker process; the object cannot be used afterwards."""
        self._stop()
        os.close(self._messages)

    def _stop(self) -> None:
        process, self._process = self._process, None
        self._kept.clear()
        if process is not None:
            process.kill()
            # The rest of a request cannot be written any more.
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
        reply = self._exchange(pack(arrays))
        if "error" in reply:
            raise ToolError(f"{self.engine} refused the model: {_shorten(str(reply['error']))} "
                            f"({self._last_message()})")
        outputs = []
        for number in range(len(sets)):
            count = int(reply[f"{number}_count"])
            outputs.append(tuple(reply[f"{number}_{position}"] for position in range(count)))
        return outputs

    def run_kept(self, key: int, contents: bytes, inputs: Sequence[Array], fresh: bool = False
                 ) -> tuple[list[Array], float]:
        """Run one inference of a persistent interpreter; return its outputs and the seconds of the inference.

        `key` is the interpreter's number, `contents` its model. The worker gets the model once, and again with `fresh`,
        which selects the initial state, or after a restart. Errors as `run_sets`.
        """
        if not self.is_running:
            self._stop()
        arrays = {f"0_{position}": array for position, array in enumerate(inputs)}
        arrays |= {"keep": np.array(key), "counts": np.array(len(inputs)), "drop": np.array(self._dropped, np.int64)}
        if fresh or key not in self._kept:
            arrays["model"] = np.frombuffer(contents, np.uint8)
        self._dropped.clear()
        self._kept.discard(key)
        reply = self._exchange(pack(arrays))
        if "error" in reply:
            raise ToolError(f"{self.engine} refused the model: {_shorten(str(reply['error']))} "
                            f"({self._last_message()})")
        self._kept.add(key)
        return [reply[f"0_{position}"] for position in range(int(reply["0_count"]))], float(reply["seconds"])

    def keeps(self, key: int) -> bool:
        """Whether a persistent interpreter still exists, with its state."""
        return key in self._kept and self.is_running

    def drop(self, key: int) -> None:
        """Release a persistent interpreter with the next request."""
        self._dropped.append(key)

    def _exchange(self, request: bytes) -> dict[str, Array]:
        if not self.is_running:
            self._stop()
            self._process = subprocess.Popen([sys.executable, "-m", "tq_hw.sim.oracle_worker", self.engine],
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=self._messages)
        process = self._process
        assert process is not None and process.stdin is not None
        os.ftruncate(self._messages, 0)
        os.lseek(self._messages, 0, os.SEEK_SET)
        try:
            process.stdin.write(struct.pack("<Q", len(request)) + request)
            process.stdin.flush()
            deadline = time.monotonic() + self.timeout_seconds
            size = struct.unpack("<Q", self._read(process, 8, deadline))[0]
            return unpack(self._read(process, size, deadline))
        except (EOFError, OSError) as error:
            code = process.wait()
            self._stop()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
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
