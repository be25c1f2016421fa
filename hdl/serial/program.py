"""The microprogram: start, the scheduler of the units, tokens, the end of a run.

Every unit walks the whole command stream with its own cursor and skips the commands of the others, so there are no
queues. A visit to a unit does one operation, or for array and vector one tile, if tokens and accumulator buffers allow.
What a unit must remember between visits is in registers of its own.
"""

from collections.abc import Callable
from functools import lru_cache

from tq_hw.hdl.control.tokens import WORKERS
from tq_hw.hdl.serial.assembler import Assembler, Label, Listing, Reg
from tq_hw.hdl.serial.encoding import PLACES, Halt, Op, Place
from tq_hw.hdl.serial.host import WORD_OF
from tq_hw.hdl.serial.program_array import array
from tq_hw.hdl.serial.program_move import load, store
from tq_hw.hdl.serial.program_tokens import Tokens
from tq_hw.hdl.serial.program_vector import vector
from tq_hw.hdl.serial.shared import Shared
from tq_hw.isa.config import Config
from tq_hw.isa.control import REGISTERS, Status
from tq_hw.isa.layout import FOLD_BASE, HEADER, UNITS, UOP_BASE, Unit, register_count

__all__ = ["microprogram"]

_OFFSET = {register.name: register.offset_bytes for register in REGISTERS}
#: States of a unit: its next RUN is not found yet; found, but tokens are missing; in progress; END was reached.
_SEEKING, _WAITING, _ACTIVE, _ENDED = range(4)
#: First registers of the units' tables.
_TABLES = {Unit.ARRAY: FOLD_BASE, Unit.VECTOR: UOP_BASE}


@lru_cache
def microprogram(config: Config) -> Listing:
    """Return the engine's program and the first contents of its registers."""
    asm = Assembler()
    shared = Shared(asm, config)
    _traps(asm, shared)
    _start(asm, shared)
    with asm.scope("scheduler"):
        _Scheduler(asm, shared).write()
    return asm.listing()


def _traps(asm: Assembler, shared: Shared) -> None:
    """The first instructions: restart, and the trap of a failed access; then the end of a run by an error."""
    asm.jump(shared.start)
    asm.jump(shared.error(Status.BAD_ADDRESS))
    asm.jump(shared.error(Status.BUS_ERROR))
    asm.jump(shared.error(Status.NO_ANSWER))
    memory, state = asm.label("memory"), asm.reg("index")
    for status, label in shared.errors.items():
        asm.place(label)
        asm.move(shared.code, status)
        asm.jump(memory if status in (Status.BUS_ERROR, Status.NO_ANSWER) else shared.stop)
    asm.place(memory)
    # A unit without a RUN is reading commands; no RUN is to blame.
    asm.load_private(state, shared.unit, Place.STATE - Place.CURSOR)
    with asm.when(Op.BEQ, state, _SEEKING):
        asm.move(shared.unit, Place.CURSOR + Unit.CONTROL)
    asm.place(shared.stop)
    index = asm.reg("index")
    asm.load_private(index, shared.unit, Place.RUNS - Place.CURSOR)
    asm.sub(index, index, 1)
    asm.out(WORD_OF["error_code"], shared.code)
    asm.sub(shared.code, shared.unit, Place.CURSOR)
    asm.out(WORD_OF["error_unit"], shared.code)
    asm.out(WORD_OF["error_index"], index)
    asm.halt(Halt.ERROR)


