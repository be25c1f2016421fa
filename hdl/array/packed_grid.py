"""The multipliers with two products each: two slots of a row share its weight, and two rows share a cell.

In one cycle a cell multiplies the bytes of two slots by the weight of its first row; in the next, the bytes of the same
slots by the weight of its second row. It does the work of two cells of grid.py at the same rate.
"""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib.memory import Memory

from tq_hw.hdl.array.packed_cell import HIGH_BITS, PackedCell, PackedSums
from tq_hw.hdl.array.packed_rows import Pair, packed_chains
from tq_hw.hdl.parts.block_memory import block_read
from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.config import Config
from tq_hw.isa.latency import PACKED_CELL_CYCLES, PACKED_OPERAND_CYCLES, packed_chain_cells

__all__ = ["PackedGrid"]

#: Cycles from a port of the array to the pairs of row bytes. The operands of the first cell follow one cycle later.
_PAIR_CYCLES = PACKED_OPERAND_CYCLES - 1


class PackedGrid:
    """Build the contents of a MacArray. Cycle 0 is the one in which the first slot of a pair is at the ports.

    Members
    -------
    half : which slot of a pair is at the ports, 0 or 1; `_half(n)` is the same n cycles ago
    """

    def __init__(self, config: Config, array: Any) -> None:
        self._config, self._array = config, array
        self._m = Module()
        second = Signal(name="second")
        half = Signal(name="half")
        # A step begins with the first slot of a pair, whatever came before.
        self._m.d.comb += half.eq(second & ~array.swap)
        self._m.d.sync += second.eq(~half)
        self._halves: list[Value] = [half]
        self._rows: dict[int, list[Any]] = {}
        self._columns: dict[int, list[list[Any]]] = {}
        self._weight = delayed(self._m, array.weight.as_value(), _PAIR_CYCLES, "weight")

    def build(self) -> Module:
        """Build rows and columns, then the cells of each chain, then the sums."""
        m, config, array = self._m, self._config, self._array
        chains = packed_chains(config)
        for chain in chains:
            for position, pair in chain.items():
                for row in pair:
                    if row is not None and row % 3 == 0 and row // 3 < config.groups:
                        self._column_bytes(row // 3, position)
        weight_row = delayed(m, array.weight_row, _PAIR_CYCLES, "weight_row", control=True)
        swap = delayed(m, array.swap, _PAIR_CYCLES, "swap", control=True)
        swaps: list[Any] = [swap]
        for position in range(1, packed_chain_cells(config)):
            swaps.append(delayed(m, swaps[-1], 1, f"swap{position}", control=True))
        sums: list[list[Any]] = []
        for number, chain in enumerate(chains):
            above: list[Any] = [None] * config.cols
            for position, pair in chain.items():
                writes = [Const(0) if row is None else weight_row[row] for row in pair]
                weights, idle = self._weights(position, pair, writes, swaps[position])
                above = self._cells(position, pair, weights, idle, above)
            sums.append([self._apart(cell, f"sums{number}_{c}") for c, cell in enumerate(above)])
        self._add(sums)
        return m

    def _half(self, cycles: int) -> Value:
        """Return which slot of a pair was at the ports `cycles` cycles ago."""
        while len(self._halves) <= cycles:
            self._halves.append(delayed(self._m, self._halves[-1], 1, f"half{len(self._halves)}"))
        return self._halves[cycles]

    def _row_bytes(self, row: int, cycles: int) -> Any:
        """Return a row's byte as high half and as low half, and `sel`, 1 + `cycles` after the port.

        A row that takes the column byte has 0 here; as low half, -128.
        """
        m, array = self._m, self._array
        if row not in self._rows:
            byte, sel = array.a[row], array.sel[row] if row // 3 < self._config.groups else None
            first = Signal(10, name=f"row{row}", reset_less=True)
            word = Cat(byte.as_unsigned()[:7], byte[7], byte[7], 0) if sel is None else Cat(
                Mux(sel, 0, byte[:7]), byte[7] & ~sel, byte[7] | sel, sel)
            m.d.sync += first.eq(word)
            self._rows[row] = [first]
        known = self._rows[row]
        while len(known) <= cycles:
            known.append(delayed(m, known[-1], 1, f"row{row}_{len(known)}"))
        return known[cycles]

    def _column_bytes(self, group: int, position: int) -> None:
        """Delay the column bytes of a group until the cell at a position takes them; the newest come first."""
        m, config, array = self._m, self._config, self._array
        now = [delayed(m, array.x[group * config.cols + c], _PAIR_CYCLES - 1 + position, f"x{group}_{c}")
               for c in range(config.cols)]
        self._columns[group] = [now, [delayed(m, byte, 1, f"x{group}_{c}_before") for c, byte in enumerate(now)]]

    def _weights(self, position: int, pair: Pair, writes: list[Value], swap: Value) -> tuple[Any, Value]:
        """Return the weights of a cell's row in each column, and whether it has none, in time for the multipliers.

        The rows of a cell keep their weights in a block RAM: those in use on one side, the next ones on the other.
        """
        m, config, name = self._m, self._config, f"weights{position}_{'_'.join(map(str, pair))}"
        attributes: Any = {"ram_style": "block", "no_rw_check": 1}
        memory: Any = Memory(shape=8 * config.cols, depth=4, init=[], attrs=attributes)
        m.submodules[name] = memory
        write = memory.write_port()
        before, side = Signal(name=f"before_{name}"), Signal(name=f"side_{name}")
        # A word is at the multipliers in the cycle after its address.
        second = self._half(_PAIR_CYCLES + position)
        m.d.comb += [side.eq(before ^ swap), write.en.eq(Cat(writes).any()), write.addr.eq(Cat(writes[1], ~side)),
                     write.data.eq(self._weight)]
        m.d.sync += before.eq(side)
        lacks = []
        for row, written in enumerate(writes):
            loaded, active = Signal(name=f"loaded{row}_{name}"), Signal(name=f"active{row}_{name}")
            m.d.sync += loaded.eq(written | loaded & ~swap)
            with m.If(swap):
                m.d.sync += active.eq(loaded)
            lacks.append(~Mux(swap, loaded, active))
        idle = Signal(name=f"idle_{name}", reset_less=True)
        m.d.sync += idle.eq(Mux(second, lacks[1], lacks[0]))
        return block_read(m, memory, 1, Cat(second, side), f"word_{name}"), idle

    def _operand(self, position: int, pair: Pair) -> tuple[Value, Value, Value, Value]:
        """Return a cell's row operand, the two low bits of its high byte, and which halves take column bytes.

        The last two are one cycle earlier, for the registers of the column bytes.
        """
        m, second = self._m, self._half(_PAIR_CYCLES - 1 + position)
        high, low = Signal(10, name=f"high{position}", reset_less=True), Signal(10, name=f"low{position}",
                                                                                reset_less=True)
        # The second slot's byte is the high half because it came last. The second row follows the first a cycle later.
        first, then = (None if row is None else [self._row_bytes(row, position + later + n) for n in range(2)]
                       for later, row in enumerate(pair))
        for half, n in ((high, 0), (low, 1)):
            m.d.sync += half.eq(then[n] if first is None and then is not None else first[n] if then is None
                                and first is not None else Mux(second, then[n], first[n]))  # type: ignore[index]
        row = Signal(signed(25), name=f"operand{position}", reset_less=True)
        row_high = Signal(2, name=f"operand{position}_high", reset_less=True)
        sign, high_byte = low[8], high[:8].as_signed()
        m.d.sync += [row.eq(Cat(low[:7], sign.replicate(9), (high_byte - sign)[:9]).as_signed()),
                     row_high.eq(high[:2])]
        return row, row_high, high[9], low[9]

    def _cells(self, position: int, pair: Pair, weights: Any, idle: Value, above: list[Any]) -> list[Any]:
        """Add a cell to each column of a chain; return them."""
        m, config = self._m, self._config
        row, row_high, takes_high, takes_low = self._operand(position, pair)
        groups = [None if r is None or r // 3 >= config.groups else r // 3 for r in pair]
        known = [g for g in groups if g is not None]
        # Which cycle of the pair it is when the column operands are selected.
        making = self._half(_PAIR_CYCLES + position)
        found = []
        for c in range(config.cols):
            cell: Any = PackedCell(columns=bool(known))
            m.submodules[f"cell_{'_'.join(str(r) for r in pair if r is not None)}_{c}"] = cell
            if known:
                last, before = (self._columns[known[0]][n][c] if len(set(known)) == 1 else
                                Mux(making, self._columns[known[1]][n][c], self._columns[known[0]][n][c])
                                for n in range(2))
                x_high = Signal(signed(8), name=f"x_high{position}_{c}", reset_less=True)
                x_low = Signal(8, name=f"x_low{position}_{c}", reset_less=True)
                m.d.sync += [x_high.eq(Mux(takes_high, last, 0)),
                             x_low.eq(Mux(takes_low, before.as_unsigned() ^ 0x80, 0))]
                m.d.comb += [cell.x_high.eq(x_high), cell.x_low.eq(x_low)]
            m.d.comb += [cell.row.eq(row), cell.row_high.eq(row_high), cell.weight.eq(weights.word_select(c, 8)),
                         cell.idle.eq(idle)]
            if above[c] is not None:
                m.d.comb += [cell.above.eq(above[c].total), cell.above_high.eq(above[c].total_high)]
            found.append(cell)
        return found

    def _apart(self, cell: Any, name: str) -> Any:
        """Return the sums of a chain, separated by slot."""
        sums: Any = PackedSums()
        self._m.submodules[name] = sums
        self._m.d.comb += [sums.total.eq(cell.total), sums.total_high.eq(cell.total_high)]
        return sums

    def _add(self, chains: list[list[Any]]) -> None:
        """Add the sums of first and second rows, slot after slot, with one adder per column."""
        m, config = self._m, self._config
        cycles = PACKED_OPERAND_CYCLES + packed_chain_cells(config) - 1 + PACKED_CELL_CYCLES + len(chains) + 1
        high_slot = self._half(cycles)
        for c in range(config.cols):
            low, high = self._sum([chain[c].low for chain in chains], f"low{c}"), self._sum(
                [chain[c].high for chain in chains], f"high{c}")
            low_before = delayed(m, low, 1, f"low{c}")
            high_then = delayed(m, high, 1, f"high{c}")
            high_before = delayed(m, high_then, 1, f"high{c}_then")
            total = Signal(signed(config.partial_sum_bits), name=f"total{c}", reset_less=True)
            m.d.sync += total.eq(Mux(high_slot, high_then, low) + Mux(high_slot, high_before, low_before))
            m.d.comb += self._array.psum[c].eq(total)

    def _sum(self, values: list[Any], name: str) -> Any:
        """Return the sum over the chains, registered if there is more than one."""
        if len(values) == 1:
            return values[0]
        total = Signal(signed(HIGH_BITS + 1), name=name, reset_less=True)
        self._m.d.sync += total.eq(sum(values[1:], values[0]))
        return total
