"""What is worked out for a model on a machine: an estimate, or the RTL's cycles. Both run in any process."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tq_hw.compiler import compile_model, estimate_model
from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import MismatchError, UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import random_inputs, run
from tq_hw.work import Task, task_of

__all__ = ["estimate_task", "rtl_task"]


def _arguments(config: Config, memory: Memory) -> dict[str, Any]:
    """Return what a task is told as JSON; names of configurations say nothing and would only part equal ones."""
    values = {key: value for key, value in vars(config).items() if key in Config.__dataclass_fields__ and key != "name"}
    return {"config": values, "latency": memory.latency_cycles, "bytes_per_cycle": float(memory.bytes_per_cycle)}


@lru_cache(maxsize=16)
def _model(blob: bytes) -> Model:
    return parse_model(blob, "model").under("canon")


def _subject(blob: bytes, arguments: Mapping[str, Any]) -> tuple[Model, Config, Memory]:
    return (_model(blob), Config.from_mapping(arguments["config"], "explored"),
            Memory(arguments["latency"], arguments["bytes_per_cycle"]))


def _estimate(blob: bytes, arguments: Mapping[str, Any]) -> dict[str, Any]:
    model, config, memory = _subject(blob, arguments)
    try:
        found = estimate_model(model, config, memory)
    except UnsupportedError as error:
        return {"error": str(error)}
    return {"cycles": found.cycles, "macs": found.macs, "bytes": found.bytes, "memory_bytes": found.memory_bytes,
            "bounds": found.bounds}


def _run(blob: bytes, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Compile, run on the RTL, and hold every integer against the golden model."""
    model, config, memory = _subject(blob, arguments)
    compiled = compile_model(model, config, memory=memory)
    inputs = random_inputs(model)
    found, expected = run(compiled.program, inputs, "rtl", memory=memory), run(model, inputs)
    for one, other in zip(found.outputs, expected.outputs, strict=True):
        if not np.array_equal(one, other):
            raise MismatchError(f"{model.name}: the RTL of {arguments['config']} differs from the golden model; "
                                "`tq-hw verify` finds the operator")
    return {"cycles": found.cycles, "bytes": sum(row.bytes for row in compiled.report)}


def estimate_task(blob: bytes, config: Config, memory: Memory) -> Task:
    """Return the task of an estimate: `cycles`, `macs`, `bytes`, `memory_bytes`, `bounds`; or `error`."""
    return task_of(_estimate, blob, _arguments(config, memory))


def rtl_task(blob: bytes, config: Config, memory: Memory) -> Task:
    """Return the task of a run on the RTL: `cycles`, `bytes`; MismatchError where an integer differs."""
    return task_of(_run, blob, _arguments(config, memory))