def _start(asm: Assembler, shared: Shared) -> None:
    """Clear the error registers; wait for a start; clear registers and tokens."""
    asm.place(shared.start)
    for name in ("error_code", "error_unit", "error_index"):
        asm.out(WORD_OF[name], 0)
    # Memory may still owe an answer.
    asm.move(shared.unit, Place.CURSOR + Unit.CONTROL)
    asm.halt(Halt.READY)
    at = asm.reg("cursor")
    asm.move(at, 0)
    with asm.loop() as (_, leave):
        asm.store_private(at, 0)
        asm.add(at, at, 1)
        asm.branch(Op.BEQ, at, Place.CLEARED, leave)
    asm.add(at, asm.host(_OFFSET["base0"]), asm.host(_OFFSET["command_offset"]))
    asm.add(asm.reg("end"), at, asm.host(_OFFSET["command_bytes"]))
    for unit in WORKERS:
        place = Place.CURSOR + unit
        asm.store_private(place, at)
        asm.store_private(place, PLACES[unit], Place.BASE - Place.CURSOR)
        asm.store_private(place, register_count(unit, shared.config), Place.LIMIT - Place.CURSOR)
        asm.store_private(place, len(UNITS[unit].registers), Place.PLAIN - Place.CURSOR)
        asm.store_private(place, _TABLES.get(unit, 0), Place.TABLES - Place.CURSOR)
    asm.move(shared.full, 0)
    asm.move(shared.open_buffer, 0)
    for unit in (Unit.ARRAY, Unit.VECTOR):
        asm.move(asm.reg(f"{unit.name.lower()} buffer"), Place.ACCUMULATORS)


