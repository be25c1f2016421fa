"""Records passed between the stages of the vector unit's walker.

    operation -> tiles (TileWalker) -> runs (ProgramWalker) -> steps (SlotWalker) -> issue

A tile is one (output block, tile) of an operation; a run is one micro-operation on one chunk; a step is one cycle
of the issue stage: it reads at most one word of each stream, and the last step of a beat starts the beat.
"""

from amaranth import signed, unsigned
from amaranth.hdl import ShapeLike
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2

from tq_hw.hdl.vector.beats import Beats
from tq_hw.isa.config import Config
from tq_hw.isa.layout import VECTOR
from tq_hw.isa.uop import UOP

__all__ = ["CountedStep", "OperandLayout", "RegisterUse", "Restart", "RunLayout", "SlotFields", "StepLayout",
           "TileLayout", "UopWord0", "Waits", "operation_fields", "register_word_bits", "uop_layout"]


class Restart(enum.Enum, shape=2):
    """The position from which a run starts its slot pointers."""

    #: where the chunk before ended
    CONTINUE = 0
    #: at the first slot of this chunk
    CHUNK = 1
    #: at the first slot of this tile
    TILE = 2
    #: at slot 0
    ORIGIN = 3


def operation_fields(*names: str) -> data.StructLayout:
    """Return a layout of some fields of the vector operation."""
    fields = {name: VECTOR.fields[name][1] for name in names}
    return data.StructLayout({
        name: signed(field.bits) if field.signed else unsigned(field.bits) for name, field in fields.items()})


def uop_layout(word: int) -> data.StructLayout:
    """Return the layout of one word of a micro-operation, 32 bits."""
    members: dict[str, ShapeLike] = {
        field.name: signed(field.bits) if field.signed else unsigned(field.bits) for field in UOP[word].fields}
    used = sum(field.bits for field in UOP[word].fields)
    if used < 32:
        members["unused"] = unsigned(32 - used)
    return data.StructLayout(members)


UopWord0 = uop_layout(0)

#: Fields of an operation that the slot pointers need.
SlotFields = operation_fields(
    "kind", "cols", "a_col_step", "a_row_step", "b_col_step", "b_row_step", "out_col_step", "out_row_step")


def register_word_bits(config: Config) -> int:
    """Width of an address into the vector registers, or into the table."""
    return max(9, ceil_log2(config.vector_words))


class TileLayout(data.StructLayout):
    """One tile.

    Members
    -------
    slots : words of the tile
    a, b, out : what is added to the slot pointers: base and block
    sub : part of the scratchpad word that the accumulator word fills
    restart, save : where the pointers start; whether other blocks of the same slots follow
    op_first, op_last : first and last tile of the operation
    param_first, param_last : first and last tile that uses a parameter block
    """

    def __init__(self, config: Config) -> None:
        super().__init__({
            "slots": 16, "a": 16, "b": 16, "out": 16, "sub": range(config.sub_blocks), "restart": Restart, "save": 1,
            "op_first": 1, "op_last": 1, "param_first": 1, "param_last": 1,
        })


class RunLayout(data.StructLayout):
    """One micro-operation on one chunk.

    Members
    -------
    number : micro-operation; uop : its word 0
    table : the one run of a load table operation, uop is 0
    slots : words of the chunk
    a, b, out, sub, restart, op_first, op_last, param_first, param_last : as in the tile, first and last run
    save_tile, save_chunk : keep the pointers at the start of this run; save_chunk marks the first run of a chunk
    tile_first, tile_last, chunk_last : first and last run of its tile, last run of its chunk
    """

    def __init__(self, config: Config) -> None:
        super().__init__({
            "number": range(config.uops), "table": 1, "uop": UopWord0, "slots": 16, "a": 16, "b": 16, "out": 16,
            "sub": range(config.sub_blocks), "restart": Restart, "save_tile": 1, "save_chunk": 1, "tile_first": 1,
            "tile_last": 1, "chunk_last": 1, "op_first": 1, "op_last": 1, "param_first": 1, "param_last": 1,
        })


