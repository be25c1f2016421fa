"""Layers of the vector unit alone (elementwise, max pooling, softmax) and padding by copies."""

from collections.abc import Iterator

from tq_hw.compiler.emit import Emitter, Rect
from tq_hw.compiler.ir import Elementwise, Layer, MaxPool, Pad, Softmax
from tq_hw.compiler.layout import View, block_count, signed_step
from tq_hw.compiler.lower_mac import window_regions
from tq_hw.compiler.plan import LayerPlan, in_span
from tq_hw.isa.uop import Alu, Destination, Multiply, Reduce, Rounding, ShiftSource, Source
from tq_hw.model.errors import UnsupportedError

__all__ = ["emit_elementwise", "emit_max_pool", "emit_pad", "emit_softmax"]

_TILE_LIMIT = 0xFFFF


def _rects(layer: Layer, plan: LayerPlan, emitter: Emitter) -> Iterator[Rect]:
    n, h, w, c = layer.output.shape
    all_blocks = block_count(c, emitter.config)
    for image in range(n):
        for first in range(0, all_blocks, plan.blocks):
            for row in range(0, h, plan.rows):
                for col in range(0, w, plan.cols):
                    yield Rect(image, (row, min(row + plan.rows, h)), (col, min(col + plan.cols, w)),
                               (first, min(first + plan.blocks, all_blocks)))


def _stream(name: str, view: View, at: tuple[int, int, int], stride: tuple[int, int] = (1, 1)) -> dict[str, int]:
    """Stream fields that start at (row, block, col) of `view`."""
    return {f"{name}_base": view.address(*at), f"{name}_col_step": stride[1],
            f"{name}_row_step": signed_step(stride[0] * view.row_pitch),
            f"{name}_block_step": signed_step(view.block_pitch)}


def _program(first: int, count: int, body: tuple[int, int] | None = None) -> dict[str, int]:
    """Program fields; `body` is (offset, length) of the repeated part."""
    body_first = first + (body[0] if body else count)
    return {"first": first, "body_first": body_first, "body_last": body_first + (body[1] if body else 0) - 1,
            "last": first + count - 1, "repeat1": 1, "repeat2": 1}


def _walk(rect: Rect) -> dict[str, int]:
    return {"cols": rect.cols[1] - rect.cols[0], "out_blocks": rect.blocks[1] - rect.blocks[0], "slots": rect.slots,
            "tile_slots": min(rect.slots, _TILE_LIMIT)}


