"""Load and store as docs/reference/semantics.md writes them, on numpy arrays, and random operations for them."""

import random
from collections.abc import Mapping

import numpy as np

from tq_hw.isa.config import Config
from tq_hw.isa.weight_code import decode_rows

__all__ = ["Fields", "Word", "load_ref", "random_coded_load", "random_load",
           "random_store", "store_ref"]

Fields = Mapping[str, int]
#: Bytes of a word by lane; None is undefined.
Word = list[int | None]


def runs(op: Fields) -> list[tuple[int, int, int]]:
    """Return (i3, i2, byte offset in the region) of every run, in order."""
    return [(i3, i2, op["memory_offset_bytes"] + i3 * op["stride3_bytes"] + i2 * op["stride2_bytes"])
            for i3 in range(op["count3"]) for i2 in range(op["count2"])]


def words(op: Fields, first: int, i3: int, i2: int) -> list[tuple[int, bool]]:
    """Return (word address, last of its block loop) of every word of one run."""
    return [((first + i0 * op["step0"] + i1 * op["step1"] + i2 * op["step2"] + i3 * op["step3"]) % (1 << 16),
             i0 == op["count0"] - 1) for i1 in range(op["count1"]) for i0 in range(op["count0"])]


def load_ref(config: Config, op: Fields, memory: np.ndarray, base: int, scratchpad: dict[int, Word]) -> None:
    """Do one load; undefined lanes are None."""
    width = config.word_bytes
    if op.get("coded"):
        first = base + op["memory_offset_bytes"]
        places = words(op, op["destination"], 0, 0)
        rows = decode_rows(memory[first:first + op["run_bytes"]].tobytes(), len(places), config.cols)
        for (address, _), row in zip(places, rows, strict=True):
            scratchpad[address] = row.tolist() + [None] * (width - config.cols)
        return
    for i3, i2, offset in runs(op):
        data = memory[base + offset:base + offset + op["run_bytes"]] ^ (0x80 if op["flip"] else 0)
        stream = np.concatenate([np.full(op["pad_before_bytes"], op["fill"], np.uint8), data,
                                 np.full(op["pad_after_bytes"], op["fill"], np.uint8)])
        at = 0
        for address, last in words(op, op["destination"], i3, i2):
            emit, advance = ("last_emit_bytes", "last_advance_bytes") if last else ("emit_bytes", "advance_bytes")
            piece = stream[at:at + op[emit]].tolist()
            piece += [op["fill"]] * (op[emit] - len(piece))
            scratchpad[address] = piece + [None] * (width - op[emit])
            at += op[advance]


def store_ref(config: Config, op: Fields, memory: np.ndarray, base: int, scratchpad: np.ndarray) -> None:
    """Do one store; `scratchpad` has one row of bytes per word."""
    for i3, i2, offset in runs(op):
        stream: list[int] = []
        for address, last in words(op, op["source"], i3, i2):
            take = op["last_take_bytes"] if last else op["take_bytes"]
            stream += scratchpad[address][op["lane"]:op["lane"] + take].tolist()
        memory[base + offset:base + offset + len(stream)] = np.array(stream, np.uint8) ^ (0x80 if op["flip"] else 0)


