"""Feed broken compiled files to the commands that read one: each must end in results or in one clear message.

The parts of a file are mutated (program_mutations.py) and it is sealed again. Then it goes to `tq-hw sim` on the
executor or, for configuration `tiny`, on the RTL, to `run` with a board in this process, to `report`, `verify` or
`build`. A finding is a traceback, an internal error, an exit code other than 0, 2 and 5, a message of several lines, or
too much time or memory. Its file is kept.
"""

import argparse
import importlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from findings import Rng, hunt, limited_memory, place_of, unclean, watched
from program_mutations import mutate

from tq_hw.cli import main as cli_main
from tq_hw.cli.shared.files import npz_bytes
from tq_hw.cli.shared.options import debugging
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.control import STATUS_BUSY, STATUS_ERROR
from tq_hw.isa.program import Port, Program, ProgramError
from tq_hw.isa.program_file import from_bytes, to_bytes
from tq_hw.model.samples.layers import KINDS, sample
from tq_hw.sim.faults import SimulationError
from tq_hw.sim.rtl.build import library

sys.path.append(str(Path(__file__).parents[1] / "tests" / "boards"))
_line: Any = importlib.import_module("line")
OFFSETS, AcceleratorBoard, BadLine = _line.OFFSETS, _line.AcceleratorBoard, _line.BadLine

__all__ = ["check_one", "main", "seeds"]

#: Commands that read a file, each with its share of the runs. FILE, IN and OUT are replaced by paths.
_COMMANDS: tuple[tuple[float, tuple[str, ...]], ...] = (
    (0.55, ("sim", "FILE", "--engine", "executor", "--inputs", "IN")),
    (0.15, ("sim", "FILE", "--engine", "executor", "--inputs", "IN", "--outputs", "OUT", "--json", "-")),
    (0.10, ("sim", "FILE", "--inputs", "IN", "--trace", "OUT")),
    (0.14, ("run", "--board", "ulx3s_85f", "--port", "none", "--time-limit", "0.1", "FILE", "--inputs", "IN")),
    (0.02, ("sim", "FILE", "--engine", "golden", "--inputs", "IN")),
    (0.01, ("report", "FILE", "-o", "OUT")),
    (0.02, ("verify", "FILE", "--engine", "executor")),
    (0.01, ("build", "--board", "ulx3s_85f", "--model", "FILE", "--no-verify", "-o", "OUT")),
)
_CLEAN = (0, 2, 5)
_MESSAGE_LIMIT = 2000
#: A file whose layers claim more cycles than this would run too long, and is only read.
_LONG_CYCLES = 1 << 18


def _port_of_board(program: Program | None) -> Any:
    """Return the port of a board in this process, which executes the program in its memory.

    An error of the machine becomes a status. Commands that wait for each other leave the status at busy.
    """
    assert program is not None, "a file that cannot be read came as far as the board"
    board = AcceleratorBoard(program)
    started = board.on_write

    def written(offset: int, value: int) -> None:
        if offset == OFFSETS["control"] and value == 1:
            image = bytes(board.memory[board.region(0, len(program.image))])
            board.program = replace(program, image=image, command_bytes=board.get("command_bytes"))
        try:
            started(offset, value)
        except SimulationError as error:
            board.put("status", STATUS_BUSY if error.status is None else STATUS_ERROR)
            for name, number in (("error_code", error.status), ("error_unit", error.unit), ("error_index", error.run)):
                board.put(name, number or 0)
    board.on_write = written
    line = BadLine(board)
    line.close = lambda: None
    return line


def seeds() -> list[bytes]:
    """Return the compiled files to mutate: layers of every kind for `tiny`, some for larger configurations."""
    found = [to_bytes(compile_model(sample(kind, seed), load_config("tiny")).program)
             for kind in KINDS for seed in range(2)]
    return found + [to_bytes(compile_model(sample(kind, 2), load_config(config)).program)
                    for kind in ("conv", "depthwise", "add", "softmax", "chain") for config in ("n8", "n9x8", "n16")]


