"""Programs in the micro-operation memory: each operation runs its own one, and few words are written for it."""

import random
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest

from tq_hw.compiler.ir.meaning import Code, Streams
from tq_hw.compiler.stream.program_places import place_programs, write_words
from tq_hw.compiler.stream.stream import Access, Operation, Stream, UopWrite
from tq_hw.isa.config import PRESETS
from tq_hw.isa.encode import Assembler, pack
from tq_hw.isa.layout import UOP_WORDS, Unit, VectorKind
from tq_hw.isa.uop import UOP

CONFIG = PRESETS["tiny"]
Uop = Mapping[str, int]


def _uop(chance: random.Random) -> dict[str, int]:
    """A micro-operation of one of two kinds, with random constants."""
    found = {"alu": chance.randint(0, 1), "immediate": chance.randint(-3, 3), "shift": chance.choice((0, -7)),
             "zero_point": chance.choice((0, 0, 5))}
    return {name: value for name, value in found.items() if value or chance.randint(0, 1)}


def _words(uop: Uop) -> list[int]:
    return [pack(register, uop) for register in UOP]


@pytest.mark.parametrize("seed", range(20))
def test_words_are_those_of_the_assembler(seed: int) -> None:
    chance = random.Random(seed)
    memory = [None if chance.random() < 0.3 else _uop(chance) for _ in range(CONFIG.uops)]
    program = [_uop(chance) for _ in range(chance.randint(1, 9))]
    found = write_words(np.array([_words(uop) for uop in program]),
                        np.array([[-1] * UOP_WORDS if uop is None else _words(uop) for uop in memory]))
    for first in range(CONFIG.uops - len(program) + 1):
        assembler = Assembler(CONFIG)
        for index, held in enumerate(memory):
            if held is not None:
                assembler.uop(index, held)
        before = len(assembler.words)
        for index, uop in enumerate(program, first):
            assembler.uop(index, uop)
        assert found[first] == len(assembler.words) - before
    assert len(found) == CONFIG.uops - len(program) + 1


def _emit(stream: Stream, first: int, uops: list[dict[str, int]], layer: int, *, write: bool = True,
          use_acc: int = 0, writes: tuple[Access, ...] = ()) -> Operation:
    """Write a program and run it."""
    for index, uop in enumerate(uops if write else (), first):
        stream.uop(index, uop)
    last = first + len(uops) - 1
    fields = {"first": first, "last": last, "body_first": last + 1, "body_last": last, "use_acc": use_acc, "slots": 1,
              "tile_slots": 1, "chunk_slots": 1, "out_blocks": 1, "repeat1": 1, "repeat2": 1}
    return stream.add(Unit.VECTOR, fields, (), writes, layer, Streams(Code(first, tuple(uops))))


def _words_written(stream: Stream) -> int:
    return sum(size for item, size in zip(stream.items, stream.assemble().words, strict=True)
               if isinstance(item, UopWrite))


def _hold_programs(stream: Stream, programs: list[list[dict[str, int]]]) -> None:
    """Run the stream: each operation must find its program in the memory, where its meaning says."""
    memory: dict[int, Uop] = {}
    operations = []
    for item in stream.items:
        if isinstance(item, UopWrite):
            memory[item.index] = item.values
        elif isinstance(item, Operation) and "last" in item.fields:
            f = item.fields
            operations.append([memory[index] for index in range(f["first"], f["last"] + 1)])
            assert isinstance(item.meaning, Streams)
            assert item.meaning.code.first == f["first"]
            assert (f["body_first"], f["body_last"]) == (f["last"] + 1, f["last"])
            assert f["last"] < CONFIG.uops
    # The compiler's check compares programs; fields that are 0 may be missing.
    assert operations == programs


@pytest.mark.parametrize("seed", range(40))
def test_every_operation_finds_its_program(seed: int) -> None:
    """Programs of all lengths, placed as by the emitter: one after the other, again from 0 when the memory is full."""
    chance = random.Random(seed)
    stream, at = Stream(CONFIG, [str(number) for number in range(60)]), 0
    there: list[tuple[int, list[dict[str, int]]]] = []
    programs = []
    for layer in range(60):
        if there and chance.random() < 0.4:
            first, uops = chance.choice(there)
            _emit(stream, first, uops, layer, write=False, use_acc=chance.randint(0, 1))
            programs.append(uops)
            continue
        uops = [_uop(chance) for _ in range(chance.choice((1, 1, 2, 5, 12)))]
        if at + len(uops) > CONFIG.uops:
            there, at = [], 0
        _emit(stream, at, uops, layer, use_acc=chance.randint(0, 1))
        there.append((at, uops))
        programs.append(uops)
        at += len(uops)
    before = _words_written(stream)
    place_programs(stream)
    _hold_programs(stream, programs)
    assert _words_written(stream) <= before


