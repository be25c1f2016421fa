"""Figures from the tools' reports: cells by kind, clock, critical path."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tq_hw.model.errors import ToolError

__all__ = ["CELLS", "Hop", "Timing", "count_cells", "modules", "nextpnr_timing", "read_json",
           "vivado_figures"]

#: Cell types, the kind that each counts as, and its weight, per family.
CELLS: dict[str, dict[str, tuple[str, float]]] = {
    "ecp5": {"MULT18X18D": ("multipliers", 1), "LUT4": ("luts", 1), "CCU2C": ("carries", 1),
             "TRELLIS_FF": ("flip_flops", 1), "DP16KD": ("block_rams", 1), "TRELLIS_DPR16X4": ("small_rams", 1)},
    "ice40": {"SB_MAC16": ("multipliers", 1), "SB_LUT4": ("luts", 1), "SB_CARRY": ("carries", 1),
              **{f"SB_DFF{kind}": ("flip_flops", 1) for kind in
                 ("", "E", "SR", "ESR", "SS", "ESS", "R", "ER", "S", "ES")},
              "SB_RAM40_4K": ("block_rams", 1), "SB_SPRAM256KA": ("single_port_rams", 1)},
    # Two products of 9 bits take as much space as one of 18.
    "gowin": {"MULT9X9": ("multipliers", 0.5), "MULT18X18": ("multipliers", 1), "MULT36X36": ("multipliers", 4),
              **dict.fromkeys(("LUT1", "LUT2", "LUT3", "LUT4"), ("luts", 1)), "ALU": ("carries", 1),
              **{f"DFF{kind}": ("flip_flops", 1) for kind in ("", "E", "S", "SE", "R", "RE", "P", "PE", "C", "CE")},
              **dict.fromkeys(("SP", "SPX9", "SDPB", "SDPX9B", "DPB", "DPX9B", "pROM", "pROMX9"), ("block_rams", 1)),
              **dict.fromkeys(("RAM16SDP1", "RAM16SDP2", "RAM16SDP4"), ("small_rams", 1))},
    "xc7": {"DSP48E1": ("multipliers", 1), "CARRY4": ("carries", 1),
            **dict.fromkeys(("FDRE", "FDSE", "FDCE", "FDPE"), ("flip_flops", 1)), "RAMB36E1": ("block_rams", 1),
            "RAMB18E1": ("block_rams", 0.5), "RAM32M": ("small_rams", 1), "RAM64M": ("small_rams", 1),
            "RAM32X1D": ("small_rams", 1), "RAM64X1D": ("small_rams", 1), "SRL16E": ("shift_registers", 1),
            "SRLC32E": ("shift_registers", 1)},
}
#: LUT sites of a 7 series' memories in LUTs.
_XC7_SITES = {"RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "SRL16E": 1, "SRLC32E": 1}


@dataclass(frozen=True)
class Hop:
    """One hop of the critical path: the delay of a cell or of a wire, in ns."""

    kind: str
    delay_ns: float
    cell: str


@dataclass(frozen=True)
class Timing:
    """One clock: the rate reached, the target, and the critical path."""

    clock: str
    fmax_mhz: float
    target_mhz: float
    path: tuple[Hop, ...]


def count_cells(stat: Mapping[str, Any], family: str) -> dict[str, float]:
    """Return the cells of Yosys' `stat -json`, summed by kind; absent kinds are 0."""
    cells = stat["design"]["num_cells_by_type"]
    kinds = CELLS[family]
    found: dict[str, float] = {"luts": 0, **{name: 0 for name, _ in kinds.values()}}
    for cell, (name, share) in kinds.items():
        found[name] += share * int(cells.get(cell, 0))
    if family == "xc7":
        # Yosys estimates how many small LUTs share a site in pairs; memories in LUTs take whole sites.
        found["luts"] += int(stat["design"]["estimated_num_lc"])
        found["luts"] += sum(sites * int(cells.get(cell, 0)) for cell, sites in _XC7_SITES.items())
    return {name: int(value) if value == int(value) else value for name, value in found.items()}


def nextpnr_timing(report: Mapping[str, Any]) -> dict[str, Timing]:
    """Return the clocks of nextpnr's `--report`, each with the path from itself to itself where there is one.

    nextpnr also lists constants as clocks, such as that of a memory that is never written; they are left out. ToolError
    when no clock remains: a board always has one.
    """
    found = {}
    for clock, values in report["fmax"].items():
        if clock.startswith("$PACKER_"):
            continue
        paths = [path for path in report["critical_paths"]
                 if path["from"] == path["to"] and path["from"].split()[-1] == clock]
        hops = tuple(Hop(hop["type"], hop["delay"], hop["to"]["cell"]) for hop in paths[0]["path"]) if paths else ()
        found[clock] = Timing(clock, values["achieved"], values["constraint"], hops)
    if not found:
        raise ToolError("nextpnr reported no clock rate")
    return found


def modules(path: Sequence[Hop]) -> list[str]:
    """Return the module instances along a path from its start, without repetitions."""
    names: list[str] = []
    for hop in path:
        name = hop.cell.rpartition(".")[0]
        if not names or names[-1] != name:
            names.append(name)
    return names


def vivado_figures(folder: Path, name: str, target_mhz: float) -> tuple[dict[str, float], Timing]:
    """Return resources and clock from Vivado's reports; ToolError when a report does not have them."""
    usage = (folder / f"{name}_utilization_place.rpt").read_text(encoding="utf-8", errors="replace")
    wanted = {"Slice LUTs": "luts", "Slice Registers": "flip_flops", "Block RAM Tile": "block_rams",
              "DSPs": "multipliers"}
    resources: dict[str, float] = {}
    for label, kind in wanted.items():
        found = re.search(rf"^\|\s*{label}\*?\s*\|\s*([\d.]+)", usage, re.MULTILINE)
        if found is None:
            raise ToolError(f"{name}_utilization_place.rpt of Vivado has no line {label!r}")
        resources[kind] = float(found[1]) if "." in found[1] else int(found[1])
    times = (folder / f"{name}_timing.rpt").read_text(encoding="utf-8", errors="replace")
    summary = re.search(r"^\s*WNS\(ns\).*\n[\s-]*\n\s*(-?[\d.]+)", times, re.MULTILINE)
    if summary is None:
        raise ToolError(f"{name}_timing.rpt of Vivado has no design timing summary")
    period_ns = 1000 / target_mhz
    return resources, Timing("sync", 1000 / (period_ns - float(summary[1])), target_mhz, ())


def read_json(path: Path) -> Any:
    """Return the value of a JSON file that a tool wrote."""
    return json.loads(path.read_text(encoding="utf-8"))
