"""Moves: strided copies of system memory through staging buffers in the scratchpad.

A copy is a run of bytes that is contiguous on both sides, inside loops. The load unit reads a run, or several close
runs, in one pass and writes each run to separate words. The store unit joins words to the longest run of the target.
Both units have two more loops over memory; further loops become several operations.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.move_bytes import byte_transpose, emit_byte_transpose
from tq_hw.compiler.ir.staged import Copy, Move
from tq_hw.compiler.ir.strided import merged
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import Unit
from tq_hw.isa.sizes import ceil_div

__all__ = ["emit_copies", "emit_move"]

_COUNT_LIMIT = 0xFFFF
_RUN_LIMIT = (1 << 24) - 1

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class _Shape:
    """The loops of one pair of operations.

    Members
    -------
    run : bytes contiguous on both sides
    loops : loops of the operations
    load_near : the loop that the load reads within one run of memory, or None
    store_near : the loop that the store joins to one run, or None
    outer : loops that become several operations
    """

    run: int
    loops: tuple[Dim, ...]
    load_near: Dim | None
    store_near: Dim | None
    outer: tuple[Dim, ...]


@lru_cache(maxsize=64)
def _shape(dims: tuple[Dim, ...], is_fill: bool, word: int) -> _Shape:
    """Choose the loops of one pair of operations: those that move the most bytes."""
    contiguous = [d for d in dims if d[2] == 1 and (is_fill or d[1] == 1)]
    run_dim = max(contiguous, default=None)
    rest = [d for d in dims if d is not run_dim]
    run = run_dim[0] if run_dim else 1
    words = ceil_div(run, word)
    best: _Shape | None = None
    for size in range(min(3, len(rest)), -1, -1):
        for loops in itertools.combinations(rest, size):
            near = [d for d in loops if (words - 1) * word <= d[1] <= words * word
                    and (d[0] - 1) * d[1] + run <= _RUN_LIMIT]
            joining = [d for d in loops if d[2] == run]
            load_near = None if is_fill else max(near, default=None)
            store_near = max(joining, default=None)
            if (not is_fill and size - (load_near is not None) > 2) or size - (store_near is not None) > 2:
                continue
            outer = tuple(d for d in rest if d not in loops)
            found = _Shape(run, loops, load_near, store_near, outer)
            if best is None or _count(found.outer) < _count(best.outer):
                best = found
    assert best is not None
    return best


def _count(dims: tuple[Dim, ...]) -> int:
    count = 1
    for size, _, _ in dims:
        count *= size
    return count


def _cut(copy: Copy, word: int, budget: int) -> Iterator[Copy]:
    """Cut a copy into pieces whose words fit the budget and whose loops fit the counters."""
    dims = tuple(merged(copy.dims))
    shape = _shape(dims, copy.source < 0, word)
    words = ceil_div(shape.run, word) * (_count(shape.loops) if copy.source >= 0 else 1)
    long = [d for d in dims if d[0] > _COUNT_LIMIT]
    if (words <= budget or copy.source < 0) and (not long or shape.run in [d[0] for d in long] and (
            ceil_div(shape.run, word) <= _COUNT_LIMIT and len(long) == 1 and shape.run <= _RUN_LIMIT)):
        yield Copy(copy.source, copy.source_offset, copy.target_offset, dims, copy.fill)
        return
    # Cut the loop with the largest step in the target, so that the runs stay long.
    choices = [d for d in dims if d in shape.loops] or [max(dims)]
    dim = long[0] if long and words <= budget else max(choices, key=lambda d: abs(d[2]))
    half = ceil_div(dim[0], 2)
    if dim not in shape.loops:
        half = ceil_div(half, word) * word
    for first, count in ((0, half), (half, dim[0] - half)):
        cut = tuple((count, *d[1:]) if d is dim else d for d in dims)
        yield from _cut(Copy(copy.source, copy.source_offset + first * dim[1], copy.target_offset + first * dim[2],
                             cut, copy.fill), word, budget)


@dataclass
class _Copier:
    emitter: Emitter
    inputs: tuple[Value, ...]
    output: Value
    bases: tuple[int, int]
    words: int
    pairs: int = 0

    def run(self, copy: Copy) -> None:
        """Emit a copy, cut to the staging buffers."""
        word = self.emitter.config.word_bytes
        for piece in _cut(copy, word, self.words):
            shape = _shape(piece.dims, piece.source < 0, word)
            for index in itertools.product(*(range(d[0]) for d in shape.outer)):
                source = piece.source_offset + sum(i * d[1] for i, d in zip(index, shape.outer, strict=True))
                target = piece.target_offset + sum(i * d[2] for i, d in zip(index, shape.outer, strict=True))
                self._pair(piece, shape, source, target)

    def _pair(self, copy: Copy, shape: _Shape, source: int, target: int) -> None:
        word = self.emitter.config.word_bytes
        per_run = ceil_div(shape.run, word)
        last = shape.run - (per_run - 1) * word
        base = self.bases[self.pairs % 2]
        self.pairs += 1
        buffer = self.emitter.new_buffer(self.output.name)
        steps, pitch = {}, per_run
        for dim in shape.loops:
            steps[dim] = pitch
            pitch *= dim[0]
        if copy.source < 0:
            pitch, per_word_step = 1, 0
            steps = dict.fromkeys(shape.loops, 0)
            self._fill(copy.fill, base, buffer)
        else:
            per_word_step = 1
            self._load(copy, shape, source, steps, base, Access("pad", base, base + pitch, buffer, (0, 1), (0, 1)))
        region, offset = self.emitter.memory_of(self.output)
        fields = {"region": region, "memory_offset_bytes": offset + target, "source": base, "take_bytes": word,
                  "last_take_bytes": last, "count0": per_run, "step0": per_word_step,
                  "flip": int(copy.source >= 0 and self.output.flip)}
        reach = self._loops(fields, shape, steps, shape.store_near, 2)
        low, high = offset + target + reach[0], offset + target + reach[1] + shape.run
        self.emitter.stream.add(Unit.STORE, fields, (Access("pad", base, base + pitch, buffer, (0, 1), (0, 1)),),
                                (Access(f"region{region}", low, high),), self.emitter.layer_index)

    @staticmethod
    def _loops(fields: dict[str, int], shape: _Shape, steps: dict[Dim, int], near: Dim | None,
               which: int) -> tuple[int, int]:
        """Fill in loops 1 to 3; return their extent below and above the first byte."""
        fields |= {"count1": near[0] if near else 1, "step1": signed_step(steps[near]) if near else 0}
        others = [d for d in shape.loops if d is not near]
        for number in (2, 3):
            dim = others[number - 2] if len(others) > number - 2 else None
            fields |= {f"count{number}": dim[0] if dim else 1, f"step{number}": signed_step(steps[dim]) if dim else 0,
                       f"stride{number}_bytes": dim[which] if dim else 0}
        ends = [(d[0] - 1) * d[which] for d in shape.loops]
        return sum(min(0, e) for e in ends), sum(max(0, e) for e in ends)

    def _load(self, copy: Copy, shape: _Shape, source: int, steps: dict[Dim, int], base: int, into: Access) -> None:
        word = self.emitter.config.word_bytes
        value = self.inputs[copy.source]
        region, offset = self.emitter.memory_of(value)
        per_run = ceil_div(shape.run, word)
        last = shape.run - (per_run - 1) * word
        near = shape.load_near
        fields = {"region": region, "memory_offset_bytes": offset + source, "destination": base, "emit_bytes": word,
                  "advance_bytes": word, "last_emit_bytes": last, "last_advance_bytes": last, "count0": per_run,
                  "step0": 1, "flip": int(value.flip), "run_bytes": shape.run}
        if near is not None:
            fields |= {"last_advance_bytes": near[1] - (per_run - 1) * word,
                       "run_bytes": (near[0] - 1) * near[1] + shape.run}
        reach = self._loops(fields, shape, steps, near, 1)
        low, high = offset + source + reach[0], offset + source + reach[1] + shape.run
        self.emitter.load(fields, (Access(f"region{region}", low, high),), (into,))

    def _fill(self, value: int, base: int, buffer: int) -> None:
        word = self.emitter.config.word_bytes
        self.emitter.load({"run_bytes": 0, "fill": value, "destination": base, "emit_bytes": word, "advance_bytes": 0,
                           "last_emit_bytes": word, "count0": 1, "count1": 1, "count2": 1, "count3": 1}, (),
                          (Access("pad", base, base + 1, buffer, (0, 1), (0, 1)),))


def emit_copies(emitter: Emitter, inputs: tuple[Value, ...], output: Value, copies: tuple[Copy, ...], base: int,
                words: int) -> None:
    """Emit copies through `words` scratchpad words from `base` on, used as two buffers."""
    half = min(words // 2, 4096)
    copier = _Copier(emitter, inputs, output, (base, base + half), half)
    for copy in copies:
        transpose = byte_transpose(merged(copy.dims)) if copy.source >= 0 else None
        if transpose is None:
            copier.run(copy)
        else:
            emit_byte_transpose(emitter, inputs[copy.source], output, copy, transpose, base, words)


def emit_move(emitter: Emitter, layer: Move, plan: LayerPlan) -> None:
    """Emit a layer of copies."""
    emit_copies(emitter, layer.inputs, layer.output, layer.copies, plan.out_bases[0], plan.out_words)
