"""The words that a program of the vector unit reads, step by step, which may have bank conflicts."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from tq_hw.compiler.cost.array_cycles import tile_order
from tq_hw.compiler.cost.operation_cycles import beat_cycles, chunk_runs
from tq_hw.compiler.ir.value import ELEMENT_BYTES
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.latency import VECTOR_TILE_CYCLES
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Source

__all__ = ["Reads", "program_reads", "table_reads"]

#: Steps that read: cycles since the step before (for the first step, since the begin), and bit masks of the banks of
#: streams A and B, 0 for no read. The last entry is the end, without a read.
Reads = Sequence[tuple[int, int, int]]


def table_reads(operation: Operation, config: Config) -> Reads:
    """Return the steps of a load of the table: an entry a cycle, several entries a word."""
    f = operation.fields
    entries = config.word_bytes // 4
    words = ceil_div(f["slots"], entries)
    found = [(entries if number else 0, 1 << (f.get("a_base", 0) + number) % BANKS, 0) for number in range(words)]
    return [*found, (f["slots"] - entries * (words - 1), 0, 0)]


def program_reads(operation: Operation, config: Config) -> Iterator[Reads]:
    """Yield the steps of the chunks of a program over streams, in their order."""
    f = operation.fields
    words = beat_cycles(operation, config)
    streams = {"a": _base(f, "a"), "b": _base(f, "b")}
    uses = tuple((uop.get("a_source") == Source.STREAM, uop.get("b_source") == Source.STREAM, bool(uop.get("once")))
                 for uop in operation.uops)
    layouts = {size: chunk_runs(f, operation.uops, size * config.beats_per_word, words, config)
               for size in _chunk_sizes(f)}
    for block, first, slots in tile_order(f):
        cycles = 0
        for place in range(first, first + slots, f["chunk_slots"]):
            size = min(f["chunk_slots"], first + slots - place)
            runs, took = layouts[size]
            last = place + size == first + slots
            if last:
                took = max(took, VECTOR_TILE_CYCLES - cycles)
            cycles += took
            row, col = divmod(place, f.get("cols", 0) or f["slots"])
            at = tuple((base + block * steps[0] + row * steps[1] + col * steps[2]) % BANKS
                       for base, steps in streams.values())
            yield _chunk_reads(
                tuple(runs), took, uses, tuple(words), at, tuple(steps for _, steps in streams.values()), size,
                f.get("cols", 0) or f["slots"], col, f["repeat1"], (f.get("a_type", 0), f.get("b_type", 0)), config)


def _chunk_sizes(f: Mapping[str, int]) -> set[int]:
    found = set()
    for _, _, slots in tile_order(f):
        whole, rest = divmod(slots, f["chunk_slots"])
        found |= ({f["chunk_slots"]} if whole else set()) | ({rest} if rest else set())
    return found


def _base(f: Mapping[str, int], name: str) -> tuple[int, tuple[int, ...]]:
    """Return the bank of a stream's first word, and its steps modulo the banks: block, row, column, repeats."""
    return f.get(f"{name}_base", 0) % BANKS, tuple(f.get(f"{name}_{step}", 0) % BANKS for step in (
        "block_step", "row_step", "col_step", "repeat1_step", "repeat2_step"))


@lru_cache(maxsize=1 << 12)
def _chunk_reads(runs: tuple[tuple[int, int, int], ...], cycles: int, uses: tuple[tuple[bool, bool, bool], ...],
                 words: tuple[int, ...], bases: tuple[int, ...], steps: tuple[tuple[int, ...], ...], slots: int,
                 cols: int, col: int, repeat1: int, types: tuple[int, int], config: Config) -> Reads:
    """Return the steps of a chunk of `slots` from column `col` on; `bases` are the banks of its first words."""
    rows, places = np.divmod(np.arange(col, col + slots), cols)
    found = []
    for number, repeat, start in runs:
        reads_a, reads_b, once = uses[number]
        if not (reads_a or reads_b):
            continue
        outer, inner = divmod(repeat, repeat1)
        streams = [
            ((base + rows * step[1] + (places - col) * step[2] + inner * step[3] + outer * step[4]).tolist(),
             _slot_words(code, words[number], config)) if reads else ([], ())
            for reads, base, step, code in zip((reads_a, reads_b), bases, steps, types, strict=True)]
        beats = 1 if once else config.beats_per_word
        found += _run_reads(start, beats * words[number], 1 if once else slots, streams)
    last = 0
    deltas: list[tuple[int, int, int]] = []
    for at, a, b in found:
        deltas.append((at - last, a, b))
        last = at
    return (*deltas, (cycles - last, 0, 0))


def _run_reads(start: int, per_slot: int, slots: int, streams: Sequence[tuple[list[int], tuple[tuple[int, int], ...]]]
               ) -> list[tuple[int, int, int]]:
    """Return the cycles in which a run of `per_slot` cycles a slot reads, and the banks of its streams.

    A stream is the bank of each slot and, for each word that is read, the cycle within the slot and the word's index.
    """
    found: dict[int, list[int]] = {}
    for which, (banks, words) in enumerate(streams):
        for place, word in words:
            if place < per_slot:
                for slot, bank in enumerate(banks[:slots]):
                    found.setdefault(start + slot * per_slot + place, [0, 0])[which] = 1 << (bank + word) % BANKS
    return [(at, a, b) for at, (a, b) in sorted(found.items())]


@lru_cache(maxsize=64)
def _slot_words(code: int, words: int, config: Config) -> tuple[tuple[int, int], ...]:
    """Return, for each word that is read, the cycle within a slot and the word's index; a beat takes `words` cycles."""
    size = ELEMENT_BYTES[code]
    beat = config.requantize_lanes * size
    found, newest = [], -1
    for position in range(config.beats_per_word):
        low, high = position * beat // config.word_bytes, ((position + 1) * beat - 1) // config.word_bytes
        for word in range(low, high + 1):
            if word > newest:
                found.append((position * words + word - low, word))
                newest = word
    return tuple(found)
