"""The link protocol: how a host reads and writes a board's registers and memory over a line of bytes.

The host sends requests and the board answers each one; only one request is pending at a time. Both are frames:

    request    54 51  command  sequence  session (2)  size (2)  address (4)  data  CRC (4)
    answer     54 41  status   sequence  session (2)  size (2)  data  CRC (4)

Numbers are little-endian. `size` is the number of bytes to write or to read, at most 256. A request has data only if
bit 0 of the command is set. The `size` of an answer is that of its data. The CRC is CRC-32 (that of zlib and Ethernet)
over everything between the sync bytes and the CRC.

**Framing.** A receiver waits for the sync bytes, then takes as many bytes as header and size say. After each frame it
waits for sync bytes again. The board also does so

- when the next byte of a frame is missing for 50 ms,
- when the size is above 256; there is no answer then.

The board answers a frame with a wrong CRC with BAD_FRAME and does not execute it, so the host does not have to wait.
While the board executes and answers a request, it ignores incoming bytes.

**Sessions.** The host chooses a session number other than 0 and sends it with OPEN; the board keeps it. After a reset
the board has session 0. It answers a request of another session with NO_SESSION and does not execute it. So the host
learns that the board was reset and that everything must be loaded again.

**Sequence numbers.** The host increments the number, modulo 256, from request to request. It repeats an unanswered
request under the same number. If the previous request was a write of the same number, the board does not execute it
again, but repeats its status; so a start is never executed twice. Reads have no effects and are executed again. A
failed read or memory write may also be retried in parts, under new numbers, because repeating it does no harm. The host
ignores answers of another session or sequence number.

**Time-outs.** The host waits for an answer about twice as long as recent answers took, and longer after each failure.
It gives up after ten seconds without a valid answer. The board waits 50 ms for the memory, then answers BUS_TIMEOUT.
Blocks of data halve when requests fail, down to 16 bytes, and grow again when requests succeed.

**Undetected errors.** The CRC always detects up to four flipped bits in a frame, and any burst of up to 32, unless
they hit `command` or `size` of a request or `size` of an answer and so move the end of the frame. This damage, and
dropped or inserted bytes, go undetected with a probability of 2^-32 per damaged frame: at 115,200 baud, with only the
shortest frames and each of them damaged, once in two months.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

from tq_hw.isa.control import ControlRegister

__all__ = ["ANSWER_SYNC", "CRC_BYTES", "DRAM_LANES", "DRAM_REGISTERS", "GAP_SECONDS", "IDENTITY", "MOST_BYTES",
           "REQUEST_SYNC", "VERSION", "Answer", "Command", "DramState", "Identity", "Receiver", "Request", "Result",
           "words_of"]

#: Raised whenever a frame, a command or a status changes its meaning.
VERSION = 1
REQUEST_SYNC, ANSWER_SYNC = b"\x54\x51", b"\x54\x41"
#: Maximum number of data bytes in a frame.
MOST_BYTES = 256
#: A board drops an incomplete frame, and gives up on a memory that does not respond, after this time.
GAP_SECONDS = 0.05
CRC_BYTES = 4

_REQUEST = struct.Struct("<BBHHI")
_ANSWER = struct.Struct("<BBHH")


class Command(IntEnum):
    """First byte of a request. Bit 0 is set if data follow."""

    #: begin the request's session; the answer's data are the identity; `size` is 24, `address` 0
    OPEN = 0x10
    #: read registers of docs/reference/isa.md; address and size are multiples of 4
    READ_REGISTERS = 0x20
    #: write registers, each word once, in ascending order; address and size are multiples of 4
    WRITE_REGISTERS = 0x21
    #: read bytes of memory; any address and size in the memory
    READ_MEMORY = 0x30
    #: write bytes of memory; any address and size in the memory
    WRITE_MEMORY = 0x31


class Result(IntEnum):
    """First byte of an answer. Only an answer with OK has data."""

    #: done
    OK = 0
    #: the CRC is wrong; sequence and session are as received
    BAD_FRAME = 1
    #: the request's session is not the board's
    NO_SESSION = 2
    #: the command does not exist
    BAD_COMMAND = 3
    #: `size` is 0, above 256, or not what the command asks for
    BAD_SIZE = 4
    #: the address is not a multiple of 4, or a byte is outside of registers or memory
    BAD_ADDRESS = 5
    #: the memory answered with an error
    BUS_ERROR = 6
    #: the memory does not answer
    BUS_TIMEOUT = 7


class DramState(IntEnum):
    """How the board's DRAM came up: bits 0 to 7 of `dram_status`."""

    #: the memory needs no levelling
    NONE = 0
    #: settings are being tried; the memory does not answer yet
    UNDER_WAY = 1
    #: working settings were found
    READY = 2
    #: no setting works for some byte; the memory never answers
    FAILED = 3


#: Bytes of the DRAM's data bus that have a register each.
DRAM_LANES = 2
#: Read by READ_REGISTERS, above those of the accelerator.
DRAM_REGISTERS: tuple[ControlRegister, ...] = (
    ControlRegister("dram_status", 0xE0, "r", "bits 0 to 7: the state; from bit 8 on: a bit for each byte that failed"),
    *(ControlRegister(f"dram_window{lane}", 0xE4 + 4 * lane, "r", f"byte {lane}: first delay without an error, number "
                      "of them, bitslip, delay that is set; 8 bits each, from bit 0 on") for lane in range(DRAM_LANES)),
)


