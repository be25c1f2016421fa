"""boards.build.floorplan: every multiplier and block RAM in the plan gets a site of its own."""

import json
from pathlib import Path

import pytest

from tq_hw.boards.build.floorplan import MEMORY_ROWS, MULTIPLIER_ROWS, memory_sites, multiplier_sites, place_blocks

DEVICE = "LFE5UM5G-85F-8BG554"


def names(rows: int, cols: int, lanes: int) -> list[str]:
    """Return cell names as Yosys makes them."""
    parts = ("high_high", "high_low", "low_high", "low_low")
    return [*(f"top.core.array.array.product_{r}_{c}_TRELLIS_FF_Q_15_DI_MULT18X18D_P0" for r in range(rows)
              for c in range(cols)),
            *(f"top.core.vector.lane{lane}.product.{part}_TRELLIS_FF_Q_DI_MULT18X18D_P3" for lane in range(lanes)
              for part in parts)]


@pytest.mark.parametrize(("rows", "cols", "lanes"), [(9, 8, 8), (9, 8, 1), (8, 8, 8), (3, 5, 2), (8, 13, 13),
                                                     (16, 8, 4), (9, 12, 8)])
def test_sites_are_distinct_and_on_the_chip(rows: int, cols: int, lanes: int) -> None:
    """All sites are in rows and blocks of the device; the four multipliers of a lane share a block."""
    sites = multiplier_sites(names(rows, cols, lanes), DEVICE)
    chip_rows, blocks = MULTIPLIER_ROWS["85F"]
    assert sorted(sites) == sorted(names(rows, cols, lanes))
    assert len(set(sites.values())) == len(sites)
    assert all(row in chip_rows and column - number in blocks and number in (0, 1, 4, 5)
               for column, row, number in sites.values())
    for lane in range(lanes):
        assert len({column - number for name, (column, _, number) in sites.items() if f".lane{lane}." in name}) == 1


@pytest.mark.parametrize(("rows", "cols", "lanes"), [(9, 8, 8), (16, 8, 4), (8, 8, 8), (9, 12, 8)])
def test_the_next_column_is_beside_or_above(rows: int, cols: int, lanes: int) -> None:
    """The next column is one row of multipliers further, or at most a column and a gap between blocks along the row."""
    sites = multiplier_sites(names(rows, cols, lanes), DEVICE)
    at = {tuple(map(int, name.split("product_")[1].split("_")[:2])): sites[name] for name in names(rows, cols, 0)}
    for (row, col), (column, chip_row, _) in at.items():
        if col + 1 < cols:
            next_column, next_row, _ = at[row, col + 1]
            assert next_row == chip_row or next_row == chip_row + 24
            assert abs(next_column - column) <= 12 * (rows + 3) // 4, (row, col)


def memory_names(parts: int, cols: int, lanes: int) -> list[str]:
    """Return names of block RAMs as Yosys makes them."""
    return [*(f"top.core.scratchpad.bank{bank}.0.{part}" for bank in range(4) for part in range(parts)),
            *(f"top.core.array.accumulators.memory{odd}$65.0.{part}" for odd in range(2) for part in range(cols)),
            *(f"top.core.vector.lane{lane}.table.memory.{copy}.0" for lane in range(lanes) for copy in range(2)),
            *(f"top.core.vector.registers.memory.{copy}.{lane}" for lane in range(lanes) for copy in range(2))]


@pytest.mark.parametrize(("parts", "cols", "lanes"), [(8, 8, 8), (2, 3, 1), (26, 26, 13)])
def test_memories_have_sites_of_their_own(parts: int, cols: int, lanes: int) -> None:
    """All sites are in rows of the device; bytes of the same lanes are close together, as are memories of a lane."""
    all_names = memory_names(parts, cols, lanes)
    sites = memory_sites([*all_names, "top.core.fetch.queue_load.fifo.storage.0.0"], DEVICE)
    chip_rows, blocks = MEMORY_ROWS["85F"]
    assert sorted(sites) == sorted(all_names)
    assert len(set(sites.values())) == len(sites)
    assert all(row in chip_rows and column - 2 * number in blocks and number in range(4)
               for column, row, number in sites.values())
    for lane in range(lanes):
        assert len({column - 2 * number for name, (column, _, number) in sites.items()
                    if f".lane{lane}." in name or ("registers" in name and name.endswith(f".{lane}"))}) == 1
    for part in range(parts):
        banks = [sites[f"top.core.scratchpad.bank{bank}.0.{part}"] for bank in range(4)]
        assert len({row for _, row, _ in banks}) == 1
        assert max(column for column, _, _ in banks) - min(column for column, _, _ in banks) <= 11


def test_too_many_cells_or_an_unknown_device_get_no_sites() -> None:
    """No site is better than two cells on one."""
    assert memory_sites(memory_names(27, 8, 8), DEVICE) == {}
    assert memory_sites(memory_names(8, 8, 8), "LFE5U-25F-6BG256") == {}
    assert multiplier_sites(names(9, 13, 8), DEVICE) == {}
    assert multiplier_sites(names(9, 8, 14), DEVICE) == {}
    assert multiplier_sites(names(9, 8, 8), "LFE5U-25F-6BG256") == {}


def test_the_netlist_gets_the_attribute(tmp_path: Path) -> None:
    """Other cells do not change."""
    free = {"type": "MULT18X18D", "attributes": {}}
    cells = {name: {"type": "MULT18X18D", "attributes": {}} for name in names(2, 2, 1)}
    memories = {name: {"type": "DP16KD", "attributes": {}} for name in memory_names(1, 2, 1)}
    others = {"other": free, "lut": {"type": "LUT4", "attributes": {}}}
    design = {"modules": {"top": {"cells": {**cells, **memories, **others}}}}
    netlist = tmp_path / "top.json"
    netlist.write_text(json.dumps(design), encoding="utf-8")
    assert place_blocks(netlist, DEVICE) == len(cells) + len(memories) == 20
    after = json.loads(netlist.read_text(encoding="utf-8"))["modules"]["top"]["cells"]
    assert after["other"] == free and after["lut"] == {"type": "LUT4", "attributes": {}}
    assert after[names(2, 2, 0)[0]]["attributes"] == {"BEL": "X58/Y34/MULT18_0"}
    assert after["top.core.scratchpad.bank3.0.0"]["attributes"] == {"BEL": "X64/Y70/EBR3"}
