"""Sites for the multipliers of an ECP5, which its placer leaves far from what they feed.

An LFE5U-85F has 156 multipliers in three rows across the chip, four to a block. The columns of the array get the upper
two rows, half of them each, every column's cells side by side in the order of their sums; each lane of the vector
unit gets a block of the lower row. All are centred. nextpnr takes a site from a cell's attribute `BEL` and pulls the
rest of the logic to it.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["MULTIPLIER_ROWS", "Site", "multiplier_sites", "place_multipliers"]

#: Column and row of the chip, and number in its block.
Site = tuple[int, int, int]
#: Rows of multipliers by die, from below; first columns of the blocks in each, as nextpnr numbers them.
MULTIPLIER_ROWS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "85F": ((10, 34, 58), (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114)),
}
#: Columns of the four multipliers of a block behind its first one; these are their numbers as well.
_IN_BLOCK = (0, 1, 4, 5)
#: Names that Yosys derives from `hdl.array.MacArray` and `hdl.requantize.HighMultiply`.
_CELL = re.compile(r"\barray\.product_(?P<row>\d+)_(?P<col>\d+)_")
_DIE = re.compile(r"^LFE5U(M|M5G)?-(?P<die>\d+F)\b")
_LANE = re.compile(r"\blane(?P<lane>\d+)\.product\.(?P<part>[a-z_]+)_")


def _centred(row: int, blocks: tuple[int, ...], count: int) -> list[Site]:
    skipped = (len(_IN_BLOCK) * len(blocks) - count) // (2 * len(_IN_BLOCK))
    return [(first + offset, row, offset) for first in blocks[skipped:] for offset in _IN_BLOCK][:count]


def multiplier_sites(names: Iterable[str], device: str) -> dict[str, Site]:
    """Return a site for each multiplier of the array and the lanes; {} when the device is unknown or too small.

    `names` are those of the netlist's multipliers; what belongs neither to the array nor to a lane stays free.
    """
    cells: dict[tuple[int, int], str] = {}
    lanes: dict[tuple[int, str], str] = {}
    for name in names:
        if cell := _CELL.search(name):
            cells[int(cell["col"]), int(cell["row"])] = name
        elif lane := _LANE.search(name):
            lanes[int(lane["lane"]), lane["part"]] = name
    die = _DIE.match(device)
    rows, blocks = MULTIPLIER_ROWS.get(die["die"] if die else "", ((), ()))
    half = (len(cells) + 1) // 2
    if not rows or max(half, len(lanes)) > len(_IN_BLOCK) * len(blocks):
        return {}
    sites: dict[str, Site] = {}
    for row, members in zip(rows, ([lanes[key] for key in sorted(lanes)], [cells[key] for key in sorted(cells)[:half]],
                                   [cells[key] for key in sorted(cells)[half:]]), strict=True):
        sites.update(zip(members, _centred(row, blocks, len(members)), strict=True))
    return sites


def place_multipliers(netlist: Path, device: str) -> int:
    """Write the sites into a netlist that Yosys wrote as JSON; return how many multipliers have one now."""
    design: Any = json.loads(netlist.read_text(encoding="utf-8"))
    placed = 0
    for module in design["modules"].values():
        cells = {name: cell for name, cell in module["cells"].items() if cell["type"] == "MULT18X18D"}
        for name, (column, row, number) in multiplier_sites(cells, device).items():
            cells[name]["attributes"]["BEL"] = f"X{column}/Y{row}/MULT18_{number}"
            placed += 1
    if placed:
        netlist.write_text(json.dumps(design), encoding="utf-8")
    return placed
