"""Whether a model fits a board: the memory that it needs, the speed of the board's machine, and of larger ones."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tq_hw.boards.catalog.board import Board, Memory
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.boards.resources.board import board_resources, recorded_memories, shortages, taken
from tq_hw.boards.resources.model import Resources
from tq_hw.cli.explore.target import Target, board_target, configurations, fitting
from tq_hw.compiler import Estimate, estimate_model
from tq_hw.isa.config import Config, ConfigError
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model

__all__ = ["Fit", "Machine", "fit_board", "fit_json", "fit_lines"]

#: Number of machines estimated in the search for the largest and the fastest one that run the model.
_TRIED = 24


@dataclass(frozen=True)
class Machine:
    """A configuration on the board, with the model on it.

    Members
    -------
    resources : of the whole board; None if the board was never synthesized with that memory
    milliseconds : of an inference; None for the serial machine, which has no estimate of time
    """

    config: Config
    resources: Resources | None
    estimate: Estimate
    milliseconds: float | None


@dataclass(frozen=True)
class Fit:
    """The result of `fit_board`.

    Members
    -------
    memory : the first of the board's memories that holds the model; None if none does
    preset : the board's machine, with that memory or else the board's largest
    largest : of the machines that fit, the fastest of those with the most multipliers; None if unknown or none
    fastest : the fastest of the board's own machine and the maximal ones: no machine that fits exceeds them in array,
        lanes and scratchpad
    gives : what must be saved for the model, or for a machine of twice the size, to fit
    """

    board: Board
    memory: Memory | None
    preset: Machine
    largest: Machine | None
    fastest: Machine | None
    gives: tuple[str, ...]


def _machine(model: Model, board: Board, memory: Memory, config: Config) -> Machine:
    recorded = memory.name in recorded_memories(board)
    found = estimate_model(model, config, memory_rate(board, memory))
    return Machine(config, board_resources(board, memory, config) if recorded else None, found,
                   None if config.design == "serial" else 1000 * found.cycles / board.clock_hz)


def _room(config: Config) -> tuple[int, int, int]:
    """Return a machine's size. A machine that is larger in one and not smaller in the others is hardly slower."""
    return config.macs, config.requantize_lanes, config.scratchpad_bytes


def _unexceeded(target: Target) -> list[Config]:
    """Return the maximal machines that fit, of each shape the one with the most accumulators."""
    shapes: dict[tuple[int, ...], Config] = {}
    for config in configurations(target.space, target.preset):
        shape = (config.rows, config.cols, *_room(config))
        if fitting(target, config) and (shape not in shapes or config.acc_words > shapes[shape].acc_words):
            shapes[shape] = config
    rooms = {_room(config) for config in shapes.values()}
    most = [room for room in rooms
            if not any(other != room and all(map(int.__ge__, other, room)) for other in rooms)]
    return sorted((config for config in shapes.values() if _room(config) in most),
                  key=lambda config: (*(-size for size in _room(config)), config.name))


def _larger(model: Model, board: Board, memory: Memory, target: Target) -> list[Machine]:
    """Return the maximal machines that run the model, largest first."""
    machines: list[Machine] = []
    for config in _unexceeded(target)[:_TRIED]:
        try:
            machine = _machine(model, board, memory, config)
        except UnsupportedError:  # a smaller machine may support it
            continue
        if machine.estimate.memory_bytes <= memory.size_bytes:
            machines.append(machine)
    return machines


def _twice(config: Config) -> Config | None:
    """Return a machine with twice the columns, lanes and scratchpad; None if that is not a legal configuration."""
    try:
        return replace(config, name=f"{config.name} with twice the columns, lanes and scratchpad",
                       cols=2 * config.cols, requantize_lanes=2 * config.requantize_lanes,
                       scratchpad_bytes=2 * config.scratchpad_bytes)
    except ConfigError:
        return None


