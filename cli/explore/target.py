"""The target of a search: the values of each size, and the limits that machines must keep."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from tq_hw.boards.catalog.board import FAMILIES, Board, Memory
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.boards.resources.board import LIMITED, board_resources, taken
from tq_hw.boards.resources.memories import block_rams, multipliers
from tq_hw.boards.resources.model import Resources, estimate_resources, families_of
from tq_hw.isa.config import PRESETS, Config, ConfigError
from tq_hw.isa.memory import YARDSTICK
from tq_hw.isa.memory import Memory as Rate
from tq_hw.isa.table import read_table, size_in_bytes
from tq_hw.model.errors import OptionError

__all__ = ["Space", "Target", "board_target", "configurations", "file_target", "first_refusal", "fitting"]

#: Values of each size, in the order of the configuration's members.
Space = Mapping[str, tuple[int, ...]]
_SIZES = tuple(field.name for field in fields(Config) if field.name not in ("name", "design"))
#: Values tried for a board, in addition to the sizes of its own configuration.
_TRIED: Space = {
    "rows": (4, 6, 8, 9, 12, 16, 18, 24, 27, 32), "cols": (4, 6, 8, 10, 12, 16, 24, 32),
    "requantize_lanes": (1, 2, 4, 6, 8, 12, 16),
    "scratchpad_bytes": (16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10), "acc_words": (64, 128, 256),
    "acc_open": (0, 4),
}
#: Combinations of sizes that a file may ask for; to make configurations of so many takes minutes.
_MOST_COMBINATIONS = 10_000_000
_FILE_KEYS = ("family", "clock_mhz", "latency", "bytes_per_cycle", "memory_bytes", "limits", "space", "preset")


@dataclass(frozen=True)
class Target:
    """The limits that machines must keep, and the space that they are drawn from.

    Members
    -------
    name : of the board, or of the file
    clock_hz : converts cycles to time
    rate : of the system memory
    memory_bytes : of the system memory; 0: unlimited
    limits : upper limit of each kind of LIMITED; kinds that are absent have none
    space : the values of each size
    preset : the machine that others are compared with, or None
    resources : function from a configuration to its resources
    memory : name of the board's memory; "" for a file
    """

    name: str
    family: str
    clock_hz: int
    rate: Rate
    memory_bytes: int
    limits: Mapping[str, float]
    space: Space
    preset: Config | None
    resources: Callable[[Config], Resources]
    memory: str = ""


def _name(values: Mapping[str, int]) -> str:
    """Return a name made of the sizes that usually differ."""
    rest = "".join(f"-{key}{values[key]}" for key in _SIZES[5:] if values.get(key) and key != "acc_open")
    return (f"{values['rows']}x{values['cols']}x{values['requantize_lanes']}-{values['scratchpad_bytes'] >> 10}k"
            f"-a{values.get('acc_words', 128)}{'o' if values.get('acc_open') else ''}{rest}")


def configurations(space: Space, preset: Config | None) -> Iterator[Config]:
    """Yield every legal configuration of a space, the preset first and only once."""
    if preset is not None:
        yield preset
    seen = set() if preset is None else {replace(preset, name="")}
    common = {key: values[0] for key, values in space.items() if len(values) == 1}
    for values in product(*space.values()):
        sizes = dict(zip(space, values, strict=True))
        try:
            config = Config.from_mapping(sizes, _name({key: value for key, value in sizes.items()
                                                       if key not in common or key in _SIZES[:5]}))
        except ConfigError:  # this combination of sizes is not legal
            continue
        sizes_alone = replace(config, name="")
        if sizes_alone not in seen:
            seen.add(sizes_alone)
            yield config


def first_refusal(space: Space) -> str:
    """Return why the first machine of a space is not legal, "" if it is."""
    values = next(product(*space.values()), ())
    try:
        Config.from_mapping(dict(zip(space, values, strict=True)), "first")
    except ConfigError as error:
        return str(error).removeprefix("configuration 'first': ")
    return ""


def fitting(target: Target, config: Config) -> Resources | None:
    """Return a configuration's resources, or None if they exceed a limit."""
    # The exact rules first: they are quick, and exclude most machines.
    if (sum(multipliers(config, target.family).values()) > target.limits.get("multipliers", float("inf"))
            or sum(block_rams(config, target.family).values()) > target.limits.get("block_rams", float("inf"))):
        return None
    resources = target.resources(config)
    totals = taken(resources)
    return resources if all(totals[kind] <= most for kind, most in target.limits.items()) else None


