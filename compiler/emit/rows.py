"""Programs over the channels of each pixel: a row is a chunk, and its blocks are the columns of the unit's walk."""

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.vector import rectangles
from tq_hw.compiler.ir.layers import RowProgram
from tq_hw.compiler.ir.meaning import Code, Streams, Walk
from tq_hw.compiler.plan.layout import block_count, row_registers, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.rows import RowCode, short_row
from tq_hw.compiler.programs.words import program_fields

__all__ = ["emit_rows", "prepare_rows"]


def prepare_rows(emitter: Emitter, layer: RowProgram) -> tuple[RowCode, Code]:
    """Load tables and program of a layer into the vector unit, unless present; return the code and where it is."""
    code = short_row(layer.program, row_registers(layer, emitter.config), layer.numbers)
    emitter.tables(layer.tables)
    return code, emitter.program(code.uops)


def emit_rows(emitter: Emitter, layer: RowProgram, plan: LayerPlan) -> None:
    """Emit one operation per image row."""
    config = emitter.config
    channels = layer.output.shape[3]
    blocks = block_count(channels, config)
    code, placed = prepare_rows(emitter, layer)
    _, height, cols, _ = layer.output.shape
    for rect in rectangles(layer, plan, emitter):
        row = rect.image * height + rect.rows[0]
        rows = (row, row + rect.rows[1] - rect.rows[0])
        view = emitter.source(layer, plan, 0, rows, rect.cols, (0, blocks))
        target = emitter.target(layer, plan, rect)
        width = rect.cols[1] - rect.cols[0]
        for r in range(*rows):
            fields = {"cols": blocks, "out_blocks": 1, "slots": width * blocks, "tile_slots": blocks,
                      "chunk_slots": blocks, "valid_lanes": channels - (blocks - 1) * config.block,
                      "a_base": view.address(r, 0, rect.cols[0]), "a_col_step": signed_step(view.block_pitch),
                      "a_row_step": 1, "out_base": target.address(r, 0, rect.cols[0]),
                      "out_col_step": signed_step(target.block_pitch), "out_row_step": target.col_pitch,
                      **program_fields(placed, code.body), "repeat1": code.repeats}
            source, result = (Walk(value, channels, (r * cols + rect.cols[0]) * channels, row=channels,
                                       col=config.block) for value in (layer.inputs[0], layer.output))
            emitter.vector(fields, (view.access((r, r + 1), (0, blocks)),), (target.access((r, r + 1), (0, blocks)),),
                           Streams(placed, source, out=result, body=code.body, repeats=code.repeats))
        emitter.finish(layer, target, rect)
