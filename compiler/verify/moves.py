"""Loads and stores: bytes go on under their numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tq_hw.compiler.verify.areas import Area
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import NOTHING, Bytes, Flags, Index
from tq_hw.compiler.verify.order import Runs, memory_runs, stored_runs
from tq_hw.isa.program import REGION_IMAGE
from tq_hw.model.errors import DataflowError

__all__ = ["load", "store"]

_LOOPS = ("count0", "count1", "emit_bytes", "last_emit_bytes", "advance_bytes", "last_advance_bytes",
          "pad_before_bytes", "run_bytes")


@dataclass(frozen=True)
class _Bytes:
    """For each byte of each word of a run: which byte of the run it is; whether it is one, or fill; whether it is.

    `plain` says that none of those that are is fill.
    """

    source: Index
    inside: Flags | None
    emitted: Flags | None
    plain: bool


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
    return _Bytes(np.where(inside, source, 0), None if inside.all() else inside, None if emitted.all() else emitted,
                  bool((inside | ~emitted).all()))


def load(machine: Machine) -> None:
    """Bring bytes of memory, or fill, into words."""
    f, numbers, width = machine.fields, machine.numbers, machine.config.word_bytes
    loop = _loaded(width, *(f[name] for name in _LOOPS))
    fill, size = numbers.fill(f["fill"]), f["run_bytes"]
    if size:
        runs = memory_runs(f, size)
        memory = _memory(machine, f["region"], runs)
        if loop.plain and _loaded_plainly(machine, f, memory):
            return
        values = memory.take(runs.offsets()[:, None, None] + loop.source)
        if f["flip"]:
            values = values ^ numbers.flipped
        if loop.inside is not None:
            values = np.where(loop.inside, values, np.asarray(fill, numbers.dtype))
    else:
        values = np.full((f["count2"] * f["count3"], f["count0"] * f["count1"], width), fill, numbers.dtype)
    if loop.emitted is not None:
        values = np.where(loop.emitted, values, np.asarray(NOTHING, numbers.dtype))
    words = _area(f, "destination").places().reshape(values.shape[:2])
    machine.write(words, 0, values, "what it loads")


def _memory(machine: Machine, region: int, runs: Runs) -> Bytes:
    """Return the numbers of a region of which runs of bytes are read."""
    if region != REGION_IMAGE:
        machine.touch_bytes(region, runs, False)
        return machine.regions[region].bytes
    if runs.low < 0 or runs.high > machine.image.size:
        raise DataflowError(f"bytes {runs.low}..{runs.high - 1} of the image are read, which has {machine.image.size}")
    return machine.image


def _area(f: Mapping[str, int], base: str) -> Area:
    """Words that a load or a store walks over."""
    return Area(f[base], (f["count3"], f["count2"], f["count1"], f["count0"]),
                (f["step3"], f["step2"], f["step1"], f["step0"]))


def _bytes(f: Mapping[str, int], advance: int, last: int, most: int) -> Area:
    """Bytes of memory, [run, run, loop, word, byte], that go into the words of a load or come from those of a store."""
    count0 = f["count0"]
    return Area(f["memory_offset_bytes"], (f["count3"], f["count2"], f["count1"], count0, most),
                (f["stride3_bytes"], f["stride2_bytes"], (count0 - 1) * advance + last, advance, 1))


def _loaded_plainly(machine: Machine, f: Mapping[str, int], memory: Bytes) -> bool:
    """Load words without fill bytes, all of them different; whether that was possible."""
    area, emit, last = _area(f, "destination"), f["emit_bytes"], f["last_emit_bytes"]
    most = max(emit, last)
    there = area.of(machine.pad)
    values = _bytes(f, f["advance_bytes"], f["last_advance_bytes"], most).of(memory)
    if there is None or values is None or not area.apart():
        return False
    there[..., :most] = values ^ machine.numbers.flipped if f["flip"] else values
    there[..., most:] = NOTHING
    if emit < last:
        there[..., :-1, emit:] = NOTHING
    elif last < emit:
        there[..., -1, last:] = NOTHING
    machine.written(area)
    return True


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
    area, number = _area(f, "source"), f["region"]
    runs, there = stored_runs(f), machine.area(area)
    if there is None:
        there = machine.read(area.places(), "what it stores")
    machine.touch_bytes(number, runs, True)
    memory, flip = machine.regions[number].bytes, numbers.flipped if f["flip"] else 0
    if take == last and Area(runs.first, (*runs.counts, runs.size), (*runs.steps, 1)).apart():
        target = _bytes(f, take, last, take).of(memory)
        assert target is not None, "the bytes exist"
        there = there[..., lane:lane + take]
        target[...] = there ^ flip if flip else there
        return
    word, lanes = _taken(f["count0"], f["count1"], take, last, lane)
    offsets = runs.offsets()
    memory[offsets[:, None] + np.arange(runs.size)] = there.reshape(len(offsets), -1, there.shape[-1])[
        :, word, lanes] ^ flip
