"""Loads and stores: bytes keep their numbers.

Nearly all of an operation's effect follows from its counts, steps and sizes, its form, which many operations share.
"""

import sys
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

import numpy as np

from tq_hw.compiler.verify.areas import Area, Form, form_of
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import LAST_FILL, NOTHING, Bytes, Flags, Index
from tq_hw.compiler.verify.order import Runs
from tq_hw.compiler.verify.pad import SIZE_BITS, code
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import REGION_IMAGE
from tq_hw.isa.refusals import broken_rule
from tq_hw.model.errors import DataflowError

__all__ = ["load", "store"]

_WALK = ("count0", "count1", "count2", "count3", "step0", "step1", "step2", "step3", "stride2_bytes", "stride3_bytes")
_LOAD = itemgetter(*_WALK, "emit_bytes", "last_emit_bytes", "advance_bytes", "last_advance_bytes", "pad_before_bytes",
                   "run_bytes")
_STORE = itemgetter(*_WALK, "take_bytes", "last_take_bytes", "lane")
_Four = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class _Load:
    """Loads of one form.

    Members
    -------
    words : written words, relative to the first
    runs : read bytes, relative to the first
    source : for each byte of each word of a run, its byte in the run
    inside : whether it is such a byte, not fill; None: all are
    emitted : whether it is written; None: all are
    codes : codes of all words if they have only bytes of runs, the first with number 0; None: do not use
    filled : words of a run with fill bytes
    """

    words: Form
    runs: Runs
    source: Index
    inside: Flags | None
    emitted: Flags | None
    codes: Index | None
    filled: Index


def _codes(counts: _Four, strides: tuple[int, int], steps: tuple[int, int], sizes: tuple[int, int],
           lane: int) -> Index:
    """Codes of words [run, run, loop, word] with bytes of memory, if the first byte of the first word is number 0.

    The last word of each loop has a separate step and size; the bytes before lane `lane` are others.
    """
    outer, inner, loops, words = counts
    loop = (words - 1) * steps[0] + steps[1]
    first = (np.arange(outer).reshape(-1, 1, 1, 1) * strides[0] + np.arange(inner).reshape(-1, 1, 1) * strides[1]
             + np.arange(loops).reshape(-1, 1) * loop + np.arange(words) * steps[0])
    size = np.full(words, sizes[0])
    size[-1] = sizes[1]
    codes: Index = (first - lane << SIZE_BITS) + size + lane
    return codes


@lru_cache(maxsize=1024)
def _load_form(width: int, fields: tuple[int, ...]) -> _Load:
    (count0, count1, count2, count3, step0, step1, step2, step3, stride2, stride3, emit, last_emit, advance,
     last_advance, before, size) = fields
    emits, advances = np.full(count0, emit), np.full(count0, advance)
    emits[-1], advances[-1] = last_emit, last_advance
    emits, advances = np.tile(emits, count1), np.tile(advances, count1)
    if int(emits.min()) < 1 or max(emit, last_emit) > width or int(advances.max()) > width:
        raise DataflowError(f"a load must put 1 to {width} bytes into a word and advance by at most {width}")
    lanes = np.arange(width)
    source = (np.cumsum(advances) - advances)[:, None] + lanes - before
    inside, emitted = (source >= 0) & (source < size), lanes < emits[:, None]
    words = form_of((count3, count2, count1, count0), (step3, step2, step1, step0))
    codes = None
    if size > 0 and words.apart:
        codes = _codes((count3, count2, count1, count0), (stride3, stride2), (advance, last_advance),
                       (emit, last_emit), 0) - (before << SIZE_BITS)
    return _Load(words, Runs.of(0, (count3, count2), (stride3, stride2), size), np.where(inside, source, 0),
                 None if inside.all() else inside, None if emitted.all() else emitted, codes,
                 np.flatnonzero((~inside & emitted).any(axis=1)))


def load(machine: Machine) -> None:
    """Replay a load of bytes of memory, or fill, into words."""
    f, numbers = machine.fields, machine.numbers
    if f["coded"]:
        _load_coded(machine)
        return
    form = _load_form(machine.config.word_bytes, _LOAD(f))
    area, region = Area(f["destination"], form.words), f["region"]
    if not f["run_bytes"]:
        words = area.places().reshape(-1, len(form.source))
        machine.write(words, 0, _emitted(form, np.full((*words.shape, machine.config.word_bytes),
                                                       numbers.fill(f["fill"]), numbers.dtype)), "what it loads")
        return
    runs = form.runs.at(f["memory_offset_bytes"])
    if region == REGION_IMAGE:
        if runs.low < 0 or runs.high > len(numbers.image):
            raise DataflowError(f"bytes {runs.low}..{runs.high - 1} of the image are read; the image has "
                                f"{len(numbers.image)} bytes")
    else:
        machine.touch_bytes(region, runs, False)
    if form.codes is not None and machine.exists(area):
        distance = numbers.constant(0) if region == REGION_IMAGE else machine.regions[region].bytes.distance(runs)
        if distance is not None:
            first = runs.first + distance
            machine.write_codes(area, form.codes + code(first ^ numbers.flipped if f["flip"] else first, 0))
            if form.filled.size:
                words = area.places().reshape(-1, len(form.source))[:, form.filled]
                machine.pad.put(words, 0, _loaded(machine, form, runs, form.filled))
            return
    machine.write(area.places().reshape(-1, len(form.source)), 0, _loaded(machine, form, runs, slice(None)),
                  "what it loads")


