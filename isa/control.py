"""The register bus: what a host sees of the accelerator, and the status codes.

32-bit registers at byte offsets; reads and writes are whole words. A run: write `base0`..`base3`,
`command_offset`, `command_bytes`, then 1 to `control`; poll `status` until `done` or `error`.

A memory that does not answer, and commands that wait for each other, end in an error where `watchdog` is not 0. Where
memory owes answers when a run has ended, a stop is over after 1,048,576 cycles all the same, with bit 3 of `status`:
nothing can start until the answers come, which clears it, or until memory and machine are reset together.

Of the counters, all but `cycles` read 0 while the machine runs.
"""

from dataclasses import dataclass
from enum import IntEnum

from tq_hw.isa.config import Config

__all__ = ["COUNTERS", "DRAIN_CYCLES", "MAGIC", "NO_RUN", "REGISTERS", "STATUS_BUSY", "STATUS_DONE", "STATUS_ERROR",
           "STATUS_OWED", "WATCHDOG_CYCLES", "WINDOW_BYTES", "ControlField", "ControlRegister", "Status", "counted"]

#: Value of the `magic` register: "TQHW" read as a little-endian word.
MAGIC = 0x57485154

#: Of an address space, what the registers take where a standard bus leads to them: a page.
WINDOW_BYTES = 4096

STATUS_BUSY = 1
STATUS_DONE = 2
STATUS_ERROR = 4
STATUS_OWED = 8

#: `error_index` of an error that no RUN is to blame for.
NO_RUN = (1 << 32) - 1
#: What drivers write to `watchdog`: a sixth of a second at 100 MHz, far more than any wait of a machine that works.
WATCHDOG_CYCLES = 1 << 24
#: After a run the memory may take so long to give answers that it owes; then the machine gives up waiting for them.
DRAIN_CYCLES = 1 << 20


class Status(IntEnum):
    """Why the machine stopped; `error_code` of a stopped machine."""

    OK = 0
    #: the header names no unit, reserved bits are set, or a register does not exist
    BAD_COMMAND = 1
    #: a scratchpad address beyond its end
    BAD_ADDRESS = 2
    #: two words that must be read in one cycle lie in one bank
    BANK_CONFLICT = 3
    #: the memory answered with an error
    BUS_ERROR = 4
    #: a token counter went beyond 255
    TOKEN_OVERFLOW = 5
    #: the commands end without END
    NO_END = 6
    #: an operation breaks a rule of the instruction set
    BAD_OPERATION = 7
    #: nothing moved for `watchdog` cycles, and the memory owes `error_unit` (control: fetch) an answer
    NO_ANSWER = 8
    #: nothing moved for `watchdog` cycles: units wait for each other; `error_unit` is the first that waits for tokens,
    #: or else for accumulators
    DEADLOCK = 9


@dataclass(frozen=True)
class ControlField:
    """Bits of a register, from `first` up; what is in none of its fields reads as 0."""

    name: str
    first: int
    bits: int
    doc: str


@dataclass(frozen=True)
class ControlRegister:
    """One register of the bus; without fields of its own it is one value of 32 bits."""

    name: str
    offset_bytes: int
    access: str
    doc: str
    fields: tuple[ControlField, ...] = (ControlField("value", 0, 32, "the whole register"),)


def _aligned(size_bytes: int) -> tuple[ControlField, ...]:
    """Return the field of a register whose low bits are 0."""
    low = size_bytes.bit_length() - 1
    return (ControlField("value", low, 32 - low, f"in units of {size_bytes} bytes"),)


_COUNTED = {
    "cycles": "the machine ran: from the start of fetch to done or error",
    "fetch_stall": "fetch had no word to deal and had not met END",
    "load_busy": "load held an operation",
    "load_token": "a RUN of load waited for tokens",
    "load_port": "a word of load waited for memory or for its bank",
    "array_busy": "the array held an operation",
    "array_token": "a RUN of the array waited for tokens",
    "array_acc": "a step of the array waited for a free accumulator buffer",
    "array_weight": "a step of the array waited for its weights",
    "vector_busy": "the vector unit held an operation",
    "vector_token": "a RUN of the vector unit waited for tokens",
    "vector_acc": "the vector unit waited for sums",
    "vector_port": "the vector unit waited for its banks",
    "store_busy": "store held an operation",
    "store_token": "a RUN of store waited for tokens",
    "store_port": "a word of store waited for its bank, or memory took no more",
    "read_beats": "a beat was read from memory",
    "write_beats": "a beat was written to memory",
}
#: Counters since the start, in order from byte offset 0x80.
COUNTERS: tuple[str, ...] = tuple(_COUNTED)


def counted(config: Config) -> tuple[str, ...]:
    """Return the first COUNTERS that a machine has; it gives 0 for the others."""
    return COUNTERS[:1] if config.few_counters else COUNTERS


REGISTERS: tuple[ControlRegister, ...] = (
    ControlRegister("magic", 0x00, "r", "0x57485154"),
    ControlRegister("fingerprint", 0x04, "r", "fingerprint of the configuration"),
    ControlRegister("control", 0x08, "w", "1: start; 2: stop and reset all units", (
        ControlField("start", 0, 1, "write 1 to start"), ControlField("stop", 1, 1, "write 1 to stop"))),
    ControlRegister("status", 0x0C, "r", "bit 0 busy, bit 1 done, bit 2 error, bit 3 memory owes answers", (
        ControlField("busy", 0, 1, "a run or a stop is under way"), ControlField("done", 1, 1, "the last run ended"),
        ControlField("error", 2, 1, "the last run stopped with an error"),
        ControlField("owed", 3, 1, "memory owes answers"))),
    ControlRegister("error_code", 0x10, "r", "why the machine stopped: a status code", (
        ControlField("code", 0, 4, "status code"),)),
    ControlRegister("error_unit", 0x14, "r", "unit that stopped", (ControlField("unit", 0, 3, "number of the unit"),)),
    ControlRegister("error_index", 0x18, "r", "RUN of this unit that the error is about; 0xFFFFFFFF: none"),
    ControlRegister("command_offset", 0x1C, "rw", "byte offset of the commands in region 0, a multiple of 16",
                    _aligned(16)),
    ControlRegister("command_bytes", 0x20, "rw", "length of the commands, a multiple of 4", _aligned(4)),
    ControlRegister("watchdog", 0x24, "rw", "cycles without progress after which the machine stops; 0: never"),
    ControlRegister("base0", 0x30, "rw", "byte address of region 0 (image), a multiple of 16", _aligned(16)),
    ControlRegister("base1", 0x34, "rw", "byte address of region 1 (arena), a multiple of 16", _aligned(16)),
    ControlRegister("base2", 0x38, "rw", "byte address of region 2 (state), a multiple of 16", _aligned(16)),
    ControlRegister("base3", 0x3C, "rw", "byte address of region 3, a multiple of 16", _aligned(16)),
    *(ControlRegister(f"counter_{name}", 0x80 + 4 * i, "r", f"cycles in which {what}")
      for i, (name, what) in enumerate(_COUNTED.items())),
)
