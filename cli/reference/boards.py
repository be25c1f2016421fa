"""Write the page of boards: `python -m tq_hw.cli.reference.boards > docs/reference/boards.md`.

Sizes come from the catalog, cells from the record of whole boards (`benches/area.py`), clocks from recorded routes,
and times from `boards.json`, which `benches/board_networks.py` writes.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tq_hw.boards.catalog.board import FAMILIES, Board
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.boards.resources.board import board_resources, recorded_memories, taken
from tq_hw.boards.resources.clocks import CLOCKS
from tq_hw.boards.resources.record import boards
from tq_hw.isa.config import Config

__all__ = ["EMULATED", "ESTIMATE", "NETWORKS", "RECORD", "page", "timed"]

RECORD = Path(__file__).parent / "boards.json"
#: How the cycles of a network were obtained.
ESTIMATE, EMULATED = "estimate", "emulated board"
#: Columns of the second table, and the files of the networks among the shared models.
NETWORKS = {"KWS": "mlperf_tiny_kws_dscnn.tflite", "VWW": "mlperf_tiny_vww_96.tflite",
            "IC": "mlperf_tiny_ic_resnet8.tflite", "AD": "mlperf_tiny_ad01.tflite",
            "person_detect": "tflm_person_detect.tflite", "MobileNetV2 160": "cfu_mobilenetv2_160_035.tflite",
            "MobileNetV2 224": "coral_tf2_mobilenet_v2_224_ptq.tflite"}

_HEAD = """# Boards

Generated from `boards/catalog/`, the records of whole boards and of routes in `boards/resources/`, and
`cli/reference/boards.json` (`benches/board_networks.py`) by `python -m tq_hw.cli.reference.boards`.

* Memory is the one that a board is built with by default; others are named by `tq-hw boards`. Bytes are per cycle of
  the accelerator, as schedules are made for.
* Clock is the accelerator's target; "reached" after routing with the open tools, "-" where this configuration was never
  routed.
* LUTs, multipliers and block RAMs are of the whole board after synthesis, with `~` as estimated by the resource model,
  where this configuration and memory were not synthesized; "-" where the model does not cover the board. LUTs of an
  ECP5 include those used for carries and small memories.
"""
_TIMES = """
## Milliseconds per inference

At the target clock, with cold start, for the default memory: `~` is the compiler's estimate; a number without it was
run on the emulated board, where every output was the golden model's. "-" is a network that does not fit, or the serial
machine, which has no estimate of time.

"""


def _reached(board: Board) -> str:
    found = [clock.mhz for clock in CLOCKS
             if clock.family == FAMILIES[board.toolchain] and clock.board == board.name
             and clock.config.same_machine(board.config)]
    return f"{max(found):g}" if found else "-"


def timed(board: Board) -> dict[str, Any]:
    """Return what the times of a board depend on, as in the record."""
    memory = memory_rate(board, board.memories[0])
    config = board.config
    return {"fingerprint": f"{config.fingerprint:08x}", "dsp_packing": config.dsp_packing,
            **({"few_luts": 1} if config.few_luts else {}),
            "latency_cycles": memory.latency_cycles, "bytes_per_cycle": memory.bytes_per_cycle}


def _cells(board: Board) -> tuple[str, str, str]:
    """Return LUTs with their share of the device, multipliers and block RAMs."""
    memory = board.memories[0]
    if memory.name not in recorded_memories(board):
        return "-", "-", "-"
    exact = any((one.board, one.memory) == (board.name, memory.name) and one.config.same_machine(board.config)
                for one in boards())
    found = taken(board_resources(board, memory, board.config))
    mark = "" if exact else "~"
    return (f"{mark}{found['luts']:,.0f} ({found['luts'] / board.device.luts:.0%})",
            f"{mark}{found['multipliers']:,.10g} of {board.device.multipliers}",
            f"{mark}{found['block_rams']:,.10g} of {board.device.block_rams}")


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def _machine(config: Config) -> str:
    if config.design == "serial":
        return f"serial, {_size(config.scratchpad_bytes)}"
    more = (", packed" if config.dsp_packing else "") + (", compressed weights" if config.compressed_weights else "")
    return f"{config.rows}x{config.cols}, {config.requantize_lanes} lanes, {_size(config.scratchpad_bytes)}{more}"


def _time(board: Board, value: dict[str, Any] | None) -> str:
    if value is None or value["cycles"] is None:
        return "-"
    return ("~" if value["by"] == ESTIMATE else "") + f"{1000 * value['cycles'] / board.clock_hz:.3g}"


def _lines(record: dict[str, Any]) -> Iterator[str]:
    names = ("board", "device", "machine", "memory", "bytes", "clock MHz", "reached", "LUTs", "multipliers",
             "block RAMs", "tools")
    yield f"| {' | '.join(names)} |"
    yield "|---|---|---|---|--:|--:|--:|--:|--:|--:|---|"
    for board in BOARDS.values():
        memory = board.memories[0]
        cells = [board.name, board.device.name, _machine(board.config), f"{memory.name}, {_size(memory.size_bytes)}",
                 f"{memory_rate(board, memory).bytes_per_cycle:g}", f"{board.clock_hz / 1e6:g}", _reached(board),
                 *_cells(board), board.toolchain.value]
        yield f"| {' | '.join(cells)} |"
    yield _TIMES.rstrip("\n")
    yield ""
    yield f"| board | {' | '.join(NETWORKS)} |"
    yield "|---" + "|--:" * len(NETWORKS) + "|"
    for board in BOARDS.values():
        known = record.get(board.name, {})
        times = known["networks"] if known.get("of") == timed(board) else {}
        yield f"| {' | '.join([board.name, *(_time(board, times.get(name)) for name in NETWORKS)])} |"


def page() -> str:
    """Return the text of the page."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    return "\n".join([_HEAD, *_lines(record)]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
