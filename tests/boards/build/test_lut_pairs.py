"""Which cones of LUTs become pairs, and that their functions stay the same, on handwritten netlists."""

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from netlists import cells_of, free_nets, lut, mux, net_values, table_of, write

from tq_hw.boards.build.lut_depths import Depths
from tq_hw.boards.build.lut_pairs import pair_luts

OUT, INNER, OTHER = 900, 901, 902
CHOICE = table_of(lambda a, b, s: b if s else a, 3)
AND = table_of(lambda a, b: a and b, 2)
#: A choice of four by three LUTs, by a joined pair and a LUT, and by four joined ones.
PLAIN = {"low": lut(INNER, CHOICE, 10, 11, 20), "high": lut(OTHER, CHOICE, 12, 13, 20),
         "root": lut(OUT, CHOICE, INNER, OTHER, 21)}
JOINED = {"leaf": lut(INNER, CHOICE, 10, 11, 20), "zero": lut(30, table_of(lambda a: a, 1), INNER),
          "one": lut(31, CHOICE, 12, 13, 20), "root": mux(OUT, "PFUMX", 30, 31, 21)}
WIDE = {**{f"lut{n}": lut(30 + n, table_of(lambda a: a, 1), 10 + n) for n in range(4)},
        "low": mux(INNER, "PFUMX", 30, 31, 20), "high": mux(OTHER, "PFUMX", 32, 33, 20),
        "root": mux(OUT, "L6MUX21", INNER, OTHER, 21)}


def sink(*nets: int) -> dict[str, Any]:
    """Return registers that read nets."""
    return {f"register{net}": {"type": "TRELLIS_FF", "parameters": {}, "connections": {"DI": [net], "Q": [net + 1000]},
                               "port_directions": {"DI": "input", "Q": "output"}} for net in nets}


def check(tmp_path: Path, cells: dict[str, Any], gone: int | None, nets: tuple[int, ...] = (OUT,)) -> Any:
    """Pair; check the number of LUTs removed, and `nets` for all values of the nets that feed them."""
    file = write(tmp_path, cells)
    found = pair_luts(file)
    paired = cells_of(file)
    counts = [sum(cell["type"] == "LUT4" for cell in each.values()) for each in (cells, paired)]
    assert counts[0] - counts[1] == found and gone in (None, found)
    for values in product((0, 1), repeat=len(free := free_nets(cells))):
        given = dict(zip(free, values, strict=True))
        before, after = net_values(cells, given), net_values(paired, given)
        assert [before[net] for net in nets] == [after[net] for net in nets]
    return paired


def longest(cells: dict[str, Any]) -> int:
    depths = Depths({"ports": {}, "cells": cells})
    return max(map(depths.through, list(depths.before)))


@pytest.mark.parametrize(("cells", "gone"), [(PLAIN, 1), (JOINED, 1), (WIDE, 2)], ids=["plain", "joined", "wide"])
def test_a_choice_of_four_takes_two_luts(cells: dict[str, Any], gone: int, tmp_path: Path) -> None:
    """The four joined LUTs have one level, so they are replaced only beside a longer way."""
    if cells is WIDE:
        assert check(tmp_path, cells | sink(OUT), 0)
        cells = {**cells, "late": lut(13, AND, 40, 41)}
        cells["lut3"] = lut(33, table_of(lambda a: a, 1), 13)
    paired = check(tmp_path, cells | sink(OUT), gone)
    assert longest(paired) <= longest(cells | sink(OUT))


def test_seven_inputs_take_two_luts(tmp_path: Path) -> None:
    three = table_of(lambda a, b, c: a ^ b ^ c, 3)
    check(tmp_path, {"first": lut(30, three, 10, 11, 12), "second": lut(31, three, 13, 14, 15),
                     "root": lut(OUT, three, 30, 31, 16), **sink(OUT)}, 1)
    # Not a parity: the second LUT would have to know two bits of the first one's inputs.
    check(tmp_path, {"first": lut(30, three, 10, 11, 12), "second": lut(31, three, 13, 14, 16),
                     "root": lut(OUT, CHOICE, 30, 31, 15), **sink(OUT)}, 0)


