"""Elementwise layers, which use only the vector unit, and padding by copies."""

from collections.abc import Iterator
from dataclasses import replace

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.ir.layers import Elementwise, Layer, Pad
from tq_hw.compiler.ir.meaning import Streams, Walk, pixels
from tq_hw.compiler.plan.layout import View, block_count, row_cuts, row_parts, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.words import program_fields
from tq_hw.isa.sizes import ceil_div

__all__ = ["across", "emit_elementwise", "emit_pad", "rectangles", "stream_fields", "walk_fields"]

_TILE_LIMIT = 0xFFFF
#: Beats of a micro-operation in a longer program: with fewer, it waits for the result of the one before.
_PLAIN_BEATS = 48


def rectangles(layer: Layer, plan: LayerPlan, emitter: Emitter) -> Iterator[Rect]:
    """Cut the output as planned; an output that fits in one rectangle is cut like the layers before and after it."""
    n, h, w, c = layer.output.shape
    all_blocks = block_count(c, emitter.config)
    parts = emitter.choice().parts or row_parts(h * w, emitter.config)
    if isinstance(layer, Elementwise) and layer.is_plain:
        parts = max(1, min(parts, h * w * all_blocks * emitter.config.beats_per_word // _PLAIN_BEATS))
    rows = plan.rows if plan.rows < h else ceil_div(h, parts)
    for image in range(n):
        for first in range(0, all_blocks, plan.blocks):
            for span in plan.cuts or row_cuts(0, h, rows):
                for col in range(0, w, plan.cols):
                    if span is not None:
                        yield Rect(image, span, (col, min(col + plan.cols, w)),
                                   (first, min(first + plan.blocks, all_blocks)))


def stream_fields(name: str, view: View, at: tuple[int, int, int], stride: tuple[int, int] = (1, 1)) -> dict[str, int]:
    """Stream fields that start at (row, block, col) of `view`."""
    return {f"{name}_base": view.address(*at), f"{name}_col_step": stride[1] * view.col_pitch,
            f"{name}_row_step": signed_step(stride[0] * view.row_pitch),
            f"{name}_block_step": signed_step(view.block_pitch)}


def walk_fields(rect: Rect) -> dict[str, int]:
    """Fields of the slots of a rectangle."""
    return {"cols": rect.cols[1] - rect.cols[0], "out_blocks": rect.blocks[1] - rect.blocks[0], "slots": rect.slots,
            "tile_slots": min(rect.slots, _TILE_LIMIT)}


def across(fields: dict[str, int], streams: dict[str, Walk]) -> tuple[dict[str, int], dict[str, Walk]]:
    """Make the blocks of a single row or column of pixels consecutive rows of slots, which gives longer chunks."""
    blocks, upright = fields["out_blocks"], fields["cols"] == 1
    slots = blocks * fields["slots"]
    if blocks == 1 or not (upright or fields["cols"] == fields["slots"]) or slots > _TILE_LIMIT:
        return fields, streams
    turned = {"cols": fields["slots"], "out_blocks": 1, "slots": slots, "tile_slots": slots}
    for name in streams:
        turned |= {f"{name}_col_step": fields[f"{name}_{'row' if upright else 'col'}_step"],
                   f"{name}_row_step": fields[f"{name}_block_step"], f"{name}_block_step": 0}
    return fields | turned, {
        name: replace(walk, col=walk.row if upright else walk.col, row=walk.block, block=0)
        for name, walk in streams.items()}


def emit_elementwise(emitter: Emitter, layer: Elementwise, plan: LayerPlan) -> Iterator[None]:
    """Emit an elementwise layer; several micro-operations keep intermediate results in registers, chunk by chunk.

    Yields after each rectangle.
    """
    emitter.tables(layer.tables)
    uops = [layer.uop, *layer.rest]
    code, block = emitter.program(uops), emitter.config.block
    height = layer.output.shape[1]
    for rect in rectangles(layer, plan, emitter):
        row = rect.image * height + rect.rows[0]
        rows = (row, row + rect.rows[1] - rect.rows[0])
        # An input of one pixel is read for all pixels.
        single = [value.shape[1:3] == (1, 1) != layer.output.shape[1:3] for value in layer.inputs]
        parts = [((rect.image, rect.image + 1), (0, 1)) if one else (rows, rect.cols) for one in single]
        # An input of one word of each pixel is read for all blocks.
        words = [value.shape[3] != layer.output.shape[3] for value in layer.inputs]
        blocks = [(0, 1) if one else rect.blocks for one in words]
        views = [emitter.source(layer, plan, position, *part, span)
                 for position, (part, span) in enumerate(zip(parts, blocks, strict=True))]
        target = emitter.target(layer, plan, rect)
        fields = walk_fields(rect) | program_fields(code)
        at = (row, rect.blocks[0], rect.cols[0])
        fields |= stream_fields("out", target, at)
        streams: dict[str, Walk] = {"out": pixels(layer.output, at, block)}
        for name, value, view, part, span, one, word in zip("ab", layer.inputs, views, parts, blocks, single, words,
                                                            strict=False):
            place, stride = (part[0][0], span[0], part[1][0]), (0, 0) if one else (1, 1)
            fields |= stream_fields(name, view, place, stride)
            streams[name] = pixels(value, place, block, stride)
            if word:
                fields[f"{name}_block_step"] = 0
                streams[name] = replace(streams[name], block=0)
        if len(uops) > 1 and not any(single):
            fields, streams = across(fields, streams)
        fields["chunk_slots"] = fields["tile_slots"]
        if len(uops) > 1:
            register_slots = max(1, emitter.config.vector_register_words // emitter.config.beats_per_word)
            fields["chunk_slots"] = min(fields["tile_slots"], register_slots)
        reads = tuple(view.access(part[0], span) for view, part, span in zip(views, parts, blocks, strict=True))
        emitter.vector(fields, reads, (target.access(rows, rect.blocks),), Streams(
            code, streams.get("a"), streams.get("b"), streams["out"]))
        emitter.finish(layer, target, rect)
        yield


def emit_pad(emitter: Emitter, layer: Pad, plan: LayerPlan) -> None:
    """Copy from system memory with a border of `fill`: whole rows, then the rows above and below."""
    value, config = layer.inputs[0], emitter.config
    _, h, w, c = value.shape
    _, out_h, out_w, _ = layer.output.shape
    blocks = block_count(c, config)
    before = layer.before
    for rect in rectangles(layer, plan, emitter):
        target = emitter.target(layer, plan, rect)
        base = rect.image * out_h
        low = min(max(rect.rows[0], before[0]), rect.rows[1])
        high = max(low, min(rect.rows[1], before[0] + h))
        if high > low:
            source = rect.image * h - before[0]
            emitter.load_rect(value, target, (source + low, source + high), (0, w), (0, blocks),
                              pad_cols=(before[1], out_w - w - before[1]), fill=layer.fill, at=(base + low, 0))
        for r0, r1 in ((rect.rows[0], low), (high, rect.rows[1])):
            if r1 > r0:
                fields = {
                    "fill": layer.fill & 0xFF, "destination": target.address(base + r0, 0, 0),
                    "emit_bytes": config.block, "advance_bytes": 0, "last_emit_bytes": config.block, "count0": blocks,
                    "step0": signed_step(target.block_pitch), "count1": out_w, "step1": 1, "count2": r1 - r0,
                    "step2": signed_step(target.row_pitch), "count3": 1}
                emitter.load(fields, (), (target.access((base + r0, base + r1), (0, blocks)),))
        emitter.finish(layer, target, rect)
