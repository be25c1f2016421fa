"""The host's end of the link, with retries over a bad line."""

import random
import time
from collections.abc import Callable

from tq_hw.boards.link.port import LinkError, Port
from tq_hw.boards.link.protocol import (
    ANSWER_SYNC,
    CRC_BYTES,
    DRAM_REGISTERS,
    IDENTITY,
    MOST_BYTES,
    VERSION,
    Answer,
    Command,
    Identity,
    Receiver,
    Request,
    Result,
    words_of,
)
from tq_hw.isa.control import REGISTERS

__all__ = ["Link", "Progress", "SessionLostError"]

#: Called with the number of bytes done.
Progress = Callable[[int], None]

_OFFSETS = {register.name: register.offset_bytes for register in REGISTERS}
_FEWEST_BYTES = 16
#: Consecutive successful requests after which blocks grow again.
_GROW_AFTER = 8
_MOST_ATTEMPTS = 2000
_REQUEST_BYTES, _ANSWER_BYTES = 12 + CRC_BYTES, 8 + CRC_BYTES
#: Overhead of a request, in bytes of data that take as long.
_BASE_BYTES = 64
#: Waits for an answer in addition to the time on the wire: the first (for the largest request), the least, the most.
_FIRST_WAIT, _LEAST_WAIT, _MOST_WAIT = 1, 0.02, 2
#: Factor of the wait after each failure.
_BACK_OFF = 1.5
#: Factor of the estimated answer time after each missing answer.
_SLOWER = 1.1
#: Decay of the slowest answer's time with each faster answer.
_FADE = 0.9
_READS = (Command.OPEN, Command.READ_REGISTERS, Command.READ_MEMORY)


class SessionLostError(LinkError):
    """The board was reset since the session was opened; memory and registers are undefined."""