def _load_coded(machine: Machine) -> None:
    """Replay a load of rows of a coded run into words."""
    f, numbers, config = machine.fields, machine.numbers, machine.config
    if broken := broken_rule(config, Unit.LOAD, f):
        raise DataflowError(broken)
    first = numbers.constant(len(numbers.image) + machine.rows.first(f))
    words = Area(f["destination"], form_of((f["count1"], f["count0"]), (f["step1"], f["step0"]))).places().reshape(-1)
    values = np.full((len(words), config.word_bytes), NOTHING, numbers.dtype)
    values[:, :config.cols] = first + np.arange(len(words) * config.cols).reshape(len(words), -1)
    machine.write(words, 0, values, "what it loads")


def _loaded(machine: Machine, form: _Load, runs: Runs, words: "slice | Index") -> Bytes:
    """Return the numbers of all bytes [run, word, lane] of some words of each run."""
    f, numbers = machine.fields, machine.numbers
    places = runs.offsets()[:, None, None] + form.source[words]
    values = (places + numbers.constant(0) if f["region"] == REGION_IMAGE
              else machine.regions[f["region"]].bytes.at(places))
    if f["flip"]:
        values = values ^ numbers.flipped
    if form.inside is not None:
        values = np.where(form.inside[words], values, np.asarray(numbers.fill(f["fill"]), numbers.dtype))
    return _emitted(form, values, words)


def _emitted(form: _Load, values: Bytes, words: "slice | Index" = slice(None)) -> Bytes:
    """Drop the bytes [run, word, lane] that are not written."""
    if form.emitted is None:
        return values
    return np.where(form.emitted[words], values, np.asarray(NOTHING, values.dtype))


@dataclass(frozen=True, eq=False)
class _Store:
    """Stores of one form.

    Members
    -------
    words : read words, relative to the first
    bytes, each : written bytes, relative to the first, if each word gives the same number of bytes, `each`; else 0
    runs : written bytes, relative to the first
    apart : whether all these are certain to be distinct
    codes : codes of all words if their bytes are consecutive like those of memory, the first with number 0
    """

    words: Form
    bytes: Form
    each: int
    runs: Runs
    apart: bool
    codes: Index


@lru_cache(maxsize=1024)
def _store_form(fields: tuple[int, ...]) -> _Store:
    count0, count1, count2, count3, step0, step1, step2, step3, stride2, stride3, take, last, lane = fields
    counts, loop = (count3, count2, count1, count0), (count0 - 1) * take + last
    runs = Runs.of(0, (count3, count2), (stride3, stride2), count1 * loop)
    each = last if last == take or count0 == 1 else 0
    written = form_of((*runs.counts, runs.size), (*runs.steps, 1))
    return _Store(form_of(counts, (step3, step2, step1, step0)),
                  form_of((*counts, last), (stride3, stride2, loop, take, 1)), each, runs, written.apart,
                  _codes(counts, runs.steps, (take, last), (take, last), lane))


@lru_cache(maxsize=1024)
def _taken(count0: int, count1: int, take: int, last_take: int, lane: int) -> tuple[Index, Index]:
    """Return the word and the lane of each byte of a run."""
    takes = np.full(count0, take)
    takes[-1] = last_take
    takes = np.tile(takes, count1)
    word = np.repeat(np.arange(count0 * count1), takes)
    return word, lane + np.arange(len(word)) - np.repeat(np.cumsum(takes) - takes, takes)


def store(machine: Machine) -> None:
    """Replay a store of bytes of words to memory."""
    f, numbers = machine.fields, machine.numbers
    take, last, lane = f["take_bytes"], f["last_take_bytes"], f["lane"]
    if min(take, last) < 1 or lane + max(take, last) > machine.config.word_bytes:
        raise DataflowError(f"a store must take 1 to {machine.config.word_bytes} bytes of a word")
    form = _store_form(_STORE(f))
    area, number = Area(f["source"], form.words), f["region"]
    runs = form.runs.at(f["memory_offset_bytes"])
    exists = machine.exists(area)
    if exists:
        machine.reads(area)
        codes = area.view(machine.pad.codes)
    else:
        there = machine.read(area.places(), "what it stores")
    machine.touch_bytes(number, runs, True)
    memory, flip = machine.regions[number].bytes, numbers.flipped if f["flip"] else 0
    if exists and form.apart and _stored_plainly(machine, codes, runs, form.codes):
        return
    if form.each and form.apart:
        found = machine.pad.follow(codes, lane, form.each) if exists else None
        if found is None:
            found = (machine.there(area.places(), "what it stores") if exists else there)[..., lane:lane + form.each]
        target = Area(runs.first, form.bytes).view(memory.split(runs.low, runs.high))
        target[...] = (found ^ flip if flip else found).reshape(target.shape)
        return
    if exists:
        there = machine.there(area.places(), "what it stores")
    word, lanes = _taken(f["count0"], f["count1"], take, last, lane)
    offsets = runs.offsets()
    memory.put(offsets[:, None] + np.arange(runs.size), there.reshape(len(offsets), -1, there.shape[-1])[
        :, word, lanes] ^ flip)


def _stored_plainly(machine: Machine, codes: Index, runs: Runs, wanted: Index) -> bool:
    """Store words whose bytes are consecutive in memory; return False if they are not."""
    f, numbers = machine.fields, machine.numbers
    difference = (codes - wanted.reshape(codes.shape)).tobytes()
    if difference != difference[:8] * (len(difference) >> 3):
        return False
    # A word may have `more` bytes than are taken; a word with fewer would give a number near 2^SIZE_BITS.
    first, more = divmod(int.from_bytes(difference[:8], sys.byteorder, signed=True), 1 << SIZE_BITS)
    if more >= 1 << SIZE_BITS - 1 or first + runs.low - runs.first <= LAST_FILL:
        return False
    if f["flip"]:
        first ^= numbers.flipped
    return machine.regions[f["region"]].bytes.put_runs(runs, first - runs.first)
