"""Resources of the boards against the table that is committed: `python benches/boards.py [BOARD]...`.

Each board is synthesized whole, with its first memory. Exit code 1 when one needs more of anything than the table says
(2 % are allowed: synthesis varies), `--record` renews the table.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tq_hw.boards.build.build import synthesize
from tq_hw.boards.catalog.catalog import BOARDS, find_board
from tq_hw.model.errors import TqError

__all__ = ["TABLE", "grown", "read_table"]

TABLE = Path(__file__).with_name("boards.json")
_ALLOWED = 1.02


def read_table() -> dict[str, dict[str, float]]:
    """Return the committed resources by board."""
    table: dict[str, dict[str, float]] = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    return table


def grown(found: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """Return what there is more of than the table allows, as a person reads it."""
    return [f"{kind} {before.get(kind, 0):,} -> {count:,}" for kind, count in found.items()
            if count > _ALLOWED * before.get(kind, 0)]


def main() -> int:
    """Run the command; return its exit code: 0 as before or less, 1 more, 2 to 4 as `tq-hw`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("boards", nargs="*", default=list(BOARDS), metavar="BOARD", help="by default all")
    parser.add_argument("--record", action="store_true", help="write the figures into the table")
    options = parser.parse_args()
    console = Console()
    table, more = read_table(), []
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
            more += [f"{name}: {line}" for line in grown(found, table.get(name, {}))]
            table[name] = found
            if options.record:
                TABLE.write_text(json.dumps(dict(sorted(table.items())), indent=1) + "\n", encoding="utf-8")
    except TqError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    console.print(shown)
    if options.record:
        return 0
    for line in more:
        console.print(f"more than the table says: {line}", soft_wrap=True)
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