def board_target(board: Board, memory: Memory) -> Target:
    """Return a board's target: sizes around its configuration, with its bus. UnsupportedError without a record."""
    preset = board.config
    if preset.design == "serial":
        raise OptionError(f"--board {board.name}: has room for the serial machine only, which has one size")
    board_resources(board, memory, preset)
    space = {key: tuple(sorted({*_TRIED.get(key, ()), getattr(preset, key)})) for key in _SIZES}
    return Target(board.name, FAMILIES[board.toolchain], board.clock_hz, memory_rate(board, memory), memory.size_bytes,
                  {kind: getattr(board.device, kind) for kind in LIMITED}, space, preset,
                  lambda config: board_resources(board, memory, config), memory.name)


def _values(path: str, key: str, values: object) -> tuple[int, ...]:
    chosen = values if isinstance(values, list) else [values]
    numbers = [value for value in chosen if isinstance(value, int) and not isinstance(value, bool)]
    if not numbers or len(numbers) < len(chosen):
        raise OptionError(f"{path}: space.{key} must be an integer or a list of integers, not {values!r}")
    return tuple(dict.fromkeys(numbers))


def _number(path: str, key: str, value: object, least: float, most: float) -> float:
    """Return a number of the file; OptionError unless it is in the range, which NaN is not."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise OptionError(f"{path}: {key} must be a number from {least:.15g} to {most:.15g}, not {value!r}")
    return value


def _whole(path: str, key: str, value: object, least: int, most: int) -> int:
    """Return a whole number of the file; OptionError unless it is in the range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise OptionError(f"{path}: {key} must be a whole number from {least} to {most}, not {value!r}")
    return value


def _known(path: str, what: str, table: object, keys: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(table, dict):
        raise OptionError(f"{path}: {what} must be a table, not {table!r}")
    for key in table:
        if key not in keys:
            raise OptionError(f"{path}: unknown key {key!r} in {what}; known keys are {', '.join(keys)}")
    return table


def file_target(path: str) -> Target:
    """Read a target from a TOML file; OptionError for errors in it."""
    try:
        read = read_table(path)
    except ConfigError as error:
        raise OptionError(f"--space {error}") from None
    table = _known(path, "the file", read, _FILE_KEYS)
    space = {key: _values(path, key, values)
             for key, values in _known(path, "space", table.get("space"), _SIZES).items()}
    for key in _SIZES[:4]:
        if key not in space:
            raise OptionError(f"{path}: space.{key} is missing")
    if (count := prod(map(len, space.values()))) > _MOST_COMBINATIONS:
        raise OptionError(f"{path}: space has {count:,} combinations of sizes, at most {_MOST_COMBINATIONS:,} can be "
                          "tried; give fewer values")
    family, limits = table.get("family", "ecp5"), _known(path, "limits", table.get("limits", {}), LIMITED)
    known = families_of(PRESETS["n8"])
    if family not in known:
        raise OptionError(f"{path}: family must be {' or '.join(known)}, not {family!r}")
    preset = table.get("preset")
    if preset is not None and (not isinstance(preset, str) or preset not in PRESETS):
        raise OptionError(f"{path}: preset must be one of {', '.join(PRESETS)}, not {preset!r}")

    def number(key: str, default: float, least: float, most: float) -> float:
        return _number(path, key, table.get(key, default), least, most)

    rate = Rate(_whole(path, "latency", table.get("latency", YARDSTICK.latency_cycles), 1, (1 << 20) - 1),
                float(number("bytes_per_cycle", YARDSTICK.bytes_per_cycle, 0.01, 1024)))
    memory_bytes = _whole(path, "memory_bytes", size_in_bytes(table.get("memory_bytes", 0)), 0, 1 << 48)
    return Target(Path(path).stem, family, round(1e6 * number("clock_mhz", 100, 0.001, 1e6)), rate, memory_bytes,
                  {kind: _number(path, f"limits.{kind}", limits[kind], 0.5, 1e9) for kind in limits}, space,
                  PRESETS.get(preset or ""), lambda config: estimate_resources(config, family))