@cache
def _simulator() -> Path:
    """Build or find the RTL of `tiny`. Cached, because finding it takes seconds."""
    return library(load_config("tiny"))


def _drawn(port: Port) -> np.ndarray:
    return np.zeros(port.shape, port.model_dtype)


def _arguments(rng: Rng, program: Program | None, names: dict[str, str]) -> list[str]:
    """Return a command line. Only the RTL of `tiny` is built."""
    shares = np.array([share for share, _ in _COMMANDS])
    arguments = _COMMANDS[int(rng.choice(len(_COMMANDS), p=shares / shares.sum()))][1]
    if "--trace" in arguments and program is not None and program.fingerprint != load_config("tiny").fingerprint:
        arguments = _COMMANDS[0][1]
    return [names.get(argument, argument) for argument in arguments]


def check_one(data: bytes, rng: Rng, folder: Path, seconds: float = 3.0) -> str:
    """Return how a clean run ended, as "command exit code"; raise AssertionError in all other cases."""
    names = {"FILE": str(folder / "fuzz.tqm"), "IN": str(folder / "in.npz"), "OUT": str(folder / "out")}
    Path(names["FILE"]).write_bytes(data)
    with watched(seconds), unclean():
        return _run(data, rng, names)


def _run(data: bytes, rng: Rng, names: dict[str, str]) -> str:
    program: Program | None = None
    try:
        program = from_bytes(data)
        if sum(layer.estimated_cycles for layer in program.layers) > _LONG_CYCLES:
            return "long by its own words"
        arrays = {f"input_{number}": _drawn(port) for number, port in enumerate(program.inputs)}
    except ProgramError:
        arrays = {}
    Path(names["IN"]).write_bytes(npz_bytes(arrays))
    arguments = _arguments(rng, program, names)

    seen: list[BaseException] = []
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with ExitStack() as stack:
        for patch in (redirect_stdout(out), redirect_stderr(err),
                      mock.patch("tq_hw.cli.attached.SerialPort", lambda *_: _port_of_board(program)),
                      mock.patch("tq_hw.sim.rtl.simulate.library", lambda *_, **__: _simulator()),
                      mock.patch.object(cli_main, "describe", _noting(seen))):
            stack.enter_context(patch)
        code = cli_main.run(arguments)
    debugging.clear()
    message = err.getvalue()
    assert code in _CLEAN, place_of(seen[0]) if seen else f"exit code {code}: {message[:200]!r}"
    assert (code == 0) == (not message), f"exit code {code} with message {message[:200]!r}"
    assert message.count("\n") <= 1, f"several lines: {message[:200]!r}"
    assert len(message) <= _MESSAGE_LIMIT, f"a message of {len(message)} characters: {message[:200]!r}"
    assert message.rstrip("\n").isprintable(), f"unprintable: {message[:200]!r}"
    engine = "" if arguments[0] != "sim" else " " + (arguments[3] if "--engine" in arguments else "rtl")
    return f"{arguments[0]}{engine} {code}"


def _noting(seen: list[BaseException]) -> Callable[[BaseException], tuple[int, str]]:
    """Return a replacement of main's `describe` that also appends the error to `seen`."""
    original = cli_main.describe

    def describe(error: BaseException) -> tuple[int, str]:
        seen.append(error)
        return original(error)
    return describe


def _options(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first input (the seed of its mutation)")
    parser.add_argument("--seconds", type=float, default=3.0, help="CPU time allowed for one input")
    parser.add_argument("--megabytes", type=int, default=500, help="memory allowed above what is used at the start")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for what is found")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer; exit code 1 if there is a finding."""
    options = _options(arguments)
    files = seeds()
    _simulator()
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with limited_memory(options.megabytes << 20), tempfile.TemporaryDirectory(dir=shared) as folder:
        return int(hunt(options.first, options.inputs, lambda rng: mutate(rng, files[int(rng.integers(len(files)))]),
                        lambda data, rng: check_one(data, rng, Path(folder), options.seconds), options.keep,
                        ".tqm") > 0)


if __name__ == "__main__":
    sys.exit(main())
