"""The scratchpad: four banks, and who may use them in a cycle.

    client         kind    order in each bank
    feed0, 1, 2    read    first, never wait; two of them in one bank: BANK_CONFLICT
    weights        read    second
    a, b           read    third, fourth
    store          read    last
    out            write   first, never waits
    load           write   last

Bank = address mod 4. Each bank reads one word and writes one word per cycle.
"""

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.delay import delayed
from tq_hw.hdl.signatures import READ_LATENCY_CYCLES, ReadSignature, WriteSignature
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.control import Status
from tq_hw.isa.layout import Unit

__all__ = ["READ_CLIENTS", "Scratchpad"]

#: Read clients in order of priority, with the unit that an error is put down to.
READ_CLIENTS: dict[str, Unit] = {
    "feed0": Unit.ARRAY, "feed1": Unit.ARRAY, "feed2": Unit.ARRAY, "weights": Unit.ARRAY,
    "a": Unit.VECTOR, "b": Unit.VECTOR, "store": Unit.STORE,
}
_FEEDS = ("feed0", "feed1", "feed2")
_WRITE_CLIENTS: dict[str, Unit] = {"out": Unit.VECTOR, "load": Unit.LOAD}
_BANK_BITS = (BANKS - 1).bit_length()


class Scratchpad(wiring.Component):
    """Word memory of `config.scratchpad_words` words of `config.word_bytes` bytes.

    Reads take READ_LATENCY_CYCLES = 3, those of the feeds FEED_READ_LATENCY_CYCLES = 4: what the feeds ask for keeps
    the others out one cycle later. The data comes from a register through a choice of five; a client's data stays until
    its next one. A read that is granted after a write of the same word returns it. One that is granted in the same
    cycle, of a feed also one in the cycle before, returns undefined bytes.

    Members
    -------
    feed0, feed1, feed2, weights, a, b, store : In(ReadSignature)
    out, load : In(WriteSignature)
    error_load, error_array, error_vector, error_store : Out(4), strobe of a Status one cycle after the access:
        BAD_ADDRESS (beyond the last word), or two cycles after it BANK_CONFLICT (two feeds in one bank)
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
    error_load: Signal
    error_array: Signal
    error_vector: Signal
    error_store: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            **{name: In(ReadSignature(config)) for name in READ_CLIENTS},
            **{name: In(WriteSignature(config)) for name in _WRITE_CLIENTS},
            **{f"error_{unit.name.lower()}": Out(4)
               for unit in (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)},
        })

    def elaborate(self, platform: object) -> Module:
        """Build the banks and their choice."""
        m = Module()
        config = self._config
        rows = config.scratchpad_words // BANKS
        row_bits = (rows - 1).bit_length()
        banks = []
        for index in range(BANKS):
            bank: Any = memory.Memory(shape=8 * config.word_bytes, depth=rows, init=[])
            m.submodules[f"bank{index}"] = bank
            banks.append((bank.read_port(domain="comb"), bank.write_port(granularity=8)))

        conflict = Signal()
        self._read_side(m, banks, row_bits, conflict)
        self._write_side(m, [write for _, write in banks], row_bits)

        errors: dict[Unit, list[Value]] = {
            unit: [] for unit in (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)}
        for name, unit in {**READ_CLIENTS, **_WRITE_CLIENTS}.items():
            port = getattr(self, name)
            errors[unit].append(port.en & port.grant & (port.addr >> _BANK_BITS + row_bits).any())
        for unit, wrong in errors.items():
            code = Mux(Cat(*wrong).any(), Status.BAD_ADDRESS, Status.OK)
            if unit is Unit.ARRAY:
                code = Mux(conflict, Status.BANK_CONFLICT, code)
            m.d.sync += getattr(self, f"error_{unit.name.lower()}").eq(code)
        return m

    def _read_side(self, m: Module, banks: list[tuple[Any, Any]], row_bits: int, conflict: Signal) -> None:
        ports = {name: getattr(self, name) for name in READ_CLIENTS}
        width = 8 * self._config.word_bytes
        granted: dict[str, list[Value]] = {name: [] for name in ports}
        # Which bank each client wants, and where in it.
        wants = {name: Cat(port.en & (port.addr[:_BANK_BITS] == index) for index in range(BANKS))
                 for name, port in ports.items()}
        rows = {name: port.addr[_BANK_BITS:_BANK_BITS + row_bits] for name, port in ports.items()}
        for name in _FEEDS:
            wants[name] = delayed(m, wants[name], 1, f"{name}_want", control=True)
            rows[name] = delayed(m, rows[name], 1, f"{name}_row")
        clashes: list[Value] = []
        found = []
        for index, (bank, write) in enumerate(banks):
            taken: Value = Const(0, 1)
            row: Value = Const(0, row_bits)
            for name in ports:
                want = wants[name][index]
                chosen = Signal(name=f"bank{index}_{name}")
                m.d.comb += chosen.eq(want & ~taken)
                if name in _FEEDS:
                    clashes.append(want & taken)
                granted[name].append(chosen)
                row = row | rows[name] & chosen.replicate(row_bits)
                taken = taken | want
            # What a read finds in the row that is written may be anything. A read that is disabled then says so to
            # synthesis, which else builds a bypass; with its register it becomes a port of the block memory.
            read = Signal(name=f"bank{index}_read")
            m.d.sync += [read.eq(taken), bank.addr.eq(row)]
            found.append(Signal(width, name=f"bank{index}_found", reset_less=True))
            with m.If(read & ~(write.en.any() & (write.addr == bank.addr))):
                m.d.sync += found[index].eq(bank.data)
        m.d.comb += conflict.eq(Cat(*clashes).any())
        # Cycle 1: to the bank. Cycle 2: from the bank into its register. Cycle 3: from there to the clients; each keeps
        # its word, so that the others' reads cannot disturb it.
        words = []
        for index in range(BANKS):
            word = Signal(width, name=f"bank{index}_word", reset_less=True)
            m.d.sync += word.eq(found[index])
            words.append(word)
        for name, port in ports.items():
            took = Signal(BANKS, name=f"took_{name}")
            m.d.sync += took.eq(Cat(*granted[name]))
            took_late = delayed(m, took, READ_LATENCY_CYCLES - 1, f"took_{name}", control=True)
            kept = Signal(width, name=f"kept_{name}", reset_less=True)
            m.d.sync += kept.eq(port.data)
            m.d.comb += port.grant.eq(1 if name in _FEEDS else Cat(*granted[name]).any())
            data = kept & ~took_late.any().replicate(width)
            for word, use in zip(words, took_late, strict=True):
                data = data | word & use.replicate(width)
            m.d.comb += port.data.eq(data)

    def _write_side(self, m: Module, banks: list[Any], row_bits: int) -> None:
        out, load = self.out, self.load
        m.d.comb += [
            out.grant.eq(1),
            load.grant.eq(~(out.en & (out.addr[:_BANK_BITS] == load.addr[:_BANK_BITS]))),
        ]
        for index, bank in enumerate(banks):
            by_out = out.en & (out.addr[:_BANK_BITS] == index)
            by_load = load.en & (load.addr[:_BANK_BITS] == index)
            port_addr = Mux(by_out, out.addr, load.addr)[_BANK_BITS:_BANK_BITS + row_bits]
            # One register stage: choice in this cycle, write in the next.
            m.d.sync += [
                bank.addr.eq(port_addr),
                bank.data.eq(Mux(by_out, out.data, load.data)),
                bank.en.eq(Mux(by_out, out.mask, Mux(by_load, load.mask, 0))),
            ]
