"""Tables of the vector unit: they come whole, or in pieces while it would wait for the array."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tq_hw.compiler.emit.basis import Basis
from tq_hw.compiler.emit.image import table_words
from tq_hw.compiler.ir.meaning import Meaning
from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.plan.layout import GRANULE_WORDS
from tq_hw.compiler.stream.stream import Access, Operation
from tq_hw.isa.layout import VectorKind
from tq_hw.isa.legality import TABLE_BYTES, TABLE_ENTRIES

__all__ = ["Tables"]

_ENTRY_BYTES = TABLE_BYTES // TABLE_ENTRIES
#: Entries of a piece: about as many cycles as the array takes for the weights of an operation.
_PIECE_ENTRIES = 64


@dataclass
class Tables(Basis):
    """The state of an emission, with what is in the tables 1 and 2, and pieces that are to come: first entry, bytes."""

    _tables: list[bytes | None] = field(default_factory=lambda: [None, None])
    _pieces: list[tuple[int, bytes]] = field(default_factory=list)
    #: Whether an operation of the array has come since the first piece began to wait.
    _computes: bool = False

    def tables(self, contents: tuple[IntArray | None, IntArray | None], *, between: bool = False) -> None:
        """Bring the contents of tables 1 and 2 into the vector unit.

        With `between`, in pieces before the second operation of the array that follows, and before each one after it.
        `all_tables` ends that, or the next call.
        """
        wanted = [(number, table) for number, table in enumerate(contents) if table is not None]
        if not wanted:
            return
        self.all_tables()
        for number, table in wanted:
            data = table_words(np.asarray(table), self.config)
            if self._tables[number] == data:
                continue
            self._tables[number] = data
            # A small scratchpad's ring holds only a part of a table at a time.
            size = min(len(data), self.ring_words() // GRANULE_WORDS * GRANULE_WORDS * self.config.word_bytes)
            size = min(size, _PIECE_ENTRIES * _ENTRY_BYTES) if between else size
            self._pieces += [(number * TABLE_ENTRIES // 2 + first // _ENTRY_BYTES, data[first:first + size])
                             for first in range(0, len(data), size)]
        self._computes = False
        if not between:
            self.all_tables()

    def all_tables(self) -> None:
        """Bring the pieces that are to come."""
        while self._pieces:
            self._next_piece()

    def array(self, fields: Mapping[str, int], reads: tuple[Access, ...], meaning: Meaning | None = None) -> Operation:
        """Emit an array operation, after a piece of a table where one waits for it and the ring has room.

        So what the piece waits for stands before the operation whose sums the vector unit takes after it.
        """
        if self._pieces and self._computes and self.room_words() * self.config.word_bytes >= len(self._pieces[0][1]):
            self._next_piece()
        self._computes = True
        return super().array(fields, reads, meaning)

    def _next_piece(self) -> None:
        first, data = self._pieces.pop(0)
        entries = len(data) // _ENTRY_BYTES
        with self.scope():
            base, access = self.constant(data, self.config.word_bytes)
            self.vector({"kind": VectorKind.LOAD_TABLE, "a_base": base, "a_col_step": 1, "slots": entries,
                         "cols": entries, "out_blocks": 1, "tile_slots": entries, "chunk_slots": entries,
                         "repeat1": 1, "repeat2": 1, "table_first": first}, (access,), ())
