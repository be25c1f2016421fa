"""Loads and stores: bytes go on under their numbers."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tq_hw.compiler.verify.areas import Area
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import LAST_FILL, NOTHING, Flags, Index
from tq_hw.compiler.verify.order import Runs, memory_runs, stored_runs
from tq_hw.compiler.verify.pad import SIZE_BITS, code
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
    if int(emits.min()) < 1 or max(emit, last_emit) > width or int(advances.max()) > width:
        raise DataflowError(f"a load puts 1 to {width} bytes into a word and goes on by at most {width}")
    lanes = np.arange(width)
    source = (np.cumsum(advances) - advances)[:, None] + lanes - before
    inside, emitted = (source >= 0) & (source < size), lanes < emits[:, None]
    return _Bytes(np.where(inside, source, 0), None if inside.all() else inside, None if emitted.all() else emitted,
                  bool((inside | ~emitted).all()))


@lru_cache(maxsize=4096)
def _run_codes(counts: tuple[int, int, int, int], strides: tuple[int, int], steps: tuple[int, int],
               sizes: tuple[int, int], lane: int) -> Index:
    """Codes of words [run, run, loop, word] that hold bytes of memory, if the first byte of the first one is number 0.

    The last word of each loop has a step and a size of its own; before lane `lane` are other bytes.
    """
    outer, inner, loops, words = counts
    loop = (words - 1) * steps[0] + steps[1]
    first = (np.arange(outer).reshape(-1, 1, 1, 1) * strides[0] + np.arange(inner).reshape(-1, 1, 1) * strides[1]
             + np.arange(loops).reshape(-1, 1) * loop + np.arange(words) * steps[0])
    size = np.full(words, sizes[0])
    size[-1] = sizes[1]
    codes: Index = (first - lane << SIZE_BITS) + size + lane
    return codes


def load(machine: Machine) -> None:
    """Bring bytes of memory, or fill, into words."""
    f, numbers, width = machine.fields, machine.numbers, machine.config.word_bytes
    loop = _loaded(width, *(f[name] for name in _LOOPS))
    fill, size = numbers.fill(f["fill"]), f["run_bytes"]
    area = _area(f, "destination")
    if size:
        runs = memory_runs(f, size)
        if f["region"] == REGION_IMAGE:
            if runs.low < 0 or runs.high > len(numbers.image):
                raise DataflowError(f"bytes {runs.low}..{runs.high - 1} of the image are read, which has "
                                    f"{len(numbers.image)}")
        else:
            machine.touch_bytes(f["region"], runs, False)
        if loop.plain and area.form.apart and machine.exists(area):
            distance = _distance(machine, runs)
            if distance is not None:
                first = runs.first + distance
                codes = _run_codes(area.counts, runs.steps, (f["advance_bytes"], f["last_advance_bytes"]),
                                   (f["emit_bytes"], f["last_emit_bytes"]), 0)
                machine.write_codes(area, codes + code(first ^ numbers.flipped if f["flip"] else first, 0))
                return
        places = runs.offsets()[:, None, None] + loop.source
        values = (places + numbers.constant(0) if f["region"] == REGION_IMAGE
                  else machine.regions[f["region"]].bytes.at(places))
        if f["flip"]:
            values = values ^ numbers.flipped
        if loop.inside is not None:
            values = np.where(loop.inside, values, np.asarray(fill, numbers.dtype))
    else:
        values = np.full((f["count2"] * f["count3"], f["count0"] * f["count1"], width), fill, numbers.dtype)
    if loop.emitted is not None:
        values = np.where(loop.emitted, values, np.asarray(NOTHING, numbers.dtype))
    machine.write(area.places().reshape(values.shape[:2]), 0, values, "what it loads")


def _distance(machine: Machine, runs: Runs) -> int | None:
    """Return what is added to the offsets of all bytes that are read, if that makes them numbers."""
    region = machine.fields["region"]
    if region == REGION_IMAGE:
        return machine.numbers.constant(0)
    return machine.regions[region].bytes.distance(runs.first, runs.counts, runs.steps, runs.size)


def _area(f: Mapping[str, int], base: str) -> Area:
    """Words that a load or a store walks over."""
    return Area(f[base], (f["count3"], f["count2"], f["count1"], f["count0"]),
                (f["step3"], f["step2"], f["step1"], f["step0"]))


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
    runs = stored_runs(f)
    exists = machine.exists(area)
    if exists:
        machine.reads(area)
        codes = area.view(machine.pad.codes)
    else:
        there = machine.read(area.places(), "what it stores")
    machine.touch_bytes(number, runs, True)
    memory, flip = machine.regions[number].bytes, numbers.flipped if f["flip"] else 0
    apart = Area(runs.first, (*runs.counts, runs.size), (*runs.steps, 1)).form.apart
    if exists and apart and _stored_plainly(machine, codes, runs):
        return
    if exists:
        there = machine.there(area.places(), "what it stores")
    if take == last and apart:
        target = _bytes(f, take, last, take).view(memory.split(runs.low, runs.high))
        target[...] = (there[..., lane:lane + take] ^ flip).reshape(target.shape)
        return
    word, lanes = _taken(f["count0"], f["count1"], take, last, lane)
    offsets = runs.offsets()
    memory.put(offsets[:, None] + np.arange(runs.size), there.reshape(len(offsets), -1, there.shape[-1])[
        :, word, lanes] ^ flip)


def _bytes(f: Mapping[str, int], take: int, last: int, most: int) -> Area:
    """Bytes of memory, [run, run, loop, word, byte], that come from the words of a store."""
    count0 = f["count0"]
    return Area(f["memory_offset_bytes"], (f["count3"], f["count2"], f["count1"], count0, most),
                (f["stride3_bytes"], f["stride2_bytes"], (count0 - 1) * take + last, take, 1))


def _stored_plainly(machine: Machine, codes: Index, runs: Runs) -> bool:
    """Store words of which each goes on where the one before it in memory ends; whether they are that."""
    f, numbers = machine.fields, machine.numbers
    steps = f["take_bytes"], f["last_take_bytes"]
    wanted = _run_codes((f["count3"], f["count2"], f["count1"], f["count0"]), runs.steps, steps, steps, f["lane"])
    difference = (codes - wanted.reshape(codes.shape)).tobytes()
    if difference != difference[:8] * (len(difference) >> 3):
        return False
    # Each word may have so many bytes more than are taken; fewer would be a number near 2^SIZE_BITS.
    first, more = divmod(int.from_bytes(difference[:8], sys.byteorder, signed=True), 1 << SIZE_BITS)
    if more >= 1 << SIZE_BITS - 1 or first + runs.low - runs.first <= LAST_FILL:
        return False
    if f["flip"]:
        first ^= numbers.flipped
    return machine.regions[f["region"]].bytes.put_runs(runs.first, runs.counts, runs.steps, runs.size,
                                                       first - runs.first)
