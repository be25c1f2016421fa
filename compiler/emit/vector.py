"""Layers that use only the vector unit (elementwise, pooling by extremes), and padding by copies."""

from collections.abc import Iterator
from dataclasses import replace

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.ir.layers import Elementwise, Layer, MaxPool, Pad
from tq_hw.compiler.ir.meaning import Streams, Walk, pixels
from tq_hw.compiler.ir.window import in_span, window_regions
from tq_hw.compiler.plan.layout import View, block_count, row_cuts, row_parts, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.words import program_fields
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu, Destination, Source

__all__ = ["across", "emit_elementwise", "emit_max_pool", "emit_pad", "rectangles", "stream_fields", "walk_fields"]

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
        views = [emitter.source(layer, plan, position, *part, rect.blocks) for position, part in enumerate(parts)]
        target = emitter.target(layer, plan, rect)
        fields = walk_fields(rect) | program_fields(code)
        at = (row, rect.blocks[0], rect.cols[0])
        fields |= stream_fields("out", target, at)
        streams: dict[str, Walk] = {"out": pixels(layer.output, at, block)}
        for name, value, view, part, one in zip("ab", layer.inputs, views, parts, single, strict=False):
            place, stride = (part[0][0], rect.blocks[0], part[1][0]), (0, 0) if one else (1, 1)
            fields |= stream_fields(name, view, place, stride)
            streams[name] = pixels(value, place, block, stride)
        if len(uops) > 1 and not any(single):
            fields, streams = across(fields, streams)
        fields["chunk_slots"] = fields["tile_slots"]
        if len(uops) > 1:
            register_slots = max(1, emitter.config.vector_register_words // emitter.config.beats_per_word)
            fields["chunk_slots"] = min(fields["tile_slots"], register_slots)
        reads = tuple(view.access(part[0], rect.blocks) for view, part in zip(views, parts, strict=True))
        emitter.vector(fields, reads, (target.access(rows, rect.blocks),), Streams(
            code, streams.get("a"), streams.get("b"), streams["out"]))
        emitter.finish(layer, target, rect)
        yield


def emit_max_pool(emitter: Emitter, layer: MaxPool, plan: LayerPlan) -> Iterator[None]:
    """Emit a pooling layer: a running extreme in a register, one program for each set of taps inside the image.

    Yields after each rectangle.
    """
    _, h, w, _ = layer.inputs[0].shape
    _, out_h, out_w, _ = layer.output.shape
    code, block = emitter.program([
        {"a_source": Source.IMMEDIATE, "immediate": -128, "alu": Alu.PASS, "destination": Destination.REGISTER},
        {"a_source": Source.STREAM, "b_source": Source.REGISTER, "alu": Alu.MAX, "destination": Destination.REGISTER},
        {"a_source": Source.REGISTER, "alu": Alu.PASS, "clamp": 1, "act_min": layer.act_min, "act_max": layer.act_max,
         "destination": Destination.OUTPUT}]), emitter.config.block
    chunk = max(1, emitter.config.vector_register_words // emitter.config.beats_per_word)
    row_regions = window_regions(out_h, h, layer.kernel[0], layer.stride[0], layer.pad[0])
    col_regions = window_regions(out_w, w, layer.kernel[1], layer.stride[1], layer.pad[1])
    for rect in rectangles(layer, plan, emitter):
        rows = in_span(*rect.rows, layer.stride[0], layer.kernel[0], layer.pad[0], h)
        cols = in_span(*rect.cols, layer.stride[1], layer.kernel[1], layer.pad[1], w)
        rows = (rect.image * h + rows[0], rect.image * h + rows[1])
        view = emitter.source(layer, plan, 0, rows, cols, rect.blocks)
        target = emitter.target(layer, plan, rect)
        for r0, r1, ky0, ky1 in row_regions:
            for c0, c1, kx0, kx1 in col_regions:
                part = Rect(rect.image, (max(r0, rect.rows[0]), min(r1, rect.rows[1])),
                            (max(c0, rect.cols[0]), min(c1, rect.cols[1])), rect.blocks)
                if part.rows[0] >= part.rows[1] or part.cols[0] >= part.cols[1]:
                    continue
                in_row = rect.image * h + part.rows[0] * layer.stride[0] - layer.pad[0] + ky0
                in_col = part.cols[0] * layer.stride[1] - layer.pad[1] + kx0
                out_row = rect.image * out_h + part.rows[0]
                source, at = (in_row, rect.blocks[0], in_col), (out_row, rect.blocks[0], part.cols[0])
                fields = walk_fields(part) | program_fields(code, (1, 1))
                fields |= stream_fields("a", view, source, layer.stride)
                fields |= stream_fields("out", target, at)
                fields |= {"chunk_slots": chunk, "repeat1": kx1 - kx0, "repeat2": ky1 - ky0, "a_repeat1_step": 1,
                           "a_repeat2_step": signed_step(view.row_pitch)}
                channels = layer.inputs[0].shape[3]
                taps = replace(pixels(layer.inputs[0], source, block, layer.stride), repeat1=channels,
                               repeat2=w * channels)
                emitter.vector(fields, (view.access(rows, rect.blocks),), (target.access(
                    (out_row, out_row + part.rows[1] - part.rows[0]), rect.blocks),), Streams(
                        code, taps, out=pixels(layer.output, at, block), body=(1, 1)))
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
