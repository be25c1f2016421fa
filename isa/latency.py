"""Latencies of the hardware in cycles, from which `hdl` is built and with which the cost model counts.

A constant holds for every configuration, a function takes one. docs/units shows where each is in the machine.
tests/hdl/test_latencies.py checks the path from a slot to its requantized word, tests/sim/rtl/test_latencies.py that of
fetch, load and store in the whole machine. The tests of the units check what is visible at their ports.
"""

from tq_hw.isa.config import Config
from tq_hw.isa.layout import Unit
from tq_hw.isa.sizes import ceil_div, ceil_log2

__all__ = [
    "ACC_READ_LATENCY_CYCLES", "ACTIVATION_LANE_CYCLES", "ALU_CYCLES", "ARRAY_GAP_CYCLES", "ARRAY_READ_LATENCY_CYCLES",
    "ARRAY_START_CYCLES", "ASKED_TO_TAKE_CYCLES", "BANK_KNOWN_CYCLES", "CLAMP_CYCLES", "CODED_WORD_CYCLES",
    "FETCH_TO_BEAT_CYCLES", "FETCH_TO_WORD_CYCLES", "LOAD_GAP_CYCLES", "LOAD_TAKE_GAP_CYCLES", "LOAD_TO_BURST_CYCLES",
    "OFFER_CYCLES", "OPERATIONS_IN_FLIGHT", "PACKED_CELL_CYCLES", "PACKED_CHAIN_CELLS", "PACKED_OPERAND_CYCLES",
    "PARAMS_START_CYCLES", "PRODUCT_CYCLES", "READ_LATENCY_CYCLES", "REDUCE_LEVEL_CYCLES", "REGISTER_LATENCY_CYCLES",
    "REGISTER_READ_CYCLES", "RELEASE_CYCLES", "REWRITE_CYCLES", "RIGHT_SHIFT_CYCLES", "RUNS_AHEAD", "RUN_LEAST_CYCLES",
    "SENT_TO_DONE_CYCLES", "SLOT_TO_PORT_CYCLES", "STAGE_OPERANDS", "STAGE_REGISTERS", "STAGE_RESULT",
    "STEP_LEAST_CYCLES", "STORE_AHEAD_CYCLES", "STORE_GAP_CYCLES", "STORE_TO_READ_CYCLES", "STORE_WORDS_AHEAD",
    "TABLE_CYCLES", "TAG_LEAD_CYCLES", "TAKE_CYCLES", "TILE_LEAST_CYCLES", "TOKEN_CYCLES", "UOP_WAIT_CYCLES",
    "VECTOR_START_CYCLES", "VECTOR_TILE_CYCLES", "WEIGHTS_ASKED_CYCLES", "activation_cycles", "add_delay_cycles",
    "array_latency_cycles", "beat_to_word_cycles", "beat_words", "done_cycles", "feed_cycles", "output_latency_cycles",
    "packed_chain_cells", "read_to_pack_cycles", "reduce_latency_cycles", "reduce_tree_cycles", "rotate_cycles",
    "shares_ports", "step_cycles", "sums_delay_cycles"]

# Commands: fetch, the units' controls, tokens.
#: From the start of fetch, or from free space for bursts, to their first beat on the bus and to their first word dealt,
#: in addition to the memory's latency; then one word a cycle. The first beat of all is a cycle earlier.
FETCH_TO_BEAT_CYCLES = 5
FETCH_TO_WORD_CYCLES = 12
#: From the last word of a RUN to the operation offered; from `done` to the offer of the operation that waits for its
#: token, or for room among those in flight.
OFFER_CYCLES = 4
TOKEN_CYCLES = 3
OPERATIONS_IN_FLIGHT = 4
#: From an operation offered to an idle engine to its acceptance, by unit.
TAKE_CYCLES = {Unit.LOAD: 2, Unit.STORE: 1}

