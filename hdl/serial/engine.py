"""The engine: executes one instruction after the other on one data path."""

from enum import IntEnum
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.serial.alu import Alu
from tq_hw.hdl.serial.assembler import Listing
from tq_hw.hdl.serial.encoding import (
    CODE_WORDS,
    HOST_REGISTERS,
    PRIVATE_WORDS,
    REGISTERS,
    WRITTEN_WORDS,
    Halt,
    InstructionLayout,
    Op,
    Sink,
    Size,
    Trap,
)
from tq_hw.hdl.serial.sums import Sums
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["Engine", "WordPortSignature"]


class _State(IntEnum):
    STAND = 0
    READ = 1
    EXECUTE = 2
    TAKE = 3
    PORT = 4
    MULTIPLY = 5


class WordPortSignature(wiring.Signature):
    """A master's interface to system memory, a word at a time; for the protocol see `hdl.bus.memory_port.MemoryPort`.

    Members
    -------
    read, write : Out(1); addr, data : Out(32); strobe : Out(4)
    pending, failed : In(1); came : In(32)
    """

    def __init__(self) -> None:
        super().__init__({"read": Out(1), "write": Out(1), "addr": Out(32), "data": Out(32), "strobe": Out(4),
                          "pending": In(1), "failed": In(1), "came": In(32)})


