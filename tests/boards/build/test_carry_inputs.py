"""Which LUTs are packed into carry cells, and that sums and carries stay the same, on handwritten netlists."""

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from netlists import PINS, cells_of, free_nets, lut, net_values, table_of, write

from tq_hw.boards.build.carry_inputs import pack_carry_inputs

#: What Yosys writes for a bit of an adder: A ^ B ^ C with D at 1, and A as the carry.
ADDER = 0x96AA
SUM, CARRY_IN = 900, 901


def carry(*halves: tuple[Any, ...], tables: tuple[int, int] = (ADDER, ADDER)) -> dict[str, Any]:
    """Return a CCU2C whose two halves have these inputs."""
    pins = {f"{pin}{number}": [net] for number, nets in enumerate(halves)
            for pin, net in zip(PINS, nets, strict=True)}
    outputs = {"S0": [SUM], "S1": [SUM + 2], "COUT": [SUM + 3]}
    return {"type": "CCU2C", "connections": {"CIN": [CARRY_IN], **pins, **outputs},
            "parameters": {"INIT0": f"{tables[0]:016b}", "INIT1": f"{tables[1]:016b}", "INJECT1_0": "NO",
                           "INJECT1_1": "NO"},
            "port_directions": dict.fromkeys(["CIN", *pins], "input") | dict.fromkeys(outputs, "output")}


def evaluated(cells: dict[str, Any], nets: dict[Any, int]) -> dict[str, tuple[int, int, int]]:
    """Return sums and carry of each carry cell for given values of the nets that no LUT drives.

    Lattice and Yosys' model define the cell so: a LUT4, and a LUT2 that shares its first four bits.
    """
    values = net_values(cells, nets)
    found = {}
    for name, cell in cells.items():
        if cell["type"] != "CCU2C":
            continue
        going, sums = values[cell["connections"]["CIN"][0]], []
        for half in "01":
            table = int(cell["parameters"][f"INIT{half}"], 2)
            at = sum(values[cell["connections"][f"{pin}{half}"][0]] << bit for bit, pin in enumerate(PINS))
            goes_on = table >> at & 1
            sums.append(goes_on ^ going)
            going = going if goes_on else table >> (at & 3) & 1
        found[name] = (sums[0], sums[1], going)
    return found


def check(tmp_path: Path, cells: dict[str, Any], gone: int) -> Any:
    """Pack; check the number of LUTs removed, and the cells' results for all values of the nets that feed them."""
    file = write(tmp_path, cells)
    assert pack_carry_inputs(file) == gone
    packed = cells_of(file)
    assert len(packed) == len(cells) - gone
    free = free_nets(cells)
    for values in product((0, 1), repeat=len(free)):
        nets = dict(zip(free, values, strict=True))
        assert evaluated(packed, nets) == evaluated(cells, nets)
    return packed


IDLE = ("0", "0", "0", "1")
CHOICE = table_of(lambda a, b, s: b if s else a, 3)


@pytest.mark.parametrize(("table", "nets", "gone"), [
    (CHOICE, (10, 11, 12), 1), (table_of(lambda a, b: a and b, 2), (10, 11), 1),
    (table_of(lambda a, b: a or b, 2), (10, 11), 1), (table_of(lambda a, b, s: a if s else not b, 3), (10, 11, 12), 0),
    (table_of(lambda a: not a, 1), (10,), 1), (table_of(lambda a, b, s: (a ^ b) and s, 3), (10, 11, 12), 1),
    # For these the carry would have to be known when both inputs that it does not see are 0.
    (table_of(lambda a, b, s: not (a or b or s), 3), (10, 11, 12), 0),
    (table_of(lambda a, b, s: a ^ b ^ s ^ 1, 3), (10, 11, 12), 0),
    # Five inputs in all.
    (table_of(lambda a, b, c, d: a ^ b ^ c ^ d), (10, 11, 12, 13), 0),
], ids=["choice", "and", "or", "half inverted", "not", "masked", "nor", "parity", "wide"])
@pytest.mark.parametrize("pin", [0, 1])
def test_a_function_before_an_adder(table: int, nets: tuple[int, ...], gone: int, pin: int, tmp_path: Path) -> None:
    inputs: list[Any] = [20, 21, "0", "1"]
    inputs[pin] = 30
    packed = check(tmp_path, {"lut": lut(30, table, *nets), "carry": carry(tuple(inputs), IDLE)}, gone)
    assert ("lut" in packed) == (not gone)
    assert packed["carry"]["connections"]["CIN"] == [CARRY_IN]


def test_both_parts_and_what_is_before_them(tmp_path: Path) -> None:
    """A LUT that feeds another one is packed after it; one that feeds two halves is packed into both."""
    both = table_of(lambda a, b: a and b, 2)
    check(tmp_path, {"first": lut(30, both, 10, 11), "second": lut(31, both, 30, 12), "shared": lut(32, both, 10, 13),
                     "carry": carry((31, 20, "0", "1"), (32, 21, "0", "1")),
                     "other": carry((22, 32, "0", "1"), IDLE)}, 3)
    check(tmp_path, {"one": lut(30, both, 10, 12), "two": lut(31, both, 11, 12),
                     "carry": carry((30, 31, "0", "1"), IDLE)}, 2)


def test_luts_with_another_reader_stay(tmp_path: Path) -> None:
    table = table_of(lambda a, b: a and b, 2)
    cells = {"lut": lut(30, table, 10, 11), "carry": carry((30, 20, "0", "1"), IDLE)}
    for extra in ({"reader": lut(40, table, 30, 12)}, {"carries": carry(IDLE, IDLE)}):
        if "carries" in extra:
            extra["carries"]["connections"]["CIN"] = [30]
        file = write(tmp_path, cells | extra)
        before = file.read_text(encoding="utf-8")
        assert pack_carry_inputs(file) == 0 and file.read_text(encoding="utf-8") == before
    file = write(tmp_path, cells, {"out": {"direction": "output", "bits": [30]}})
    assert pack_carry_inputs(file) == 0


@pytest.mark.parametrize("seed", range(300))
def test_random_cells(seed: int, tmp_path: Path) -> None:
    """Any tables in the halves, including some that Yosys never writes."""
    rng = random.Random(seed)
    nets = [10, 11, 12, 13, "0", "1", "x"]
    cells: dict[str, Any] = {}
    for number in range(rng.randint(1, 4)):
        inputs = rng.choices([*nets, *range(30, 30 + number)], k=rng.randint(1, 4))
        cells[f"lut{number}"] = lut(30 + number, rng.getrandbits(16), *inputs)
    halves = [tuple(rng.choices([*nets[:3], *range(30, 30 + len(cells))], k=2)) + rng.choice(
        [("0", "1"), ("0", "1"), (14, "1"), (14, 15)]) for _ in range(2)]
    tables = tuple(rng.choice((ADDER, ADDER, rng.getrandbits(16))) for _ in range(2))
    cells["carry"] = carry(*halves, tables=(tables[0], tables[1]))
    file = write(tmp_path, cells)
    gone = pack_carry_inputs(file)
    check(tmp_path, cells, gone)
