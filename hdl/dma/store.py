"""The store unit: copies the scratchpad to system memory."""

from typing import Any, NamedTuple

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.bus.axi import BurstLayout, WriteBeatLayout
from tq_hw.hdl.dma.packer import Packer
from tq_hw.hdl.dma.store_plan import StorePlan, TakeLayout
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.parts.queues import Queue, SkidBuffer, Stage
from tq_hw.hdl.signatures import ReadSignature, bank_of, granted, operation_signature
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.control import Status
from tq_hw.isa.latency import READ_LATENCY_CYCLES
from tq_hw.isa.layout import Unit

__all__ = ["StoreUnit"]

#: Capacity for words that are read and not packed yet.
_WORDS = 8
_BEATS = 512
_BURSTS = 16
_RUNS = 16


class StoreUnit(wiring.Component):
    """Run store operations as docs/reference/semantics.md defines them, with bytes at any alignment.

    Plan (one word per cycle), scratchpad reads and packer run decoupled, and the next operation starts while the
    writes of earlier ones are not answered. A long run moves bus_bytes or one word per cycle.

    Members
    -------
    i : In(operation_signature(Unit.STORE)); taken in the second cycle at the earliest
    base : In(ArrayLayout(32, 4)), byte addresses of the regions
    port : Out(ReadSignature)
    beats, bursts, answered, write_error : to and from WriteChannel
    done : Out(1), strobe per operation, in order: all its writes are answered
    idle : Out(1), no operation is in progress
    stall : Out(1), a word is refused by the port, or memory takes no more
    moved : Out(1), strobe: a word was requested
    error : Out(4), strobe of Status: BAD_ADDRESS, BUS_ERROR; error_at : Out, low bits of the operation's number
    """

    i: stream.Interface
    base: Any
    port: Any
    beats: stream.Interface
    bursts: stream.Interface
    answered: Signal
    write_error: Signal
    done: Signal
    idle: Signal
    stall: Signal
    moved: Signal
    error: Signal
    error_at: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(operation_signature(Unit.STORE)), "base": In(data.ArrayLayout(32, 4)),
            "port": Out(ReadSignature(config)), "beats": Out(stream.Signature(WriteBeatLayout(config))),
            "bursts": Out(stream.Signature(BurstLayout())), "answered": In(1), "write_error": In(1),
            "done": Out(1), "idle": Out(1), "stall": Out(1), "moved": Out(1), "error": Out(4),
            "error_at": Out(NUMBER_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        """Plan an operation, read its words, pack them; report its end."""
        m = Module()
        config = self._config
        m.submodules.plan = plan = StorePlan(config)
        m.submodules.packer = packer = Packer(config)
        m.submodules.takes = takes = Queue(TakeLayout(config), _WORDS)
        m.submodules.words = words = Queue(8 * config.word_bytes, _WORDS)
        self._send(m, plan, packer)

        # One cycle late: the logic that accepts an operation is far away.
        offered = Signal()
        m.d.sync += offered.eq(self.i.valid & ~self.i.ready)
        take = Signal()
        m.d.comb += [
            take.eq(self.i.valid & offered & plan.i.ready), plan.i.payload.eq(self.i.payload), plan.i.valid.eq(take),
            self.i.ready.eq(take),
        ]

        asks = self._read(m, plan, _Planned(takes, words), packer)
        self._errors(m, asks)
        held = Signal(range(64))
        m.d.sync += held.eq(held + take - self.answered)
        m.d.comb += [
            self.done.eq(self.answered), self.idle.eq(held == 0),
            self.stall.eq(~granted(self.port) | ~packer.room),
        ]
        return m

    def _send(self, m: Module, plan: StorePlan, packer: Packer) -> None:
        """Queue the packer's beats and bursts for the write channel. It packs while both queues have room."""
        config = self._config
        m.submodules.runs = runs = Queue(plan.runs.payload.shape(), _RUNS)
        m.submodules.beats = beats = Queue(WriteBeatLayout(config), _BEATS, registered=True)
        m.submodules.bursts = bursts = Queue(BurstLayout(), _BURSTS)
        wiring.connect(m, plan.runs, runs.i)
        wiring.connect(m, runs.o, packer.runs)
        m.d.comb += [
            beats.i.payload.eq(packer.beats.payload), beats.i.valid.eq(packer.beats.valid),
            bursts.i.payload.eq(packer.bursts.payload), bursts.i.valid.eq(packer.bursts.valid),
        ]
        # Two more may have entered since the levels were read.
        m.d.sync += packer.room.eq((beats.level <= _BEATS - 4) & (bursts.level <= _BURSTS - 3))
        # From block RAM into a register, before the write channel's logic.
        m.submodules.next_beat = next_beat = Stage(WriteBeatLayout(config))
        wiring.connect(m, beats.o, next_beat.i)
        wiring.connect(m, next_beat.o, wiring.flipped(self.beats))
        wiring.connect(m, bursts.o, wiring.flipped(self.bursts))
        m.d.comb += plan.base.eq(self.base)

    def _read(self, m: Module, plan: StorePlan, planned: "_Planned", packer: Packer) -> SkidBuffer:
        """Read the planned words and pass them to the packer; return the queue of scratchpad requests.

        A word is requested only if the queue has space for it. The grant is late and has a long path, so requests wait
        near the scratchpad. Words arrive in the order of the requests.
        """
        port, (takes, words) = self.port, planned
        places, back = Signal(range(_WORDS + 1), init=_WORDS), Signal(range(_WORDS + 2))
        some_places = Signal(init=1)
        taken = Signal()
        used = Signal()
        coming = Signal(READ_LATENCY_CYCLES)
        m.submodules.asks = asks = SkidBuffer(data.StructLayout({"addr": 16, "bank": BANKS, "last": 1}))
        m.d.comb += [
            taken.eq(plan.o.valid & plan.o.ready), plan.o.ready.eq(asks.i.ready & some_places),
            asks.i.valid.eq(plan.o.valid & some_places), asks.i.payload.addr.eq(plan.o.payload.addr),
            asks.i.payload.bank.eq(bank_of(1, plan.o.payload.addr)), asks.i.payload.last.eq(plan.o.payload.last),
            port.en.eq(asks.o.valid), port.addr.eq(asks.o.payload.addr),
            port.wants.eq(asks.o.payload.bank & asks.o.valid.replicate(BANKS)), asks.o.ready.eq(granted(port)),
            takes.i.payload.eq(delayed(m, plan.o.payload, 1, "take")),
            takes.i.valid.eq(delayed(m, taken, 1, "taken", control=True)),
            words.i.payload.eq(port.data), words.i.valid.eq(coming[-1]),
            packer.i.payload.eq(takes.o.payload), packer.word.eq(words.o.payload),
            packer.i.valid.eq(words.o.valid), used.eq(packer.i.valid & packer.i.ready), words.o.ready.eq(used),
            takes.o.ready.eq(used),
        ]
        # Counted a cycle late, because the packer's `ready` is late.
        m.d.comb += back.eq(places + delayed(m, used, 1, "left", control=True))
        m.d.sync += [coming.eq(Cat(asks.o.valid & asks.o.ready, coming)), places.eq(Mux(taken, back - 1, back)),
                     some_places.eq(Mux(taken, back != 1, back != 0))]
        return asks

    def _errors(self, m: Module, asks: SkidBuffer) -> None:
        """Count operations fully read and operations answered, to assign an error to its operation."""
        asked, answered = Signal(NUMBER_BITS), Signal(NUMBER_BITS)
        asks_one = asks.o.valid & asks.o.ready
        # The grant is late, so it is counted one cycle later; `beyond` is only known then anyway.
        last = delayed(m, asks_one & asks.o.payload.last, 1, "last_asked", control=True)
        m.d.sync += [asked.eq(asked + last), answered.eq(answered + self.answered),
                     self.error.eq(Status.OK), self.moved.eq(asks_one)]
        with m.If(self.write_error):
            m.d.sync += [self.error.eq(Status.BUS_ERROR), self.error_at.eq(answered)]
        with m.If(self.port.beyond):
            m.d.sync += [self.error.eq(Status.BAD_ADDRESS), self.error_at.eq(asked)]


class _Planned(NamedTuple):
    """Words on their way from plan and scratchpad to the packer."""

    #: What to take of each requested word; the words that have arrived.
    takes: Queue
    words: Queue
