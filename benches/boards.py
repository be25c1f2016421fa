"""Resources of the boards against those that are recorded: `python benches/boards.py [BOARD]...`.

Each board is synthesized whole, with its first memory. Exit code 1 if one needs more of a resource than recorded in
boards/resources, plus 2 % for the variation of synthesis. `--record` renews the record, as `benches/area.py --board`.
"""
import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from area import keep_board
from rich.console import Console
from rich.table import Table

from tq_hw.boards.build.build import synthesize
from tq_hw.boards.catalog.catalog import BOARDS, find_board
from tq_hw.boards.resources.record import boards
from tq_hw.model.errors import TqError

__all__ = ["grown", "recorded"]

_ALLOWED = 1.02


def recorded(name: str, memory: str) -> Mapping[str, float]:
    """Return the recorded cells of a board with a memory; empty if it was never recorded."""
    return next((row.cells for row in boards() if (row.board, row.memory) == (name, memory)), {})


def grown(found: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """Return the resources that exceed the record, as readable text."""
    return [f"{kind} {before.get(kind, 0):,} -> {count:,}" for kind, count in found.items()
            if count > _ALLOWED * before.get(kind, 0)]


def main() -> int:
    """Run the command; return its exit code: 0 no more than recorded, 1 more, 2 to 4 as `tq-hw`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("boards", nargs="*", default=list(BOARDS), metavar="BOARD", help="by default all")
    parser.add_argument("--record", action="store_true", help="write the figures into the record")
    options = parser.parse_args()
    console = Console()
    more = []
    shown = Table(title="Whole boards after synthesis, of what the device has")
    for name in ("board", "luts", "flip flops", "multipliers", "block rams", "others"):
        shown.add_column(name)
    try:
        for name in options.boards:
            board = find_board(name)
            print(f"{name}: synthesis", file=sys.stderr)
            with tempfile.TemporaryDirectory() as folder:
                found = dict(synthesize(board, board.memories[0], Path(folder)))
            main_kinds = ("luts", "flip_flops", "multipliers", "block_rams")
            shown.add_row(name, *(f"{found[kind]:,} of {getattr(board.device, kind):,}" for kind in main_kinds),
                          ", ".join(f"{count:,} {kind}" for kind, count in found.items() if kind not in main_kinds))
            more += [f"{name}: {line}" for line in grown(found, recorded(name, board.memories[0].name))]
            if options.record:
                keep_board(board, board.memories[0], found)
    except TqError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    console.print(shown)
    if options.record:
        return 0
    for line in more:
        console.print(f"more than the record says: {line}", soft_wrap=True)
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
