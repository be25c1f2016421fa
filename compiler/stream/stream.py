"""Operations in program order, the tokens between them, and the command words.

Program order is a correct sequential order. Each operation lists its reads and writes. For every other unit, the latest
earlier operation that conflicts must be done first: that operation posts one token, and this one takes it.

Units run in order, so one wait covers all earlier operations of the other unit. Every wait points backward in program
order, so tokens cannot deadlock. The array and the vector unit also share accumulator buffers in order: whatever a
vector operation waits for must come before its array operation.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from tq_hw.compiler.ir.meaning import Meaning
from tq_hw.compiler.stream.history import Access, History
from tq_hw.compiler.stream.uses import Uses, body_of, register_span, uses
from tq_hw.isa.config import Config
from tq_hw.isa.encode import Assembler, EncodeError
from tq_hw.isa.layout import ArrayMode, Unit
from tq_hw.isa.program_rules import MOST_MEMORY_BYTES
from tq_hw.model.errors import UnsupportedError

__all__ = ["MOST_COMMANDS", "Access", "Commands", "FoldWrite", "Operation", "Stream", "UopWrite"]

_UNITS = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)
#: A unit holds at most 255 tokens of another one. Where it could hold this many, it waits for the latest operation
#: instead, which covers the following waits, and the posting unit waits for the taking unit.
_MANY_TOKENS = 240
#: Most operations and table writes of a program, if each works on at least 256 bytes of memory on average. Xception,
#: whose weights are loaded repeatedly at `n8`, has more than 2^18.
MOST_COMMANDS = MOST_MEMORY_BYTES >> 8


@dataclass
class Operation:
    """One RUN.

    Members
    -------
    wait, post : tokens by unit
    after : operations whose tokens it takes
    uops : micro-operations of a vector program
    folds : entries of the folding table that an operation of the array uses
    meaning : what it computes in the graph's terms; None: it moves bytes
    takes : by vector register that the program reads first, the operation of its layer that wrote it
    """

    unit: Unit
    fields: dict[str, int]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    layer: int
    wait: dict[Unit, int] = field(default_factory=dict)
    post: dict[Unit, int] = field(default_factory=dict)
    after: "list[Operation]" = field(default_factory=list)
    uops: tuple[Mapping[str, int], ...] = ()
    folds: tuple[tuple[Mapping[str, int], ...], ...] = ()
    meaning: Meaning | None = None
    takes: "dict[int, Operation]" = field(default_factory=dict)


@dataclass(frozen=True)
class FoldWrite:
    """Entry `step` of the array's folding table, a mapping of fields for each feed."""

    unit: ClassVar[Unit] = Unit.ARRAY
    step: int
    feeds: tuple[Mapping[str, int], ...]


@dataclass(frozen=True)
class UopWrite:
    """Micro-operation `index`; absent fields are 0."""

    unit: ClassVar[Unit] = Unit.VECTOR
    index: int
    values: Mapping[str, int]


@dataclass(frozen=True)
class Commands:
    """A stream as the accelerator reads it.

    Members
    -------
    data : its bytes, with END
    words : 32-bit words of each item, in order; END is one more
    """

    data: bytes
    words: tuple[int, ...]


