"""Cycles of seven networks on the boards, for docs/reference/boards.md: `python benches/board_networks.py [BOARD]...`.

Cycles are estimated for the board's first memory. With `--emulate` the emulated board runs each network as `tq-hw run`
does, and every output must equal the golden model's. The record keeps measured cycles until the board's machine or
memory changes. Exit code 1 if a network is not exact.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tq_hw.boards.catalog.board import Board
from tq_hw.boards.catalog.catalog import BOARDS, find_board
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.cli.reference.boards import EMULATED, ESTIMATE, NETWORKS, RECORD, timed
from tq_hw.compiler import estimate_model
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.tflite.reader import read_model

__all__ = ["estimated", "kept", "main"]

MODELS = Path(__file__).parents[2] / "shared" / "models"
TQ = [sys.executable, "-m", "tq_hw.cli"]
_SECONDS = "100000"


def estimated(board: Board, file: Path) -> dict[str, Any]:
    """Return the record of one network: cycles, or None with the reason."""
    memory = board.memories[0]
    try:
        found = estimate_model(read_model(file), board.config, memory_rate(board, memory))
    except UnsupportedError as error:
        return {"cycles": None, "by": str(error)}
    if found.memory_bytes > memory.size_bytes:
        return {"cycles": None, "by": f"needs {found.memory_bytes:,} bytes"}
    if board.config.design == "serial":
        return {"cycles": None, "by": "of the serial machine's time there is no estimate"}
    return {"cycles": found.cycles, "by": ESTIMATE}


def emulate(board: Board, files: dict[str, Path]) -> dict[str, Any]:
    """Return the records of the networks, run one after the other on the emulated board."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        port, report = Path(folder) / "port", Path(folder) / "report.json"
        with subprocess.Popen([*TQ, "emulate", "--board", board.name, "--port", str(port)], stdout=subprocess.PIPE,
                              text=True) as process:
            try:
                assert process.stdout is not None
                print(process.stdout.readline().strip(), file=sys.stderr)
                for name, file in files.items():
                    print(f"{board.name}: {name}", file=sys.stderr)
                    subprocess.run([*TQ, "run", "--board", board.name, "--port", str(port), str(file), "--no-layers",
                                    "--time-limit", _SECONDS, "--json", str(report)], check=True,
                                   stdout=subprocess.DEVNULL)
                    value = json.loads(report.read_text(encoding="utf-8"))
                    if value["bit_exact"] is not True:
                        raise SystemExit(f"{board.name}: {name} is not exact")
                    found[name] = {"cycles": value["cycles"], "by": EMULATED}
            finally:
                process.terminate()
    return found


def kept(before: dict[str, Any], of: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return a board's record. Measured cycles of the same machine and memory replace estimates."""
    old = before["networks"] if before.get("of") == of else {}
    return {"of": of, "networks": {
        name: old[name] if value["by"] != EMULATED and old.get(name, {}).get("by") == EMULATED else value
        for name, value in {**old, **found}.items()}}


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("boards", nargs="*", default=list(BOARDS), metavar="BOARD", help="by default all")
    parser.add_argument("--emulate", action="store_true", help="run the networks on the emulated board")
    parser.add_argument("--networks", default=",".join(NETWORKS), metavar="NAME,...", help="by default all")
    options = parser.parse_args()
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    files = {name: MODELS / NETWORKS[name] for name in options.networks.split(",")}
    for board in map(find_board, options.boards):
        found = emulate(board, files) if options.emulate else {name: estimated(board, file)
                                                                for name, file in files.items()}
        record[board.name] = kept(record.get(board.name, {}), timed(board), found)
        RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
