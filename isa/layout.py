"""The command words and the registers of each unit: the one instruction layout.

A command is a header word followed by `count` 32-bit values, all little-endian. The header names a
unit, the first of `count` consecutive registers that the values go to, and whether the unit then
RUNs. Registers keep their values from one command to the next, so a command carries only what
changed. Five units take commands, each in order through its own queue:

    control  END (stop when every unit is idle and every write is answered)
    load     system memory -> scratchpad
    array    scratchpad -> accumulators
    vector   accumulators, scratchpad -> scratchpad
    store    scratchpad -> system memory

**Order between units** is explicit. For each ordered pair of the four working units there is one
token counter (0..255). A RUN first waits until each counter towards it holds at least the number in
its `wait_*` fields and takes that many; when the operation is done and all it wrote can be seen,
it adds its `post_*` fields to the counters towards the other units. Array and vector also hand
accumulator buffers to each other, in order, without tokens.

All addresses into the scratchpad are words, modulo 2^16; an access outside the scratchpad stops the
machine with status BAD_ADDRESS. Steps are two's complement modulo 2^16.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from tq_hw.isa.config import Config

__all__ = ["BURST_BYTES", "FETCH_BURSTS", "FETCH_BYTES", "FEW_WORDS", "FOLD_BASE", "FOLD_ENTRY", "HEADER",
           "LOAD_BURSTS", "LOAD_BYTES", "LOAD_SHARES", "QUEUE_WORDS", "UNITS", "UOP_BASE", "UOP_WORDS", "ArrayMode",
           "Field", "Register", "Unit", "UnitLayout", "VectorKind", "register", "register_count", "register_exists"]

#: Bursts to memory end at multiples of this.
BURST_BYTES = 256
#: Command words that wait in front of each unit.
QUEUE_WORDS = 512
#: Bytes that load and fetch have room for: at 8 bytes per cycle those of load hide 400 cycles of latency; bursts of the
#: longest kind that each waits for at once.
LOAD_BYTES, FETCH_BYTES = 16 * BURST_BYTES, 4 * BURST_BYTES
LOAD_BURSTS, FETCH_BURSTS = 14, 2
#: Fetch hurries while a queue of load, array or vector holds fewer words.
FEW_WORDS = 64
#: Bursts of loads between two of fetch, if both wait: while it hurries, and else.
LOAD_SHARES = (1, 15)


class Unit(IntEnum):
    """Numbers of the units in a header and in the token registers."""

    CONTROL = 0
    LOAD = 1
    ARRAY = 2
    VECTOR = 3
    STORE = 4


class ArrayMode(IntEnum):
    """What the array does in one operation; see docs/units/array.md."""

    GEMM = 0
    DEPTHWISE = 1
    FOLDED = 2


class VectorKind(IntEnum):
    """What the vector unit does in one operation; see docs/units/vector.md."""

    PROGRAM = 0
    LOAD_TABLE = 1


@dataclass(frozen=True)
class Field:
    """Bits of a register: `bits` wide at `offset`, two's complement if `signed`."""

    name: str
    bits: int
    doc: str
    signed: bool = False
    offset: int = 0

    @cached_property
    def low(self) -> int:
        """Least value."""
        return -(1 << self.bits - 1) if self.signed else 0

    @cached_property
    def high(self) -> int:
        """Greatest value."""
        return (1 << self.bits - self.signed) - 1


@dataclass(frozen=True)
class Register:
    """One 32-bit register."""

    index: int
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """Name of its first field."""
        return self.fields[0].name


@dataclass(frozen=True)
class UnitLayout:
    """The registers of one unit. Field names are unique within the unit."""

    unit: Unit
    registers: tuple[Register, ...]

    @cached_property
    def fields(self) -> dict[str, tuple[Register, Field]]:
        """Every field by name, with its register."""
        return {f.name: (r, f) for r in self.registers for f in r.fields}


def register(index: int, *fields: Field) -> Register:
    """Place fields from bit 0 up."""
    placed, offset = [], 0
    for field in fields:
        placed.append(Field(field.name, field.bits, field.doc, field.signed, offset))
        offset += field.bits
    assert offset <= 32, f"register {index} has {offset} bits"
    return Register(index, tuple(placed))


def _registers(*rows: tuple[Field, ...]) -> tuple[Register, ...]:
    return tuple(register(index, *row) for index, row in enumerate(rows))


def _tokens() -> Iterator[tuple[Field, ...]]:
    for kind, doc in (("wait", "tokens taken from the {} before the operation starts"),
                      ("post", "tokens given to the {} when the operation is done")):
        yield tuple(Field(f"{kind}_{unit.name.lower()}", 8, doc.format(unit.name.lower()))
                    for unit in (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE))