@pytest.mark.parametrize("more", [{"reader": lut(50, AND, INNER, 14), **sink(50)}, sink(INNER)],
                         ids=["lut", "register"])
def test_a_cone_with_another_reader_inside_stays(more: dict[str, Any], tmp_path: Path) -> None:
    check(tmp_path, {**PLAIN, **sink(OUT), **more}, 0, (OUT, INNER))


def test_an_output_of_the_module_is_a_reader(tmp_path: Path) -> None:
    file = write(tmp_path, {**PLAIN, **sink(OUT)}, {"out": {"direction": "output", "bits": [INNER]}})
    before = file.read_text(encoding="utf-8")
    assert pair_luts(file) == 0 and file.read_text(encoding="utf-8") == before


@pytest.mark.parametrize(("late", "gone"), [((), 1), ((21,), 0), ((10, 21), 1)])
def test_no_way_gets_longer(late: tuple[int, ...], gone: int, tmp_path: Path) -> None:
    """In the pair both selects pass two LUTs. That is longer if the second select alone is late."""
    cells = {**PLAIN, **sink(OUT, *late), **{f"late{net}": lut(net, AND, 100 + net, 200 + net) for net in late}}
    assert longest(check(tmp_path, cells, gone)) == longest(cells)


def test_what_a_slice_joins_further_stays(tmp_path: Path) -> None:
    """A L6MUX21 takes the output of a PFUMX or of another L6MUX21, no LUT's."""
    more = {"join": mux(OUT + 50, "L6MUX21", OUT, 60, 22), "third": mux(60, "PFUMX", 61, 62, 23),
            "lut61": lut(61, AND, 70, 71), "lut62": lut(62, AND, 72, 73)}
    for cells in (JOINED, WIDE):
        paired = check(tmp_path, {**cells, **more, **sink(OUT + 50)}, 0, (OUT + 50,))
        assert paired["root"]["type"] == cells["root"]["type"]


@pytest.mark.parametrize("seed", range(300))
def test_random_cells(seed: int, tmp_path: Path) -> None:
    """Trees of LUTs and multiplexers with any tables."""
    rng = random.Random(seed)
    nets: list[Any] = [10, 11, 12, 13, 14, 15, 16, "0", "1", "x"]
    cells: dict[str, Any] = {}
    inner: list[int] = []
    for number in range(rng.randint(3, 7)):
        some = inner[-3:] if rng.random() < 0.8 else inner
        inputs = rng.sample([*nets, *some, *some], k=rng.randint(1, 4))
        out = 30 + number
        if len(some) > 1 and rng.random() < 0.2:
            cells[f"mux{number}"] = mux(out, "PFUMX", *rng.sample(some, 2), rng.choice(nets[:7]))
        else:
            cells[f"lut{number}"] = lut(out, rng.getrandbits(16), *inputs)
        inner.append(out)
    roots = [inner[-1], *rng.sample(inner, 1)]
    cells |= sink(*dict.fromkeys(roots))
    before = longest(cells)
    assert longest(check(tmp_path, cells, None, tuple(roots))) <= before


def test_depths_follow_the_changes() -> None:
    """What is computed after a replacement is what is computed of the new cells alone."""
    before = {**PLAIN, **sink(OUT, INNER), "late": lut(21, AND, 40, 41)}
    new = {"low": lut(INNER, AND, 10, 21), "root": lut(OUT, AND, INNER, 12)}
    gone = {name: before[name] for name in ("low", "high", "root")}
    cells = dict(before)
    depths = Depths({"ports": {}, "cells": cells})
    for name in gone:
        del cells[name]
    cells |= new
    depths.replace(gone, new)
    fresh = Depths({"ports": {}, "cells": cells})
    nets = [10, 12, 21, 40, 41, INNER, OUT]
    assert [depths.through(net) for net in nets] == [fresh.through(net) for net in nets]
    assert depths.through(40) == 30 and depths.driver(OTHER) is None
