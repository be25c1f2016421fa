"""Checks of vector programs that compute: the contents of their streams, and their writes."""

from collections.abc import Mapping

import numpy as np

from tq_hw.compiler.ir.meaning import Scratch, Streams, Tile, Walk, tile_pixels
from tq_hw.compiler.ir.value import ELEMENT_BYTES
from tq_hw.compiler.stream.uses import Uses
from tq_hw.compiler.verify.areas import Area
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import Index
from tq_hw.compiler.verify.programs import check_body, check_parameters, check_program, check_tables, take_sums
from tq_hw.compiler.verify.slots import Slots, no_feedback, put
from tq_hw.compiler.verify.walks import constant_bytes, expected, lengths, slot_codes
from tq_hw.compiler.verify.whole import check_whole, reduced
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import DataflowError

__all__ = ["program"]


def program(machine: Machine, meaning: Streams, found: Uses) -> None:
    """Check the reads of a program, and record its writes."""
    f, config = machine.fields, machine.config
    check_program(machine, meaning.code, found)
    check_body(machine, meaning, found)
    check_whole(machine, meaning, found)
    if found.tables:
        layer = machine.contents.graph.layers[machine.operation.layer]
        own = getattr(layer, "tables", (None, None))
        check_tables(machine, found, own if meaning.tables is None else meaning.tables)
    slots = Slots.of(f, config)
    if f["use_acc"]:
        for buffers, _ in take_sums(machine):
            if buffers.sums is None or buffers.sums is not meaning.sums:
                raise DataflowError("the accumulators hold sums of another tile")
    if found.parameters:
        check_parameters(machine, meaning, found)
    reads = []
    for name, in_body in found.streams.items():
        walk = meaning.a if name == "a" else meaning.b
        if walk is None:
            raise DataflowError(f"it reads stream {name.upper()}, but its layer has no such input")
        reads.append(_read(machine, slots, name, walk, in_body, found))
    if found.output:
        if meaning.out is None:
            raise DataflowError("it writes a result, but its layer has none there")
        if isinstance(meaning.sums, Tile) and meaning.out != tile_pixels(meaning.sums, config, meaning.block):
            raise DataflowError("its results and its sums belong to different tiles")
        written = _write(machine, slots, meaning.out)
        for words in reads:
            no_feedback(slots, words, written)


def _check_type(machine: Machine, name: str, walk: Walk) -> None:
    wanted = walk.of.type if isinstance(walk.of, Scratch) else walk.type
    if machine.fields[f"{name}_type"] != wanted:
        raise DataflowError(f"stream {name.upper()} has elements of type {machine.fields[f'{name}_type']}, but its "
                            f"tensor has type {wanted}")


def _read(machine: Machine, slots: Slots, name: str, walk: Walk, in_body: bool, found: Uses) -> Index | Area:
    """Check the words of a stream; return them, [repeat, block, slot, word]."""
    f, width = slots.fields, machine.config.word_bytes
    _check_type(machine, name, walk)
    size = ELEMENT_BYTES[f[f"{name}_type"]]
    bytes_ = slots.channels * size
    repeats = (f["repeat1"], f["repeat2"]) if in_body else (1, 1)
    if bytes_ <= width and not isinstance(walk.of, bytes):
        area = _read_words(machine, slots, name, walk, repeats, bytes_)
        if area is not None:
            if found.reduces:
                loops = slots.loops(0, *repeats)
                _check_reduced(f, lengths(walk, loops) // size, slots.channels)
                reduced(machine, walk, loops, bytes_, found)
            return area
    once = slots.loops(0, *repeats)
    repeat1, repeat2 = once.repeat1, once.repeat2
    more = repeat1 * f["a_repeat1_step"] + repeat2 * f["a_repeat2_step"] if name == "a" else 0 * repeat1
    words = slots.words(name)
    found_words = []
    for number, (sub, which) in enumerate(slots.parts()):
        low = sub * bytes_
        first, count = low // width, ceil_div(low + bytes_, width) - low // width
        at = (more[:, None, None] + words[which])[..., None] + np.arange(first, first + count)
        at = machine.words(at)
        found_words.append(at)
        shift = low - first * width
        there = machine.there(at, f"stream {name.upper()}").reshape(*at.shape[:-1], -1)[..., shift:shift + bytes_]
        loops = slots.loops(number, *repeats)
        if isinstance(walk.of, bytes):
            if in_body and len(repeat1) * walk.repeat1 != len(walk.of):
                raise DataflowError(f"it takes {len(repeat1) * walk.repeat1} of {len(walk.of)} bytes of constants")
            if not machine.numbers.are(there, constant_bytes(walk, loops, low, bytes_)):
                raise DataflowError(f"stream {name.upper()} does not have its constants from scratchpad word "
                                    f"{int(at.flat[0])} on")
            continue
        wanted = expected(machine, walk, loops, low, bytes_)
        for word in range(count):
            part = slice(max(0, word * width - shift), (word + 1) * width - shift)
            machine.expect(there[..., part], wanted[..., part], at[..., word], f"stream {name.upper()}")
        if found.reduces:
            _check_reduced(f, lengths(walk, loops) // size, slots.channels)
            reduced(machine, walk, loops, bytes_, found)
    return slots.together(found_words, 1)


def _read_words(machine: Machine, slots: Slots, name: str, walk: Walk, repeats: tuple[int, int],
                size: int) -> Area | None:
    """Check a stream whose slots are words of consecutive bytes; None if it is not such a stream."""
    f = slots.fields
    steps = (f["a_repeat1_step"], f["a_repeat2_step"]) if name == "a" else (0, 0)
    area = slots.area(name, repeats, steps)
    if area is None or not machine.exists(area):
        return None
    codes = slot_codes(machine, walk, slots.loops(0, *repeats), size)
    if codes is None or not machine.holds(area, codes):
        return None
    machine.reads(area)
    return area


def _check_reduced(f: Mapping[str, int], channels: Index, most: int) -> None:
    """Check that a reduction reads only valid elements: all of a slot, or `valid_lanes` of a chunk's last slot."""
    slots = np.arange(f["slots"])
    chunk = min(f["chunk_slots"], f["tile_slots"])
    last = (slots % f["tile_slots"] % chunk == chunk - 1) | (slots % f["tile_slots"] == f["tile_slots"] - 1) | (
        slots == f["slots"] - 1)
    wanted = np.where(last, f["valid_lanes"] or most, most)
    if not (np.minimum(channels, most) == wanted).all():
        raise DataflowError("it reduces undefined elements, or not all defined ones")


def _write(machine: Machine, slots: Slots, walk: Walk) -> Index | Area:
    """Record the writes; return their words, [block, slot, word]."""
    _check_type(machine, "out", walk)
    size = ELEMENT_BYTES[slots.fields["out_type"]]
    bytes_ = slots.channels * size
    area = slots.area("out") if bytes_ <= machine.config.word_bytes else None
    if area is not None and machine.exists(area) and area.form.apart:
        codes = slot_codes(machine, walk, slots.loops(0), bytes_, made=True)
        if codes is not None:
            machine.write_codes(area, codes)
            return area
    found = []
    for number, (sub, which) in enumerate(slots.parts()):
        low = sub * bytes_
        values = expected(machine, walk, slots.loops(number), low, bytes_, made=True)[0]
        found.append(put(machine, slots, which, low, values))
    return slots.together(found, 0)