@dataclass(frozen=True)
class Request:
    """A request of the host; `data` has `size` bytes if bit 0 of the command is set, else none."""

    command: int
    sequence: int
    session: int
    size: int
    address: int = 0
    data: bytes = b""

    def to_bytes(self) -> bytes:
        """Return the frame."""
        header = _REQUEST.pack(self.command, self.sequence, self.session, self.size, self.address)
        return _framed(REQUEST_SYNC, header + self.data)


@dataclass(frozen=True)
class Answer:
    """An answer of the board."""

    status: int
    sequence: int
    session: int
    data: bytes = b""

    def to_bytes(self) -> bytes:
        """Return the frame."""
        return _framed(ANSWER_SYNC, _ANSWER.pack(self.status, self.sequence, self.session, len(self.data)) + self.data)


def words_of(data: bytes) -> list[int]:
    """Return the little-endian words in bytes."""
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def _framed(sync: bytes, body: bytes) -> bytes:
    return sync + body + zlib.crc32(body).to_bytes(CRC_BYTES, "little")


#: Words of the identity, the data of the answer to OPEN.
IDENTITY: tuple[ControlRegister, ...] = tuple(
    ControlRegister(name, 4 * number, "r", doc) for number, (name, doc) in enumerate((
        ("version", "of the protocol, 1"),
        ("fingerprint", "of the configuration"),
        ("memory_base", "byte address of the first byte of memory, a multiple of 256"),
        ("memory_bytes", "size of the memory, a multiple of 256"),
        ("most_bytes", "largest `size`, 256"),
        ("clock_hz", "clock of the counters"),
    )))


@dataclass(frozen=True)
class Identity:
    """What the board is; see IDENTITY. ValueError if the memory breaks its rules, or there is no clock."""

    version: int
    fingerprint: int
    memory_base: int
    memory_bytes: int
    most_bytes: int
    clock_hz: int

    def __post_init__(self) -> None:
        """Check what the board's comparison of addresses relies on."""
        if (self.memory_base % MOST_BYTES or self.memory_bytes % MOST_BYTES or self.memory_bytes <= 0
                or self.memory_base + self.memory_bytes > 1 << 32):
            raise ValueError(f"memory must begin and end at multiples of {MOST_BYTES} below 2^32, not "
                             f"{self.memory_base:#x} and {self.memory_bytes:#x} bytes")
        if self.clock_hz <= 0:
            raise ValueError("clock_hz must be more than 0")

    def to_bytes(self) -> bytes:
        """Return the data of the answer to OPEN."""
        return struct.pack(f"<{len(IDENTITY)}I", *(getattr(self, word.name) for word in IDENTITY))

    @staticmethod
    def from_bytes(data: bytes) -> "Identity":
        """Parse the words of IDENTITY; ValueError for a wrong length or impossible values."""
        if len(data) != 4 * len(IDENTITY):
            raise ValueError(f"an identity has {4 * len(IDENTITY)} bytes, not {len(data)}")
        return Identity(*struct.unpack(f"<{len(IDENTITY)}I", data))


class Receiver:
    """Find frames of one kind in a stream of bytes, byte by byte, as the board does."""

    def __init__(self, sync: bytes) -> None:
        self._sync = sync
        self._header_bytes = (_REQUEST if sync == REQUEST_SYNC else _ANSWER).size
        self._synced = 0
        self._body = bytearray()
        self._wanted = 0

    @property
    def in_frame(self) -> bool:
        """Whether a frame has begun."""
        return self._synced > 0

    def reset(self) -> None:
        """Forget a frame that has begun."""
        self._synced = 0
        self._body.clear()

    def feed(self, byte: int) -> Request | Answer | bytes | None:
        """Take one byte; return a frame that it completes, the body of one with a wrong CRC, or None."""
        if self._synced < 2:
            if byte == self._sync[self._synced]:
                self._synced += 1
            else:
                self._synced = int(byte == self._sync[0])
            return None
        self._body.append(byte)
        if len(self._body) == self._header_bytes:
            self._wanted = self._data_bytes()
            if self._wanted > MOST_BYTES:
                self.reset()
        if len(self._body) < self._header_bytes or len(self._body) < self._header_bytes + self._wanted + CRC_BYTES:
            return None
        body, crc = bytes(self._body[:-CRC_BYTES]), int.from_bytes(self._body[-CRC_BYTES:], "little")
        self.reset()
        return self._parse(body) if zlib.crc32(body) == crc else body

    def _data_bytes(self) -> int:
        if self._sync == REQUEST_SYNC:
            command, _, _, size, _ = _REQUEST.unpack(self._body)
            return size if command & 1 else 0
        return int(_ANSWER.unpack(self._body)[3])

    def _parse(self, body: bytes) -> Request | Answer:
        if self._sync == REQUEST_SYNC:
            command, sequence, session, size, address = _REQUEST.unpack_from(body)
            return Request(command, sequence, session, size, address, body[_REQUEST.size:])
        status, sequence, session, _ = _ANSWER.unpack_from(body)
        return Answer(status, sequence, session, body[_ANSWER.size:])