class OperandLayout(data.StructLayout):
    """How a step reads a stream.

    Members
    -------
    read : the word at `address` is wanted
    type : element type; position : beat of the slot; step : word of the beat
    """

    def __init__(self, config: Config) -> None:
        beats = Beats(config)
        super().__init__({"read": 1, "address": 16, "type": 2, "position": range(beats.positions),
                          "step": range(beats.max_steps)})


#: What the first step of a run waits for, by the order of the runs (hdl.vector.waits); 0 in other steps.
#: newest_beat: the beat of the same number of the newest run that writes registers; newest_run: all of that run;
#: older_runs: all runs before it; outputs: the newest output; operation: outputs of earlier operations.
Waits = data.StructLayout({"newest_beat": 1, "newest_run": 1, "older_runs": 1, "outputs": 1, "operation": 1})

#: A run's registers, whether a and b are registers, and whether it may have more beats than a register has words.
RegisterUse = data.StructLayout({"a": 3, "b": 3, "d": 3, "a_uses": 1, "b_uses": 1, "long": 1})


class StepLayout(data.StructLayout):
    """One cycle of the issue stage.

    Members
    -------
    fire : the beat starts
    number : micro-operation
    table : load table: entry `d_word` is `element` of the word of stream A
    a, b : stream reads
    acc_read : read the accumulator word `acc_word`; use_acc : a buffer must be complete
    release : strobe with the last step of the buffer
    beat : beat of the block (accumulators, parameters)
    a_word, b_word, d_word : words of the register file
    waits : what the run waits for
    writes, outputs, reduces : the beat starts, and its results go to a register, to the output, to the reduction
    out_type, out_address, slot_first, slot_last : of the result; the address of the beat's first word
    run_first, run_last : first step of a run, its last beat
    last_word : the beat belongs to the last word of the chunk; lanes : channels of that word a reduction sees
    op_first, op_last, param_first, param_last : what the run is the first or the last of
    activates, behind_activation : only with `activation_lanes`: the beat's results go to an activation; the run must
        not overtake one: it outputs, or ends its operation, without one
    """

    def __init__(self, config: Config) -> None:
        beats = Beats(config)
        word = register_word_bits(config)
        activation = {"activates": 1, "behind_activation": 1} if config.activation_lanes else {}
        super().__init__({
            "fire": 1, "number": range(config.uops), "table": 1, "element": range(config.word_bytes // 4),
            "a": OperandLayout(config), "b": OperandLayout(config), "acc_read": 1,
            "use_acc": 1, "release": 1, "acc_word": range(config.acc_words), "beat": range(config.beats_per_acc_word),
            "a_word": word, "b_word": word, "d_word": word, "waits": Waits, "writes": 1, "outputs": 1, "reduces": 1,
            "out_type": 2, "out_address": 16, "position": range(beats.positions), "slot_first": 1, "slot_last": 1,
            "run_first": 1, "run_last": 1, "last_word": 1, "lanes": range(config.block + 1), "op_first": 1,
            "op_last": 1, "param_first": 1, "param_last": 1, **activation,
        })


class CountedStep(data.StructLayout):
    """A step on its way to the slot pointers.

    Members
    -------
    step : the step; its addresses are to be added to the slot's, its `acc_word` and `waits` are not there
    registers : what the run does with registers; streams : it reads streams; chunk_first : first run of a chunk
    emits : the step is real (else only the pointers move)
    start : pointers that the step begins with; at_chunk : it takes the chunk's, and leaves the pointers alone
    moves : the slot is done; next_word : load table, the word is done
    save_tile, save_chunk : keep the pointers that the step begins with
    acc_first : slot 0 of the accumulator buffer; operation_first : take over the operation's fields
    """

    def __init__(self, config: Config) -> None:
        super().__init__({
            "step": StepLayout(config), "registers": RegisterUse, "streams": 1, "chunk_first": 1, "emits": 1,
            "start": Restart, "at_chunk": 1, "moves": 1,
            "next_word": 1, "save_tile": 1, "save_chunk": 1, "acc_first": 1, "operation_first": 1,
        })
