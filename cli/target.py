"""The target of compilation and simulation: a configuration, a memory, a clock; or a board, which has all three."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from tq_hw.boards.catalog.catalog import board_names, find_board, find_memory
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.cli.report.layers import CLOCK_HZ
from tq_hw.cli.shared.options import config_option, memory_options, rate_of, rate_options
from tq_hw.cli.subject import DEFAULT_CONFIG
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.memory import YARDSTICK, Memory

__all__ = ["Target", "complete_board", "target_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Target:
    """The combined result of `--config`, `--board` and the options of the memory.

    Members
    -------
    config : a configuration, its name or file, or None: the default's
    memory : for which the schedule is searched, and which is simulated
    clock_hz : at which cycles are shown as time
    board : name of the board, None where none was named
    plain : the memory without the board's settings
    """

    config: str | Config | None
    memory: Memory
    clock_hz: int = CLOCK_HZ
    board: str | None = None
    plain: Memory = YARDSTICK

    @property
    def sizes(self) -> Config:
        """The configuration; ConfigError if it cannot be read."""
        return load_config(self.config or DEFAULT_CONFIG)


def complete_board(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the boards whose names begin with the given text."""
    return [CompletionItem(name) for name in board_names() if name.startswith(incomplete)]


def target_options(stalls: bool = True) -> Callable[[Function], Function]:
    """Add `--config`, `--board`, `--latency`, `--bytes-per-cycle` and `--stalls`, as one argument `target`."""
    def add(function: Function) -> Function:
        @wraps(function)
        def command(*args: Any, config: str | None, board_name: str | None, latency: int | None,
                    bytes_per_cycle: float | None, stalls: int | None = None, **others: Any) -> Any:
            return function(*args, target=_target(config, board_name, latency, bytes_per_cycle, stalls), **others)

        board = click.option("--board", "board_name", metavar="BOARD", shell_complete=complete_board, help="A board, "
                             "for its configuration, memory and clock unless another option says otherwise; `tq-hw "
                             "boards` lists them.")
        return cast(Function, config_option(board((memory_options if stalls else rate_options)(command))))
    return add


def _target(config: str | None, board_name: str | None, latency: int | None, bytes_per_cycle: float | None,
            stalls: int | None) -> Target:
    """Return the target. A board provides what no other option gives. OptionError for an unknown board."""
    plain = rate_of(latency, bytes_per_cycle, stalls, YARDSTICK)
    if board_name is None:
        return Target(config, plain, plain=plain)
    board = find_board(board_name)
    rate = memory_rate(board, find_memory(board, None))
    memory = rate_of(latency, bytes_per_cycle, stalls, rate)
    return Target(config or board.config, memory, board.clock_hz, board_name, plain)
