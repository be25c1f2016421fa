"""Resources without synthesis: for every recorded machine, multipliers and block RAMs are exact, LUTs nearly so."""

from dataclasses import replace

import pytest

from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.resources import options
from tq_hw.boards.resources.board import BOARD_UNIT, board_resources, recorded_memories, shortages, taken
from tq_hw.boards.resources.memories import block_rams, multipliers
from tq_hw.boards.resources.model import FITTED, errors_of, estimate_resources, families_of, held, spread
from tq_hw.boards.resources.record import KINDS, Machine, boards, families, machines
from tq_hw.isa.config import PRESETS, Config
from tq_hw.model.errors import UnsupportedError

PARALLEL = [(family, machine) for family in families() for machine in machines(family)
            if machine.config.design == "parallel"]

#: Largest relative error of the totals of LUTs and flip-flops.
MOST = 0.07


def name_of(value: object) -> str:
    if not isinstance(value, Machine):
        return str(value)
    config = value.config
    return f"{config.rows}x{config.cols}x{config.requantize_lanes}-{config.fingerprint:08x}"


@pytest.mark.parametrize(("family", "machine"), PARALLEL, ids=name_of)
def test_multipliers_and_block_rams_are_those_of_synthesis(family: str, machine: Machine) -> None:
    exact, rams = multipliers(machine.config, family), block_rams(machine.config, family)
    for unit, cells in machine.units.items():
        assert (unit, exact.get(unit, 0), rams.get(unit, 0)) == (unit, cells["multipliers"], cells["block_rams"])


@pytest.mark.parametrize(("family", "machine"), [case for case in PARALLEL if not case[1].held], ids=name_of)
def test_luts_and_flip_flops_are_near_those_of_synthesis(family: str, machine: Machine) -> None:
    found = estimate_resources(machine.config, family)
    for kind in ("luts", "flip_flops"):
        real = sum(machine.units[unit][kind] for unit in machine.units)
        assert sum(found.units[unit][kind] for unit in machine.units) == pytest.approx(real, rel=MOST), kind


@pytest.mark.parametrize(("family", "machine"), [case for case in PARALLEL if case[1].held], ids=name_of)
def test_machines_outside_the_fit_are_near_those_of_synthesis(family: str, machine: Machine) -> None:
    assert machine in held(family, "parallel")
    errors = errors_of(machine, family, [one for one in machines(family) if one.config.design == "parallel" and not
                                         (one.held or len(one.units) < len(machine.units))])
    for kind in ("luts", "flip_flops"):
        assert abs(errors[kind]) <= MOST, kind


@pytest.mark.parametrize("family", families())
def test_a_serial_machine_outside_the_fit_is_near_that_of_synthesis(family: str) -> None:
    machine, = held(family, "serial")
    found = estimate_resources(machine.config, family)
    real = {kind: sum(cells.get(kind, 0) for cells in machine.units.values()) for kind in KINDS}
    assert (found.total("multipliers"), found.total("block_rams")) == (real["multipliers"], real["block_rams"])
    assert found.total("luts") == pytest.approx(real["luts"], rel=0.1)
    assert found.total("flip_flops") == pytest.approx(real["flip_flops"], rel=0.1)


def test_the_spread_is_that_of_machines_outside_the_fit() -> None:
    known = spread("ecp5", "parallel")
    assert set(known) == set(FITTED)
    assert known["luts"].machines >= 3
    assert 0 < known["luts"].median <= known["luts"].worst <= MOST


@pytest.mark.parametrize("record", boards(), ids=lambda record: f"{record.board}-{record.memory}")
def test_recorded_machines_have_the_recorded_cells(record: object) -> None:
    one = next(each for each in boards() if each is record)
    board = BOARDS[one.board]
    memory = next(each for each in board.memories if each.name == one.memory)
    assert one.memory in recorded_memories(board)
    found = board_resources(board, memory, one.config)
    assert found.units[BOARD_UNIT]
    for kind in ("luts", "flip_flops", "multipliers", "block_rams"):
        assert found.total(kind) == one.cells[kind]


def test_resources_that_do_not_suffice_are_named() -> None:
    board = BOARDS["ulx3s_85f"]
    memory = board.memories[0]
    assert shortages(board, board_resources(board, memory, board.config)) == []
    large = board_resources(board, memory, PRESETS["n16"])
    assert taken(large)["multipliers"] == 256 + 64 + 28
    assert "multipliers: 348 of 156" in shortages(board, large)


def test_a_memory_that_was_never_built_is_an_error() -> None:
    board = BOARDS["ulx3s_85f"]
    with pytest.raises(UnsupportedError) as error:
        board_resources(board, board.memories[1], board.config)
    assert str(error.value) == ("ulx3s_85f was never synthesized with block RAM; it was with SDR SDRAM: "
                                "benches/area.py makes the record")
    with pytest.raises(UnsupportedError, match="^mine was never synthesized: benches/area.py makes the record$"):
        board_resources(replace(board, name="mine"), board.memories[0], board.config)


def test_a_family_without_a_record_is_an_error() -> None:
    assert "ecp5" in families_of(PRESETS["n8"])
    with pytest.raises(UnsupportedError) as error:
        estimate_resources(Config("other", 8, 8, 8, 65536), "ice40")
    assert str(error.value).startswith("configuration 'other': the parallel design was never synthesized for ice40; "
                                       "it was for ecp5")


def test_memories_with_byte_enables_do_not_use_the_ninth_bit() -> None:
    """A whole ULX3S with this machine has 172 block RAMs, one of which belongs to its link."""
    found = block_rams(Config("x", 16, 8, 4, 256 << 10), "ecp5")
    assert (found["scratchpad"], sum(found.values())) == (128, 171)


