"""Loads and stores: bytes go on under their numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import NOTHING, Bytes, Flags, Index
from tq_hw.isa.program import REGION_IMAGE
from tq_hw.model.errors import DataflowError

__all__ = ["load", "store"]

_LOOPS = ("count0", "count1", "emit_bytes", "last_emit_bytes", "advance_bytes", "last_advance_bytes",
          "pad_before_bytes", "run_bytes")


def _runs(f: Mapping[str, int], step2: str, step3: str) -> Index:
    """What the loops over runs add."""
    inner = np.arange(f["count2"]) * f[step2]
    if f["count3"] == 1:
        return inner
    return (np.arange(f["count3"])[:, None] * f[step3] + inner).reshape(-1)


def _words(f: Mapping[str, int]) -> Index:
    """What the loops within a run add to the word."""
    inner = np.arange(f["count0"]) * f["step0"]
    if f["count1"] == 1:
        return inner
    return (np.arange(f["count1"])[:, None] * f["step1"] + inner).reshape(-1)


@dataclass(frozen=True)
class _Bytes:
    """For each byte of each word of a run: which byte of the run it is; whether it is one, or fill; whether it is."""

    source: Index
    inside: Flags | None
    emitted: Flags | None


@lru_cache(maxsize=1024)
def _loaded(width: int, count0: int, count1: int, emit: int, last_emit: int, advance: int, last_advance: int,
            before: int, size: int) -> _Bytes:
    emits, advances = np.full(count0, emit), np.full(count0, advance)
    emits[-1], advances[-1] = last_emit, last_advance
    emits, advances = np.tile(emits, count1), np.tile(advances, count1)
    if int(emits.min()) < 1 or int(emits.max()) > width or int(advances.max()) > width:
        raise DataflowError(f"a load puts 1 to {width} bytes into a word and goes on by at most {width}")
    lanes = np.arange(width)
    source = (np.cumsum(advances) - advances)[:, None] + lanes - before
    inside, emitted = (source >= 0) & (source < size), lanes < emits[:, None]
    return _Bytes(np.where(inside, source, 0), None if inside.all() else inside, None if emitted.all() else emitted)


def load(machine: Machine) -> None:
    """Bring bytes of memory, or fill, into words."""
    f, numbers = machine.fields, machine.numbers
    loop = _loaded(machine.config.word_bytes, *(f[name] for name in _LOOPS))
    words = (f["destination"] + _runs(f, "step2", "step3"))[:, None] + _words(f)
    fill, size = numbers.fill(f["fill"]), f["run_bytes"]
    if size:
        offsets = f["memory_offset_bytes"] + _runs(f, "stride2_bytes", "stride3_bytes")
        values = _memory(machine, f["region"], offsets, size, loop.source)
        if f["flip"]:
            values = values ^ numbers.flipped
        if loop.inside is not None:
            values = np.where(loop.inside, values, np.asarray(fill, numbers.dtype))
    else:
        values = np.full((*words.shape, machine.config.word_bytes), fill, numbers.dtype)
    if loop.emitted is not None:
        values = np.where(loop.emitted, values, np.asarray(NOTHING, numbers.dtype))
    machine.write(words, 0, values, "what it loads")


def _memory(machine: Machine, region: int, offsets: Index, size: int, source: Index) -> Bytes:
    """Return the numbers of bytes [run, word, byte]."""
    numbers = machine.numbers
    if region == REGION_IMAGE:
        if int(offsets.min()) < 0 or int(offsets.max()) + size > len(numbers.image):
            raise DataflowError(f"bytes {int(offsets.min())}..{int(offsets.max()) + size - 1} of the image are read, "
                                f"which has {len(numbers.image)}")
        first = (offsets + numbers.constant(0)).astype(numbers.dtype)
        values: Bytes = first[:, None, None] + source.astype(numbers.dtype)
        return values
    machine.touch_bytes(region, offsets[:, None] + np.arange(size), False)
    return machine.regions[region].bytes.take(offsets[:, None, None] + source)


@lru_cache(maxsize=1024)
def _taken(count0: int, count1: int, take: int, last_take: int, lane: int) -> tuple[Index, Index]:
    """Number of the word and lane of each byte of a run."""
    takes = np.full(count0, take)
    takes[-1] = last_take
    takes = np.tile(takes, count1)
    word = np.repeat(np.arange(count0 * count1), takes)
    return word, lane + np.arange(len(word)) - np.repeat(np.cumsum(takes) - takes, takes)


def store(machine: Machine) -> None:
    """Write bytes of words to memory."""
    f, numbers = machine.fields, machine.numbers
    take, last, lane = (f[name] for name in ("take_bytes", "last_take_bytes", "lane"))
    if min(take, last) < 1 or lane + max(take, last) > machine.config.word_bytes:
        raise DataflowError(f"a store takes 1 to {machine.config.word_bytes} bytes of a word")
    word, lanes = _taken(f["count0"], f["count1"], take, last, lane)
    words = (f["source"] + _runs(f, "step2", "step3"))[:, None] + _words(f)
    there = machine.read(words, "what it stores")
    offsets = f["memory_offset_bytes"] + _runs(f, "stride2_bytes", "stride3_bytes")
    places = offsets[:, None] + np.arange(len(word))
    number = f["region"]
    machine.touch_bytes(number, places, True)
    values = there[:, word, lanes]
    region = machine.regions[number]
    region.bytes[places] = values ^ numbers.flipped if f["flip"] else values
    region.writer[places] = machine.number