class _Scheduler:
    """Visit the units in turn: find the next RUN, take tokens, let the unit work, post tokens."""

    def __init__(self, asm: Assembler, shared: Shared) -> None:
        self.asm, self.shared = asm, shared
        self.cursor, self.end = asm.reg("cursor"), asm.reg("end")
        #: in this round of visits: whether a unit has still to do, and whether one could do something
        self.alive, self.moved = asm.reg("alive"), asm.reg("moved")
        self.tokens = Tokens(asm, shared, self.alive)

    def write(self) -> None:
        """Write the loop, then the units' parts."""
        asm, shared = self.asm, self.shared
        state = asm.local("state")
        again, following, seek, wait, resume = (asm.label(name) for name in (
            "again", "following", "seek", "wait", "resume"))
        asm.place(again)
        asm.move(self.alive, 0)
        asm.move(self.moved, 0)
        asm.move(shared.unit, Place.CURSOR + Unit.LOAD)
        asm.place(following)
        asm.sub(shared.number, shared.unit, Place.CURSOR)
        asm.load_private(state, shared.unit, Place.STATE - Place.CURSOR)
        asm.select(state, [seek, wait, resume, shared.blocked])
        asm.place(seek)
        self._seek(wait)
        asm.place(wait)
        begins, resumes = ([asm.label() for _ in WORKERS] for _ in range(2))
        self.tokens.take()
        self._set_state(_ACTIVE)
        asm.select(self._worker(), begins)
        asm.place(resume)
        asm.move(self.alive, 1)
        asm.select(self._worker(), resumes)

        asm.place(shared.done)
        self.tokens.give()
        self._set_state(_SEEKING)
        asm.move(self.alive, 1)
        asm.place(shared.visited)
        asm.move(self.moved, 1)
        asm.place(shared.blocked)
        asm.add(shared.unit, shared.unit, 1)
        asm.branch(Op.BNE, shared.unit, Place.CURSOR + len(Unit), following)
        asm.branch(Op.BNE, self.moved, 0, again)
        with asm.when(Op.BNE, self.alive, 0):
            asm.branch(Op.BEQ, asm.host(_OFFSET["watchdog"]), 0, again)
            self._deadlock()
        asm.halt(Halt.DONE)

        parts: tuple[tuple[Unit, Callable[[Shared], tuple[Label, Label]]], ...] = (
            (Unit.LOAD, _whole(load)), (Unit.ARRAY, array), (Unit.VECTOR, vector), (Unit.STORE, _whole(store)))
        for unit, part in parts:
            begin, goes_on = part(shared)
            asm.place(begins[unit - 1])
            asm.jump(begin)
            asm.place(resumes[unit - 1])
            asm.jump(goes_on)

    def _worker(self) -> Reg:
        worker = self.asm.local("worker")
        self.asm.sub(worker, self.shared.number, Unit.LOAD)
        return worker

    def _deadlock(self) -> None:
        """End the run: name the first unit that waits for tokens, or else the first that waits for accumulators."""
        asm, shared = self.asm, self.shared
        state, wanted, found = asm.local("state"), asm.local("wanted"), asm.label("found")
        asm.move(wanted, _WAITING)
        with asm.loop():
            asm.move(shared.unit, Place.CURSOR + Unit.LOAD)
            with asm.loop() as (_, none):
                asm.load_private(state, shared.unit, Place.STATE - Place.CURSOR)
                asm.branch(Op.BEQ, state, wanted, found)
                asm.add(shared.unit, shared.unit, 1)
                asm.branch(Op.BEQ, shared.unit, Place.CURSOR + len(Unit), none)
            asm.move(wanted, _ACTIVE)
        asm.place(found)
        with asm.when(Op.BEQ, state, _WAITING):
            self.tokens.count_run()
        asm.jump(shared.error(Status.DEADLOCK))

    def _set_state(self, state: int) -> None:
        self.asm.store_private(self.shared.unit, state, Place.STATE - Place.CURSOR)

    def _seek(self, found: Label) -> None:
        """Write values into the unit's registers until a RUN, or until END."""
        asm, shared, cursor, end = self.asm, self.shared, self.cursor, self.end
        header, unit, count, size, first, place, limit = (asm.local(name) for name in (
            "header", "unit", "count", "size", "first", "place", "limit"))
        no_end, bad, is_end = asm.label(), asm.label(), asm.label()
        asm.load_private(cursor, shared.unit)
        with asm.loop() as (again, leave):
            asm.branch(Op.BEQ, cursor, end, no_end)
            asm.load_memory(header, cursor)
            asm.add(cursor, cursor, 4)
            shared.parts(header, HEADER, {"reserved": size, "unit": unit, "count": count})
            asm.branch(Op.BNE, size, 0, bad)
            asm.branch(Op.BEQ, unit, Unit.CONTROL, is_end)
            asm.branch(Op.BLTU, max(Unit), unit, bad)
            asm.op(Op.SLL, size, count, 2)
            asm.sub(place, end, cursor)
            asm.branch(Op.BLTU, place, size, no_end)
            mine = asm.label()
            asm.branch(Op.BEQ, unit, shared.number, mine)
            asm.add(cursor, cursor, size)
            asm.jump(again)
            asm.place(mine)
            asm.field(first, header, HEADER, "first")
            asm.load_private(place, shared.unit, Place.BASE - Place.CURSOR)
            asm.add(place, place, first)
            with asm.when(Op.BNE, count, 0):
                self._check_registers(first, count, limit)
                with asm.times(count):
                    asm.load_memory(size, cursor)
                    asm.store_private(place, size)
                    asm.add(cursor, cursor, 4)
                    asm.add(place, place, 1)
            asm.field(first, header, HEADER, "run")
            asm.branch(Op.BNE, first, 0, leave)
        asm.store_private(shared.unit, cursor)
        self._set_state(_WAITING)
        asm.jump(found)
        # END is a RUN of the control unit without values.
        asm.place(is_end)
        asm.field(first, header, HEADER, "run")
        asm.branch(Op.BEQ, first, 0, bad)
        asm.branch(Op.BNE, count, 0, bad)
        self._set_state(_ENDED)
        asm.jump(shared.visited)
        for label, status in ((no_end, Status.NO_END), (bad, Status.BAD_COMMAND)):
            asm.place(label)
            asm.move(shared.unit, Place.CURSOR + Unit.CONTROL)
            asm.jump(shared.error(status))

    def _check_registers(self, first: Reg, count: Reg, limit: Reg) -> None:
        """Require that registers `first` and up exist: those of the operation, or those of the unit's table."""
        asm, shared = self.asm, self.shared
        good, end = asm.label(), asm.local("registers end")
        asm.add(end, first, count)
        asm.load_private(limit, shared.unit, Place.PLAIN - Place.CURSOR)
        asm.branch(Op.BGEU, limit, end, good)
        asm.load_private(limit, shared.unit, Place.LIMIT - Place.CURSOR)
        wrong = asm.label()
        asm.branch(Op.BLTU, limit, end, wrong)
        asm.load_private(limit, shared.unit, Place.TABLES - Place.CURSOR)
        asm.branch(Op.BGEU, first, limit, good)
        asm.place(wrong)
        self.tokens.count_run()
        asm.jump(shared.error(Status.BAD_COMMAND))
        asm.place(good)


def _whole(part: Callable[[Shared], Label]) -> Callable[[Shared], tuple[Label, Label]]:
    """Return a part that never has to go on."""
    def begins(shared: Shared) -> tuple[Label, Label]:
        begin = part(shared)
        return begin, begin
    return begins