# Load and store.
#: From a load taken to its first burst on the bus; plus its runs, to the next one taken.
LOAD_TO_BURST_CYCLES = 8
LOAD_TAKE_GAP_CYCLES = 9
#: Most runs of earlier loads not fully requested when a load is taken; cycles from the request that makes room.
RUNS_AHEAD = 2
ASKED_TO_TAKE_CYCLES = 3
#: Additional cycles if the word is a coded row: router, window, header, planes, the rows decoded ahead.
CODED_WORD_CYCLES = 7
#: From the last word of a load to the first of the next.
LOAD_GAP_CYCLES = 6
#: From a store taken to its first read; plus its words, to the next one taken; how far words are read ahead.
STORE_TO_READ_CYCLES = 5
STORE_GAP_CYCLES = 5
STORE_AHEAD_CYCLES = 20
#: Number of words to be stored that are read ahead of the packer.
STORE_WORDS_AHEAD = 8
#: From the last beat of a store to `done`, plus the memory's latency.
SENT_TO_DONE_CYCLES = 7

# Scratchpad and accumulators, from the cycle of a grant to the one in which the word is valid.
READ_LATENCY_CYCLES = 3
#: From a request at a read port of the array to the cycle in which it blocks other clients: its requests are
#: registered first, so that all others know which banks are free.
BANK_KNOWN_CYCLES = 1
#: The array's words pass one more register.
ARRAY_READ_LATENCY_CYCLES = READ_LATENCY_CYCLES + BANK_KNOWN_CYCLES + 1
ACC_READ_LATENCY_CYCLES = 3

# Array unit.
#: From the first cycle of a slot in the counter to the read ports.
SLOT_TO_PORT_CYCLES = 2
#: Cycles by which the tag of a slot precedes its sums; the old value is read in them.
TAG_LEAD_CYCLES = 4
#: Least cycles between two additions to one accumulator word.
REWRITE_CYCLES = 5
#: From the sums of the array to the vector unit's first read of their word.
_SUMS_TO_READ_CYCLES = 2
#: Least cycles of a step, and of the last one of a tile, in the sequencer.
STEP_LEAST_CYCLES = 5
TILE_LEAST_CYCLES = 7
#: From an operation taken to its first slot: least cycles of the sequencer; plus a cycle per row of weights.
ARRAY_START_CYCLES = 9
WEIGHTS_ASKED_CYCLES = 4
#: Cycles without a slot between two operations, in which the constants change.
ARRAY_GAP_CYCLES = 2
#: From the last read of a buffer's sums to the first slot of a tile that takes the buffer.
RELEASE_CYCLES = 1


#: With packed products: most cells of a chain whose two sums can be separated; from the first byte of two slots to the
#: operand of the first cell; from there to that cell's sum.
PACKED_CHAIN_CELLS = 8
PACKED_OPERAND_CYCLES = 4
PACKED_CELL_CYCLES = 3
#: From the last cell's first sum to the first slot's: separation, addition of the sum of the other rows.
_PACKED_SUMS_CYCLES = 3


def packed_chain_cells(config: Config) -> int:
    """Return the cells of the longest chain of a column with packed products."""
    return min(PACKED_CHAIN_CELLS, ceil_div(config.rows, 2))


def rotate_cycles(config: Config) -> int:
    """Return the cycles in which a scratchpad word is rotated: two for 16 bytes or more, with few LUTs."""
    return 2 if config.few_luts and config.word_bytes > 8 else 1


def shares_ports(config: Config) -> bool:
    """Return whether store and stream b share a port of the scratchpad, and so do load and the vector unit's output.

    So it is with few LUTs where a word is at least two beats: stream b and the output then leave a port free at times.
    """
    return config.few_luts != 0 and config.beats_per_word >= 2


def beat_to_word_cycles(config: Config) -> int:
    """Return the cycles from a beat on the bus to its word in the scratchpad."""
    return 6 + rotate_cycles(config)


def read_to_pack_cycles(config: Config) -> int:
    """Return the cycles from the read of a word to be stored to the packer's window."""
    return 2 + rotate_cycles(config)


def feed_cycles(config: Config) -> int:
    """Return the cycles from the read ports to row 0 of the array: a rotation, and the choice of a row's byte."""
    return ARRAY_READ_LATENCY_CYCLES + rotate_cycles(config) + 1