def _steps(count: int) -> tuple[Stream, list[list[dict[str, int]]]]:
    """Steps of an unrolled network: a product of the array, then ten micro-operations with constants of their own.

    A table is loaded between the sums of a product. From the second step on, the array waits for the previous step.
    """
    stream, at, programs = Stream(CONFIG, [str(number) for number in range(2 * count)]), 0, []
    state = Access("pad", 0, 4)
    for step in range(count):
        product = [{"alu": 1, "zero_point": step}]
        cell = [{"alu": number % 3, "immediate": 1000 * step + number, "act_min": -128} for number in range(10)]
        for layer, uops in enumerate((product, cell), 2 * step):
            if at + len(uops) > CONFIG.uops:
                at = 0
            is_product = layer % 2 == 0
            if is_product:
                stream.add(Unit.ARRAY, {}, (state,), (), layer)
            _emit(stream, at, uops, layer, use_acc=int(is_product), writes=() if is_product else (state,))
            if is_product:
                stream.add(Unit.VECTOR, {"kind": VectorKind.LOAD_TABLE, "slots": 64}, (), (), layer)
            programs.append(uops)
            at += len(uops)
    return stream, programs


def test_the_programs_of_a_step_stand_where_those_of_the_last_one_stood() -> None:
    stream, programs = _steps(8)
    before = _words_written(stream)
    place_programs(stream)
    _hold_programs(stream, programs)
    # From the second step on both programs are in the memory; each takes a header and a constant.
    first = sum(len(_words(uop)) + 1 for uops in programs[:4] for uop in uops)
    assert _words_written(stream) <= first + 6 * 2 * 11 < before


def test_a_program_is_written_where_the_vector_unit_waits_for_the_array() -> None:
    """Not between the last sums and the first operation that needs them."""
    stream, programs = _steps(2)
    place_programs(stream)
    _hold_programs(stream, programs)
    kinds = ["write" if isinstance(item, UopWrite) else "run" if isinstance(item, Operation) and
             item.unit is Unit.VECTOR else "array" for item in stream.items]
    # In the first step the array waits for nothing; the second run of each step loads the table.
    assert kinds == (["array", "write", "run", "run", *["write"] * 10, "run"]
                     + ["array", *["write"] * 11, "run", "run", "run"])


def test_a_product_that_needs_nothing_new_leaves_no_time() -> None:
    """Programs needed after its sums are written where the array last waited, and so is its own micro-operation."""
    stream, state = Stream(CONFIG, [str(number) for number in range(5)]), Access("pad", 0, 4)
    programs = [[{"immediate": 10 * layer + number} for number in range(2)] for layer in range(5)]
    for layer, uops in enumerate(programs):
        if layer in (1, 3):
            stream.add(Unit.ARRAY, {}, (state,) if layer == 1 else (), (), layer)
        _emit(stream, 2 * layer, uops, layer, use_acc=layer % 2, writes=() if layer % 2 else (state,))
    place_programs(stream)
    _hold_programs(stream, programs)
    written = [[item.values["immediate"] for item in stream.items[begin:end] if isinstance(item, UopWrite)]
               for begin, end in pairwise([0, *(number + 1 for number, item in enumerate(stream.items)
                                                if isinstance(item, Operation) and item.unit is Unit.VECTOR)])]
    assert written == [[0, 1], [10, 11, 20, 21, 30, 31, 40, 41], [], [], []]


def test_without_room_apart_all_stay_where_they_are() -> None:
    """Two programs that fill the memory are in use until the end; another one replaces a finished part of the first."""
    stream = Stream(CONFIG, [str(number) for number in range(9)])
    size = CONFIG.uops
    long, short = [[{"immediate": number + base} for number in range(length)]
                   for base, length in ((100, size - 2), (500, 2))]
    first, second = _emit(stream, 0, long, 0), _emit(stream, size - 2, short, 1)
    _emit(stream, 0, [{"immediate": 7}], 2)
    _emit(stream, 1, long[1:], 3, write=False)
    _emit(stream, size - 2, short, 4, write=False)
    items = list(stream.items)
    place_programs(stream)
    assert stream.items == items
    assert (first.fields["first"], second.fields["first"]) == (0, size - 2)