def emit_elementwise(emitter: Emitter, layer: Elementwise, plan: LayerPlan) -> None:
    """A few micro-operations per beat; several keep what is between them in registers, a chunk at a time."""
    emitter.tables(layer.tables)
    uops = [layer.uop, *layer.rest]
    first = emitter.program(uops)
    height = layer.output.shape[1]
    for rect in _rects(layer, plan, emitter):
        row = rect.image * height + rect.rows[0]
        rows = (row, row + rect.rows[1] - rect.rows[0])
        views = [emitter.source(layer, plan, position, rows, rect.cols, rect.blocks)
                 for position in range(len(layer.inputs))]
        target = emitter.target(layer, plan, rect)
        fields = _walk(rect) | _program(first, len(uops)) | _stream("out", target, (row, rect.blocks[0], rect.cols[0]))
        for name, view in zip("ab", views, strict=False):
            fields |= _stream(name, view, (row, rect.blocks[0], rect.cols[0]))
        fields["chunk_slots"] = fields["tile_slots"]
        if len(uops) > 1:
            register_slots = max(1, emitter.config.vector_register_words // emitter.config.beats_per_word)
            fields["chunk_slots"] = min(fields["tile_slots"], register_slots)
        emitter.vector(fields, tuple(view.access(rows, rect.blocks) for view in views),
                       (target.access(rows, rect.blocks),))
        emitter.finish(layer, target, rect)


def emit_max_pool(emitter: Emitter, layer: MaxPool, plan: LayerPlan) -> None:
    """Running extreme in a register, one program for each set of taps inside the image."""
    _, h, w, _ = layer.inputs[0].shape
    _, out_h, out_w, _ = layer.output.shape
    first = emitter.program([
        {"a_source": Source.IMMEDIATE, "immediate": 127 if layer.minimum else -128, "alu": Alu.PASS,
         "destination": Destination.REGISTER},
        {"a_source": Source.STREAM, "b_source": Source.REGISTER, "alu": Alu.MIN if layer.minimum else Alu.MAX,
         "destination": Destination.REGISTER},
        {"a_source": Source.REGISTER, "alu": Alu.PASS, "clamp": 1, "act_min": layer.act_min, "act_max": layer.act_max,
         "destination": Destination.OUTPUT}])
    chunk = max(1, emitter.config.vector_register_words // emitter.config.beats_per_word)
    row_regions = window_regions(out_h, h, layer.kernel[0], layer.stride[0], layer.pad[0])
    col_regions = window_regions(out_w, w, layer.kernel[1], layer.stride[1], layer.pad[1])
    for rect in _rects(layer, plan, emitter):
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
                fields = _walk(part) | _program(first, 3, (1, 1))
                fields |= _stream("a", view, (in_row, rect.blocks[0], in_col), layer.stride)
                fields |= _stream("out", target, (out_row, rect.blocks[0], part.cols[0]))
                fields |= {"chunk_slots": chunk, "repeat1": kx1 - kx0, "repeat2": ky1 - ky0, "a_repeat1_step": 1,
                           "a_repeat2_step": signed_step(view.row_pitch)}
                emitter.vector(fields, (view.access(rows, rect.blocks),), (target.access(
                    (out_row, out_row + part.rows[1] - part.rows[0]), rect.blocks),))
        emitter.finish(layer, target, rect)




def _softmax_program(registers: int) -> list[dict[str, int]]:
    """SOFTMAX of one row: gemmlowp's exp by table, one_over_one_plus_x in registers.

    `registers` hold the row; the four behind them hold scalars (word 0).
    """
    row, total, headroom, x, t = 0, registers, registers + 1, registers + 2, registers + 3

    def reg(number: int, hold: bool = True) -> dict[str, int]:
        return {"a_source": Source.REGISTER, "a_register": number, "a_hold": int(hold)}

    def with_b(number: int, hold: bool = True) -> dict[str, int]:
        return {"b_source": Source.REGISTER, "b_register": number, "b_hold": int(hold)}

    def once(target: int, **fields: int) -> dict[str, int]:
        return {"once": 1, "destination": Destination.REGISTER, "d_register": target, **fields}

    def immediate(value: int) -> dict[str, int]:
        return {"b_source": Source.IMMEDIATE, "immediate": value}

    newton: list[dict[str, int]] = []
    for _ in range(3):
        newton += [
            once(t, **reg(total), **with_b(x), multiply=Multiply.HIGH_B),
            once(t, a_source=Source.IMMEDIATE, immediate=1 << 29, **with_b(t), alu=Alu.SUB),
            once(t, **reg(x), **with_b(t), multiply=Multiply.HIGH_B),
            once(t, **reg(t), **immediate(2), alu=Alu.SHL_SATURATE),
            once(x, **reg(x), **with_b(t), alu=Alu.ADD),
        ]
    return [
        {"a_source": Source.STREAM, "destination": Destination.REGISTER, "d_register": row},
        {**reg(row, False), "destination": Destination.REDUCE, "reduce": Reduce.MAX, "d_register": total},
        {**reg(total), **with_b(row, False), "alu": Alu.SUB, "destination": Destination.REGISTER, "d_register": row},
        {**reg(row, False), "a_table": 1, "destination": Destination.REGISTER, "d_register": row},
        {**reg(row, False), "shift_source": ShiftSource.IMMEDIATE, "shift": -12, "rounding": Rounding.HALF_AWAY,
         "destination": Destination.REDUCE, "reduce": Reduce.SUM, "d_register": total},
        once(headroom, **reg(total), alu=Alu.CLZ),
        once(total, **reg(total), **with_b(headroom), alu=Alu.SHL),
        once(total, **reg(total), **immediate(-1 << 31), alu=Alu.ADD),
        # RoundingHalfSum(a, 2^31 - 1) of a >= 0 is a / 2 + 2^30.
        once(total, **reg(total), **immediate(1), alu=Alu.SAR),
        once(total, **reg(total), **immediate(1 << 30), alu=Alu.ADD),
        once(x, **reg(total), multiply=Multiply.HIGH_IMMEDIATE, immediate=-1010580540),
        once(x, **reg(x), **immediate(1515870810), alu=Alu.ADD),
        *newton,
        once(x, **reg(x), **immediate(1), alu=Alu.SHL_SATURATE),
        # Right shift of the product: (12 - headroom) + 31 - 8.
        once(headroom, a_source=Source.IMMEDIATE, immediate=35, **with_b(headroom), alu=Alu.SUB),
        {**reg(row, False), **with_b(x), "multiply": Multiply.HIGH_B, "destination": Destination.REGISTER,
         "d_register": row},
        {**reg(row, False), **with_b(headroom), "shift_source": ShiftSource.SHIFT_B, "rounding": Rounding.HALF_AWAY,
         "zero_point": -128, "clamp": 1, "act_min": -128, "act_max": 127, "destination": Destination.OUTPUT},
    ]


def emit_softmax(emitter: Emitter, layer: Softmax, plan: LayerPlan) -> None:
    """One row (pixel) is one chunk; its blocks are the columns that the vector unit walks."""
    config = emitter.config
    channels = layer.output.shape[3]
    blocks = block_count(channels, config)
    registers = -(-blocks * config.beats_per_word // config.vector_register_words)
    if registers > 4:
        raise UnsupportedError(
            f"operator {layer.index} ({layer.op}) has {channels} classes; configuration {config.name!r} holds rows of "
            f"at most {4 * config.vector_register_words * config.requantize_lanes}; a larger vector_words helps")
    emitter.tables((layer.table, None))
    uops = _softmax_program(registers)
    first = emitter.program(uops)
    height = layer.output.shape[1]
    for rect in _rects(layer, plan, emitter):
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
                      "out_col_step": signed_step(target.block_pitch), "out_row_step": 1, **_program(first, len(uops))}
            emitter.vector(fields, (view.access((r, r + 1), (0, blocks)),), (target.access((r, r + 1), (0, blocks)),))
        emitter.finish(layer, target, rect)


def emit_pad(emitter: Emitter, layer: Pad, plan: LayerPlan) -> None:
    """Copy from system memory with `fill` around: whole rows, then the rows above and below."""
    value, config = layer.inputs[0], emitter.config
    _, h, w, c = value.shape
    _, out_h, out_w, _ = layer.output.shape
    blocks = block_count(c, config)
    before = layer.before
    for rect in _rects(layer, plan, emitter):
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
