"""Dilated multiply-accumulate layers: column phases."""

from dataclasses import replace

from tq_hw.compiler.emit.emitter import Rect
from tq_hw.compiler.emit.mac_constants import MacConstants
from tq_hw.compiler.emit.mac_layer import TILES_OF_AN_OPERATION, MacLayer
from tq_hw.compiler.emit.mac_weights import Kernel
from tq_hw.compiler.plan.dilated import ColumnPhases, column_phases
from tq_hw.compiler.plan.layout import View, row_period
from tq_hw.isa.sizes import ceil_div

__all__ = ["emit_dilated"]


def emit_dilated(mac: MacLayer, part: Rect, source: View, group: tuple[int, int], constants: MacConstants,
                 target: View) -> None:
    """Emit the column phases in order; each reads every n-th input column, n the dilation, without gaps.

    Neighbouring phases are output blocks to the array. Kernel rows that share a bank are separate operations, which add
    to one accumulator buffer.
    """
    single = mac.packed.singly or mac.config.sub_blocks > 1
    for o in range(*group):
        rect = replace(part, blocks=mac.word_blocks((o, o + 1)))
        for alike in _phases(mac, part.cols, single):
            _operations(mac, rect, source, o, constants, target, alike)


def _phases(mac: MacLayer, cols: tuple[int, int], single: bool) -> list[ColumnPhases]:
    """Return the column phases, which are the same for all rectangles of these columns."""
    if cols not in mac.column_phases:
        mac.column_phases[cols] = list(column_phases(mac.layer, cols, single))
    return mac.column_phases[cols]


def _operations(mac: MacLayer, rect: Rect, source: View, o: int, constants: MacConstants, target: View,
                alike: ColumnPhases) -> None:
    """Emit the operations of neighbouring phases for output block `o`."""
    layer, config = mac.layer, mac.config
    dy, dx = layer.dilation
    fields = {"out_cols": alike.count, "col_first": alike.col_first, "in_cols": alike.in_cols, "in_col_step": dx,
              "period": row_period(alike.count, 1, layer.kernel[1], alike.col_first, alike.in_cols)}
    if alike.phases > 1:
        fields |= {"out_blocks": alike.phases, "in_block_step": 1, "weight_block_step": 0}
    at_once = max(1, config.acc_words // alike.count)
    step_words = mac.packed.words() // mac.packed.weights.shape[1]
    for row in range(*rect.rows, at_once if mac.packed.singly else rect.rows[1] - rect.rows[0]):
        cut = replace(rect, rows=(row, min(row + at_once, rect.rows[1])) if mac.packed.singly else rect.rows)
        rows = cut.rows[1] - cut.rows[0]
        tiles = ceil_div(rows, at_once)
        mac.emitter.stream.work += alike.phases * tiles // TILES_OF_AN_OPERATION
        sizes = {"slots": rows * alike.count, "tile_rows": ceil_div(rows, tiles),
                 "tile_slots": ceil_div(rows, tiles) * alike.count}
        reads = (source.access(mac.in_rect(cut)[0], rect.blocks), *constants.reads((o, o + 1)))
        parameters = constants.vector_fields((o, o + 1))
        weights = constants.array_fields((o, o + 1))
        whole = mac.array(cut, source, (o, o + 1), weights) | fields | sizes
        taps = range(layer.kernel[0]) if mac.packed.singly else (0,)
        tile = mac.tile(cut, (o, o + 1), (alike.first, alike.count, dx), alike.phases)
        for tap in taps:
            in_row = cut.rows[0] - layer.pad[0] + tap * dy
            base = source.address(cut.image * layer.inputs[0].shape[1] + in_row, rect.blocks[0], alike.column)
            step = {"in_base": base, "row_first": in_row, "weight_base": weights["weight_base"] + tap * step_words,
                    "acc_first": int(tap == 0), "acc_last": int(tap == taps[-1])}
            kernel = None
            if mac.packed.singly:
                kernel = Kernel((tap, tap + 1), (0, mac.packed.weights.shape[2]), (0, 1))
            mac.emitter.array(whole | step | ({"kernel_rows": 1} if mac.packed.singly else {}), reads,
                              mac.part(tile, kernel))
        mac.requantize(cut, target, tile, parameters, constants.reads((o, o + 1)), (alike.first, dx),
                       config.acc_words)
