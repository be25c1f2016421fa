"""A board in Python, written from the text of the protocol: registers, memory, and every rule for answers."""

from collections.abc import Callable

from tq_hw.boards.link.protocol import REQUEST_SYNC, Answer, Command, Identity, Receiver, Request, Result

__all__ = ["IDENTITY", "ReferenceBoard"]

IDENTITY = Identity(1, 0x12345678, 0x40000000, 0x1000, 256, 50_000_000)
_REGISTER_BYTES = 256


class ReferenceBoard:
    """Takes bytes and returns bytes.

    Members
    -------
    registers : bytes of the register space; memory : bytes from identity.memory_base on
    executed : writes of registers in order, (offset, value)
    broken : offsets in memory that give an error
    on_write : called with offset and value of each register write
    """

    def __init__(self, identity: Identity = IDENTITY) -> None:
        self.identity = identity
        self.registers = bytearray(_REGISTER_BYTES)
        self.memory = bytearray(identity.memory_bytes)
        self.executed: list[tuple[int, int]] = []
        self.broken: set[int] = set()
        self.on_write: Callable[[int, int], None] = lambda _offset, _value: None
        self._receiver = Receiver(REQUEST_SYNC)
        self.reset()

    def reset(self) -> None:
        """Forget the session, as the board's reset does; memory keeps its bytes."""
        self.session = 0
        self._before: tuple[int, int] | None = None
        self._receiver.reset()

    def gap(self) -> None:
        """Let enough time pass for an incomplete frame to be dropped."""
        self._receiver.reset()

    def feed(self, data: bytes) -> bytes:
        """Take bytes and return the answers."""
        out = b""
        for byte in data:
            found = self._receiver.feed(byte)
            if isinstance(found, Request):
                out += self._answer(found).to_bytes()
            elif isinstance(found, bytes):
                out += Answer(Result.BAD_FRAME, found[1], int.from_bytes(found[2:4], "little")).to_bytes()
        return out

    def _answer(self, request: Request) -> Answer:
        if request.command != Command.OPEN and (request.session != self.session or self.session == 0):
            return Answer(Result.NO_SESSION, request.sequence, request.session)
        is_write = bool(request.command & 1)
        status, data = self._check(request), b""
        if status == Result.OK:
            if is_write and self._before is not None and self._before[0] == request.sequence:
                status = Result(self._before[1])
            else:
                status, data = self._execute(request)
        self._before = (request.sequence, status) if is_write else None
        return Answer(status, request.sequence, request.session, data)

    def _check(self, request: Request) -> Result:
        if request.command not in list(Command):
            return Result.BAD_COMMAND
        at, size = request.address, request.size
        if request.command in (Command.READ_MEMORY, Command.WRITE_MEMORY):
            first, last, words = self.identity.memory_base, self.identity.memory_bytes, False
        elif request.command == Command.OPEN:
            first, last, words = 0, 24, True
            if size != last:
                return Result.BAD_SIZE
        else:
            first, last, words = 0, _REGISTER_BYTES, True
        if not 0 < size <= 256 or (words and size % 4):
            return Result.BAD_SIZE
        if (words and at % 4) or at < first or at - first + size > last:
            return Result.BAD_ADDRESS
        return Result.OK

    def _execute(self, request: Request) -> tuple[Result, bytes]:
        at, end = request.address, request.address + request.size
        offset = at - self.identity.memory_base
        if request.command == Command.OPEN:
            self.session = request.session
            return Result.OK, self.identity.to_bytes()
        if request.command == Command.READ_REGISTERS:
            return Result.OK, bytes(self.registers[at:end])
        if request.command == Command.WRITE_REGISTERS:
            for place in range(0, request.size, 4):
                word = request.data[place:place + 4]
                self.registers[at + place:at + place + 4] = word
                self.executed.append((at + place, int.from_bytes(word, "little")))
                self.on_write(at + place, int.from_bytes(word, "little"))
            return Result.OK, b""
        if any(place in self.broken for place in range(offset, offset + request.size)):
            return Result.BUS_ERROR, b""
        if request.command == Command.READ_MEMORY:
            return Result.OK, bytes(self.memory[offset:offset + request.size])
        self.memory[offset:offset + request.size] = request.data
        return Result.OK, b""


