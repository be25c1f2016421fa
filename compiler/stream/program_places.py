"""Placement of programs in the micro-operation memory: each overwrites the most similar contents.

Commands write only changed words. The steps of an unrolled network have the same programs except for a few constants.
A program at the address of the previous step's program therefore takes only a few words. The vector unit must be idle
while they are written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.meaning import Code, LookUp, Streams
from tq_hw.compiler.stream.stream import Operation, Stream, UopWrite
from tq_hw.isa.encode import pack
from tq_hw.isa.layout import UOP_WORDS, Unit, VectorKind
from tq_hw.isa.uop import UOP

__all__ = ["place_programs", "write_words"]

Array = npt.NDArray[np.int64]


def _words_of(changed: int) -> int:
    """Return the command words that write these registers of a micro-operation: spans, each after a header."""
    registers = [number for number in range(UOP_WORDS) if changed >> number & 1]
    gaps = [second - first for first, second in zip(registers, registers[1:], strict=False)]
    # A single unchanged word between two changed ones is written again, because a header is as long.
    headers = bool(registers) + sum(gap > 2 for gap in gaps)
    return headers + len(registers) + sum(gap == 2 for gap in gaps)


_WORDS = np.array([_words_of(changed) for changed in range(1 << UOP_WORDS)], np.int64)
_BITS = 1 << np.arange(UOP_WORDS)


@dataclass
class _Block:
    """Micro-operations that are written together, and the operations that run them.

    Members
    -------
    first : the emitter's address of the first of them
    begin, end : number of the item that writes the first of them, and of the last item that runs one
    early : number of the item before which they should be written, if there is room for them
    """

    first: int
    begin: int
    end: int
    early: int
    writes: list[UopWrite] = field(default_factory=list)
    users: list[Operation] = field(default_factory=list)

    def words(self) -> Array:
        """Return the words of their registers, (micro-operations, UOP_WORDS)."""
        return np.array([[pack(register, write.values) for register in UOP] for write in self.writes], np.int64)


class _Before:
    """The operations up to an item that writes may be moved before."""

    def __init__(self) -> None:
        self._layer, self._sums, self._older = -1, -1, -1
        #: The last layer of the array that waited for the vector unit.
        self._waited = -1

    def add(self, number: int, operation: Operation) -> None:
        """Record an operation."""
        if operation.unit is Unit.ARRAY and operation.wait.get(Unit.VECTOR):
            self._waited = operation.layer
        if operation.unit is not Unit.VECTOR or operation.fields.get("kind") == VectorKind.LOAD_TABLE:
            return
        if operation.layer != self._layer:
            self._older = self._sums if self._sums >= 0 else self._older
            self._layer, self._sums = operation.layer, -1
        if operation.fields.get("use_acc") and self._sums < 0 and operation.layer == self._waited:
            self._sums = number

    def place(self, operation: Operation) -> int:
        """Return the number of an operation before which the micro-operations of `operation` may be written, or -1.

        It is the first operation that reads sums of the array in the last earlier layer for which the array waited for
        the vector unit: there the vector unit usually waits. If the operation's own layer is such a layer, it is -1.
        """
        if operation.fields.get("use_acc") and operation.layer == self._waited:
            return -1
        return self._older if operation.layer == self._layer or self._sums < 0 else self._sums


def _blocks(stream: Stream) -> list[_Block] | None:
    """Return the blocks in the order of the stream; None if an operation runs parts of two blocks."""
    blocks: list[_Block] = []
    owners: list[_Block | None] = [None] * stream.config.uops
    together, before = False, _Before()
    for number, item in enumerate(stream.items):
        if isinstance(item, UopWrite):
            if not together or item.index != blocks[-1].writes[-1].index + 1:
                blocks.append(_Block(item.index, number, number, number))
            blocks[-1].writes.append(item)
            owners[item.index] = blocks[-1]
        elif isinstance(item, Operation) and item.unit is Unit.VECTOR and "last" in item.fields:
            block = owners[item.fields["first"]]
            if block is None or any(owner is not block
                                    for owner in owners[item.fields["first"]:item.fields["last"] + 1]):
                return None
            if not block.users:
                early = before.place(item)
                block.early = early if early >= 0 else block.begin
            block.users.append(item)
            block.end = number
        if isinstance(item, Operation):
            before.add(number, item)
        together = isinstance(item, UopWrite)
    return blocks


def write_words(words: Array, held: Array) -> Array:
    """Return the number of command words that write micro-operations, by address of the first.

    `words` are those of the micro-operations, (micro-operations, UOP_WORDS); `held` those of the memory, (addresses,
    UOP_WORDS), -1 where nothing was written.
    """
    changed = (words[:, None, :] != held[None, :, :]) @ _BITS
    rows = np.arange(len(words))[:, None]
    windows = np.arange(len(held) - len(words) + 1)[None, :]
    total: Array = _WORDS[changed][rows, rows + windows].sum(axis=0)
    return total


@dataclass(frozen=True)
class _Place:
    """The placement of a block: its address, which of its writes change the memory, the item they come before."""

    block: _Block
    first: int
    changes: list[bool]
    before: int


def _places(blocks: Sequence[_Block], count: int, *, early: bool) -> list[_Place] | None:
    """Return the placements of all blocks in the order of writing; None if a block has no room."""
    held: Array = np.full((count, UOP_WORDS), -1, np.int64)
    there: list[Mapping[str, int] | None] = [None] * count
    used_until: Array = np.full(count, -1, np.int64)
    found = []
    waiting = [(min(block.early, block.begin) if early else block.begin, number) for number, block in enumerate(blocks)]
    heapify(waiting)
    while waiting:
        before, number = heappop(waiting)
        block = blocks[number]
        words, length = block.words(), len(block.writes)
        taken = np.concatenate(([0], np.cumsum(used_until >= before)))
        is_free = taken[length:] == taken[:-length]
        if not is_free.any():
            if before == block.begin:
                return None
            heappush(waiting, (block.begin, number))
            continue
        cost = np.where(is_free, write_words(words, held), np.iinfo(np.int64).max)
        first = int(cost.argmin())
        span, values = slice(first, first + length), [write.values for write in block.writes]
        # Absent fields are 0: a write that differs only in explicit zeros is repeated, and takes no words.
        changes = [one != other for one, other in zip(values, there[span], strict=True)]
        found.append(_Place(block, first, changes, before))
        held[span], there[span], used_until[span] = words, values, block.end
    return found


def place_programs(stream: Stream) -> None:
    """Move programs to addresses with the fewest written words, and the writes to where the vector unit waits.

    The operations stay in order. Programs in use at the same time do not overlap. If the fragmented memory has no room
    for a program, nothing is moved.
    """
    blocks, count = _blocks(stream), stream.config.uops
    if blocks is None:
        return
    places = _places(blocks, count, early=True) or _places(blocks, count, early=False)
    if places is None:
        return
    written: dict[int, list[UopWrite]] = {}
    for place in places:
        writes = enumerate(zip(place.block.writes, place.changes, strict=True), place.first)
        written.setdefault(place.before, []).extend(
            UopWrite(index, write.values) for index, (write, is_new) in writes if is_new)
        codes: dict[int, Code] = {}
        for user in place.block.users if place.first != place.block.first else ():
            _move(user, place.first - place.block.first, codes)
    stream.items = [one for number, item in enumerate(stream.items)
                    for one in (*written.get(number, ()), *(() if isinstance(item, UopWrite) else (item,)))]


def _move(user: Operation, by: int, codes: dict[int, Code]) -> None:
    """Shift an operation's program by `by` addresses; `codes` collects the new code of each old one."""
    for name in ("first", "last", "body_first", "body_last"):
        user.fields[name] += by
    if isinstance(user.meaning, Streams | LookUp):
        code = user.meaning.code
        moved = codes.setdefault(id(code), replace(code, first=code.first + by))
        user.meaning = replace(user.meaning, code=moved)
