"""Find vector operations that read their own results in an order that the hardware does not keep.

The hardware keeps the order of a chunk's micro-operations: one that writes a word precedes those that read it
afterwards. The results are undefined in these cases:

- a micro-operation reads words that it writes for an earlier slot;
- a chunk reads words that an earlier chunk wrote;
- parameter blocks were written a short time before: they are read long before they are used, while earlier operations
  are still under way.
"""

import numpy as np

from tq_hw.isa.layout import Unit
from tq_hw.sim.executor.machine import Index, Machine
from tq_hw.sim.executor.microprogram import MicroProgram

__all__ = ["note_overlaps", "note_parameters"]

#: Preceding operations of the vector unit whose outputs may still be under way when parameters are read.
_UNDER_WAY = 6


def note_overlaps(machine: Machine, program: MicroProgram, blocks: Index, slots: Index, written: np.ndarray) -> None:
    """Give up results if chunks read what they or earlier ones write; `written` are the operation's words so far."""
    assert machine.unknown is not None
    for chunk in range(len(blocks)):
        here, block = slots[chunk:chunk + 1], blocks[chunk:chunk + 1]
        outputs = program.touched("out", block, here)[0]
        new = False
        for number, i1, i2 in _passes(program):
            once = bool(program.uops[number]["once"])
            puts = program.uses(number, "out")
            new = new or puts
            for stream in ("a", "b"):
                if not program.uses(number, stream):
                    continue
                reads = program.touched(stream, block, here, i1, i2)[0]
                if written[reads[:1] if once else reads].any():
                    machine.unknown.give_up("a chunk reads what an earlier one has written")
                if puts and _overtakes(program, stream, reads, outputs):
                    machine.unknown.give_up("a micro-operation reads what it has written")
        if new:
            written[outputs] = True


def _passes(program: MicroProgram) -> set[tuple[int, int, int]]:
    return set(program.steps())


def _overtakes(program: MicroProgram, stream: str, reads: Index, outputs: Index) -> bool:
    """Whether slots read words that the same or earlier slots write, except their own words in place."""
    first_writer = np.full(1 << 16, len(outputs), np.int64)
    number = np.broadcast_to(np.arange(len(outputs))[:, None], outputs.shape)
    np.minimum.at(first_writer, outputs, number)
    slot = np.arange(len(reads))[:, None]
    found = first_writer[reads]
    if (found < slot).any():
        return True
    types = {"a": "a_type", "b": "b_type"}[stream]
    sizes = (1, 2, 4, 1)
    same = (reads.shape == outputs.shape and np.array_equal(reads, outputs)
            and sizes[program.fields[types]] == sizes[program.fields["out_type"]])
    return bool((found == slot).any()) and not same


def note_parameters(machine: Machine, program: MicroProgram) -> None:
    """Give up results if the vector unit wrote an operation's parameters a short time before."""
    assert machine.unknown is not None
    for words in program.param_words:
        writers = machine.writers[(words & 0xFFFF) % machine.config.scratchpad_words]
        if ((writers >> 24 == Unit.VECTOR) & ((writers & 0xFFFFFF) > machine.run - _UNDER_WAY)).any():
            machine.unknown.give_up("parameters are read while their words are written")