def _gives(board: Board, memory: Memory | None, preset: Machine) -> Sequence[str]:
    if memory is None:
        most = max(each.size_bytes for each in board.memories)
        return [f"{preset.estimate.memory_bytes - most:,} bytes too large; use a smaller model, or a board with more "
                "memory"]
    twice = _twice(preset.config)
    if twice is None or preset.resources is None or preset.config.design == "serial":
        return []
    return [f"{line} for {twice.name}" for line in shortages(board, board_resources(board, memory, twice))]


def fit_board(model: Model, board: Board) -> Fit:
    """Return how a model fits a board; UnsupportedError names the operator that the board's machine cannot run."""
    needed = estimate_model(model, board.config, memory_rate(board, board.memories[0])).memory_bytes
    memory = next((each for each in board.memories if each.size_bytes >= needed), None)
    used = memory or max(board.memories, key=lambda each: each.size_bytes)
    preset = _machine(model, board, used, board.config)
    larger: list[Machine] = []
    if memory is not None and preset.resources is not None and board.config.design == "parallel":
        larger = _larger(model, board, memory, board_target(board, memory))
    largest = min(larger, key=lambda machine: (-machine.config.macs, machine.estimate.cycles), default=None)
    fastest = min([preset, *larger], key=lambda machine: machine.estimate.cycles) if larger else None
    return Fit(board, memory, preset, largest, fastest, tuple(_gives(board, memory, preset)))


def _machine_json(machine: Machine) -> dict[str, Any]:
    timed = machine.milliseconds is not None
    return {"config": asdict(machine.config), "cycles": machine.estimate.cycles if timed else None,
            "milliseconds": machine.milliseconds, "bytes": machine.estimate.bytes,
            "bound": machine.estimate.bound if timed else None,
            "resources": dict(taken(machine.resources)) if machine.resources is not None else None}


def fit_json(fit: Fit) -> dict[str, Any]:
    """Return the JSON of `compile --fit --json`."""
    return {"board": fit.board.name, "device": fit.board.device.name, "fits": fit.memory is not None,
            "memory_bytes": fit.preset.estimate.memory_bytes, "memory": fit.memory.name if fit.memory else None,
            "memories": [{"name": memory.name, "bytes": memory.size_bytes} for memory in fit.board.memories],
            "clock_mhz": fit.board.clock_hz / 1e6, "preset": _machine_json(fit.preset),
            "largest": _machine_json(fit.largest) if fit.largest is not None else None,
            "fastest": _machine_json(fit.fastest) if fit.fastest is not None else None, "gives": list(fit.gives)}


def _machine_text(machine: Machine) -> str:
    config = machine.config
    text = (f"{config.name}: {config.rows} x {config.cols} multipliers, {config.requantize_lanes} lanes, scratchpad of "
            f"{config.scratchpad_bytes >> 10} KiB: ")
    if machine.milliseconds is None:
        return text + "no estimate of its time"
    return text + (f"{machine.estimate.cycles:,} cycles, {machine.milliseconds:.3f} ms, bound by "
                   f"{machine.estimate.bound}")


def fit_lines(fit: Fit) -> list[str]:
    """Return a fit as readable lines."""
    memories = ", ".join(f"{memory.name} of {memory.size_bytes:,} bytes" for memory in fit.board.memories)
    lines = [f"needs {fit.preset.estimate.memory_bytes:,} bytes of memory; {fit.board.name} has {memories}",
             f"with {fit.memory.name} every operator runs on the accelerator, at {fit.board.clock_hz / 1e6:g} MHz"
             if fit.memory is not None else "no memory of the board holds it",
             "the board's machine   " + _machine_text(fit.preset)]
    if fit.largest is not None:
        lines.append("the largest that fits " + _machine_text(fit.largest))
    if fit.fastest is not None:
        lines.append("the fastest of those  " + (f"{fit.preset.config.name}, the board's machine"
                                                 if fit.fastest is fit.preset else _machine_text(fit.fastest)))
        lines.append(f"`tq-hw explore MODEL --board {fit.board.name}` searches all that fit, and options")
    lines += [f"limit: {line}" for line in fit.gives]
    return lines