@dataclass
class Stream:
    """Collects operations and writes of tables, then assembles them.

    Members
    -------
    names : each layer's name in messages
    items, by_unit : operations and table writes in program order; only operations, by unit
    work : extra compile time of operations with many tiles, counted in operations
    """

    config: Config
    names: Sequence[str] = ()
    work: int = 0
    items: list[Operation | FoldWrite | UopWrite] = field(default_factory=list)
    by_unit: dict[Unit, list[Operation]] = field(default_factory=lambda: {u: [] for u in _UNITS})
    _history: dict[Unit, History] = field(default_factory=lambda: {u: History() for u in _UNITS})
    _synced: dict[tuple[Unit, Unit], int] = field(default_factory=dict)
    #: By posting and taking unit: the operations that take; for each posting operation, those it knows to be done.
    _takers: dict[tuple[Unit, Unit], list[int]] = field(default_factory=dict)
    _known: dict[tuple[Unit, Unit], list[int]] = field(default_factory=dict)
    _uops: dict[int, Mapping[str, int]] = field(default_factory=dict)
    _folds: dict[int, tuple[Mapping[str, int], ...]] = field(default_factory=dict)
    #: By layer and vector register, its last writer. The uses of programs, until a micro-operation is written.
    _owners: dict[tuple[int, int], Operation] = field(default_factory=dict)
    _uses: dict[tuple[int, ...], Uses] = field(default_factory=dict)

    def add(self, unit: Unit, fields: Mapping[str, int], reads: tuple[Access, ...], writes: tuple[Access, ...],
            layer: int, meaning: Meaning | None = None) -> Operation:
        """Append an operation and find the operations that it must wait for."""
        if len(self.items) + self.work >= MOST_COMMANDS:
            raise UnsupportedError(f"{self.names[layer]} raises the model to more than {MOST_COMMANDS} commands; use a "
                                   "larger configuration or smaller tensors")
        operation = Operation(unit, dict(fields), reads, writes, layer, meaning=meaning)
        if unit is Unit.VECTOR and "last" in fields:
            self._program(operation)
        if fields.get("mode") == ArrayMode.FOLDED:
            operation.folds = tuple(self._folds[step] for step in range(fields["kernel_blocks"]))
        for other in _UNITS:
            if other is unit:
                continue
            known = self._synced.get((other, unit), -1)
            index = self._history[other].latest(reads, writes, known)
            if index > known and unit in (Unit.LOAD, Unit.STORE) and self._tokens(other, unit, index) >= _MANY_TOKENS:
                index = len(self.by_unit[other]) - 1
            takers = self._takers.get((unit, other), [])
            if len(takers) - bisect_right(takers, max(index, known)) >= _MANY_TOKENS:
                index = takers[-_MANY_TOKENS // 2]
            if index > known:
                self._wait(operation, other, index)
            self._known.setdefault((unit, other), []).append(max(index, known))
        self._history[unit].add(len(self.by_unit[unit]), reads, writes)
        self.by_unit[unit].append(operation)
        self.items.append(operation)
        return operation

    def _program(self, operation: Operation) -> None:
        """Record the program of a vector operation, and the writers of the registers that it reads first."""
        f = operation.fields
        operation.uops = tuple(self._uops[index] for index in range(f["first"], f["last"] + 1))
        key = f["first"], f["last"], f["body_first"], f["body_last"], register_span(f, self.config)
        if key not in self._uses:
            self._uses[key] = uses(operation.uops, body_of(f), key[-1])
        for register in self._uses[key].found:
            if (operation.layer, register) in self._owners:
                operation.takes[register] = self._owners[operation.layer, register]
        for register in self._uses[key].left:
            self._owners[operation.layer, register] = operation

    def _tokens(self, poster: Unit, taker: Unit, index: int) -> int:
        """Return the most tokens of `poster` that `taker` may hold when operation `index` of `poster` is done."""
        takers = self._takers.get((poster, taker), [])
        return len(takers) - bisect_right(takers, self._known[poster, taker][index])

    def _wait(self, operation: Operation, other: Unit, index: int) -> None:
        producer = self.by_unit[other][index]
        self._takers.setdefault((other, operation.unit), []).append(len(self.by_unit[operation.unit]))
        producer.post[operation.unit] = producer.post.get(operation.unit, 0) + 1
        operation.wait[other] = operation.wait.get(other, 0) + 1
        operation.after.append(producer)
        self._synced[other, operation.unit] = index

    def fold(self, step: int, feeds: tuple[Mapping[str, int], ...]) -> None:
        """Write an entry of the folding table at this point."""
        self._folds[step] = feeds
        self.items.append(FoldWrite(step, feeds))

    def uop(self, index: int, values: Mapping[str, int]) -> None:
        """Write a micro-operation at this point."""
        self._uops[index] = values
        self._uses.clear()
        self.items.append(UopWrite(index, values))

    @property
    def operations(self) -> list[Operation]:
        """Operations of all units in program order."""
        return [item for item in self.items if isinstance(item, Operation)]

    def assemble(self) -> Commands:
        """Encode the stream; raise UnsupportedError if a value is too large for its field."""
        assembler = Assembler(self.config)
        ends = [0]
        for item in self.items:
            match item:
                case Operation():
                    tokens = {f"wait_{u.name.lower()}": n for u, n in item.wait.items()}
                    tokens |= {f"post_{u.name.lower()}": n for u, n in item.post.items()}
                    try:
                        assembler.run(item.unit, item.fields | tokens)
                    except EncodeError as error:
                        raise UnsupportedError(f"{self.names[item.layer]} is too large for one command of the "
                                               f"{item.unit.name.lower()} unit: {error}") from error
                case FoldWrite():
                    assembler.fold(item.step, item.feeds)
                case UopWrite():
                    assembler.uop(item.index, item.values)
            ends.append(len(assembler.words))
        assembler.end()
        return Commands(assembler.to_bytes(), tuple(end - begin for begin, end in pairwise(ends)))

    def runs_of(self, owners: Sequence[int]) -> dict[int, dict[str, tuple[tuple[int, int], ...]]]:
        """Ranges of RUN indices by owner and unit name; `owners` has the owner of each layer."""
        found: dict[int, dict[str, tuple[tuple[int, int], ...]]] = {}
        for unit, operations in self.by_unit.items():
            ranges: dict[int, list[tuple[int, int]]] = {}
            for index, operation in enumerate(operations):
                own = ranges.setdefault(owners[operation.layer], [])
                if own and own[-1][1] == index - 1:
                    own[-1] = (own[-1][0], index)
                else:
                    own.append((index, index))
            for owner, own in ranges.items():
                found.setdefault(owner, {})[unit.name.lower()] = tuple(own)
        return found
