"""Programs over dense elements of any size: a slot is `block` elements, independent of the tensor's channels.

Vector registers keep their contents between operations, so several operations can walk over many rows.
"""

from dataclasses import dataclass

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.image import padded_elements
from tq_hw.compiler.ir.meaning import Streams, Walk
from tq_hw.compiler.ir.staged import Flat, OneHot
from tq_hw.compiler.ir.value import ELEMENT_BYTES, Value
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.in_pairs import in_pairs
from tq_hw.compiler.programs.words import program_fields
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu, Destination, Reduce, Source

__all__ = ["Elements", "emit_flat", "emit_one_hot"]

_SLOT_LIMIT = 0xFFFF
#: Elements of more slots than this are split into stretches; about this number of stretches, if they fit.
_SHORT_SLOTS, _STRETCHES = 128, 8
_INT8, _INT32 = 0, 2


@dataclass(frozen=True)
class Elements:
    """Loads and stores of dense elements.

    Members
    -------
    type : type of the elements, coded as the vector unit's `a_type`
    """

    emitter: Emitter
    value: Value
    type: int

    @property
    def size_bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.type]

    def slot_words(self, config: Config) -> int:
        """Words of a slot of `block` elements."""
        return ceil_div(self.size_bytes * config.block, config.word_bytes)

    def walk(self, first: int, run: int, start: int = 0, repeat: int = 0) -> Walk:
        """Slots from element `first` on, in a run of `run` elements that begins with element `start`.

        Each repeat is `repeat` elements further.
        """
        size = self.size_bytes
        return Walk(self.value, run * size, start * size, first * size, col=self.emitter.config.block * size,
                    repeat1=repeat * size, type=self.type)

    def load(self, first: int, count: int, base: int, rows: int = 1, stride: int = 0) -> Access:
        """Load `count` elements from element `first` on into slots at `base`; `rows` times, `stride` apart."""
        config, words = self.emitter.config, self.slot_words(self.emitter.config)
        region, offset = self.emitter.memory_of(self.value)
        slot_bytes = self.size_bytes * config.block
        last = slot_bytes - (words - 1) * config.word_bytes
        slots = ceil_div(count, config.block)
        at = offset + first * self.size_bytes
        access = Access("pad", base, base + rows * slots * words)
        self.emitter.load({
            "region": region, "memory_offset_bytes": at, "run_bytes": count * self.size_bytes, "destination": base,
            "flip": int(self.value.flip), "emit_bytes": config.word_bytes, "advance_bytes": config.word_bytes,
            "last_emit_bytes": last, "last_advance_bytes": last, "count0": words, "step0": 1, "count1": slots,
            "step1": words, "count2": rows, "step2": slots * words, "stride2_bytes": stride * self.size_bytes,
            "count3": 1}, (Access(f"region{region}", at, at + ((rows - 1) * stride + count) * self.size_bytes),),
            (access,))
        return access

    def store(self, first: int, count: int, base: int, rows: int = 1, stride: int = 0) -> None:
        """Store `count` elements from slots at `base` to element `first` on; `rows` times, `stride` apart."""
        config, words = self.emitter.config, self.slot_words(self.emitter.config)
        region, offset = self.emitter.memory_of(self.value)
        whole = count // config.block
        parts = [(0, whole, config.block)] if whole else []
        parts += [(whole, 1, count % config.block)] if count % config.block else []
        at = offset + first * self.size_bytes
        slots_of_row = ceil_div(count, config.block)
        read = Access("pad", base, base + rows * slots_of_row * words)
        for slot, slots, elements in parts:
            used = ceil_div(elements * self.size_bytes, config.word_bytes)
            self.emitter.stream.add(Unit.STORE, {
                "region": region, "memory_offset_bytes": at + slot * config.block * self.size_bytes,
                "source": base + slot * words, "take_bytes": config.word_bytes,
                "last_take_bytes": elements * self.size_bytes - (used - 1) * config.word_bytes, "count0": used,
                "step0": 1, "count1": slots, "step1": words, "count2": rows, "step2": slots_of_row * words,
                "stride2_bytes": stride * self.size_bytes, "count3": 1}, (read,),
                (Access(f"region{region}", at, at + ((rows - 1) * stride + count) * self.size_bytes),),
                self.emitter.layer_index)


