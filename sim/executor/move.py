"""Load and store operations: a whole operation at once."""

from collections.abc import Iterator, Mapping

import numpy as np

from tq_hw.isa.layout import Unit
from tq_hw.isa.weight_code import decode_rows
from tq_hw.sim.executor.machine import Index, Machine
from tq_hw.sim.executor.unknown import Flags

__all__ = ["load", "store", "store_covers"]

#: Bytes handled at a time, to bound the memory that one operation takes.
_CHUNK_BYTES = 1 << 23


def _runs(fields: Mapping[str, int], step2: int, step3: int) -> Index:
    """Return `i2*step2 + i3*step3` for every run, in order."""
    i3, i2 = np.divmod(np.arange(fields["count3"] * fields["count2"], dtype=np.int64), fields["count2"])
    return np.asarray(i2 * step2 + i3 * step3)


def _words(fields: Mapping[str, int]) -> Index:
    """Return `i0*step0 + i1*step1` for every word of a run, in order."""
    i1, i0 = np.divmod(np.arange(fields["count1"] * fields["count0"], dtype=np.int64), fields["count0"])
    return np.asarray(i0 * fields["step0"] + i1 * fields["step1"])


def _per_word(fields: Mapping[str, int], usual: str, last: str) -> Index:
    """Return a field's value for every word of a run: the last block of a pixel has a value of its own."""
    values = np.full(fields["count0"], fields[usual], np.int64)
    values[-1] = fields[last]
    return np.tile(values, fields["count1"])


def _parts(runs: int, run_bytes: int) -> Iterator[slice]:
    """Split runs into parts of bounded size."""
    size = max(1, _CHUNK_BYTES // max(run_bytes, 1))
    for first in range(0, runs, size):
        yield slice(first, min(runs, first + size))


def load(machine: Machine, fields: Mapping[str, int]) -> None:
    """Run one load operation."""
    machine.require_legal(Unit.LOAD, fields)
    if fields.get("coded"):
        _load_coded(machine, fields)
        return
    width = machine.config.word_bytes
    emit = _per_word(fields, "emit_bytes", "last_emit_bytes")
    advance = _per_word(fields, "advance_bytes", "last_advance_bytes")
    starts = np.cumsum(advance) - advance
    lanes = np.arange(width)
    # Position in the memory run of each byte of each word; positions outside 0..run_bytes-1 are fill.
    position = starts[:, None] + lanes - fields["pad_before_bytes"]
    inside = (position >= 0) & (position < fields["run_bytes"])
    defined = lanes < emit[:, None]
    source = np.where(inside, position, 0)
    offsets = fields["memory_offset_bytes"] + _runs(fields, fields["stride2_bytes"], fields["stride3_bytes"])
    bases = fields["destination"] + _runs(fields, fields["step2"], fields["step3"])
    words = _words(fields)
    size = fields["run_bytes"]
    if machine.config.design == "serial":
        # The serial design reads only the part of the run that its words take.
        size = int(position[inside].max()) + 1 if inside.any() else 0
    if size and machine.region(fields["region"], int(offsets.min()), int(offsets.max()) + size - 1) is None:
        machine.address(bases[:, None] + words)
        return
    for part in _parts(len(offsets), words.size * width):
        shape = (part.stop - part.start, *source.shape)
        values, unknown = np.zeros(shape, np.uint8), None
        if size:
            values, unknown = _read_memory(machine, fields, offsets[part], size, source)
        values = np.where(inside, values, np.uint8(fields["fill"]))
        if not defined.all():
            values = np.where(defined, values, machine.noise(*values.shape))
        if machine.unknown is not None:
            unknown = ~np.broadcast_to(defined, shape) | (False if unknown is None else inside & unknown)
            unknown = unknown.reshape(-1, width)
        machine.write((bases[part, None] + words).reshape(-1), 0, values.reshape(-1, width), unknown)


def _load_coded(machine: Machine, fields: Mapping[str, int]) -> None:
    """Run a load of coded rows, one for each word in order."""
    config, offset, size = machine.config, fields["memory_offset_bytes"], fields["run_bytes"]
    words = fields["destination"] + _words(fields)
    region = machine.region(fields["region"], offset, offset + size - 1)
    if region is None:
        machine.address(words)
        return
    places = np.arange(offset, offset + size)
    machine.note_read(places, fields["region"], Unit.LOAD)
    values = machine.noise(len(words), config.word_bytes).copy()
    values[:, :config.cols] = decode_rows(region[places].tobytes(), len(words), config.cols)
    unknown = None
    if machine.unknown is not None:
        unknown = np.ones(values.shape, bool)
        unknown[:, :config.cols] = machine.unknown.memory[fields["region"]][places].any()
    machine.write(words, 0, values, unknown)


def _read_memory(machine: Machine, fields: Mapping[str, int], offsets: Index, size: int,
                 source: Index) -> tuple[np.ndarray, Flags | None]:
    """Return bytes `source` of each run, and their unknown flags; each run is read as a whole."""
    number = fields["region"]
    places = offsets[:, None] + np.arange(size)
    machine.note_read(places.reshape(-1), number, Unit.LOAD)
    places = places[:, source]
    values = machine.memory[number][places] ^ np.uint8(0x80 if fields["flip"] else 0)
    return values, None if machine.unknown is None else machine.unknown.memory[number][places]


def store(machine: Machine, fields: Mapping[str, int]) -> None:
    """Run one store operation."""
    machine.require_legal(Unit.STORE, fields)
    take = _per_word(fields, "take_bytes", "last_take_bytes")
    run_bytes = int(take.sum())
    word_of_byte = np.repeat(_words(fields), take)
    lane_of_byte = fields["lane"] + np.arange(run_bytes) - np.repeat(np.cumsum(take) - take, take)
    offsets = fields["memory_offset_bytes"] + _runs(fields, fields["stride2_bytes"], fields["stride3_bytes"])
    bases = fields["source"] + _runs(fields, fields["step2"], fields["step3"])
    number = fields["region"]
    region = machine.region(number, int(offsets.min()), int(offsets.max()) + run_bytes - 1)
    for part in _parts(len(offsets), run_bytes):
        words = machine.address(bases[part, None] + word_of_byte)
        if region is None:
            continue
        machine.note_read(words)
        values = machine.scratchpad[words, lane_of_byte]
        places = offsets[part, None] + np.arange(run_bytes)
        machine.note_write(places.reshape(-1), number, Unit.STORE)
        region[places] = values ^ np.uint8(0x80) if fields["flip"] else values
        if machine.unknown is not None:
            machine.unknown.memory[number][places] = machine.unknown.scratchpad[words, lane_of_byte]


def store_covers(fields: Mapping[str, int], byte: int) -> bool:
    """Whether a store operation writes `byte` of its region."""
    run_bytes = int(_per_word(fields, "take_bytes", "last_take_bytes").sum())
    offsets = fields["memory_offset_bytes"] + _runs(fields, fields["stride2_bytes"], fields["stride3_bytes"])
    return bool(((offsets <= byte) & (byte < offsets + run_bytes)).any())