class Link:
    """One session with a board.

    Parameters
    ----------
    port : where the board is
    patience_seconds : give up after this time without a valid answer
    """

    def __init__(self, port: Port, *, patience_seconds: float = 10) -> None:
        self._port = port
        self._patience = patience_seconds
        self._receiver = Receiver(ANSWER_SYNC)
        self._session = 0
        self._sequence = 0
        #: Slowest recent answer, in seconds per byte.
        self._slowest = _FIRST_WAIT / (_BASE_BYTES + MOST_BYTES)
        self._block = MOST_BYTES
        self._successes = 0
        self._came = bytearray()
        #: Time of the last answer.
        self._answered = time.monotonic()
        #: Requests that were repeated.
        self.repeats = 0
        #: Bytes of memory and registers transferred.
        self.carried_bytes = 0

    def open(self) -> Identity:
        """Begin a session and return the board's identity.

        Raises LinkError if the board has another protocol version, an invalid identity, or never stops sending.
        """
        self._session = random.SystemRandom().randrange(1, 1 << 16)
        self._sequence = random.SystemRandom().randrange(1 << 8)
        self._answered = time.monotonic()
        until = self._answered + self._patience
        while self._port.read(0):
            if time.monotonic() > until:
                raise LinkError(f"the port sends bytes for {self._patience:g} seconds without being asked: "
                                "check that port and baud rate are the board's")
        self._receiver.reset()
        try:
            identity = Identity.from_bytes(self.request(Command.OPEN, 0, 4 * len(IDENTITY)))
        except ValueError as error:
            raise LinkError(f"the board's identity is not valid: {error}") from None
        if identity.version != VERSION:
            raise LinkError(f"the board speaks version {identity.version} of the link protocol, this program "
                            f"{VERSION}: build board and program from the same sources")
        return identity

    def read_registers(self, name: str, count: int = 1) -> list[int]:
        """Return `count` registers from `name` on."""
        return words_of(self._read(Command.READ_REGISTERS, _OFFSETS[name], 4 * count))

    def pause(self, seconds: float) -> None:
        """Sleep for this time: the protocol has no interrupt."""
        time.sleep(seconds)

    def dram_words(self) -> list[int]:
        """Return the registers with the state of the board's DRAM."""
        return words_of(self.request(Command.READ_REGISTERS, DRAM_REGISTERS[0].offset_bytes, 4 * len(DRAM_REGISTERS)))

    def write_registers(self, name: str, *values: int) -> None:
        """Write registers from `name` on, one word each."""
        data = b"".join(value.to_bytes(4, "little") for value in values)
        self.request(Command.WRITE_REGISTERS, _OFFSETS[name], len(data), data)

    def write_memory(self, address: int, data: bytes, progress: Progress | None = None) -> None:
        """Write bytes from a byte address on, in as many requests as it takes."""
        at = 0
        while at < len(data):
            part = data[at:at + self._block]
            if self._try(Command.WRITE_MEMORY, address + at, len(part), part) is None:
                continue
            at += len(part)
            if progress is not None:
                progress(at)

    def read_memory(self, address: int, size_bytes: int, progress: Progress | None = None) -> bytes:
        """Return `size_bytes` bytes from a byte address on."""
        return self._read(Command.READ_MEMORY, address, size_bytes, progress)

    def _read(self, command: Command, address: int, size_bytes: int, progress: Progress | None = None) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            part = self._try(command, address + len(data), min(self._block, size_bytes - len(data)))
            if part is None:
                continue
            data += part
            if progress is not None:
                progress(len(data))
        return bytes(data)

    def request(self, command: Command, address: int, size: int, data: bytes = b"") -> bytes:
        """Send a request until it is answered, and return the answer's data.

        Raises SessionLostError after a reset of the board, LinkError when it refuses or does not answer.
        """
        answer = self._ask(command, address, size, data, _MOST_ATTEMPTS)
        if answer is None:
            raise LinkError(f"{_MOST_ATTEMPTS} attempts at one request failed: the line is too noisy; try a lower baud "
                            "rate")
        return answer

    def _try(self, command: Command, address: int, size: int, data: bytes = b"") -> bytes | None:
        """Read, or write memory, once; return None if that failed and a smaller block is more likely to succeed."""
        if size <= _FEWEST_BYTES:
            return self.request(command, address, size, data)
        return self._ask(command, address, size, data, 1)

    def _ask(self, command: Command, address: int, size: int, data: bytes, attempts: int) -> bytes | None:
        self._sequence = (self._sequence + 1) & 255
        request = Request(command, self._sequence, self._session, size, address, data)
        answer = self._exchange(request, attempts)
        if answer is None:
            return None
        if answer.status == Result.NO_SESSION:
            raise SessionLostError("the board was reset")
        if answer.status != Result.OK:
            known = answer.status in list(Result)
            raise LinkError(f"the board refuses {command.name} of {size} bytes at {address:#x}: "
                            f"{Result(answer.status).name if known else f'status {answer.status}'}")
        if len(answer.data) != (size if command in _READS else 0):
            raise LinkError(f"the board answers {command.name} of {size} bytes at {address:#x} with {len(answer.data)} "
                            "bytes")
        self.carried_bytes += size
        return answer.data

    def _exchange(self, request: Request, attempts: int) -> Answer | None:
        frame = request.to_bytes()
        work = _BASE_BYTES + request.size
        on_wire = self._port.byte_seconds * (_REQUEST_BYTES + _ANSWER_BYTES + request.size)
        wait = min(2 * self._slowest * work + _LEAST_WAIT, _MOST_WAIT)
        for attempt in range(attempts):
            began = time.monotonic()
            self._port.write(frame)
            answer = self._await(began + on_wire + wait)
            now = time.monotonic()
            if answer is None:
                wait = min(_BACK_OFF * wait, _MOST_WAIT)
                self._slowest = min(_SLOWER * self._slowest, _MOST_WAIT / _BASE_BYTES)
            else:
                self._answered = now
                if answer.status != Result.BAD_FRAME:
                    if attempt == 0:
                        self._learn((now - began) / work)
                    return answer
            if now > self._answered + self._patience:
                raise LinkError(f"the board did not answer for {self._patience:g} seconds: check cable, port, baud "
                                "rate, and that the bitstream is loaded")
            self.repeats += 1
            if self._block > _FEWEST_BYTES:
                self._block //= 2
            self._successes = 0
        return None

    def _learn(self, seconds_per_byte: float) -> None:
        """Adapt wait and block size after a request that was answered at the first attempt."""
        self._slowest = max(seconds_per_byte, _FADE * self._slowest)
        self._successes += 1
        if self._successes >= _GROW_AFTER:
            self._successes = 0
            self._block = min(2 * self._block, MOST_BYTES)

    def _await(self, until: float) -> Answer | None:
        """Return the answer to the current request, or None when it has not come by then."""
        late = False
        while True:
            while self._came:
                byte = self._came[0]
                del self._came[0]
                answer = self._receiver.feed(byte)
                if isinstance(answer, Answer) and (answer.session, answer.sequence) == (self._session, self._sequence):
                    return answer
            if late:
                # A partly received frame cannot be completed by a later answer.
                self._receiver.reset()
                return None
            left = until - time.monotonic()
            # After a delay in this program itself, bytes that came in time still count.
            late = left <= 0
            self._came += self._port.read(max(left, 0))
