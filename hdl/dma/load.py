"""The load unit: copies system memory to the scratchpad."""

from typing import Any

from amaranth import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.bus.axi import MemoryReadSignature, ReadBurstLayout
from tq_hw.hdl.bus.bursts import BurstSplitter
from tq_hw.hdl.bus.read_buffer import ReadBuffer
from tq_hw.hdl.dma.coded_beats import beat_number_bits, run_beats_bits
from tq_hw.hdl.dma.decoder import Decoder
from tq_hw.hdl.dma.load_plan import LoadPlan, PlanLayout, lane_bits
from tq_hw.hdl.dma.realigner import Realigner
from tq_hw.hdl.dma.runs import RunGenerator
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.parts.queues import Queue, SkidBuffer, Stage
from tq_hw.hdl.signatures import OperationLayout, WriteSignature, operation_signature
from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.layout import BURST_BYTES, LOAD_BYTES, Unit

__all__ = ["LoadUnit"]

#: Operations whose reads may be requested while words of earlier ones are still written.
_AHEAD = 4
#: Most operations accepted and not done.
_MOST_HELD = 4 * _AHEAD


class LoadUnit(wiring.Component):
    """Run load operations as docs/reference/semantics.md defines them, with bytes at any alignment.

    Three parts run decoupled: addresses (requests bursts as soon as an operation is accepted), plan (one word per
    cycle, from the fields only) and realigner (writes a word as soon as its beats have arrived). A long run moves
    bus_bytes per cycle, or one word per cycle where words share or skip bytes.

    Members
    -------
    i : In(operation_signature(Unit.LOAD, config)); taken in the second cycle at the earliest
    base : In(ArrayLayout(32, 4)), byte addresses of the regions
    memory : Out(MemoryReadSignature)
    port : Out(WriteSignature)
    done : Out(1), strobe per operation, in order, in the cycle after its last word was granted
    idle : Out(1), no operation and no beat is stored
    stall : Out(1), a word waits for memory or for the port
    moved : Out(1), strobe: a word was written
    error : Out(4), strobe of Status: BAD_ADDRESS, BUS_ERROR; error_at : Out, low bits of the operation's number
    """

    i: stream.Interface
    base: Any
    memory: Any
    port: Any
    done: Signal
    idle: Signal
    stall: Signal
    moved: Signal
    error: Signal
    error_at: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(operation_signature(Unit.LOAD, config)), "base": In(data.ArrayLayout(32, 4)),
            "memory": Out(MemoryReadSignature(config)), "port": Out(WriteSignature(config)),
            "done": Out(1), "idle": Out(1), "stall": Out(1), "moved": Out(1), "error": Out(4),
            "error_at": Out(NUMBER_BITS),
        })

    def elaborate(self, platform: object) -> Module:
        """Pass an operation to addresses and plan."""
        m = Module()
        config, op = self._config, self.i.payload
        m.submodules.addresses = addresses = _Addresses(config)
        # In registers: a small RAM takes four LUTs of a 7 series for six bits.
        m.submodules.ahead = ahead = Stage(PlanLayout(config), _AHEAD)
        m.submodules.plan = plan = LoadPlan(config)
        m.submodules.realigner = realigner = Realigner(config)
        wiring.connect(m, ahead.o, plan.i)
        wiring.connect(m, plan.o, realigner.i)
        wiring.connect(m, addresses.memory, wiring.flipped(self.memory))
        if not config.compressed_weights:
            wiring.connect(m, addresses.beats, realigner.beats)
        wiring.connect(m, realigner.port, wiring.flipped(self.port))
        m.d.comb += addresses.base.eq(self.base)

        # Words keep the order of the operations, so counting ends gives a word's operation. A burst carries its number.
        ends = Signal(NUMBER_BITS)
        m.d.sync += ends.eq(ends + realigner.done)
        m.d.sync += [self.error.eq(Status.OK), self.moved.eq(self.port.en & self.port.grant)]
        with m.If(self.memory.error):
            m.d.sync += [self.error.eq(Status.BUS_ERROR), self.error_at.eq(self.memory.error_at)]
        with m.If(self.port.beyond):
            m.d.sync += [self.error.eq(Status.BAD_ADDRESS), self.error_at.eq(ends)]

        # One cycle late, as is the operation's own offer: the logic that accepts it is far away.
        offered = Signal()
        m.d.sync += offered.eq(self.i.valid & ~self.i.ready)
        free = Signal()
        m.d.sync += free.eq(addresses.ready & ahead.i.ready)
        # A register, because it fans out over the whole unit.
        take = Signal()
        m.d.sync += take.eq(self.i.valid & offered & free & ~take)
        m.d.comb += [
            self.i.ready.eq(take), addresses.start.eq(take), ahead.i.valid.eq(take),
            addresses.op.eq(op),
            *(ahead.i.payload[name].eq(op[name]) for name, _ in PlanLayout(config) if name != "lane"),
            ahead.i.payload.lane.eq(op.memory_offset_bytes + self.base[op.region]),
        ]

        held = Signal(range(_MOST_HELD))
        m.d.sync += held.eq(held + take - realigner.done)
        m.d.comb += [
            self.done.eq(realigner.done), self.stall.eq(realigner.stall),
            self.idle.eq((held == 0) & addresses.ready & realigner.idle),
        ]
        if config.compressed_weights:
            self._decode(m, addresses, ahead, realigner)
        return m

    def _decode(self, m: Module, addresses: "_Addresses", ahead: Stage, realigner: Realigner) -> None:
        """Put the decoder between beats and words. To the plan, coded runs have no beats."""
        m.submodules.decoder = decoder = Decoder(self._config)
        op = self.i.payload
        with m.If(op.coded):
            m.d.comb += ahead.i.payload.run_bytes.eq(0)
        # Late, so it comes from a register: while a run is new, `held` says that the unit is not idle.
        decodes = Signal()
        m.d.sync += decodes.eq(~decoder.idle)
        with m.If(decodes):
            m.d.comb += self.idle.eq(0)
        wiring.connect(m, addresses.beats, decoder.beats)
        wiring.connect(m, addresses.firsts, decoder.firsts)
        wiring.connect(m, addresses.sizes, decoder.sizes)
        wiring.connect(m, decoder.plain, realigner.beats)
        m.d.comb += [realigner.row_can.eq(decoder.can), realigner.row.eq(decoder.o),
                     decoder.take.eq(realigner.row_take), decoder.last.eq(realigner.row_last)]