class Engine(wiring.Component):
    """Run a microprogram at two cycles per instruction; a read takes one more, system memory as long as it needs.

    READ fetches the two registers; EXECUTE does the operation and fetches the next instruction.

    Members
    -------
    restart : In(1), begin with the first instruction
    go : In(1), continue from Halt.READY
    given_up : In(1), during an access: stop waiting for it
    halted : Out(1), strobe: HALT was executed and no access is pending; halt : Out(2), its Halt
    port : Out(WordPortSignature)
    host_en : In(1); host_index : In(4); host_data : In(32): a register written by the host while the engine is stopped
    out_en : Out(1); out_index : Out(8); out_data : Out(32), OUT
    """

    restart: Signal
    go: Signal
    given_up: Signal
    halted: Signal
    halt: Signal
    port: Any
    host_en: Signal
    host_index: Signal
    host_data: Signal
    out_en: Signal
    out_index: Signal
    out_data: Signal

    def __init__(self, config: Config, listing: Listing, cells: Any) -> None:
        self._config, self._listing, self._cells = config, listing, cells
        super().__init__({
            "restart": In(1), "go": In(1), "given_up": In(1),
            "halted": Out(1), "halt": Out(2), "port": Out(WordPortSignature()),
            "host_en": In(1), "host_index": In(range(WRITTEN_WORDS)), "host_data": In(32),
            "out_en": Out(1), "out_index": Out(8), "out_data": Out(32),
        })

    def elaborate(self, platform: object) -> Module:
        """Program, registers, data path, and the states of an instruction."""
        m = Module()
        m.submodules.cells = cells = self._cells
        m.submodules.alu = alu = Alu()
        m.submodules.sums = sums = Sums()
        code = self._listing.code
        # Block RAM has room for as many words as there are instructions, rounded up to whole blocks.
        words = ceil_div(len(code), 256) * 256
        m.submodules.code = memory = Memory(shape=32, depth=words, init=code)
        fetch = memory.read_port()
        word = Signal(InstructionLayout())
        m.d.comb += word.as_value().eq(fetch.data)
        state = Signal(_State)
        a, b, operands = self._registers(m, word, state == _State.READ)
        at = _Instruction(word, state, a, b)
        self._next(m, at, fetch, alu)

        self._memory(m, word, a, b, cells, Mux(state == _State.MULTIPLY, at.pointer, a[:16]), at.bad)
        self._data(m, at, operands, alu, sums)
        with m.Switch(state):
            with m.Case(_State.READ):
                m.d.sync += state.eq(_State.EXECUTE)
            with m.Case(_State.EXECUTE):
                self._execute(m, at, sums)
            self._finish(m, at, sums)
        with m.If(at.finish | self.restart):
            m.d.sync += state.eq(_State.READ)
        m.d.comb += cells.write.eq(Mux(at.writing, _strobe(word.x, a), 0))
        with m.If(self.out_en & (word.d == Sink.ROWS)):
            m.d.sync += at.rows.eq(b - 1)
        return m

    def _next(self, m: Module, at: "_Instruction", fetch: Any, alu: Alu) -> None:
        """Choose the next instruction: the following one, the target of a jump or branch, or a trap."""
        word, a, b, finish = at.word, at.a, at.b, at.finish
        pc, next_pc, following = (Signal(range(CODE_WORDS), name=name) for name in ("pc", "next_pc", "following"))
        target = Cat(word.d, word.x)
        m.d.comb += [
            following.eq(pc + 1), fetch.addr.eq(next_pc), fetch.en.eq(finish | self.restart),
            alu.instruction.eq(word), alu.a.eq(a), alu.b.eq(b), next_pc.eq(following),
        ]
        with m.If(self.restart):
            m.d.comb += next_pc.eq(0)
        with m.Elif(at.lost):
            m.d.comb += next_pc.eq(Trap.NO_ANSWER)
        with m.Elif(at.trap):
            m.d.comb += next_pc.eq(Mux(word.op[2:] == Op.LDX >> 2, Trap.BUS_ERROR, Trap.BAD_ADDRESS))
        with m.Elif((word.op == Op.JR) | (word.op[3:] == Op.BEQ >> 3) & word.op[1:3].any() & alu.taken):
            m.d.comb += next_pc.eq(target + Mux(word.op == Op.JR, a[:11], 0))
        with m.If(finish | self.restart):
            m.d.sync += pc.eq(next_pc)

    def _data(self, m: Module, at: "_Instruction", operands: list[Any], alu: Alu, sums: Sums) -> None:
        """Connect loaded, summed or computed results to the registers, and operands to the port and the sums."""
        word, a, b, cells = at.word, at.a, at.b, self._cells
        came = Signal(32)
        m.d.comb += [
            came.eq(Mux(at.from_port, self.port.came, cells.rdata)),
            sums.inputs.eq(b), sums.weights.eq(cells.rdata), sums.row.eq(at.row), sums.lanes.eq(word.op == Op.MACD),
            sums.which.eq(word.x),
            self.halt.eq(word.x), self.out_index.eq(word.d), self.out_data.eq(b),
            self.port.addr.eq(a), self.port.data.eq(cells.wdata), self.port.strobe.eq(_strobe(word.x, a)),
        ]
        loaded = Mux(word.x[1], came.word_select(a[:2], 8), Mux(word.x[0], came.word_select(a[1], 16), came))
        sign = Mux(word.x[1], loaded[7] & ~word.x[0], loaded[15])
        extended = Cat(loaded[:8], Mux(word.x[1], sign.replicate(8), loaded[8:16]),
                       Mux(word.x != Size.WORD, sign.replicate(16), loaded[16:]))
        # LDP has no size: its x is 0.
        result = Signal(32)
        m.d.comb += result.eq(Mux(at.from_memory, extended, Mux(word.op == Op.ACC, sums.sum, alu.result)))
        for register_file in operands:
            m.d.comb += [
                register_file.addr.eq(Mux(self.host_en, HOST_REGISTERS | self.host_index, word.d)),
                register_file.data.eq(Mux(self.host_en, self.host_data, result)),
                register_file.en.eq(at.write | self.host_en),
            ]

    def _execute(self, m: Module, at: "_Instruction", sums: Sums) -> None:
        """State EXECUTE: most instructions end here; others go on to a state of their own."""
        word, state, trap, bad, finish = at.word, at.state, at.trap, at.bad, at.finish
        m.d.sync += [at.row.eq(0), at.pointer.eq(at.a[:16] + 1)]
        with m.Switch(word.op):
            with m.Case(Op.LDS, Op.LDP):
                m.d.comb += [trap.eq(bad), finish.eq(bad)]
                m.d.sync += state.eq(_State.TAKE)
            with m.Case(Op.STS, Op.STP):
                m.d.comb += [trap.eq(bad), finish.eq(1), at.writing.eq(~bad)]
            with m.Case(Op.MACW, Op.MACD):
                m.d.comb += [trap.eq(bad), finish.eq(bad)]
                m.d.sync += state.eq(_State.MULTIPLY)
            with m.Case(Op.LDX, Op.STX):
                with m.If(~self.port.pending):
                    m.d.comb += [self.port.read.eq(~word.op[0]), self.port.write.eq(word.op[0])]
                    m.d.sync += state.eq(_State.PORT)
                m.d.comb += [at.lost.eq(self.given_up), finish.eq(self.given_up)]
            with m.Case(Op.HALT), m.If(~self.port.pending | self.given_up):
                goes_on = (word.x == Halt.READY) & self.go
                m.d.comb += [self.halted.eq(1), finish.eq(goes_on), at.lost.eq(goes_on & self.given_up)]
                m.d.sync += state.eq(_State.STAND)
            with m.Default():
                # Jumps and CLR write no register.
                m.d.comb += [finish.eq(1), at.write.eq((word.op <= Op.EXT) | (word.op == Op.ACC)),
                             self.out_en.eq(word.op == Op.OUT), sums.clear.eq(word.op == Op.CLR)]

    def _finish(self, m: Module, at: "_Instruction", sums: Sums) -> None:
        """States in which loads, accesses of the port and products end."""
        word, finish = at.word, at.finish
        with m.Case(_State.TAKE):
            m.d.comb += [at.from_memory.eq(1), at.write.eq(1), finish.eq(1)]
        with m.Case(_State.PORT):
            m.d.comb += [at.from_memory.eq(1), at.from_port.eq(1)]
            with m.If(~self.port.pending):
                m.d.comb += [finish.eq(1), at.trap.eq(self.port.failed),
                             at.write.eq(~word.op[0] & ~self.port.failed)]
            with m.Elif(self.given_up):
                m.d.comb += [finish.eq(1), at.lost.eq(1)]
        with m.Case(_State.MULTIPLY):
            last = (at.row == at.rows) | (word.op == Op.MACD)
            m.d.comb += [sums.en.eq(1), finish.eq(last | at.bad), at.trap.eq(at.bad & ~last)]
            m.d.sync += [at.row.eq(at.row + 1), at.pointer.eq(at.pointer + 1)]

    def _registers(self, m: Module, word: Any, en: Any) -> tuple[Signal, Signal, list[Any]]:
        """Return the two operands as of the last cycle with `en`, and the write ports of both copies."""
        found, ports = [], []
        for name in ("a", "b"):
            attributes: Any = {"no_rw_check": 1}
            memory = Memory(shape=32, depth=REGISTERS, init=self._listing.registers, attrs=attributes)
            m.submodules[f"registers_{name}"] = memory
            reader = memory.read_port(domain="comb")
            value = Signal(32, name=name, reset_less=True)
            m.d.comb += reader.addr.eq(word[name])
            with m.If(en):
                m.d.sync += value.eq(reader.data)
            found.append(value)
            ports.append(memory.write_port())
        return found[0], found[1], ports

    def _memory(self, m: Module, word: Any, a: Signal, b: Signal, cells: Any, at: Any, bad: Signal) -> None:
        """Drive address and data of the cells; `at` is a word address, `bad` marks one beyond the scratchpad."""
        scratchpad_bits = ceil_log2(self._config.scratchpad_words)
        private = (word.op == Op.LDP) | (word.op == Op.STP)
        by_byte = word.x.any() & ((word.op == Op.LDS) | (word.op == Op.STS))
        place = Signal(16)
        m.d.comb += place.eq(Mux(by_byte, a[2:18], at))
        offset = Mux(word.op[0], word.d, word.b)
        private_bits = ceil_log2(PRIVATE_WORDS)
        inside = Signal(private_bits)
        m.d.comb += [
            inside.eq(a[:private_bits] + offset),
            cells.addr.eq(Mux(private, Cat(inside, Const(1, 1)), place[:private_bits])),
            bad.eq(place[scratchpad_bits:].any() & ~private),
            cells.wdata.eq(Mux(word.x[1], Cat(b[:8]).replicate(4), Mux(word.x[0], b[:16].replicate(2), b))),
        ]


def _strobe(size: Any, a: Signal) -> Any:
    """Return the bytes of a word that a write of `size` at byte address `a` changes."""
    return Mux(size[1], 1 << a[:2], Mux(size[0], Mux(a[1], 0b1100, 0b0011), 0b1111))[:4]


class _Instruction:
    """The current instruction, and the signals decoded from it."""

    def __init__(self, word: Any, state: Signal, a: Signal, b: Signal) -> None:
        self.word, self.state = word, state
        #: Its operands.
        self.a, self.b = a, b
        #: Strobes: it ends; as a trap; because memory gives no answer. The address is beyond the scratchpad.
        self.finish, self.trap, self.bad, self.lost = Signal(), Signal(), Signal(), Signal()
        #: MACW: the row, and the address of its weights; rows less one, as OUT has set them.
        self.row, self.pointer = Signal(2), Signal(16, name="pointer")
        self.rows = Signal(2)
        #: The data comes from the port, not from the cells; the result is that data.
        self.from_port = Signal()
        self.from_memory = Signal()
        #: The result goes to register d; b goes to the cells.
        self.write = Signal()
        self.writing = Signal()
