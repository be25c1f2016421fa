"""Instructions of the serial machine's engine, and the map of its private memory.

An instruction has 32 bits: an operation, three register numbers and three spare bits. Registers have 32 bits. A jump's
target is in `d` and `x`; position, width and sign of `EXT` are in `b` and `x`.
"""

from enum import IntEnum

from amaranth.lib import data

from tq_hw.isa.layout import FOLD_BASE, Unit

__all__ = ["CELL_WORDS", "CODE_WORDS", "HOST_REGISTERS", "HOST_WORDS", "PLACES", "PRIVATE_WORDS", "REGISTERS",
           "WRITTEN_WORDS", "Halt", "InstructionLayout", "Op", "Place", "Sink", "Size", "Trap"]

#: Most instructions; a target has 11 bits.
CODE_WORDS = 2048
REGISTERS = 256
#: Words of the register bus. The registers that the host writes are among the first; the engine has them as its last.
HOST_WORDS = 64
WRITTEN_WORDS = 16
HOST_REGISTERS = REGISTERS - WRITTEN_WORDS
#: 32-bit words of the engine's memory: scratchpad in the lower half, private words in the upper.
CELL_WORDS = 1 << 14
PRIVATE_WORDS = CELL_WORDS // 2


class Op(IntEnum):
    """What an instruction does; `a`, `b` are the registers' contents, `d` is the register written."""

    ADD = 0
    SUB = 1
    AND = 2
    OR = 3
    XOR = 4
    #: shifts by the low five bits of b
    SLL = 5
    SRL = 6
    SRA = 7
    #: signed
    MIN = 8
    MAX = 9
    #: bits 31..0 and 62..31 of the signed product
    MULL = 10
    MULQ = 11
    #: a field of a
    EXT = 12
    #: go on at target + a
    JR = 13
    #: scratchpad: word at word address a; half word or byte at byte address a (Size)
    LDS = 14
    STS = 15
    #: private word a + immediate (of the field that names no register)
    LDP = 16
    STP = 17
    #: system memory at byte address a (Size)
    LDX = 18
    STX = 19
    #: sums += row of weights times byte r of b, for `rows` rows of weights from word a on
    MACW = 20
    #: sums[c] += byte c of word a times byte c of b
    MACD = 21
    #: sums = 0
    CLR = 22
    #: sum x
    ACC = 23
    #: b to what the number d names (Sink)
    OUT = 24
    #: end (Halt); the engine stands still
    HALT = 25
    #: jumps; each even one's opposite is the next
    BEQ = 26
    BNE = 27
    BLT = 28
    BGE = 29
    BLTU = 30
    BGEU = 31


class Size(IntEnum):
    """The width of a memory instruction, and the extension of what it reads."""

    WORD = 0
    HALF = 1
    BYTE = 2
    UNSIGNED_BYTE = 3


class Halt(IntEnum):
    """Why the engine has stopped."""

    #: go on if the host asked for a run
    READY = 0
    DONE = 1
    ERROR = 2


class Trap(IntEnum):
    """Where the engine continues after a failed access."""

    BAD_ADDRESS = 1
    BUS_ERROR = 2
    NO_ANSWER = 3


class Sink(IntEnum):
    """Numbers of `OUT` other than those below HOST_WORDS, which are the host's registers."""

    #: rows of weights that MACW takes
    ROWS = HOST_WORDS
    #: a RUN of unit b began, was done: for a simulator to see
    BEGAN = HOST_WORDS + 1
    DONE = HOST_WORDS + 2


class InstructionLayout(data.StructLayout):
    """Bits of an instruction."""

    def __init__(self) -> None:
        super().__init__({"b": 8, "a": 8, "d": 8, "x": 3, "op": 5})


class Place(IntEnum):
    """First words of what lies in private memory."""

    LOAD = 0
    STORE = 32
    ARRAY = 64
    FOLDS = 64 + FOLD_BASE
    VECTOR = 256
    TABLE = 1024
    #: a word by unit: next command, RUNs begun, tokens of each giver (a byte), state
    CURSOR = 1536
    RUNS = 1544
    TOKENS = 1552
    STATE = 1560
    #: where the unit's registers lie, and how many there are; those of its operations, and the first of its table
    BASE = 1568
    LIMIT = 1576
    PLAIN = 1584
    TABLES = 1592
    CLEARED = 1600
    VECTOR_REGISTERS = 2048
    ACCUMULATORS = 4096


#: Where the registers of each unit lie.
PLACES = {Unit.LOAD: Place.LOAD, Unit.ARRAY: Place.ARRAY, Unit.VECTOR: Place.VECTOR, Unit.STORE: Place.STORE}
