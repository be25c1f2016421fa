"""PackedCell for every pair of bytes and every weight, and which rows share one."""

import subprocess
from pathlib import Path

import pytest

from tq_hw.hdl.array.packed_cell import PackedCell
from tq_hw.hdl.array.packed_rows import packed_chains
from tq_hw.hdl.verilog import to_verilog
from tq_hw.isa.config import Config
from tq_hw.isa.latency import PACKED_CHAIN_CELLS, packed_chain_cells
from tq_hw.sim.rtl.tools import verilator

HARNESS = Path(__file__).with_name("packed_cell.cpp")


@pytest.mark.slow  # a minute where others work, too
@pytest.mark.parametrize("columns", [False, True])
def test_every_pair_and_weight(columns: bool, tmp_path: Path) -> None:
    """2^24 of them in a cell for rows alone; in one for columns, too, with each byte from either side. Idle, too."""
    froms = 4 if columns else 1
    (tmp_path / "cell.v").write_text(to_verilog(PackedCell(columns=columns), "cell"), encoding="utf-8")
    subprocess.run([*verilator(), "--cc", "--exe", "--build", "-O3", "-Wno-fatal", "--top-module", "cell",
                    "-MAKEFLAGS", "CFG_CXXFLAGS_PCH_I=-include", "-CFLAGS", f"-O2 -DFROMS={froms}", "cell.v",
                    str(HARNESS)], cwd=tmp_path, check=True, capture_output=True)
    run = subprocess.run([tmp_path / "obj_dir" / "Vcell"], capture_output=True, text=True, check=False)
    assert run.stdout == f"{froms * 257 << 16} 0\n"


def rows_of(rows: int) -> list[dict[int, tuple[int | None, int | None]]]:
    return packed_chains(Config("x", rows, 2, 1, 16 << 10, dsp_packing=2))


@pytest.mark.parametrize("rows", range(3, 33))
def test_each_row_has_half_a_cell(rows: int) -> None:
    config = Config("x", rows, 2, 1, 16 << 10, dsp_packing=2)
    chains = rows_of(rows)
    served = [row for chain in chains for pair in chain.values() for row in pair if row is not None]
    assert sorted(served) == list(range(rows))
    assert sum(len(chain) for chain in chains) == -(-rows // 2)
    for chain in chains:
        assert len(chain) <= PACKED_CHAIN_CELLS
        assert list(chain) == list(range(packed_chain_cells(config) - len(chain), packed_chain_cells(config)))
        # A row's weights change before the next ones come: position cycles after the swap, and they row cycles.
        assert all(row is None or position <= row for position, pair in chain.items() for row in pair)


def test_taps_follow_each_other() -> None:
    """Of a group, the second tap comes a cycle after the first one, the third two."""
    for rows in range(3, 33):
        cycles = {row: position + later for chain in rows_of(rows) for position, pair in chain.items()
                  for later, row in enumerate(pair) if row is not None}
        for group in range(min(3, rows // 3)):
            first = cycles[3 * group]
            assert [cycles[3 * group + tap] for tap in range(3)] == [first, first + 1, first + 2]
