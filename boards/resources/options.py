"""Cells that a unit gains or loses by options of a configuration that are not sizes.

Examples are a decoder for weights, cells for two products, fewer counters or small RAMs.
"""

from collections.abc import Mapping

import numpy as np

from tq_hw.isa.config import Config
from tq_hw.isa.latency import rotate_cycles, shares_ports
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.weight_code import view_bytes
from tq_hw.model.errors import UnsupportedError

__all__ = ["added_by_options"]

#: Additional cells of a grid for two products, from units synthesized both ways: of the grid, and of each cell compared
#: with two cells for one product: 4 x 4, 8 x 8 and 16 x 8 for a 7 series, which has most of the flip-flops in its
#: multipliers, 4 x 4 and 16 x 8 for an ECP5, 4 x 4 for a GW2A.
_PACKED_GRID = {"xc7": {"luts": 120.0, "carries": 46.0, "flip_flops": 700.0}, "ecp5": {"carries": 76.0}, "gowin": {}}
_PACKED_CELL = {"xc7": {"luts": 0.0, "carries": 1.0, "flip_flops": 29.0}, "ecp5": {"luts": 11.3, "carries": 16.8},
                "gowin": {"luts": 27.4, "carries": 50.8}}
#: Additional flip-flops of a packed grid where multipliers have none: for the whole grid; per cell, less the bits of
#: two sums beyond 18; per column (sums to split, bytes that wait); per square of the rows (negative, since bytes wait
#: half as long). From six grids of 4 x 4 to 18 x 2, synthesized both ways; the error is at most 6 %.
_PACKED_REGISTERS, _PACKED_SUM_BITS = (418.8, 45.1, 26.4, -1.793), 18
#: Cells that `few_luts` adds for each lane, from vector units of 9 x 8 with four lanes synthesized both ways.
_LANE = {"xc7": {"luts": -121.25, "flip_flops": 345.5}, "ecp5": {"luts": 23.5, "flip_flops": 345.5},
         "gowin": {"luts": 112.5, "flip_flops": 345.5}}
#: Cells for each byte of a word that `few_luts` adds where words are rotated in two cycles, and where units share ports
#: of the scratchpad, from units of 16 x 8 with four lanes synthesized both ways. Such a machine was never synthesized
#: for a GW2A, which has LUTs of four inputs like an ECP5: its figures are taken.
_ROTATED_TWICE: dict[str, dict[tuple[str, str], float]] = {
    "xc7": {("array", "luts"): -30.8, ("load", "luts"): -8.6, ("load", "flip_flops"): 10.7,
            ("store", "luts"): -6.3, ("store", "flip_flops"): 9.4},
    "ecp5": {("array", "luts"): -35.7, ("load", "luts"): 3.2, ("load", "flip_flops"): 10.7,
             ("store", "flip_flops"): 9.4}}
_SHARED_PORTS: dict[str, dict[tuple[str, str], float]] = {
    "xc7": {("scratchpad", "luts"): -34.0, ("scratchpad", "flip_flops"): -26.3},
    "ecp5": {("scratchpad", "luts"): -41.6, ("scratchpad", "flip_flops"): -26.3}}
_ROTATED_TWICE["gowin"], _SHARED_PORTS["gowin"] = _ROTATED_TWICE["ecp5"], _SHARED_PORTS["ecp5"]
#: Cells that the decoder of compressed weights adds to the load unit, by columns, from load units synthesized both
#: ways. They grow in steps with the bytes that the decoder sees at a time (up to 8, 16 and 32 columns): interpolated
#: between two machines of one step; elsewhere the nearest machine counts.
_DECODER: dict[str, dict[str, dict[int, float]]] = {
    "xc7": {"luts": {4: 598, 8: 824, 16: 1711, 20: 3344}, "carries": {4: 36, 8: 40, 16: 47, 20: 59},
            "flip_flops": {4: 575, 8: 689, 16: 1242, 20: 1880}, "small_rams": {4: 12, 8: 17, 16: 39, 20: 65}},
    "ecp5": {"luts": {4: 827, 8: 1077, 16: 2193, 20: 4011}, "carries": {4: 48, 8: 48, 16: 54, 20: 74},
             "flip_flops": {4: 574, 8: 688, 16: 1241, 20: 1880}, "small_rams": {4: 18, 8: 26, 16: 58, 20: 98}},
    "gowin": {"luts": {4: 728, 8: 1082, 16: 2803}, "carries": {4: 164, 8: 177, 16: 204},
              "flip_flops": {4: 576, 8: 690, 16: 1243}, "small_rams": {4: 18, 8: 26, 16: 58}}}

#: Cells saved by each cell of a depthwise group when the multiplier adds bytes instead of a multiplexer choosing one,
#: from arrays of 9 x 8 synthesized both ways. ECP5 and GW2A make the adder of LUTs, hence more carries.
_PREADDER = {"xc7": {"luts": 8.0}, "ecp5": {"luts": 7.9, "carries": -5.0, "flip_flops": -1.0},
             "gowin": {"luts": 7.4, "carries": -9.0, "flip_flops": -1.0}}
