"""Merged elementwise layers: one vector operation for each pair of streams, with registers between them."""

from collections.abc import Iterator

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.vector import across, rectangles, stream_fields, walk_fields
from tq_hw.compiler.ir.chain import Chain
from tq_hw.compiler.ir.meaning import Streams, Walk, pixels
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.words import program_fields

__all__ = ["emit_chain"]


def emit_chain(emitter: Emitter, layer: Chain, plan: LayerPlan) -> Iterator[None]:
    """Emit all parts for one rectangle after another, each of which fits in registers; yield after each."""
    emitter.tables(layer.tables)
    emitter.reserve_program(sum(len(part.uops) for part in layer.parts))
    # All programs are written before the first operation: a later write would wait until the unit is idle.
    codes = [emitter.program(part.uops) for part in layer.parts]
    height, block = layer.output.shape[1], emitter.config.block
    for rect in rectangles(layer, plan, emitter):
        row = rect.image * height + rect.rows[0]
        rows = (row, row + rect.rows[1] - rect.rows[0])
        views = [emitter.source(layer, plan, position, rows, rect.cols, rect.blocks)
                 for position in range(len(layer.inputs))]
        target = emitter.target(layer, plan, rect)
        at = (row, rect.blocks[0], rect.cols[0])
        for part, code in zip(layer.parts, codes, strict=True):
            ends = [(name, layer.inputs[position], views[position])
                    for name, position in (("a", part.a), ("b", part.b)) if position is not None]
            reads = tuple(view.access(rows, rect.blocks) for _, _, view in ends)
            last = part is layer.parts[-1]
            if last:
                ends.append(("out", layer.output, target))
            fields = walk_fields(rect) | program_fields(code)
            streams: dict[str, Walk] = {}
            for name, value, view in ends:
                fields |= stream_fields(name, view, at)
                streams[name] = pixels(value, at, block)
            fields, streams = across(fields, streams)
            fields["chunk_slots"] = fields["tile_slots"]
            emitter.vector(fields, reads, (target.access(rows, rect.blocks),) if last else (), Streams(
                code, streams.get("a"), streams.get("b"), streams.get("out")))
        emitter.finish(layer, target, rect)
        yield
