"""Checks of vector programs apart from streams: micro-operations, registers, tables, parameters, sums."""

from collections.abc import Mapping

import numpy as np

from tq_hw.compiler.emit.image import table_words
from tq_hw.compiler.ir.meaning import Code, Streams, Tile
from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.stream.uses import Uses, body_of, register_span
from tq_hw.compiler.verify.areas import ADDRESSES, Area
from tq_hw.compiler.verify.constants import channels_of, constants, holds
from tq_hw.compiler.verify.machine import Buffers, Machine
from tq_hw.compiler.verify.numbers import Index
from tq_hw.compiler.verify.slots import tile_order
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import VECTOR_REGISTERS, Destination, Source
from tq_hw.model.errors import DataflowError

__all__ = ["check_body", "check_parameters", "check_program", "check_registers", "check_tables", "load_table",
           "take_sums"]

_ENTRY_BYTES, _HALF_BYTES = 4, 1024


def load_table(machine: Machine) -> None:
    """Replay a load of entries into the table."""
    f = machine.fields
    first, size = f["table_first"] * _ENTRY_BYTES, f["slots"] * _ENTRY_BYTES
    if first + size > machine.tables.size:
        raise DataflowError(f"it loads entries {f['table_first']}..{f['table_first'] + f['slots'] - 1} of a table of "
                            f"{machine.tables.size // _ENTRY_BYTES}")
    words = f["a_base"] + np.arange(ceil_div(size, machine.config.word_bytes))
    machine.tables[first:first + size] = machine.read(words, "the table").reshape(-1)[:size]
    machine.versions["table"] += 1


def check_body(machine: Machine, meaning: Streams, found: Uses) -> None:
    """Check the repeated micro-operations, and the number of repetitions if no stream determines it."""
    f, (first, count) = machine.fields, meaning.body
    repeats, begin = f["repeat1"] * f["repeat2"], f["body_first"]
    if max(0, f["body_last"] - begin + 1) != count or (count and begin - f["first"] != first):
        raise DataflowError(f"it repeats micro-operations {body_of(f)}, but its program repeats "
                            f"{range(first, first + count)}")
    if not any(found.streams.values()) and repeats != (meaning.repeats if count else 1):
        raise DataflowError(f"it repeats its body {repeats} times, but its program {meaning.repeats} times")
    if found.vectors & found.left and f["slots"] > min(f["chunk_slots"], f["tile_slots"]):
        raise DataflowError("each of its chunks uses what the previous one left in registers")


def check_program(machine: Machine, code: Code, found: Uses) -> None:
    """Check that the micro-operations are the program's, and the contents of the registers that it reads first."""
    f = machine.fields
    key = id(code), machine.versions["uops"]
    if key not in machine.checked:
        for index, uop in enumerate(code.uops, code.first):
            there = machine.uops.get(index)
            if there != uop:
                raise DataflowError(f"micro-operation {index} differs from its program: {there}, not {dict(uop)}")
        machine.checked.add(key)
    if (f["first"], f["last"]) != (code.first, code.first + len(code.uops) - 1):
        raise DataflowError(f"it runs micro-operations {f['first']}..{f['last']}, but its program has {len(code.uops)} "
                            f"from {code.first} on")
    check_registers(machine, found)
    _check_overlap(machine, code, register_span(f, machine.config))


def _check_overlap(machine: Machine, code: Code, span: int) -> None:
    """Check that vectors do not overlap: a vector of many beats continues in the registers after its first."""
    owners, repeated = machine.owners, body_of(machine.fields)
    if span == 1 and not owners:
        return
    for uop in (*code.uops, *code.uops[repeated.start:repeated.stop]):
        once = uop.get("once", 0)
        for name in "ab":
            if uop.get(f"{name}_source", 0) == Source.REGISTER:
                first = uop.get(f"{name}_register", 0)
                for register in range(first, first + (1 if once or uop.get(f"{name}_hold") else span)):
                    owner = owners.get(register, register)
                    if owner != first and register < VECTOR_REGISTERS:
                        raise DataflowError(f"the vector in register {first} continues in register {register}, where "
                                            f"that of register {owner} was written")
        if uop.get("destination", 0) in (Destination.REGISTER, Destination.REDUCE):
            first = uop.get("d_register", 0)
            single = once or uop.get("destination", 0) == Destination.REDUCE
            for register in range(first, first + (1 if single else span)):
                owners[register] = first


def check_registers(machine: Machine, found: Uses) -> None:
    """Check the writers of the registers that a program reads, and record those that it writes."""
    operation = machine.operation
    for register in found.found:
        if register not in operation.takes or operation.takes[register] is not machine.registers.get(register):
            raise DataflowError(f"vector register {register} does not hold what an earlier operation of the layer left "
                                "there")
    if not found.vectors and not found.left:
        return
    sizes = _chunk_slots(machine.fields)
    for register in found.vectors:
        if machine.register_slots.get(register, 0) < sizes[0]:
            raise DataflowError(f"vector register {register} holds {machine.register_slots.get(register, 0)} of the "
                                f"{sizes[0]} words that it reads")
    for register in found.left:
        machine.registers[register] = operation
        machine.register_slots[register] = 1 if register in found.words else sizes[1]


