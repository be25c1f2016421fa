"""The weight loader: fetches the weights of the next step while the current one streams."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import ReadSignature, bank_of, granted
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.latency import ARRAY_READ_LATENCY_CYCLES

__all__ = ["WeightLoader", "WeightRequest"]


class WeightRequest(data.StructLayout):
    """Weights of one step.

    jump: they start at address (otherwise after the last ones); rows: rows less 2; number: low bits of the operation's
    number.
    """

    def __init__(self, config: Config) -> None:
        super().__init__({"jump": 1, "address": 16, "rows": signed(ceil_log2(config.rows) + 1),
                          "number": NUMBER_BITS})


class WeightLoader(wiring.Component):
    """Read one word per row into the array's shadow weights.

    The words of a step are requested from the cycle of the previous step's first slot on, never before, and reach
    the array `latency_cycles` after their grant. A slot takes equally long from the slot counter to the array, so
    a row is written just after the wavefront that activates the previous step's weights.

    Members
    -------
    i : In(stream of WeightRequest), in the order of the steps
    ready : Out(1), all words of the next step are granted, the last one possibly in this cycle: the step may start
    start : In(1), strobe, only while `ready`: the next step starts in the following cycle
    weights : scratchpad port; number : Out, of the operation whose word was granted in the cycle before
    weight, weight_row : Out, to MacArray
    """

    i: Any
    ready: Signal
    start: Signal
    weights: Any
    number: Signal
    weight: Any
    weight_row: Signal

    def __init__(self, config: Config, latency_cycles: int) -> None:
        assert latency_cycles > ARRAY_READ_LATENCY_CYCLES
        self._config = config
        self._latency_cycles = latency_cycles
        super().__init__({
            "i": In(stream.Signature(WeightRequest(config))),
            "ready": Out(1), "start": In(1),
            "weights": Out(ReadSignature(config)), "number": Out(NUMBER_BITS),
            "weight": Out(data.ArrayLayout(signed(8), config.cols)),
            "weight_row": Out(config.rows),
        })

    def elaborate(self, platform: object) -> Module:
        """One set of weights is loading, or loaded and waiting. Rows are numbered as they arrive."""
        m = Module()
        config, request = self._config, self.i.payload
        loading, loaded, first = Signal(), Signal(), Signal()
        address, bank = Signal(16), Signal(BANKS)
        left = Signal.like(request.rows)
        number = Signal(NUMBER_BITS)
        m.d.sync += self.number.eq(number)

        got, ends = Signal(), Signal()
        m.d.comb += [
            self.weights.en.eq(loading), self.weights.addr.eq(address),
            self.weights.wants.eq(bank & loading.replicate(BANKS)), got.eq(loading & granted(self.weights)),
            ends.eq(got & left[-1]),
            self.ready.eq(loaded | ends), self.i.ready.eq(self.start | ~(loading | loaded)),
        ]
        m.d.sync += loaded.eq(self.ready & ~self.start)
        with m.If(ends):
            m.d.sync += loading.eq(0)
        # The grant is late in its cycle and only enables the registers. They do not wait for `start`: what they copy
        # before the step begins is copied again.
        begins = self.i.valid & (~loading | left[-1])
        with m.If(got | ~loading):
            m.d.sync += [
                first.eq(begins), left.eq(Mux(begins, request.rows, left - 1)),
                number.eq(Mux(begins, request.number, number)),
                address.eq(Mux(begins & request.jump, request.address, address + loading)),
                bank.eq(Mux(begins & request.jump, bank_of(1, request.address),
                            Mux(loading, bank.rotate_left(1), bank))),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += loading.eq(1)

        # row: one-hot number of the row that arrived last.
        late = self._latency_cycles - 1
        arrives = delayed(m, got, late, "got", control=True)
        first_arrives = delayed(m, first, late, "first")
        row = Signal(config.rows)
        m.d.sync += self.weight_row.eq(0)
        with m.If(arrives):
            new = Signal(config.rows)
            m.d.comb += new.eq(Cat(first_arrives, row[:-1] & ~first_arrives.replicate(config.rows - 1)))
            m.d.sync += [row.eq(new), self.weight_row.eq(new)]
        word = self.weights.data[:8 * config.cols]
        m.d.comb += self.weight.as_value().eq(
            delayed(m, word, self._latency_cycles - ARRAY_READ_LATENCY_CYCLES, "weight"))
        return m