class _Addresses(wiring.Component):
    """Request the runs of one operation.

    Members
    -------
    start : In(1), strobe, only while `ready`: take `op`
    op : In(operation of the load unit)
    base : In(ArrayLayout(32, 4))
    ready : Out(1), all bursts of the previous operation are requested
    memory : Out(MemoryReadSignature)
    beats : Out(stream of 8 * bus_bytes bits), what was read
    firsts, sizes : with compressed_weights: for the decoder, of each coded run
    """

    start: Signal
    op: Any
    base: Any
    ready: Signal
    memory: Any
    beats: stream.Interface
    firsts: stream.Interface
    sizes: stream.Interface

    def __init__(self, config: Config) -> None:
        self._config = config
        decoder = {"firsts": Out(stream.Signature(beat_number_bits(config))),
                   "sizes": Out(stream.Signature(run_beats_bits(config)))}
        super().__init__({
            **(decoder if config.compressed_weights else {}),
            "start": In(1), "op": In(OperationLayout(Unit.LOAD, config)), "base": In(data.ArrayLayout(32, 4)),
            "ready": Out(1), "memory": Out(MemoryReadSignature(config)),
            "beats": Out(stream.Signature(8 * config.bus_bytes)),
        })

    def elaborate(self, platform: object) -> Module:
        """Add base and offset; generate runs, then bursts."""
        m = Module()
        config = self._config
        m.submodules.runs = runs = RunGenerator(32)
        m.submodules.starts = starts = Queue(32, 2)
        m.submodules.splitter = splitter = BurstSplitter(config, len(self.op.run_bytes))
        m.submodules.buffer = buffer = ReadBuffer(config, LOAD_BYTES // BURST_BYTES,
                                                  cut=not config.compressed_weights)

        begin = Signal()
        based = Signal()
        run_bytes = Signal.like(self.op.run_bytes)
        offset = Signal.like(self.op.memory_offset_bytes)
        region = Signal.like(self.op.region)
        stride2, stride3 = Signal(32), Signal(32)
        count2, count3 = Signal(16), Signal(16)
        first = Signal(32)
        number, next_number = Signal(NUMBER_BITS), Signal(NUMBER_BITS)
        m.d.sync += [begin.eq(self.start & (self.op.run_bytes != 0)), based.eq(begin),
                     first.eq(self.base[region] + offset)]
        with m.If(self.start):
            m.d.sync += [
                run_bytes.eq(self.op.run_bytes), offset.eq(self.op.memory_offset_bytes), region.eq(self.op.region),
                stride2.eq(self.op.stride2_bytes), stride3.eq(self.op.stride3_bytes),
                count2.eq(self.op.count2), count3.eq(self.op.count3), number.eq(next_number),
                next_number.eq(next_number + 1),
            ]
        m.d.comb += [
            runs.start.eq(based), runs.base.eq(first), runs.stride2.eq(stride2), runs.stride3.eq(stride3),
            runs.count2.eq(count2), runs.count3.eq(count3),
            starts.i.payload.eq(runs.o.payload.addr), starts.i.valid.eq(runs.o.valid),
            runs.o.ready.eq(starts.i.ready),
            splitter.i.payload.addr.eq(starts.o.payload), splitter.i.payload.size_bytes.eq(run_bytes),
            splitter.i.payload.number.eq(number), splitter.i.valid.eq(starts.o.valid),
            starts.o.ready.eq(splitter.i.ready),
            self.ready.eq(~(begin | based | runs.o.valid | starts.o.valid)),
        ]
        if config.compressed_weights:
            self._tell_coded(m, next_number, splitter)
        # The channel's grant has a long path.
        m.submodules.asks = asks = SkidBuffer(ReadBurstLayout())
        wiring.connect(m, splitter.o, asks.i)
        wiring.connect(m, asks.o, buffer.i)
        wiring.connect(m, buffer.memory, wiring.flipped(self.memory))
        wiring.connect(m, buffer.o, wiring.flipped(self.beats))
        return m

    def _tell_coded(self, m: Module, next_number: Signal, splitter: BurstSplitter) -> None:
        """Pass the length of a coded run to the decoder, and, with its first burst, the number of its first beat."""
        m.submodules.firsts = firsts = Queue(self.firsts.p.shape(), _MOST_HELD)
        m.submodules.sizes = sizes = Queue(self.sizes.p.shape(), _MOST_HELD)
        wiring.connect(m, firsts.o, wiring.flipped(self.firsts))
        wiring.connect(m, sizes.o, wiring.flipped(self.sizes))
        burst, asked = splitter.o.payload, Signal(self.firsts.p.shape())
        #: By number: operations whose run is coded and has no burst yet.
        coded = Signal(1 << NUMBER_BITS)
        goes = splitter.o.valid & splitter.o.ready
        m.d.comb += [
            sizes.i.payload.eq(self.op.run_bytes >> lane_bits(self._config)),
            sizes.i.valid.eq(self.start & self.op.coded),
            firsts.i.payload.eq(asked), firsts.i.valid.eq(goes & coded.bit_select(burst.number, 1)),
        ]
        with m.If(goes):
            m.d.sync += [asked.eq(asked + burst.length + 1), coded.bit_select(burst.number, 1).eq(0)]
        with m.If(self.start):
            m.d.sync += coded.bit_select(next_number, 1).eq(self.op.coded)