#: Cells that the vector unit's control saves with micro-operations in block RAM, by their number, from machines
#: synthesized both ways.
_BLOCK_UOPS = {"xc7": {64: {"luts": 132, "flip_flops": 93, "small_rams": 34},
                       32: {"luts": 74, "flip_flops": 93, "small_rams": 20}},
               "ecp5": {64: {"luts": 193, "flip_flops": 93, "small_rams": 104},
                        32: {"luts": 76, "flip_flops": 93, "small_rams": 52}},
               "gowin": {64: {"luts": 267, "flip_flops": 93, "small_rams": 104},
                         32: {"luts": 90, "flip_flops": 93, "small_rams": 52}}}
#: Cells that the registers save with few counters, from machines of 9 x 8 with 4 lanes synthesized both ways.
_COUNTERS = {"ecp5": {"luts": 195, "carries": 75, "flip_flops": 155, "small_rams": 16},
             "xc7": {"luts": 76, "carries": 45, "flip_flops": 155, "small_rams": 6},
             "gowin": {"luts": 906, "carries": 138, "flip_flops": 155, "small_rams": 16}}


def _decoder(config: Config, counts: Mapping[int, float]) -> float:
    """Return the cells that the decoder of compressed weights adds, from recorded counts by columns."""
    view = view_bytes(config.cols)
    same = {cols: count for cols, count in counts.items() if view_bytes(cols) == view}
    if not same:  # none in this step: scale by the bytes that the decoder sees
        nearest = min(counts, key=lambda cols: abs(view_bytes(cols) - view))
        return counts[nearest] * (view / view_bytes(nearest) if len(counts) > 1 else 1)
    return float(np.interp(config.cols, sorted(same), [same[cols] for cols in sorted(same)]))


def _packed_flip_flops(config: Config, cells: int) -> float:
    """Return the additional flip-flops of a packed grid where multipliers have none."""
    whole, cell, column, square = _PACKED_REGISTERS
    bits = config.partial_sum_bits - _PACKED_SUM_BITS
    return whole + (cell - 2 * bits) * cells + column * config.cols + square * config.rows ** 2


def _packed(config: Config, family: str) -> dict[tuple[str, str], float]:
    """Return the cells that two products in a multiplier add."""
    cells = config.cols * ceil_div(config.rows, 2)
    return {("array", "flip_flops"): _packed_flip_flops(config, cells)} | {
        ("array", kind): _PACKED_GRID[family].get(kind, 0.0) + count * cells
        for kind, count in _PACKED_CELL[family].items()}


def _few_luts(config: Config, family: str) -> dict[tuple[str, str], float]:
    """Return the cells that `few_luts` adds, most of them negative."""
    found = {("vector", kind): count * config.requantize_lanes for kind, count in _LANE[family].items()}
    # A word is held for each memory of the accumulators. Only in the whole machine do fewer LUTs choose between them.
    found["array", "flip_flops"] = 32.0 * config.cols
    # A skid buffer keeps a second beat, its strobes and its end, and chooses.
    found |= {("write_channel", kind): -9.0 * config.bus_bytes - 1 for kind in ("luts", "flip_flops")}
    for table, holds in ((_ROTATED_TWICE, rotate_cycles(config) > 1), (_SHARED_PORTS, shares_ports(config))):
        if holds:
            _add(found, {key: count * config.word_bytes for key, count in table[family].items()})
    return found


def _add(found: dict[tuple[str, str], float], more: Mapping[tuple[str, str], float]) -> None:
    for key, count in more.items():
        found[key] = found.get(key, 0.0) + count


def added_by_options(config: Config, family: str) -> Mapping[tuple[str, str], float]:
    """Return the cells added by options that are not sizes, by unit and kind; UnsupportedError if never recorded."""
    found: dict[tuple[str, str], float] = {}
    for key, what, known in (("dsp_packing", "two products in a multiplier", _PACKED_CELL),
                             ("dsp_preadders", "a multiplier that adds", _PREADDER),
                             ("block_uops", "micro-operations in block RAM", _BLOCK_UOPS),
                             ("compressed_weights", "a decoder of weights", _DECODER),
                             ("few_counters", "a machine with few counters", _COUNTERS),
                             ("few_luts", "a machine with few LUTs", _LANE)):
        if getattr(config, key) and family not in known:
            raise UnsupportedError(f"configuration {config.name!r}: {what} ({key}) was never synthesized for {family}; "
                                   f"it was for {' and '.join(known)}: benches/area.py makes the record")
    if config.dsp_packing:
        _add(found, _packed(config, family))
    if config.dsp_preadders:
        _add(found, {("array", kind): -count * 3 * config.groups * config.cols
                     for kind, count in _PREADDER[family].items()})
    if config.block_uops:
        _add(found, {("vector", kind): -count for kind, count in _BLOCK_UOPS[family][config.uops].items()})
    if config.compressed_weights:
        _add(found, {("load", kind): _decoder(config, counts) for kind, counts in _DECODER[family].items()})
    if config.few_counters:
        _add(found, {("registers", kind): -count for kind, count in _COUNTERS[family].items()})
    if config.few_luts:
        _add(found, _few_luts(config, family))
    return found
