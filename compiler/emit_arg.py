"""ARG_MAX and ARG_MIN: a walk along the rows that keeps the best value and its index, one of each per lane."""

from tq_hw.compiler.emit import Emitter
from tq_hw.compiler.ir import ArgExtreme
from tq_hw.compiler.plan import LayerPlan
from tq_hw.compiler.stream import Access
from tq_hw.isa.layout import Unit
from tq_hw.isa.uop import Alu, Destination, Multiply, Source

__all__ = ["emit_arg_extreme"]

_BEST, _INDEX, _KEEP, _TURN, _X = range(5)


def _program(minimum: bool) -> list[dict[str, int]]:
    """Two micro-operations before, seven in the body of one turn per row, one behind."""
    def to(register: int, **fields: int) -> dict[str, int]:
        return {"destination": Destination.REGISTER, "d_register": register, **fields}

    def a(register: int) -> dict[str, int]:
        return {"a_source": Source.REGISTER, "a_register": register}

    def b(register: int) -> dict[str, int]:
        return {"b_source": Source.REGISTER, "b_register": register}
    worst = 127 if minimum else -128
    keep = (a(_BEST) | b(_X)) if minimum else (a(_X) | b(_BEST))
    return [
        to(_BEST, a_source=Source.IMMEDIATE, immediate=worst),
        to(_INDEX, a_source=Source.IMMEDIATE, immediate=0),
        to(_TURN, a_source=Source.IMMEDIATE, immediate=0),
        to(_X, a_source=Source.STREAM),
        # The old index stays if the new value is no better: index = (index - turn) * keep + turn.
        to(_KEEP, **keep, alu=Alu.LESS_EQUAL),
        to(_INDEX, **a(_INDEX), **b(_TURN), alu=Alu.SUB),
        to(_INDEX, **a(_INDEX), **b(_KEEP), multiply=Multiply.LOW_B),
        to(_INDEX, **a(_INDEX), **b(_TURN), alu=Alu.ADD),
        to(_BEST, **a(_BEST), **b(_X), alu=Alu.MIN if minimum else Alu.MAX),
        to(_TURN, **a(_TURN), b_source=Source.IMMEDIATE, immediate=1, alu=Alu.ADD),
        {**a(_INDEX), "destination": Destination.OUTPUT},
    ]


def emit_arg_extreme(emitter: Emitter, layer: ArgExtreme, plan: LayerPlan) -> None:
    """Per stretch of channels: all rows in, one program, the indices out."""
    config = emitter.config
    value = layer.inputs[0]
    outer, rows, _, channels = value.shape
    block, wide = config.block, -(-4 * config.block // config.word_bytes)
    uops = _program(layer.minimum)
    first = emitter.program(uops)
    region, offset = emitter.memory_of(value)
    out_region, out_offset = emitter.memory_of(layer.output)
    slots_limit = max(1, plan.out_words // (rows + wide))
    for image in range(outer):
        for low in range(0, channels, slots_limit * block):
            count = min(channels - low, slots_limit * block)
            slots = -(-count // block)
            last = count - (slots - 1) * block
            base = plan.out_bases[0]
            out = base + rows * slots
            at = offset + image * rows * channels + low
            source = Access("pad", base, out)
            emitter.load({
                "region": region, "memory_offset_bytes": at, "run_bytes": count, "destination": base,
                "flip": int(value.flip), "emit_bytes": block, "advance_bytes": block, "last_emit_bytes": last,
                "last_advance_bytes": last, "count0": slots, "step0": 1, "count1": 1, "count2": rows, "step2": slots,
                "stride2_bytes": channels, "count3": 1},
                (Access(f"region{region}", at, at + (rows - 1) * channels + count),), (source,))
            target = Access("pad", out, out + slots * wide)
            emitter.vector({
                "out_type": 2, "a_base": base, "a_col_step": 1, "out_base": out, "out_col_step": wide, "cols": slots,
                "out_blocks": 1, "slots": slots, "tile_slots": slots,
                "chunk_slots": min(slots, max(1, config.vector_register_words // config.beats_per_word)),
                "first": first, "body_first": first + 3, "body_last": first + 9, "last": first + len(uops) - 1,
                "repeat1": rows, "repeat2": 1, "a_repeat1_step": slots}, (source,), (target,))
            at = out_offset + 4 * (image * channels + low)
            for first_slot, n, lanes in ((0, slots - 1, block), (slots - 1, 1, last)):
                if n == 0:
                    continue
                words = -(-4 * lanes // config.word_bytes)
                emitter.stream.add(Unit.STORE, {
                    "region": out_region, "memory_offset_bytes": at + 4 * first_slot * block,
                    "source": out + first_slot * wide, "take_bytes": config.word_bytes,
                    "last_take_bytes": 4 * lanes - (words - 1) * config.word_bytes, "count0": words, "step0": 1,
                    "count1": n, "step1": wide, "count2": 1, "count3": 1}, (target,),
                    (Access(f"region{out_region}", at, at + 4 * count),), emitter.layer_index)