def _chunk_slots(f: Mapping[str, int]) -> tuple[int, int]:
    """Return the slots of the first and of the last chunk of an operation."""
    size = min(f["chunk_slots"], f["tile_slots"], f["slots"])
    return size, ((f["slots"] - 1) % f["tile_slots"] + 1 - 1) % size + 1


def check_tables(machine: Machine, found: Uses, tables: tuple[IntArray | None, IntArray | None]) -> None:
    """Check that the table halves that a program reads are those of its layer."""
    for half in found.tables:
        table = tables[half]
        key = id(table), half, machine.versions["table"]
        if key in machine.checked:
            continue
        there = machine.tables[half * _HALF_BYTES:(half + 1) * _HALF_BYTES]
        wanted = None if table is None else np.frombuffer(
            table_words(np.asarray(table), machine.config), np.uint8)[:_HALF_BYTES]
        values = machine.numbers.values(there)
        if wanted is None or values is None or not np.array_equal(values, wanted):
            raise DataflowError(f"table {half + 1} is not that of its layer")
        machine.checked.add(key)


def take_sums(machine: Machine) -> list[tuple[Buffers, slice]]:
    """Take the accumulator buffers of an operation's tiles, which must have the same blocks and slots."""
    f = machine.fields
    block, first, last = tile_order(f["out_blocks"], f["slots"], f["tile_slots"], bool(f["blocks_inner"]))
    base = getattr(machine.operation.meaning, "block", 0)
    taken, at = [], 0
    while at < len(block):
        if not machine.full:
            raise DataflowError(f"it takes {len(block)} accumulator buffers, but the array has filled {at}")
        head = machine.full[0]
        count = min(len(block) - at, len(head.block) - head.taken)
        here, there = slice(at, at + count), slice(head.taken, head.taken + count)
        same = head.block is block and not base or (
            np.array_equal(head.block[there], block[here] + base) and np.array_equal(head.first[there], first[here])
            and np.array_equal(head.last[there], last[here]))
        if not same:
            raise DataflowError("the accumulator buffers hold other tiles: (block, first slot, last slot) "
                                f"{_tile(head.block[there] - base, head.first[there], head.last[there])}, "
                                f"not {_tile(block[here], first[here], last[here])}")
        taken.append((head, there))
        head.taken += count
        at += count
        if head.taken == len(head.block):
            machine.full.popleft()
    return taken


def _tile(*of: Index) -> tuple[int, ...]:
    return tuple(int(values[0]) for values in of)


def check_parameters(machine: Machine, meaning: Streams, found: Uses) -> None:
    """Check the biases, multipliers and shifts that a program reads; the hardware reads all of them."""
    f, config, blocks = machine.fields, machine.config, meaning.parameters
    words = Area.of(f["param_base"], (f["out_blocks"], config.param_words), (f["param_block_step"], 1))
    key = "parameters", blocks, f["out_blocks"], meaning.block, found.parameters, *(
        (meaning.sums.layer, meaning.sums.blocks, meaning.sums.phases) if isinstance(meaning.sums, Tile) else ())
    exists = machine.exists(words)
    if exists:
        machine.reads(words)
        if machine.right(key, words):
            return
    if not blocks or len(blocks) not in (1, f["out_blocks"]):
        raise DataflowError(f"it reads parameters of {f['out_blocks']} output blocks, but its layer has {len(blocks)}")
    if not exists:
        machine.words(words.places())
    _check_parameters(machine, meaning, found, words)
    if exists:
        machine.note_right(key, words)


def _check_parameters(machine: Machine, meaning: Streams, found: Uses, words: Area) -> None:
    f, config, blocks = machine.fields, machine.config, meaning.parameters
    wide = ceil_div(4 * config.cols, config.word_bytes)
    data = np.frombuffer(b"".join(blocks), np.uint8).reshape(len(blocks), -1, config.word_bytes)
    if data.shape[1] <= wide * max(found.parameters):
        raise DataflowError("it reads parameters that its layer does not have")
    held = Area.of(words.base, (words.counts[0], data.shape[1]), words.form.steps)
    if machine.exists(words) and len(data) == words.counts[0] and holds(machine, held, data):
        return
    if machine.numbers.are(machine.there(words.places() & ADDRESSES - 1, "parameters")[:, :data.shape[1]], data):
        return
    channels = channels_of(meaning.sums, config)
    if channels is not None:
        channels = channels[meaning.block:meaning.block + f["out_blocks"]]
    for kind in sorted(found.parameters):
        first, size = kind * wide, 4 * config.cols if kind < 2 else config.cols
        count = ceil_div(size, config.word_bytes)
        part = Area.of(words.base + first, (words.counts[0], count), words.form.steps)
        constants(machine, part, data[:, first:first + count], channels, "parameters", element=4 if kind < 2 else 1)
