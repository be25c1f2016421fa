"""`tq-hw emulate`: a board in the simulator, on a pseudo-terminal."""

import os
import signal
import sys
from pathlib import Path

import click

from tq_hw.boards.catalog.board import Ddr3
from tq_hw.boards.catalog.catalog import find_board, find_memory
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.cli.emulation.emulator import MOST_MEMORY_BYTES, Emulator
from tq_hw.cli.shared.files import check_folder
from tq_hw.cli.shared.options import debug_option, rate_of, rate_options
from tq_hw.cli.shared.progress import ProgressBar
from tq_hw.model.errors import OptionError

__all__ = ["emulate_command"]


#: Folder of the pseudo-terminals that an emulation's link leads to.
_PORTS = "/dev/pts/"


def _check_link(path: str) -> None:
    """Refuse a path where no link can be made, before any long work."""
    place = Path(path)
    if os.path.lexists(place) and not (place.is_symlink() and os.readlink(place).startswith(_PORTS)):
        raise OptionError(f"--port {path}: exists and is not a link of an earlier emulation; choose another name")
    if not place.parent.is_dir():
        raise OptionError(f"--port {path}: the directory {place.parent} does not exist")
    check_folder("--port", path, place.parent)


def _make_link(path: str, port: str) -> None:
    """Make `path` a link to the port; the link of an earlier emulation is replaced."""
    place = Path(path)
    if place.is_symlink():
        place.unlink()
    try:
        place.symlink_to(port)
    except OSError as error:
        raise OptionError(f"--port {path}: cannot be made: {error.strerror or error}") from None


@click.command("emulate")
@click.option("--board", "board_name", metavar="BOARD", required=True, help="`tq-hw boards` lists them.")
@click.option("--memory", "memory_name", metavar="KIND", help="The board's memory to use.  [default: the first]")
@click.option("--faults", type=click.IntRange(0, 2**31 - 1), metavar="SEED",
              help="Drop, flip, duplicate or delay one byte in 100 on the line, in both directions.")
@click.option("--port", "link", metavar="PATH", help="Create a symbolic link of this name to the port.")
@rate_options
@debug_option
def emulate_command(board_name: str, memory_name: str | None, faults: int | None, link: str | None,
                    latency: int | None, bytes_per_cycle: float | None) -> None:
    """Run a board in the simulator until interrupted; connect with `tq-hw run --port` to the port that it prints.

    The signal USR1 resets it as the board's button does; its memory then holds noise.
    """
    board = find_board(board_name)
    memory = find_memory(board, memory_name)
    if link is not None:
        _check_link(link)
    size_bytes = min(memory.size_bytes, MOST_MEMORY_BYTES)
    with ProgressBar(f"building {board.name}") as bar:
        emulator = Emulator(board.config, size_bytes, board.clock_hz, faults=faults,
                            phy=memory.phy if isinstance(memory, Ddr3) else "",
                            memory=rate_of(latency, bytes_per_cycle, None, memory_rate(board, memory)),
                            progress=bar.building(f"{board.name}: "))
    signal.signal(signal.SIGUSR1, lambda _number, _frame: emulator.reset())
    ended_by: list[int] = []

    def end(number: int, _frame: object) -> None:
        """End the emulation. SIGINT needs it, too: a shell ignores it for background jobs, and Python leaves it so."""
        ended_by.append(number)
        emulator.end()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        if link is not None:
            _make_link(link, emulator.port)
        click.echo(f"port {emulator.port}")
        click.echo(f"{board.name}: configuration {board.config.name}, {size_bytes >> 10:,} KiB of memory"
                   + (f" of {memory.size_bytes >> 10:,} KiB" if size_bytes < memory.size_bytes else "")
                   + f", process {os.getpid()}")
        sys.stdout.flush()
        emulator.serve()
        if signal.SIGINT in ended_by:
            raise KeyboardInterrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        emulator.close()
        # Another emulation may have replaced the link.
        if link is not None and os.path.islink(link) and os.readlink(link) == emulator.port:
            os.unlink(link)