def _stretch_slots(slots: int, room: int) -> int:
    """Slots of one stretch: a few stretches with two buffers, so that loads and stores overlap with the program."""
    if room < 2 or slots <= _SHORT_SLOTS:
        return min(slots, room, _SLOT_LIMIT)
    return min(max(_SHORT_SLOTS, ceil_div(slots, _STRETCHES)), room // 2, _SLOT_LIMIT)


def _walk(emitter: Emitter, layer: Flat, plan: LayerPlan, inputs: list[Elements], output: Elements) -> None:
    """For each stretch of elements that fits in registers: load some rows and run the body on them, for all rows.

    Inputs other than the first have one row.
    """
    config = emitter.config
    words, out_words = inputs[0].slot_words(config), output.slot_words(config)
    other_words = [elements.slot_words(config) for elements in inputs[1:]]
    total = ceil_div(layer.count, config.block)
    chunk = max(1, config.vector_register_words // config.beats_per_word)
    # Two buffers of rows and two of everything else.
    single_words = out_words + sum(other_words)
    slots = max(1, min(total, chunk, plan.out_words // (2 * (words + single_words))))
    buffers = 2 if 2 * slots * (words + single_words) <= plan.out_words else 1
    row_words = slots * words
    rows = min(layer.rows, (plan.out_words - buffers * slots * single_words) // (buffers * row_words))
    emitter.reserve_program(2 * len(layer.body) + len(layer.before) + len(layer.after))
    first, body, after = (in_pairs(part) for part in (layer.before, layer.body, layer.after))
    loads = 0
    stretches = [(image, low) for image in range(layer.images) for low in range(0, layer.count, slots * config.block)]
    for number, (image, low) in enumerate(stretches):
        count = min(slots * config.block, layer.count - low)
        width = ceil_div(count, config.block)
        out_base = base = plan.out_bases[0] + number % buffers * slots * single_words
        base += slots * out_words
        fields: dict[str, int] = {}
        streams: dict[str, Walk] = {}
        reads = []
        for position, elements in enumerate(inputs[1:], 1):
            reads.append(elements.load(image * layer.count + low, count, base))
            streams["ab"[position]] = elements.walk(low, layer.count, image * layer.count)
            name, step = "ab"[position], other_words[position - 1]
            fields |= {f"{name}_base": base, f"{name}_col_step": step, f"{name}_type": layer.types[position]}
            base += slots * step
        for row in range(0, layer.rows, rows):
            height = min(rows, layer.rows - row)
            base = plan.out_bases[0] + buffers * slots * single_words + loads % buffers * rows * row_words
            loads += 1
            read = inputs[0].load((image * layer.rows + row) * layer.count + low, count, base, height, layer.count)
            last = row + height == layer.rows
            before = first if row == 0 else []
            code = emitter.program([*before, *body, *(after if last else ())])
            source = inputs[0].walk(low, layer.count, (image * layer.rows + row) * layer.count, layer.count)
            emitter.vector(fields | {
                "a_base": base, "a_col_step": words, "a_type": layer.types[0], "out_type": layer.out_type,
                "out_base": out_base, "out_col_step": out_words, "cols": width, "out_blocks": 1, "slots": width,
                "tile_slots": width, "chunk_slots": width,
                **program_fields(code, (len(before), len(layer.body))), "repeat1": height,
                "a_repeat1_step": width * words}, (read, *reads),
                (Access("pad", out_base, out_base + width * out_words),) if last else (),
                Streams(code, source, streams.get("b"), output.walk(low, layer.count, image * layer.count),
                        body=(len(before), len(layer.body))))
        output.store(image * layer.count + low, count, out_base)


def emit_flat(emitter: Emitter, layer: Flat, plan: LayerPlan) -> None:
    """For each stretch of elements: load them, run one program, store the results."""
    config = emitter.config
    emitter.tables(layer.tables)
    inputs = [Elements(emitter, value, code) for value, code in zip(layer.inputs, layer.types, strict=True)]
    output = Elements(emitter, layer.output, layer.out_type)
    if layer.body:
        _walk(emitter, layer, plan, inputs, output)
        return
    uops = in_pairs([*layer.before, *layer.after])
    words = [e.slot_words(config) for e in (*inputs, output)]
    per_slot = sum(words)
    code = emitter.program(uops)
    slot_limit = _stretch_slots(ceil_div(layer.count, config.block), plan.out_words // per_slot)
    limit = slot_limit * config.block
    chunk_slots = max(1, config.vector_register_words // config.beats_per_word) if len(uops) > 1 else slot_limit
    buffers = 2 if 2 * slot_limit * per_slot <= plan.out_words else 1
    for number, low in enumerate(range(0, layer.count, limit)):
        count = min(limit, layer.count - low)
        slots = ceil_div(count, config.block)
        base = plan.out_bases[0] + number % buffers * slot_limit * per_slot
        fields: dict[str, int] = {}
        streams: dict[str, Walk] = {}
        reads = []
        for position, elements in enumerate(inputs):
            name = "ab"[position]
            reads.append(elements.load(low, count, base))
            streams[name] = elements.walk(low, layer.count)
            fields |= {f"{name}_base": base, f"{name}_col_step": words[position], f"{name}_type": layer.types[position]}
            base += slots * words[position]
        emitter.vector(fields | program_fields(code) | {
            "out_type": layer.out_type, "out_base": base, "out_col_step": words[-1], "cols": slots, "out_blocks": 1,
            "slots": slots, "tile_slots": slots, "chunk_slots": min(slots, chunk_slots)}, tuple(reads),
            (Access("pad", base, base + slots * words[-1]),),
            Streams(code, streams.get("a"), streams.get("b"), output.walk(low, layer.count)))
        output.store(low, count, base)


def emit_one_hot(emitter: Emitter, layer: OneHot, plan: LayerPlan) -> None:
    """Broadcast each index to all lanes by a reduction over one lane, then compare it with the numbers 0, 1, ..."""
    config = emitter.config
    _, count, _, size = layer.output.shape
    source, output = Elements(emitter, layer.inputs[0], _INT32), Elements(emitter, layer.output, _INT8)
    wide, blocks = source.slot_words(config), ceil_div(size, config.block)
    emitter.reserve_program(2)
    spread = emitter.program([{"a_source": Source.STREAM, "destination": Destination.REDUCE, "reduce": Reduce.SUM}])
    compare = emitter.program([{"a_source": Source.REGISTER, "a_hold": 1, "b_source": Source.STREAM,
                                "alu": Alu.EQUAL, "destination": Destination.OUTPUT}])
    limit = max(1, min(plan.out_words - wide, emitter.ring_words() // (2 * wide)))
    groups = 0
    for low in range(0, blocks, limit):
        slots = min(limit, blocks - low)
        # The indices and words of one half are loaded and stored while the other half is computed.
        room = plan.out_words // (wide + slots)
        at_once, halves = (min(count, room // 2), 2) if room > 1 else (1, 1)
        first, elements = low * config.block, min(size - low * config.block, slots * config.block)
        with emitter.scope():
            data = padded_elements(low, slots, config)
            numbers, access = emitter.constant(data, config.word_bytes)
            others = Walk(data, len(data), col=wide * config.word_bytes, type=_INT32)
            for begin in range(0, count, at_once):
                base = plan.out_bases[0] + groups % halves * at_once * (wide + slots)
                groups += 1
                rows = min(at_once, count - begin)
                read, out_base = source.load(begin, 1, base, rows, 1), base + at_once * wide
                for row in range(rows):
                    index, out = begin + row, out_base + row * slots
                    emitter.vector({
                        "a_type": _INT32, "a_base": base + row * wide, "cols": 1, "out_blocks": 1, "slots": 1,
                        "tile_slots": 1, "chunk_slots": 1, "valid_lanes": 1, **program_fields(spread)}, (read,), (),
                        Streams(spread, Walk(layer.inputs[0], 4, 4 * index, type=_INT32)))
                    emitter.vector({
                        "b_type": _INT32, "b_base": numbers, "b_col_step": wide, "out_base": out, "out_col_step": 1,
                        "cols": slots, "out_blocks": 1, "slots": slots, "tile_slots": slots, "chunk_slots": slots,
                        **program_fields(compare)}, (access,), (Access("pad", out, out + slots),),
                        Streams(compare, b=others, out=output.walk(first, size, index * size)))
                output.store(begin * size + first, elements, out_base, rows, size)