def _steps(rng: random.Random, most_words: int) -> dict[str, int]:
    """Return loops of at most `most_words` words, with steps that give every word its own address."""
    counts = [rng.choice([1, 1, 2, 3, rng.randint(1, most_words)]) for _ in range(4)]
    while counts[0] * counts[1] * counts[2] * counts[3] > most_words:
        largest = counts.index(max(counts))
        counts[largest] = max(1, counts[largest] // 2)
    steps = [0] * 4
    order = rng.sample(range(4), 4)
    step = rng.choice([1, 1, 2, 3])
    for level in order:
        steps[level] = step
        step *= counts[level]
    return {f"count{i}": c for i, c in enumerate(counts)} | {f"step{i}": s for i, s in enumerate(steps)}


def random_load(rng: random.Random, config: Config, memory_bytes: int, most_words: int = 24) -> dict[str, int]:
    """Return the fields of a legal load that stays inside the memory and the scratchpad."""
    width = config.word_bytes
    loops = _steps(rng, most_words)
    span = 1 + sum((loops[f"count{i}"] - 1) * loops[f"step{i}"] for i in range(4))
    emit, last_emit = rng.randint(1, width), rng.randint(1, width)
    advance, last_advance = (rng.choice([e, e, rng.randint(0, width)]) for e in (emit, last_emit))
    per_pixel = (loops["count0"] - 1) * advance + last_advance
    wanted = loops["count1"] * per_pixel
    pad_before = rng.choice([0, 0, rng.randint(0, 3 * width)])
    run_bytes = rng.choice([0, max(0, wanted - pad_before), wanted + rng.randint(0, 40), rng.randint(1, wanted + 1)])
    strides = {"stride2_bytes": rng.choice([run_bytes, rng.randint(-run_bytes - 9, run_bytes + 9)]),
               "stride3_bytes": rng.randint(-70, 70)}
    low, high = _reach(loops, strides, run_bytes)
    return loops | strides | {
        "memory_offset_bytes": rng.randint(-low, max(-low, memory_bytes - high)), "region": rng.randint(0, 3),
        "run_bytes": run_bytes, "fill": rng.randint(0, 255), "pad_before_bytes": pad_before,
        "pad_after_bytes": rng.choice([0, rng.randint(0, 2 * width)]),
        "destination": rng.randint(0, config.scratchpad_words - span), "flip": rng.randint(0, 1),
        "emit_bytes": emit, "advance_bytes": advance, "last_emit_bytes": last_emit,
        "last_advance_bytes": last_advance,
    }


def random_coded_load(rng: random.Random, config: Config, memory_bytes: int, most_words: int = 24) -> dict[str, int]:
    """Return the fields of a legal load of coded rows; fields that it ignores have any value."""
    op = random_load(rng, config, memory_bytes, most_words)
    run = rng.randint(1, 12) * config.bus_bytes
    at = rng.randrange(0, memory_bytes - run, config.bus_bytes)
    return op | {"coded": 1, "run_bytes": run, "memory_offset_bytes": at, "count2": 1, "count3": 1}


def random_store(rng: random.Random, config: Config, memory_bytes: int, most_words: int = 24) -> dict[str, int]:
    """Return the fields of a legal store whose runs do not overlap."""
    width = config.word_bytes
    loops = _steps(rng, most_words)
    span = 1 + sum((loops[f"count{i}"] - 1) * loops[f"step{i}"] for i in range(4))
    lane = rng.choice([0, rng.randint(0, width - 1)])
    take, last_take = rng.randint(1, width - lane), rng.randint(1, width - lane)
    run_bytes = loops["count1"] * ((loops["count0"] - 1) * take + last_take)
    gap = rng.choice([0, 1, 5])
    strides = {"stride2_bytes": (run_bytes + gap) * rng.choice([1, -1]), "stride3_bytes": 0}
    strides["stride3_bytes"] = (run_bytes + gap) * loops["count2"] * rng.choice([1, -1])
    low, high = _reach(loops, strides, run_bytes)
    assert high - low <= memory_bytes, "the memory of this test is too small"
    return loops | strides | {
        "memory_offset_bytes": rng.randint(-low, memory_bytes - high), "region": rng.randint(0, 3),
        "source": rng.randint(0, config.scratchpad_words - span), "flip": rng.randint(0, 1),
        "take_bytes": take, "last_take_bytes": last_take, "lane": lane,
    }


def _reach(loops: Fields, strides: Fields, run_bytes: int) -> tuple[int, int]:
    """Return the first and one past the last byte of all runs, from the offset."""
    ends = [(loops[f"count{i}"] - 1) * strides[f"stride{i}_bytes"] for i in (2, 3)]
    return sum(min(0, e) for e in ends), sum(max(0, e) for e in ends) + run_bytes
