"""The accelerator hardware that a command uses: at the end of a cable, or in this processor's address space."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import click

from tq_hw.boards.catalog.catalog import find_board, find_memory
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.boards.link.host import Link
from tq_hw.boards.link.mapped import MappedLink
from tq_hw.boards.link.port import SerialPort
from tq_hw.boards.link.uio import open_uio
from tq_hw.cli.shared.configurations import config_file
from tq_hw.cli.shared.options import FiniteRange
from tq_hw.cli.subject import DEFAULT_CONFIG
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.model.errors import OptionError

__all__ = ["Place", "attached_options"]

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = ("board_name", "port", "baud", "uio", "udmabuf", "config", "clock_mhz")
_BUFFER = "/dev/udmabuf0"
_CLOCK_MHZ = 100.0


@dataclass(frozen=True)
class Place:
    """The location of the accelerator, from the options.

    Members
    -------
    name : of the board, or "uio"
    config, memory : that a model is compiled for; the memory is the board's first
    port : serial port, or UIO device
    baud : of a serial port
    buffer, clock_hz : of an accelerator with UIO
    config_file : of its configuration, None where none was named
    """

    name: str
    config: Config
    port: str
    memory: Memory = YARDSTICK
    baud: int = 0
    buffer: str = ""
    clock_hz: int = 0
    config_file: str | None = None

    def open(self) -> tuple[Link | MappedLink, Callable[[], None]]:
        """Return the link to it, and what closes the link; DeviceError when there is none."""
        if self.buffer:
            mapped = open_uio(self.port, self.buffer, self.clock_hz)
            return mapped, mapped.close
        serial = SerialPort(self.port, self.baud)
        return Link(serial), serial.close


def attached_options(command: Function) -> Function:
    """Add the options that locate the accelerator, as one argument `place`."""
    @wraps(command)
    def called(**options: Any) -> Any:
        place = _place(**{name: options.pop(name) for name in _OPTIONS})
        return command(place=place, **options)

    for option in reversed((
            click.option("--board", "board_name", metavar="BOARD", help="`tq-hw boards` lists them."),
            click.option("--port", metavar="PORT", help="Serial port of the board, or the one that `emulate` printed."),
            click.option("--baud", type=click.IntRange(1), metavar="N", help="Baud rate.  [default: the board's]"),
            click.option("--uio", metavar="DEVICE", help="Instead of a board: UIO device of the registers."),
            click.option("--udmabuf", metavar="DEVICE", help=f"With --uio: memory device.  [default: {_BUFFER}]"),
            click.option("--config", metavar="NAME|FILE.toml", help="With --uio: configuration to compile for.  "
                         f"[default: {DEFAULT_CONFIG}]"),
            click.option("--clock-mhz", type=FiniteRange(0.001), metavar="MHZ", help="With --uio: clock of the "
                         f"accelerator, for times.  [default: {_CLOCK_MHZ:g}]"))):
        called = option(called)
    return cast(Function, called)


def _place(board_name: str | None, port: str | None, baud: int | None, uio: str | None, udmabuf: str | None,
           config: str | None, clock_mhz: float | None) -> Place:
    """Return the place that options name; OptionError for a contradictory combination."""
    if uio is None:
        for option, value in (("--udmabuf", udmabuf), ("--config", config), ("--clock-mhz", clock_mhz)):
            if value is not None:
                raise OptionError(f"{option} goes with --uio: a board has its own")
        if board_name is None or port is None:
            raise OptionError("run needs --board and --port, for a board at the end of a cable, or --uio, for an "
                              "accelerator in this processor's address space")
        board = find_board(board_name)
        return Place(board.name, board.config, port, memory_rate(board, find_memory(board, None)), baud or board.baud)
    for option, other in (("--board", board_name), ("--port", port), ("--baud", baud)):
        if other is not None:
            raise OptionError(f"{option} does not go with --uio: the accelerator is in this processor's address "
                              "space")
    return Place("uio", load_config(config or DEFAULT_CONFIG), uio, buffer=udmabuf or _BUFFER,
                 clock_hz=round((clock_mhz or _CLOCK_MHZ) * 1e6), config_file=config_file(config))
