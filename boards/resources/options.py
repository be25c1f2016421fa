"""Cells that a unit gains or loses by options of a configuration that are not sizes.

Examples are a decoder for weights, cells for two products, fewer counters or small RAMs.
"""

from collections.abc import Mapping

import numpy as np

from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.weight_code import view_bytes
from tq_hw.model.errors import UnsupportedError

__all__ = ["added_by_options"]

#: Additional cells of an array cell for two products, compared with two cells for one product, in grids synthesized
#: both ways (16 x 8 for a 7 series, 4 x 4 for the others). A 7 series has most of the flip-flops in its multipliers.
_PACKED_CELL = {"xc7": {"luts": 3.6, "carries": 1.6, "flip_flops": 24.2},
                "ecp5": {"luts": 23.4, "carries": 26.3},
                "gowin": {"luts": 27.4, "carries": 50.8}}
#: Additional flip-flops of a packed grid where multipliers have none: for the whole grid; per cell, less the bits of
#: two sums beyond 18; per column (sums to split, bytes that wait); per square of the rows (negative, since bytes wait
#: half as long). From six grids of 4 x 4 to 18 x 2, synthesized both ways; the error is at most 6 %.
_PACKED_GRID, _PACKED_SUM_BITS = (418.8, 45.1, 26.4, -1.793), 18
#: Cells that the decoder of compressed weights adds to the load unit, by columns, from load units synthesized both
#: ways. They grow in steps with the bytes that the decoder sees at a time (up to 8, 16 and 32 columns): interpolated
#: between two machines of one step; elsewhere the nearest machine counts. Fewer LUTs at 20 columns: even without a
#: decoder, a load unit for words of 32 bytes takes many more than one for 16.
_DECODER: dict[str, dict[str, dict[int, float]]] = {
    "xc7": {"luts": {4: 522, 8: 698, 16: 1478}, "carries": {4: 33, 8: 35, 16: 40},
            "flip_flops": {4: 392, 8: 471, 16: 953}, "small_rams": {4: 6}},
    "ecp5": {"luts": {4: 714, 8: 815, 16: 1823, 20: 935}, "carries": {4: 51, 8: 52, 16: 58, 20: 67},
             "flip_flops": {4: 392, 8: 471, 16: 953, 20: 1553}, "small_rams": {4: 9}}}
#: For a GW2A, the ECP5's counts times the ratio of both for a 4 x 4 machine.
_DECODER["gowin"] = {kind: {cols: share * count for cols, count in _DECODER["ecp5"][kind].items()} for kind, share in (
    ("luts", 1.031), ("carries", 2.82), ("flip_flops", 1.003), ("small_rams", 1.0))}

#: Cells saved by each cell of a depthwise group when the multiplier adds bytes instead of a multiplexer choosing one,
#: from arrays of 9 x 8 synthesized both ways. ECP5 and GW2A make the adder of LUTs, hence more carries.
_PREADDER = {"xc7": {"luts": 8.0}, "ecp5": {"luts": 7.875, "carries": -5.0},
             "gowin": {"luts": 7.875, "carries": -9.0}}
#: Cells that the vector unit's control saves with micro-operations in block RAM, by their number, from machines
#: synthesized both ways.
_BLOCK_UOPS = {"xc7": {64: {"luts": 135, "flip_flops": 85, "small_rams": 34},
                       32: {"luts": 79, "flip_flops": 85, "small_rams": 20}},
               "ecp5": {64: {"luts": 287, "flip_flops": 93, "small_rams": 104},
                        32: {"luts": 93, "flip_flops": 93, "small_rams": 52}}}
_BLOCK_UOPS["gowin"] = _BLOCK_UOPS["ecp5"]
#: Cells that the registers save with few counters, from machines of 9 x 8 with 4 lanes synthesized both ways.
_COUNTERS = {"ecp5": {"luts": 393, "carries": 272, "flip_flops": 614},
             "xc7": {"luts": 312, "carries": 136, "flip_flops": 631},
             "gowin": {"luts": 431, "carries": 544, "flip_flops": 631}}


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
    whole, cell, column, square = _PACKED_GRID
    bits = config.partial_sum_bits - _PACKED_SUM_BITS
    return whole + (cell - 2 * bits) * cells + column * config.cols + square * config.rows ** 2


def added_by_options(config: Config, family: str) -> Mapping[tuple[str, str], float]:
    """Return the cells added by options that are not sizes, by unit and kind; UnsupportedError if never recorded."""
    found: dict[tuple[str, str], float] = {}
    for key, what, known in (("dsp_packing", "two products in a multiplier", _PACKED_CELL),
                             ("dsp_preadders", "a multiplier that adds", _PREADDER),
                             ("block_uops", "micro-operations in block RAM", _BLOCK_UOPS),
                             ("compressed_weights", "a decoder of weights", _DECODER),
                             ("few_counters", "a machine with few counters", _COUNTERS)):
        if getattr(config, key) and family not in known:
            raise UnsupportedError(f"configuration {config.name!r}: {what} ({key}) was never synthesized for {family}; "
                                   f"it was for {' and '.join(known)}: benches/area.py makes the record")
    if config.dsp_packing:
        cells = config.cols * ceil_div(config.rows, 2)
        more = {"flip_flops": _packed_flip_flops(config, cells) / cells, **_PACKED_CELL[family]}
        found |= {("array", kind): count * cells for kind, count in more.items()}
    if config.dsp_preadders:
        found |= {("array", kind): -count * 3 * config.groups * config.cols
                  for kind, count in _PREADDER[family].items()}
    if config.block_uops:
        found |= {("vector", kind): -count for kind, count in _BLOCK_UOPS[family][config.uops].items()}
    if config.compressed_weights:
        found |= {("load", kind): _decoder(config, counts) for kind, counts in _DECODER[family].items()}
    if config.few_counters:
        found |= {("registers", kind): -count for kind, count in _COUNTERS[family].items()}
    return found
