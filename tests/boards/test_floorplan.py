"""boards.floorplan: every multiplier of the array and the lanes gets a site of its own."""

import json
from pathlib import Path

import pytest

from tq_hw.boards.floorplan import MULTIPLIER_ROWS, multiplier_sites, place_multipliers

DEVICE = "LFE5UM5G-85F-8BG554"


def names(rows: int, cols: int, lanes: int) -> list[str]:
    """Return names as Yosys makes them."""
    parts = ("high_high", "high_low", "low_high", "low_low")
    return [*(f"top.core.array.array.product_{r}_{c}_TRELLIS_FF_Q_15_DI_MULT18X18D_P0" for r in range(rows)
              for c in range(cols)),
            *(f"top.core.vector.lane{lane}.product.{part}_TRELLIS_FF_Q_DI_MULT18X18D_P3" for lane in range(lanes)
              for part in parts)]


@pytest.mark.parametrize(("rows", "cols", "lanes"), [(9, 8, 8), (9, 8, 1), (8, 8, 8), (3, 5, 2), (8, 13, 13)])
def test_sites_are_distinct_and_on_the_chip(rows: int, cols: int, lanes: int) -> None:
    """One site each, all in the device's rows and blocks; a lane's four share a block."""
    sites = multiplier_sites(names(rows, cols, lanes), DEVICE)
    chip_rows, blocks = MULTIPLIER_ROWS["85F"]
    assert sorted(sites) == sorted(names(rows, cols, lanes))
    assert len(set(sites.values())) == len(sites)
    assert all(row in chip_rows and column - number in blocks and number in (0, 1, 4, 5)
               for column, row, number in sites.values())
    for lane in range(lanes):
        assert len({column - number for name, (column, _, number) in sites.items() if f".lane{lane}." in name}) == 1


def test_too_many_or_an_unknown_device_stay_free() -> None:
    """No site is better than two multipliers at one."""
    assert multiplier_sites(names(9, 12, 8), DEVICE) == {}
    assert multiplier_sites(names(9, 8, 14), DEVICE) == {}
    assert multiplier_sites(names(9, 8, 8), "LFE5U-25F-6BG256") == {}


def test_the_netlist_gets_the_attribute(tmp_path: Path) -> None:
    """Other cells and other multipliers stay as they are."""
    free = {"type": "MULT18X18D", "attributes": {}}
    cells = {name: {"type": "MULT18X18D", "attributes": {}} for name in names(2, 2, 1)}
    design = {"modules": {"top": {"cells": {**cells, "other": free, "lut": {"type": "LUT4", "attributes": {}}}}}}
    netlist = tmp_path / "top.json"
    netlist.write_text(json.dumps(design), encoding="utf-8")
    assert place_multipliers(netlist, DEVICE) == 8
    after = json.loads(netlist.read_text(encoding="utf-8"))["modules"]["top"]["cells"]
    assert after["other"] == free and after["lut"] == {"type": "LUT4", "attributes": {}}
    assert after[names(2, 2, 0)[0]]["attributes"] == {"BEL": "X58/Y34/MULT18_0"}
