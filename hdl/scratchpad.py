"""The scratchpad: four banks, and the arbitration of their ports.

    client         kind    order in each bank
    feed0, 1, 2    read    first, never wait; two of them in one bank: the array unit's BANK_CONFLICT
    weights        read    second
    a, b           read    third, fourth
    store          read    last
    out            write   first, never waits
    load           write   last

Bank = address mod 4. Each bank reads one word and writes one word per cycle. With `shares_ports` store goes only
where b asks for nothing, and load where out writes nothing, whatever their banks: they share a way to the banks.
"""

from typing import Any

from amaranth import Array, Const, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.block_memory import block_memory, block_read
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.signatures import ReadSignature, WriteSignature, bank_of, granted
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.latency import ARRAY_READ_LATENCY_CYCLES, BANK_KNOWN_CYCLES, READ_LATENCY_CYCLES, shares_ports

__all__ = ["READ_CLIENTS", "Scratchpad"]

_ARRAY = ("feed0", "feed1", "feed2", "weights")
#: Read clients in order of priority.
READ_CLIENTS = (*_ARRAY, "a", "b", "store")
_WRITE_CLIENTS = ("out", "load")
_BANK_BITS = ceil_log2(BANKS)


class Scratchpad(wiring.Component):
    """Word memory of `config.scratchpad_words` words of `config.word_bytes` bytes.

    Reads take READ_LATENCY_CYCLES = 3, and the data is valid for one cycle. Reads of the array unit take
    ARRAY_READ_LATENCY_CYCLES = 5: their requests block other clients one cycle later, and their data passes another
    register. A read granted after a write of the same word returns the new word. A read granted in the same cycle
    as the write (for the array unit, also in the cycle before) returns undefined bytes.

    Members
    -------
    feed0, feed1, feed2, weights, a, b, store : In(ReadSignature)
    out, load : In(WriteSignature)
    """

    feed0: Any
    feed1: Any
    feed2: Any
    weights: Any
    a: Any
    b: Any
    store: Any
    out: Any
    load: Any

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            **{name: In(ReadSignature(config)) for name in READ_CLIENTS},
            **{name: In(WriteSignature(config)) for name in _WRITE_CLIENTS},
        })

    def elaborate(self, platform: object) -> Module:
        """Build the banks and their arbitration."""
        m = Module()
        config = self._config
        rows = config.scratchpad_words // BANKS
        row_bits = ceil_log2(rows)
        banks = []
        for index in range(BANKS):
            bank = block_memory(8 * config.word_bytes, rows)
            m.submodules[f"bank{index}"] = bank
            banks.append((bank, bank.write_port(granularity=8)))

        self._read_side(m, [bank for bank, _ in banks], row_bits)
        self._write_side(m, [write for _, write in banks], row_bits)

        for name in (*READ_CLIENTS, *_WRITE_CLIENTS):
            port = getattr(self, name)
            goes = port.grant if name in _WRITE_CLIENTS else granted(port)
            m.d.sync += port.beyond.eq(port.en & goes & (port.addr >> _BANK_BITS + row_bits).any())
        return m

    def _read_side(self, m: Module, banks: list[Any], row_bits: int) -> None:
        ports = {name: getattr(self, name) for name in READ_CLIENTS}
        # The bank that each client wants, and the row in it. The array unit's requests are arbitrated before their
        # registers, by `wants`. The other clients' banks are decoded here, apart from their grants.
        wants = {name: port.wants if name in _ARRAY else bank_of(port.en, port.addr) for name, port in ports.items()}
        rows = {name: port.addr[_BANK_BITS:_BANK_BITS + row_bits] for name, port in ports.items()}
        by_array: Value = Const(0, BANKS)
        for name in _ARRAY:
            port, wanted = ports[name], Signal(BANKS, name=f"{name}_wanted")
            m.d.comb += wanted.eq(wants[name] & ~by_array)
            if name == "weights":
                m.d.comb += port.taken.eq(by_array)
            by_array = by_array | wants[name]
            wants[name] = delayed(m, wanted, 1, f"{name}_want", control=True)
            rows[name] = delayed(m, rows[name], 1, f"{name}_row")
        taken_by_array = delayed(m, by_array, 1, "by_array", control=True)

        shared = shares_ports(self._config)
        found = []
        for index, bank in enumerate(banks):
            taken: Value = taken_by_array[index]
            row: Value = Const(0, row_bits)
            for name in ports:
                chosen: Any = wants[name][index]
                if name not in _ARRAY:
                    chosen = Signal(name=f"bank{index}_{name}")
                    before_it = taken | self.b.en if shared and name == "store" else taken
                    m.d.comb += chosen.eq(wants[name][index] & ~before_it)
                    taken = taken | wants[name][index]
                row = row | rows[name] & chosen.replicate(row_bits)
            # A read that collides with a write of the same row may return anything.
            address = Signal(row_bits, name=f"bank{index}_address", reset_less=True)
            m.d.sync += address.eq(row)
            word = block_read(m, bank, delayed(m, taken, 1, f"bank{index}_read", control=True), address,
                              f"bank{index}_word")
            found.append(delayed(m, word, 1, f"bank{index}_found"))
        # Cycle 1: to the bank. Cycle 2: the memory's access time. Cycle 3: from the output register to the client,
        # through one level of logic. The array needs the whole cycle after it for the word.
        # Grants come from `wants` and from a register without reset, so that none shares logic with the reads.
        before = delayed(m, by_array, 1, "before")
        for name, port in ports.items():
            late = READ_LATENCY_CYCLES + BANK_KNOWN_CYCLES * (name in _ARRAY)
            if shared and name == "store":
                m.d.comb += [port.data.eq(self.b.data), port.taken.eq(before | self.b.en.replicate(BANKS))]
                continue
            number = port.addr[:_BANK_BITS]
            if shared and name == "b":
                number = Mux(port.en, number, self.store.addr[:_BANK_BITS])
            word = Array(found)[delayed(m, number, late, f"bank_{name}")]
            m.d.comb += port.data.eq(
                delayed(m, word, ARRAY_READ_LATENCY_CYCLES - late if name in _ARRAY else 0, f"{name}_word"))
            if name not in _ARRAY:
                m.d.comb += port.taken.eq(before)
                before = before | port.wants

    def _write_side(self, m: Module, banks: list[Any], row_bits: int) -> None:
        out, load, shared = self.out, self.load, shares_ports(self._config)
        collide = out.en if shared else out.en & (out.addr[:_BANK_BITS] == load.addr[:_BANK_BITS])
        m.d.comb += [out.grant.eq(1), load.grant.eq(~collide)]
        for index, bank in enumerate(banks):
            by_out = out.en & (out.addr[:_BANK_BITS] == index)
            by_load = load.en & (load.addr[:_BANK_BITS] == index)
            if shared:
                by_load = by_load & ~out.en
            # With a shared port all banks have the same address and word, in one register after synthesis.
            chosen = out.en if shared else by_out
            port_addr = Mux(chosen, out.addr, load.addr)[_BANK_BITS:_BANK_BITS + row_bits]
            # One register stage: arbitration in this cycle, write in the next.
            m.d.sync += [
                bank.addr.eq(port_addr),
                bank.data.eq(Mux(chosen, out.data, load.data)),
                bank.en.eq(Mux(by_out, out.mask, Mux(by_load, load.mask, 0))),
            ]