def _step(name: str, doc: str) -> Field:
    return Field(name, 16, doc + " (words, signed)", signed=True)


def _address(name: str, doc: str) -> Field:
    return Field(name, 16, doc + " (word address)")


def _loops(words: str, memory: str) -> list[tuple[Field, ...]]:
    return [
        (Field("count0", 16, f"blocks of one pixel: innermost {words} loop"),
         _step("step0", "step of the block loop")),
        (Field("count1", 16, f"pixels of one run: second {words} loop"),
         _step("step1", "step of the pixel loop")),
        (Field("count2", 16, f"runs: third {words} loop and inner {memory} loop"),
         _step("step2", "step of the run loop")),
        (Field("count3", 16, f"outer {words} and {memory} loop"), _step("step3", "step of the outer loop")),
        (Field("stride2_bytes", 32, f"{memory} bytes from run to run", signed=True),),
        (Field("stride3_bytes", 32, f"{memory} bytes from outer step to outer step", signed=True),),
    ]


_MEMORY = (Field("memory_offset_bytes", 30, "byte offset of the first run in its region"),
           Field("region", 2, "which base register the offset is added to: 0 image, 1 arena, 2 state, 3 free"))

LOAD = UnitLayout(Unit.LOAD, _registers(
    *_tokens(),
    _MEMORY,
    (Field("run_bytes", 24, "contiguous bytes of one run; 0 reads nothing"),
     Field("fill", 8, "value of the bytes put before and after each run (and of all when run_bytes is 0)")),
    (Field("pad_before_bytes", 16, "fill bytes before each run"),
     Field("pad_after_bytes", 16, "fill bytes after each run")),
    (_address("destination", "first word written"),
     Field("flip", 1, "invert bit 7 of every byte read (uint8 <-> int8)"), Field("coded", 1, "the run has coded rows")),
    (Field("emit_bytes", 8, "bytes put into a word, from lane 0; the lanes above are undefined"),
     Field("advance_bytes", 8, "bytes the stream moves on after the word; 0..word_bytes"),
     Field("last_emit_bytes", 8, "emit_bytes of the last block of a pixel"),
     Field("last_advance_bytes", 8, "advance_bytes of the last block of a pixel")),
    *_loops("scratchpad", "memory"),
))

STORE = UnitLayout(Unit.STORE, _registers(
    *_tokens(),
    _MEMORY,
    (_address("source", "first word read"),
     Field("flip", 1, "invert bit 7 of every byte written (int8 <-> uint8)")),
    (Field("take_bytes", 8, "bytes taken from a word, from lane `lane`"),
     Field("last_take_bytes", 8, "take_bytes of the last block of a pixel"),
     Field("lane", 8, "first byte lane taken")),
    *_loops("scratchpad", "memory"),
))

ARRAY = UnitLayout(Unit.ARRAY, _registers(
    *_tokens(),
    (Field("mode", 2, "0 GEMM, 1 depthwise, 2 folded"),
     Field("acc_first", 1, "the first step of a tile overwrites its accumulators (else it adds)"),
     Field("acc_last", 1, "hand the accumulator buffer to the vector unit after the last step"),
     Field("blocks_inner", 1, "1: for each tile of slots all output blocks; 0: the reverse"),
     Field("zero_point", 8, "value of padding, input zero point", signed=True)),
    (_address("in_base", "word of the input at row 0, column 0, block 0 of the image"),
     _step("in_col_step", "from one output column's input to the next")),
    (_step("in_row_step", "from one output row's input to the next"),
     _step("in_block_step", "depthwise: from one channel block to the next, per output block")),
    (_step("kernel_col_step", "from one kernel column to the next"),
     _step("kernel_row_step", "from one kernel row to the next")),
    (_step("kernel_block_step", "GEMM: from one input channel block to the next"),
     Field("kernel_blocks", 16, "GEMM: input channel blocks; folded: table entries")),
    (Field("row_first", 16, "input row of kernel row 0 for the first output row", signed=True),
     Field("col_first", 16, "input column of kernel column 0 for output column 0", signed=True)),
    (Field("row_stride", 8, "input rows from one output row to the next"),
     Field("col_stride", 8, "input columns from one output column to the next"),
     Field("kernel_row_dilation", 8, "input rows from one kernel row to the next"),
     Field("kernel_col_dilation", 8, "GEMM: input columns from one kernel column to the next")),
    (Field("in_rows", 16, "rows of the image: others are padding"),
     Field("in_cols", 16, "columns of the image: others are padding")),
    (Field("out_cols", 16, "output columns"),
     Field("period", 16, "depthwise: slots that one output row takes")),
    (Field("slots", 24, "output words of each output block in this operation"),),
    (Field("tile_slots", 16, "output words of a tile, 1..acc_words; the last tile takes what is left"),
     Field("tile_rows", 16, "depthwise: output rows of a tile (tile_slots = tile_rows * out_cols)")),
    (Field("out_blocks", 16, "output blocks (of `cols` channels)"),
     Field("kernel_rows", 8, "kernel rows"),
     Field("kernel_cols", 8, "kernel columns")),
    (_address("weight_base", "first weight word"),
     _step("weight_block_step", "from one output block's weights to the next")),
    (Field("weight_rows", 8, "array rows loaded per step; the rows above get weight 0"),
     Field("sub_first", 8, "depthwise: (first output block) mod sub_blocks"),
     Field("slices", 8, "GEMM: steps per input word, each `gemm_rows` lanes further")),
))

