"""`tq-hw boards`: the boards that `tq-hw build` supports."""

from typing import Any

import click

from tq_hw.boards.build.toolchains import TOOLS_OF, VIVADO, choose
from tq_hw.boards.build.tools import missing_tools
from tq_hw.boards.catalog.board import Board
from tq_hw.boards.catalog.catalog import all_boards
from tq_hw.cli.commands.configs import describe_config
from tq_hw.cli.report.tables import Column, print_table
from tq_hw.cli.shared.files import check_outputs, write_json
from tq_hw.cli.shared.options import debug_option, json_option, wide_option

__all__ = ["boards_command", "describe_board"]

_COLUMNS = (Column("name"), Column("device", least=16, gives_way=2), Column("array", number=True),
            Column("lanes", number=True), Column("MACs", number=True), Column("MHz", number=True),
            Column("memory", least=16, folds=True), Column("toolchain", least=16, folds=True))


def describe_board(board: Board) -> dict[str, Any]:
    """Return a board's record: its own values, what follows from them, and which tools of `build` are installed."""
    toolchain, missing = board.toolchain.value, missing_tools(TOOLS_OF[board.toolchain])
    if missing == [VIVADO] and choose(board).flow is not None:
        toolchain, missing = choose(board).name, []
    return {
        "name": board.name, "title": board.title, "device": board.device.name, "clock_mhz": board.clock_hz / 1e6,
        "config": describe_config(board.config), "macs": board.config.macs,
        "memories": [{"name": memory.name, "bytes": memory.size_bytes} for memory in board.memories],
        "toolchain": toolchain, "missing": missing,
    }


@click.command("boards")
@json_option
@wide_option
@debug_option
def boards_command(json_file: str | None, wide: bool) -> None:
    """List the boards with device, configuration, memory (the default first), and whether the tools are installed."""
    check_outputs({"--json": json_file})
    boards = list(all_boards())
    records = [describe_board(board) for board in boards]
    write_json(json_file, {"boards": records})
    if json_file != "-":
        rows = []
        for board, record in zip(boards, records, strict=True):
            missing = record["missing"]
            memory = ", ".join(f"{_size(memory.size_bytes)} {memory.name}" for memory in board.memories)
            tools = f"{record['toolchain']}: " + (f"{', '.join(missing)} missing" if missing else "found")
            rows.append((board.name, board.device.name, f"{board.config.rows}x{board.config.cols}",
                         board.config.requantize_lanes, board.config.macs, f"{record['clock_mhz']:g}", memory, tools))
        print_table(_COLUMNS, rows, wide=wide)


def _size(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"
