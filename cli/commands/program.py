"""`tq-hw program`: load a bitstream that `tq-hw build` made."""

import json
from pathlib import Path

import click

from tq_hw.boards.build.folder import REPORT
from tq_hw.boards.build.tools import require_tool, run_tool
from tq_hw.boards.catalog.catalog import find_board
from tq_hw.boards.soc.map import FLASH_FILE, FLASH_OFFSET
from tq_hw.cli.shared.options import debug_option
from tq_hw.model.errors import DeviceError, OptionError, ToolError

__all__ = ["program_command"]


@click.command("program")
@click.option("--board", "board_name", metavar="BOARD", required=True, help="`tq-hw boards` lists them.")
@click.option("-o", "--dir", "folder", metavar="DIR", help="Folder of the build.  [default: build/BOARD]")
@click.option("--flash", is_flag=True, help="Write it to the board's flash, where it persists, instead of the FPGA, "
              "with the model of a soft core.")
@debug_option
def program_command(board_name: str, folder: str | None, flash: bool) -> None:
    """Load a board's bitstream with openFPGALoader."""
    board = find_board(board_name)
    place = Path(folder or Path("build") / board.name)
    try:
        report = json.loads((place / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise OptionError(f"{place}: is not a folder of `tq-hw build --board {board.name}`: {REPORT} cannot be read: "
                          f"{why}; build it first, or name its folder with --dir") from error
    if not isinstance(report, dict):
        raise OptionError(f"{place}: is not a folder of `tq-hw build --board {board.name}`: {REPORT} is another file "
                          "of that name; name the build's folder with --dir")
    if report.get("board") != board.name:
        raise OptionError(f"{place}: holds a build for {report.get('board')}, not for {board.name}")
    if not report.get("bitstream"):
        raise OptionError(f"{place}: has no bitstream: {', '.join(report.get('missing', []))} was missing when it was "
                          "built")
    require_tool("openFPGALoader")
    try:
        run_tool("openFPGALoader", [*board.loader, *(["-f"] if flash else []), report["bitstream"]], place)
        if flash and (place / FLASH_FILE).is_file():
            run_tool("openFPGALoader", [*board.loader, "-f", "-o", str(FLASH_OFFSET), FLASH_FILE], place)
    except ToolError as error:
        raise DeviceError(f"{board.name} could not be loaded: {error}") from error
    click.echo(f"{board.name} is loaded with {place / report['bitstream']}")