@pytest.mark.parametrize(("rows", "cols", "lanes", "flip_flops"), [(4, 4, 2, 932), (16, 8, 4, 2556)])
def test_cells_for_two_products_are_near_those_of_synthesis(
        rows: int, cols: int, lanes: int, flip_flops: int) -> None:
    """Synthesis has 837 and 2,488 more flip-flops."""
    plain = Config("x", rows, cols, lanes, 32 << 10)
    one, two = (estimate_resources(config, "xc7").units["array"] for config in (plain, replace(plain, dsp_packing=2)))
    assert one["multipliers"] == 2 * two["multipliers"] == rows * cols
    assert (two["luts"] - one["luts"], two["flip_flops"] - one["flip_flops"]) == (120, flip_flops)


@pytest.mark.parametrize(("rows", "lanes", "luts"), [
    (9, 4, [0, 0, 0, -272, -485, -73]), (9, 8, [0, 0, 0, 0, -970, -73]), (16, 4, [-493, -138, -101, -544, -485, -73])])
def test_few_luts_are_those_of_synthesis(rows: int, lanes: int, luts: list[int]) -> None:
    """Words of 16 bytes are rotated in two cycles; units share ports where a word is two beats or more.

    The first machine's units have 3 more and 285, 485 and 75 fewer LUTs, and 257 and 1,382 more flip-flops.
    """
    plain = Config("x", rows, 8, lanes, 32 << 10)
    many, few = (estimate_resources(config, "xc7").units for config in (plain, replace(plain, few_luts=1)))
    assert [few[unit]["luts"] - many[unit]["luts"] for unit in (
        "array", "load", "store", "scratchpad", "vector", "write_channel")] == luts
    assert few["array"]["flip_flops"] - many["array"]["flip_flops"] == 256
    assert few["vector"]["flip_flops"] - many["vector"]["flip_flops"] == 345.5 * lanes


@pytest.mark.parametrize(("cols", "luts", "flip_flops"), [
    (4, 827, 574), (6, 952, 631), (8, 1077, 688), (16, 2193, 1241), (20, 4011, 1880)])
def test_resources_of_the_weight_decoder_are_those_of_synthesis(cols: int, luts: int, flip_flops: int) -> None:
    """It decodes 8 bytes at a time for up to 8 columns, 16 for up to 16, 32 for more."""
    plain = Config("x", 9, cols, 1, 64 << 10)
    coded = replace(plain, compressed_weights=1)
    one, two = (estimate_resources(config, "ecp5").units["load"] for config in (plain, coded))
    assert (two["luts"] - one["luts"], two["flip_flops"] - one["flip_flops"]) == (luts, flip_flops)


@pytest.mark.parametrize(("family", "luts", "carries", "flip_flops"), [
    ("ecp5", 195, 75, 155), ("xc7", 76, 45, 155), ("gowin", 906, 138, 155)])
def test_few_counters_take_less(family: str, luts: int, carries: int, flip_flops: int) -> None:
    plain = Config("x", 9, 8, 4, 64 << 10)
    many, few = (estimate_resources(config, family).units["registers"]
                 for config in (plain, replace(plain, few_counters=1)))
    assert [many[kind] - few[kind] for kind in ("luts", "carries", "flip_flops")] == [luts, carries, flip_flops]
    assert min(few.values()) >= 0


@pytest.mark.parametrize(("family", "luts", "carries"), [("xc7", 576, 0), ("ecp5", 569, -360), ("gowin", 533, -648)])
def test_multipliers_with_preadders_need_no_luts_for_choices(family: str, luts: int, carries: int) -> None:
    """Arrays of 9 x 8 have 578, 570 and 534 fewer LUTs."""
    plain = Config("x", 9, 8, 4, 64 << 10)
    chosen, added = (estimate_resources(config, family).units["array"]
                     for config in (plain, replace(plain, dsp_preadders=1)))
    assert [chosen[kind] - added[kind] for kind in ("luts", "carries")] == [luts, carries]


@pytest.mark.parametrize(("family", "uops", "luts", "small_rams", "block_rams"), [
    ("xc7", 64, 132, 34, 2), ("xc7", 32, 74, 20, 2), ("ecp5", 64, 193, 104, 4), ("gowin", 32, 90, 52, 4)])
def test_micro_operations_in_block_ram_take_no_small_rams(
        family: str, uops: int, luts: int, small_rams: int, block_rams: int) -> None:
    plain = Config("x", 9, 8, 4, 64 << 10, uops=uops)
    small, block = (estimate_resources(config, family).units["vector"]
                    for config in (plain, replace(plain, block_uops=1)))
    assert [small[kind] - block[kind] for kind in ("luts", "small_rams")] == [luts, small_rams]
    assert block["block_rams"] - small["block_rams"] == block_rams


@pytest.mark.parametrize("option", ["dsp_packing", "compressed_weights"])
def test_an_option_never_synthesized_for_a_family_is_an_error(
        option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_PACKED_CELL", {"ecp5": {}, "xc7": {}})
    monkeypatch.setattr(options, "_DECODER", {"ecp5": {}, "xc7": {}})
    with pytest.raises(UnsupportedError) as error:
        estimate_resources(replace(PRESETS["n8"], **{option: 2 if option == "dsp_packing" else 1}), "gowin")
    what = "two products in a multiplier" if option == "dsp_packing" else "a decoder of weights"
    assert str(error.value) == (f"configuration 'n8': {what} ({option}) was never synthesized for gowin; it was for "
                                "ecp5 and xc7: benches/area.py makes the record")


def test_two_gowin_products_count_as_one_multiplier_of_18_bits() -> None:
    found = estimate_resources(PRESETS["tiny"], "gowin")
    assert (found.units["array"]["multipliers"], found.units["vector"]["multipliers"]) == (8, 8)
