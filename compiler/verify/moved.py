"""Vector programs that move bytes, or look up each byte in a table: the bytes keep their numbers."""

from collections.abc import Mapping

import numpy as np

from tq_hw.compiler.ir.meaning import LookUp
from tq_hw.compiler.stream.uses import Uses
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import NOTHING
from tq_hw.compiler.verify.programs import check_program, check_registers, check_tables, take_sums
from tq_hw.compiler.verify.slots import Slots, no_feedback, put
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import DataflowError

__all__ = ["look_up", "move_program"]

#: Bytes of the elements of a wide stream, by type.
_WIDE_BYTES = {1: 2, 2: 4}


def look_up(machine: Machine, meaning: LookUp, found: Uses) -> None:
    """Record that bytes are looked up in a layer's table, in place."""
    f, numbers, table = machine.fields, machine.numbers, meaning.layer.input_table
    check_program(machine, meaning.code, found)
    check_tables(machine, found, (table, None))
    slots = Slots.of(f, machine.config)
    words = slots.words("a")
    if table is None or not np.array_equal(words, slots.words("out")):
        raise DataflowError("it looks up windows but does not write them to their places")
    there = machine.read(words, "stream A")
    values = numbers.values(there)
    if values is not None:
        mapped = np.asarray(table)[values].astype(np.int64) & 0xFF
        changed = np.where(there == NOTHING, NOTHING, numbers.fill(0) + mapped)
    else:
        filled = (there > NOTHING) & (there < numbers.constant(0))
        bytes_ = np.where(filled, there - numbers.fill(0), 0)
        mapped = np.asarray(table)[bytes_].astype(np.int64) & 0xFF
        others = np.where(there == NOTHING, NOTHING, there | numbers.looked_up)
        changed = np.where(filled, numbers.fill(0) + mapped, others)
    # The unit writes only the lanes of channels; windows may have more.
    changed[..., machine.config.block:] = NOTHING
    machine.write(words, 0, changed.astype(numbers.dtype), "its result")


#: Programs that move bytes, without fields of 0.
_COPY, _SUMS, _WIDE = {"a_source": 3, "destination": 1}, {"a_source": 2, "destination": 1}, {"a_source": 3}


def move_program(machine: Machine, uops: tuple[Mapping[str, int], ...], found: Uses) -> None:
    """Move bytes: from a stream or sums to words, or into a register, or one byte of each of its elements to words."""
    f, config = machine.fields, machine.config
    check_registers(machine, found)
    slots = Slots.of(f, config)
    uop = {name: int(value) for name, value in uops[0].items() if value} if len(uops) == 1 else {}
    types = tuple(f[f"{name}_type"] for name in ("a", "out"))
    whole = np.arange(f["out_blocks"])
    if uop == _COPY and types == (0, 0) and not f["use_acc"]:
        words = slots.words("a")
        values = machine.read(words, "stream A")[..., :config.block]
        no_feedback(slots, words[None, ..., None], put(machine, slots, whole, 0, values))
        return
    if uop == _SUMS and types[1] == 0 and f["use_acc"]:
        _move_sums(machine, slots)
        return
    size = _WIDE_BYTES.get(types[0])
    if uop == _WIDE and size and not f["use_acc"] and f["out_blocks"] == 1 and f["chunk_slots"] >= f["slots"]:
        words = slots.words("a")[..., None] + np.arange(ceil_div(size * config.block, config.word_bytes))
        values = machine.read(words, "stream A").reshape(-1, words.shape[-1] * config.word_bytes)
        machine.wide = values[:, :size * config.block].reshape(-1, config.block, size)
        return
    byte = -uop.get("shift", 0) // 8
    taken = {"a_source": 1, "shift_source": 1, "rounding": 2, "destination": 1} | ({"shift": -8 * byte} if byte else {})
    wide = machine.wide
    if uop == taken and types[1] == 0 and wide is not None and byte in range(wide.shape[2]) and len(
            wide) == f["slots"] * f["out_blocks"] and f["chunk_slots"] >= f["slots"]:
        put(machine, slots, whole, 0, wide[:, :, byte].reshape(f["out_blocks"], f["slots"], -1))
        return
    raise DataflowError("it has no meaning, and its program is no move of bytes")


def _move_sums(machine: Machine, slots: Slots) -> None:
    f = slots.fields
    values = np.empty((f["out_blocks"], f["slots"], slots.channels), machine.numbers.dtype)
    for buffers, part in take_sums(machine):
        if buffers.bytes is None:
            raise DataflowError("the accumulators hold sums of a tile, not moved bytes")
        for o, low, high in zip(buffers.block[part], buffers.first[part], buffers.last[part], strict=True):
            values[o, low:high] = buffers.bytes[o, low:high]
    for sub, which in slots.parts():
        put(machine, slots, which, sub * slots.channels, values[which])