VECTOR = UnitLayout(Unit.VECTOR, _registers(
    *_tokens(),
    (Field("kind", 2, "0 program, 1 load table"),
     Field("use_acc", 1, "tiles come from the accumulators: take a buffer per tile, give it back after"),
     Field("use_params", 1, "load a parameter block when the output block changes"),
     Field("blocks_inner", 1, "as in the array"),
     Field("a_type", 2, "elements of stream A: 0 int8, 1 int16, 2 int32, 3 uint8"),
     Field("b_type", 2, "elements of stream B, coded alike"),
     Field("out_type", 2, "elements of the output: 0 int8, 1 int16, 2 int32"),
     Field("sub_first", 8, "(first output block) mod sub_blocks; 0 without use_acc")),
    (_address("a_base", "first word of stream A"), _step("a_col_step", "A: to the next column")),
    (_step("a_row_step", "A: to the next row"), _step("a_block_step", "A: to the next output block")),
    (_address("b_base", "first word of stream B"), _step("b_col_step", "B: to the next column")),
    (_step("b_row_step", "B: to the next row"), _step("b_block_step", "B: to the next output block")),
    (_address("out_base", "first output word"), _step("out_col_step", "output: to the next column")),
    (_step("out_row_step", "output: to the next row"), _step("out_block_step", "output: to the next block")),
    (Field("cols", 16, "columns: slots of one row"), Field("out_blocks", 16, "output blocks")),
    (Field("slots", 24, "words of each output block in this operation (load table: table entries)"),),
    (Field("tile_slots", 16, "words of a tile; must equal the array's with use_acc"),
     Field("chunk_slots", 16, "words for which the whole program runs before the next words")),
    (_address("param_base", "first parameter block"),
     _step("param_block_step", "from one output block's parameters to the next")),
    (Field("first", 8, "first micro-operation"), Field("body_first", 8, "first one of the repeated body"),
     Field("body_last", 8, "last one of the body"), Field("last", 8, "last one of the program")),
    (Field("repeat1", 16, "inner repeats of the body, >= 1"), Field("repeat2", 16, "outer repeats, >= 1")),
    (_step("a_repeat1_step", "A: added per inner repeat"), _step("a_repeat2_step", "A: added per outer repeat")),
    (Field("valid_lanes", 16, "channels that a reduction sees in the last word of a chunk; 0: all"),
     Field("table_first", 16, "load table: first entry written")),
))

UNITS: dict[Unit, UnitLayout] = {layout.unit: layout for layout in (LOAD, ARRAY, VECTOR, STORE)}

#: First register of the array's patch-folding table: three registers (one per feed) an entry.
FOLD_BASE = 64
#: First register of the vector unit's micro-operations, `UOP_WORDS` registers each.
UOP_BASE = 256
UOP_WORDS = 4

HEADER = register(
    0,
    Field("unit", 3, "unit number"),
    Field("run", 1, "start the unit when the values are in place (control: END)"),
    Field("first", 10, "first register written"),
    Field("count", 10, "values that follow"),
    Field("reserved", 8, "0"),
)

FOLD_ENTRY = register(
    0,
    _step("address", "added to the slot's word address"),
    Field("kernel_row", 5, "input row relative to the slot's: padding when outside the image"),
    Field("rotate", 5, "byte lanes the word is rotated up by"),
    Field("lane_end", 6, "first array row that this feed no longer drives"),
)


def register_count(unit: Unit, config: Config) -> int:
    """One past the highest register index of `unit`."""
    if unit is Unit.VECTOR:
        return UOP_BASE + UOP_WORDS * config.uops
    if unit is Unit.ARRAY:
        return FOLD_BASE + 3 * config.fold_steps
    return len(UNITS[unit].registers)


def register_exists(unit: Unit, index: int, config: Config) -> bool:
    """Whether a command may write register `index`: one of the operation, or of the unit's table after them."""
    base = {Unit.ARRAY: FOLD_BASE, Unit.VECTOR: UOP_BASE}.get(unit, 0)
    return index < len(UNITS[unit].registers) or base <= index < register_count(unit, config)