def array_latency_cycles(config: Config) -> int:
    """Return the cycles from a slot at row 0 of the array to its sums at the accumulators."""
    if not config.dsp_packing:
        return config.rows + 2
    chain = packed_chain_cells(config)
    return PACKED_OPERAND_CYCLES + chain - 1 + PACKED_CELL_CYCLES + _PACKED_SUMS_CYCLES + (2 * chain < config.rows)


def step_cycles(config: Config, slots: int) -> int:
    """Return the cycles of a step's slots in the array: an even number with packed products."""
    return slots + slots % 2 if config.dsp_packing else slots


def sums_delay_cycles(config: Config) -> int:
    """Return the cycles from a slot in the counter to the vector unit's first read of its sums."""
    return SLOT_TO_PORT_CYCLES + feed_cycles(config) + array_latency_cycles(config) + _SUMS_TO_READ_CYCLES


def add_delay_cycles(config: Config) -> int:
    """Return the cycles from a slot in the counter to the one in which its sum blocks the vector unit's read."""
    return sums_delay_cycles(config) - TAG_LEAD_CYCLES


# Vector unit.
#: From an operation taken to its first beat; plus the cycles of a parameter block, if it has one.
VECTOR_START_CYCLES = 13
PARAMS_START_CYCLES = 10
#: Least cycles of a tile, and of a run of a micro-operation.
VECTOR_TILE_CYCLES = 3
RUN_LEAST_CYCLES = 2

# Lane of the vector unit: latencies of its steps, and stages counted from the cycle in which a beat starts.
TABLE_CYCLES = 2
ALU_CYCLES = 3
PRODUCT_CYCLES = 4
RIGHT_SHIFT_CYCLES = 2
CLAMP_CYCLES = 3
#: From the address of a vector register's word to its data.
REGISTER_READ_CYCLES = 2
#: From an element at an activation lane to its result.
ACTIVATION_LANE_CYCLES = 32
#: The elements of a stream are valid one cycle later.
STAGE_OPERANDS = READ_LATENCY_CYCLES + 1
STAGE_REGISTERS = STAGE_OPERANDS - REGISTER_READ_CYCLES
STAGE_RESULT = (STAGE_OPERANDS + 2 + TABLE_CYCLES + ALU_CYCLES + PRODUCT_CYCLES + RIGHT_SHIFT_CYCLES
                + CLAMP_CYCLES)
#: From the start of a beat to the first start of another one that reads the register it writes.
REGISTER_LATENCY_CYCLES = STAGE_RESULT + 1 - STAGE_REGISTERS
#: From a micro-operation to the next that waits for it: grants are counted a cycle late.
UOP_WAIT_CYCLES = REGISTER_LATENCY_CYCLES + 1
#: Cycles of a level of the reduction's tree.
REDUCE_LEVEL_CYCLES = 2


def beat_words(config: Config, element_bytes: int) -> int:
    """Return the most scratchpad words that the elements of a beat lie in."""
    beat = config.requantize_lanes * element_bytes
    return max((position * beat % config.word_bytes + beat - 1) // config.word_bytes + 1
               for position in range(config.beats_per_word))


def reduce_tree_cycles(config: Config) -> int:
    """Return the cycles from a beat at the reduction's input to the result of what it ends, which lanes pass on."""
    return 3 + REDUCE_LEVEL_CYCLES * ceil_log2(config.requantize_lanes)


def reduce_latency_cycles(config: Config) -> int:
    """Return the cycles from the start of a reduction's last beat to the first start of any other run."""
    return REGISTER_LATENCY_CYCLES + reduce_tree_cycles(config)


def output_latency_cycles(config: Config) -> int:
    """Return the cycles from the start of a beat to the first start of one that may read its output as a stream."""
    return STAGE_RESULT + beat_words(config, 4) + 2


def activation_cycles(config: Config) -> int:
    """Return the additional cycles of an output through an activation."""
    return ACTIVATION_LANE_CYCLES + config.activation_steps + 1


def done_cycles(config: Config) -> int:
    """Return the cycles from the start of an operation's last beat to its `done`."""
    return max(output_latency_cycles(config), STAGE_RESULT + reduce_tree_cycles(config) + 1)
