"""The machine's state during a replay, with a number in place of every byte."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tq_hw.compiler.ir.meaning import Part, Scratch, Sums, Terms
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.stream.stream import Operation
from tq_hw.compiler.verify.areas import ADDRESSES, Area
from tq_hw.compiler.verify.coded import DecodedRows
from tq_hw.compiler.verify.collected import Collected
from tq_hw.compiler.verify.contents import Contents
from tq_hw.compiler.verify.found import Found
from tq_hw.compiler.verify.memory import MemoryBytes
from tq_hw.compiler.verify.numbers import NOTHING, Bytes, Index, Numbers
from tq_hw.compiler.verify.order import Late, Order, Pending, Runs, Touched, stored_runs
from tq_hw.compiler.verify.pad import MIXED, Pad
from tq_hw.isa.config import Config
from tq_hw.isa.layout import UNITS, Unit
from tq_hw.isa.legality import TABLE_BYTES
from tq_hw.model.errors import DataflowError

__all__ = ["Buffers", "Machine", "Region"]

_MIXED = np.int64(MIXED).tobytes()
#: Absent fields of an operation are 0.
_ABSENT = {unit: dict.fromkeys(layout.fields, 0) for unit, layout in UNITS.items()}


@dataclass
class Region:
    """One memory region: the numbers of its bytes, and the loads and stores not yet known to be done."""

    bytes: MemoryBytes
    pending: dict[Unit, Pending]


@dataclass
class Buffers:
    """Accumulator buffers that one operation of the array fills, in order.

    Members
    -------
    block, first, last : output block and slots of each buffer
    sums : their contents by the operations' meaning; None: `bytes`, [block, slot, column]
    parts : operations that added to them
    taken : number of buffers that the vector unit has read
    """

    block: Index
    first: Index
    last: Index
    sums: Sums | None
    bytes: Bytes | None
    parts: list[Part | Terms]
    taken: int = 0


@dataclass
class Machine:
    """Memories, tables and registers during the replay of a stream in program order.

    Members
    -------
    rows : decoded bytes of the image's coded runs
    pad : the scratchpad
    regions : the arena and the state, by number
    operation, fields : the current operation, and all of its fields
    registers, register_slots, owners : the operation that wrote each vector register, its slots, and the first register
        of the vector; wide : bytes of int16 or int32 that were moved into register 0
    collected : by layer, the elements that registers have collected
    tables : bytes of all entries of the table
    """

    config: Config
    numbers: Numbers
    contents: Contents
    names: list[str]
    rows: DecodedRows
    pad: Pad = field(init=False)
    regions: dict[int, Region] = field(default_factory=dict)
    order: Order = field(default_factory=Order)
    operation: Operation = field(init=False)
    fields: dict[str, int] = field(init=False)
    full: deque[Buffers] = field(default_factory=deque)
    open: Buffers | None = None
    registers: dict[int, Operation] = field(default_factory=dict)
    register_slots: dict[int, int] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    wide: Bytes | None = None
    collected: dict[int, Collected] = field(default_factory=dict)
    tables: Bytes = field(init=False)
    uops: dict[int, Mapping[str, int]] = field(default_factory=dict)
    folds: dict[int, tuple[Mapping[str, int], ...]] = field(default_factory=dict)
    #: Number of writes of micro-operations, of the folding table and of the table.
    versions: dict[str, int] = field(default_factory=lambda: {"uops": 0, "folds": 0, "table": 0})

    #: Addresses of a folding plan's rows and pieces, by the plan and the number of table writes.
    fold_tables: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    #: Keys of successful checks that need not be repeated.
    checked: set[tuple[int, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Initialize all state as not written."""
        words = self.config.scratchpad_words
        self.tables = np.full(TABLE_BYTES, NOTHING, self.numbers.dtype)
        self.pad = Pad(words, self.config.word_bytes, self.numbers.dtype)
        self._touched = Touched(words)
        self._scratch: dict[int, int] = {}
        self._read: list[Index | Late] = []
        self._seen: tuple[tuple[object, ...], int] = ((), -1)
        self._right: dict[tuple[object, ...], set[bytes]] = {}
        self._log: list[tuple[Operation, int]] = []

    def add_region(self, number: int, size: int) -> None:
        """Add an unwritten memory region."""
        self.regions[number] = Region(MemoryBytes(size, self.config.word_bytes, self.numbers.dtype),
                                      {Unit.LOAD: Pending(), Unit.STORE: Pending()})

    def begin(self, operation: Operation) -> None:
        """Advance to the next operation."""
        self.operation, self.fields = operation, _ABSENT[operation.unit] | operation.fields
        self._log.append((operation, self.order.runs[operation.unit] + 1))

    # Scratchpad

    def words(self, words: Index) -> Index:
        """Return addresses modulo 2^16, and record that the current operation reads them."""
        words = words & ADDRESSES - 1
        self._read.append(words)
        return words

    def there(self, words: Index, what: str) -> Bytes:
        """Return the bytes of words, [..., byte]."""
        try:
            return self.pad.bytes(words)
        except IndexError:
            raise DataflowError(f"{what} needs scratchpad word {int(words.max())} of {self._touched.size}") from None

    def read(self, words: Index, what: str) -> Bytes:
        """Return the bytes at addresses that the current operation reads, [..., byte]."""
        return self.there(self.words(words), what)

    def exists(self, area: Area) -> bool:
        """Whether all words of an area exist."""
        return area.low >= 0 and area.high <= self._touched.size

    def reads(self, area: Area) -> None:
        """Record that the current operation reads existing words."""
        late = self._touched.read(self.order, area)
        if late is not None:
            self._read.append(late)

    def write(self, words: Index, low: int, values: Bytes, what: str) -> None:
        """Write bytes from `low` on of words."""
        words = words & ADDRESSES - 1
        try:
            self.pad.put(words, low, values)
        except IndexError:
            raise DataflowError(f"{what} goes to scratchpad word {int(words.max())} of {self._touched.size}") from None
        self._in_order(self._touched.touch(self.order, words, True), True, "scratchpad word")

    def write_codes(self, area: Area, codes: Index) -> None:
        """Write existing, distinct words by their codes."""
        there = area.view(self.pad.codes)
        there[...] = codes.reshape(there.shape)
        late = self._touched.write(self.order, area)
        if late is not None:
            self._in_order(late, True, "scratchpad word")

    def end(self) -> None:
        """Check that all reads of the operation are ordered after the writes."""
        if self._read:
            for read in self._read:
                late = read if isinstance(read, tuple) else self._touched.touch(self.order, read, False)
                self._in_order(late, False, "scratchpad word")
            self._read.clear()

    def left(self) -> Bytes:
        """Return the scratchpad for the next inference, in which only constants are valid."""
        there = self.pad.all()
        return np.where(self.numbers.stale(there), np.asarray(NOTHING, there.dtype), there)

    def _in_order(self, late: Late | None, writes: bool, what: str) -> None:
        if late is not None:
            where, unit, run, wrote = late
            raise DataflowError(f"{what} {where} is {'written' if writes else 'read'}, and no token orders this after "
                                f"RUN {run} of the {unit.name.lower()} unit, which {'writes' if wrote else 'reads'} it")

    def touch_bytes(self, number: int, runs: Runs, writes: bool) -> None:
        """Record accesses to runs of a region, after a check that the runs exist and the accesses are ordered.

        The accesses are reads of the load unit or writes of the store unit.
        """
        region = self.regions.get(number)
        there = 0 if region is None else region.bytes.size
        if region is None or runs.low < 0 or runs.high > there:
            raise DataflowError(f"bytes {runs.low}..{runs.high - 1} of region {number} are "
                                f"{'written' if writes else 'read'}; the region has {there} bytes")
        other = Unit.LOAD if writes else Unit.STORE
        late = region.pending[other].late(self.order.known[other], runs)
        if late is not None:
            self._in_order((late[0], other, late[1], not writes), writes, f"byte of region {number},")
        region.pending[self.order.unit].add(self.order.run, runs)

    def writer_of(self, region: int, byte: int) -> str:
        """Describe the store that wrote a byte of a region last."""
        for number, (operation, _) in reversed(list(enumerate(self._log))):
            f = _ABSENT[operation.unit] | operation.fields
            if operation.unit is Unit.STORE and f["region"] == region:
                runs = stored_runs(f)
                offsets = runs.offsets()
                if ((offsets <= byte) & (byte < offsets + runs.size)).any():
                    return f"written by {self.title(number)}"
        return "never written"

    # Contents

    def seen(self, key: tuple[object, ...], area: Area) -> bool:
        """Whether the same check succeeded before, in words that were not written since then."""
        last, self._seen = self._seen, (key, self.order.number)
        return last[0] == key and self._touched.newest(area.low, area.high) < last[1]

    def right(self, key: tuple[object, ...], area: Area) -> bool:
        """Whether existing words have codes that were recorded under a key."""
        return area.view(self.pad.codes).tobytes() in self._right.get(key, ())

    def note_right(self, key: tuple[object, ...], area: Area) -> None:
        """Record that words with these codes have the contents of a key, which is permanent for constants."""
        codes = area.view(self.pad.codes).tobytes()
        if _MIXED not in codes:
            self._right.setdefault(key, set()).add(codes)

    def holds(self, area: Area, codes: Index) -> bool:
        """Whether existing words have these codes; if not, they may still have the same bytes."""
        return area.view(self.pad.codes).tobytes() == codes.tobytes()

    def expect(self, found: Bytes, wanted: Bytes, words: Index | Area, what: str) -> None:
        """Refuse words whose bytes differ from `wanted`, except where that is NOTHING; `words`: their addresses."""
        wrong = found != wanted
        if not wrong.any():
            return
        wrong &= wanted != NOTHING
        if not wrong.any():
            return
        at = tuple(int(axis) for axis in np.argwhere(wrong)[0])
        if isinstance(words, Area):
            words = words.places()
        word = int(np.broadcast_to(words[..., None], found.shape)[at]) & ADDRESSES - 1
        should, instead = (self.numbers.describe(int(numbers[at])) for numbers in (wanted, found))
        raise DataflowError(f"{what} at scratchpad word {word}, byte {at[-1]}, should be {should}; it is {instead}, "
                            f"{self.written_by(word)}")

    def written_by(self, word: int) -> str:
        """Describe the last writer of a word."""
        number = int(self._touched.writers(np.asarray(word)))
        return "never written" if number < 0 else f"written by {self.title(number)}"

    def title(self, number: int = -1) -> str:
        """Describe the operation with a number in program order; -1: the current one."""
        operation, run = self._log[number]
        return f"RUN {run} of the {operation.unit.name.lower()} unit for {self.names[operation.layer]}"

    def found(self, value: Value, made: bool) -> Found:
        """Return the contents of a value that the current operation's layer reads, or with `made` writes."""
        layer = self.operation.layer
        return self.contents.made(layer, value) if made else self.contents.find(layer, value)

    def scratch(self, scratch: Scratch) -> int:
        """Return the first number of a layer's intermediate bytes."""
        if id(scratch) not in self._scratch:
            self._scratch[id(scratch)] = self.numbers.allocate(scratch.size_bytes, scratch.name,
                                                               self.names[self.operation.layer])
        return self._scratch[id(scratch)]
