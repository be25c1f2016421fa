"""Sites for the multipliers and block RAMs of an ECP5, which its placer leaves far from the logic that they feed.

An LFE5U-85F has 156 multipliers in three rows across the chip and 208 block RAMs in four rows, four to a block.

Multipliers: the columns of the array get the upper two rows, half of the columns each. The cells of a column are
adjacent, in the order of their sums. Each lane of the vector unit gets a block of the lower row; columns that do not
fit into the upper rows lie beside the lanes. Activations go from column to column, so the second row continues in the
opposite direction: the next column is always beside or above the one before.

Block RAMs, from the top: the scratchpad in two rows, one for each half of the word, with the four banks of a byte side
by side because clients choose among the banks; the accumulators by columns, amid the array; tables and vector
registers by lanes.

Each row is centred. nextpnr takes a site from a cell's attribute `BEL` and places the rest of the logic near it. The
wires then meet in the middle of the chip instead of at one end.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["MEMORY_ROWS", "MULTIPLIER_ROWS", "Site", "memory_sites", "multiplier_sites", "place_blocks"]

#: Column and row of the chip, and index in the block.
Site = tuple[int, int, int]
#: Rows of multipliers by die, from the bottom; first columns of the blocks in each, as nextpnr numbers them.
MULTIPLIER_ROWS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "85F": ((10, 34, 58), (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114)),
}
#: The same for the block RAMs.
MEMORY_ROWS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "85F": ((22, 46, 70, 82), MULTIPLIER_ROWS["85F"][1]),
}
#: Columns of the four multipliers of a block, relative to its first; also their indices.
_MULTIPLIERS = (0, 1, 4, 5)
#: Columns of the four block RAMs of a block, relative to its first, in the order of their indices.
_MEMORIES = (0, 2, 4, 6)
#: Names that Yosys derives from `hdl.array.grid.MacArray` and `hdl.lane.high_multiply.HighMultiply`.
_CELL = re.compile(r"\barray\.product_(?P<row>\d+)_(?P<col>\d+)_")
_LANE = re.compile(r"\blane(?P<lane>\d+)\.product\.(?P<part>[a-z_]+)_")
#: Names that Yosys derives from memories; `part` counts the block RAMs along a word.
_BANK = re.compile(r"\bscratchpad\.bank(?P<bank>\d+)\.\d+\.(?P<part>\d+)$")
_ACCUMULATOR = re.compile(r"\baccumulators\.memory(?P<odd>\d)[^.]*\.\d+\.(?P<part>\d+)$")
_TABLE = re.compile(r"\blane(?P<lane>\d+)\.table\.memory\.(?P<copy>\d+)\.\d+$")
_REGISTER = re.compile(r"\bvector\.registers\.memory\.(?P<copy>\d+)\.(?P<part>\d+)$")
_DIE = re.compile(r"^LFE5U(M|M5G)?-(?P<die>\d+F)\b")


def _die(device: str) -> str:
    found = _DIE.match(device)
    return found["die"] if found else ""


def _centred(row: int, blocks: tuple[int, ...], columns: Sequence[int], count: int) -> list[Site]:
    """Return `count` sites in the middle of a row, beginning with a whole block."""
    skipped = (len(columns) * len(blocks) - count) // (2 * len(columns))
    return [(first + offset, row, offset) for first in blocks[skipped:] for offset in columns][:count]


def _turned(cells: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return cells (column, row) in descending order of columns, the rows of each in ascending order."""
    return sorted(cells, key=lambda cell: (-cell[0], cell[1]))


def multiplier_sites(names: Iterable[str], device: str) -> dict[str, Site]:
    """Return a site for each multiplier of the array and the lanes; {} when the device is unknown or too small.

    `names` are the netlist's multipliers; those outside the array and the lanes get no site.
    """
    cells: dict[tuple[int, int], str] = {}
    lanes: dict[tuple[int, str], str] = {}
    for name in names:
        if cell := _CELL.search(name):
            cells[int(cell["col"]), int(cell["row"])] = name
        elif lane := _LANE.search(name):
            lanes[int(lane["lane"]), lane["part"]] = name
    rows, blocks = MULTIPLIER_ROWS.get(_die(device), ((), ()))
    room, half = len(_MULTIPLIERS) * len(blocks), (len(cells) + 1) // 2
    if half > room:
        # Only whole columns in the upper rows, the rest beside the lanes.
        of_column = 1 + max(row for _, row in cells)
        half = room // of_column * of_column
    order = sorted(cells)
    rest = max(0, len(order) - 2 * half)
    beside, middle, upper = order[:rest], order[rest:rest + half], order[rest + half:]
    if beside:
        middle = _turned(middle)
    else:
        upper = _turned(upper)
    groups = [[*(lanes[key] for key in sorted(lanes)), *(cells[key] for key in beside)],
              [cells[key] for key in middle], [cells[key] for key in upper]]
    if not rows or max(map(len, groups)) > room:
        return {}
    sites: dict[str, Site] = {}
    for row, members in zip(rows, groups, strict=True):
        sites.update(zip(members, _centred(row, blocks, _MULTIPLIERS, len(members)), strict=True))
    return sites


def memory_sites(names: Iterable[str], device: str) -> dict[str, Site]:
    """Return a site for each block RAM of the scratchpad, the accumulators and the lanes; {} as above.

    The last number of a site is the block RAM's index in its block, 0..3. Queues get no site.
    """
    pad: dict[tuple[int, int], str] = {}
    sums: dict[tuple[int, int], str] = {}
    lanes: dict[tuple[int, int, int], str] = {}
    for name in names:
        if found := _BANK.search(name):
            pad[int(found["part"]), int(found["bank"])] = name
        elif found := _ACCUMULATOR.search(name):
            sums[int(found["part"]), int(found["odd"])] = name
        elif found := _TABLE.search(name):
            lanes[int(found["lane"]), 0, int(found["copy"])] = name
        elif found := _REGISTER.search(name):
            lanes[int(found["part"]), 1, int(found["copy"])] = name
    rows, blocks = MEMORY_ROWS.get(_die(device), ((), ()))
    parts = 1 + max((part for part, _ in pad), default=0)
    groups = [[lanes[key] for key in sorted(lanes)], [sums[key] for key in sorted(sums)],
              [pad[key] for key in sorted(pad) if key[0] < (parts + 1) // 2],
              [pad[key] for key in sorted(pad) if key[0] >= (parts + 1) // 2]]
    if not rows or max(map(len, groups)) > len(_MEMORIES) * len(blocks):
        return {}
    sites: dict[str, Site] = {}
    for row, members in zip(rows, groups, strict=True):
        for name, (column, _, offset) in zip(members, _centred(row, blocks, _MEMORIES, len(members)), strict=True):
            sites[name] = (column, row, _MEMORIES.index(offset))
    return sites


def place_blocks(netlist: Path, device: str) -> int:
    """Write the sites into a netlist that Yosys wrote as JSON; return how many cells got one."""
    design: Any = json.loads(netlist.read_text(encoding="utf-8"))
    placed = 0
    for module in design["modules"].values():
        for kind, sites_of, site_name in (("MULT18X18D", multiplier_sites, "MULT18_"), ("DP16KD", memory_sites, "EBR")):
            cells = {name: cell for name, cell in module["cells"].items() if cell["type"] == kind}
            for name, (column, row, number) in sites_of(cells, device).items():
                cells[name]["attributes"]["BEL"] = f"X{column}/Y{row}/{site_name}{number}"
                placed += 1
    if placed:
        netlist.write_text(json.dumps(design), encoding="utf-8")
    return placed
