"""Tables of the vector unit: loaded whole, or in pieces while the unit waits for the array."""

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
#: Entries of a piece: their load takes about as many cycles as the array's for the weights of an operation.
_PIECE_ENTRIES = 64


@dataclass
class Tables(Basis):
    """The state of an emission with the contents of tables 1 and 2, and the pending pieces: first entry, bytes."""

    _tables: list[bytes | None] = field(default_factory=lambda: [None, None])
    _pieces: list[tuple[int, bytes]] = field(default_factory=list)
    #: Whether an array operation was emitted since the first piece became pending.
    _computes: bool = False

    def tables(self, contents: tuple[IntArray | None, IntArray | None], *, between: bool = False) -> None:
        """Load the contents of tables 1 and 2 into the vector unit.

        With `between`, the pieces are loaded one by one, before the second array operation from here and before each
        later one. `all_tables`, or the next call, loads the rest.
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
            # The ring of a small scratchpad has room for only a part of a table.
            size = min(len(data), self.ring_words() // GRANULE_WORDS * GRANULE_WORDS * self.config.word_bytes)
            size = min(size, _PIECE_ENTRIES * _ENTRY_BYTES) if between else size
            self._pieces += [(number * TABLE_ENTRIES // 2 + first // _ENTRY_BYTES, data[first:first + size])
                             for first in range(0, len(data), size)]
        self._computes = False
        if not between:
            self.all_tables()

    def all_tables(self) -> None:
        """Load all pending pieces."""
        while self._pieces:
            self._next_piece()

    def array(self, fields: Mapping[str, int], reads: tuple[Access, ...], meaning: Meaning | None = None) -> Operation:
        """Emit an array operation, after a pending piece of a table if the ring has room for it.

        The piece thus comes before the operation whose sums the vector unit needs next.
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
