"""External DRAM: a LiteDRAM controller generated at build time, its initialization, and the path to it."""

from collections.abc import Sequence
from typing import Any

from amaranth import Array, DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.axi import MEMORY_ID_BITS, AxiSignature, Crossing, Narrow
from tq_hw.boards.gateware.board_status import BoardStatus
from tq_hw.boards.gateware.levelling import Leveller
from tq_hw.boards.gateware.levelling_plan import Levelling
from tq_hw.boards.gateware.widen import Widen

__all__ = ["ControlCrossing", "DramPath", "InitSequencer", "add_control", "add_leveller", "add_sequencer",
           "memory_ports"]


class InitSequencer(wiring.Component):
    """Write a list of registers over Wishbone after reset, in order, with pauses.

    Members
    -------
    adr : Out(30), word address; dat_w : Out(32); request : Out(1), cycle and strobe of a write; ack : In(1)
    done : Out(1), high when all is written
    """

    adr: Signal
    dat_w: Signal
    request: Signal
    ack: Signal
    done: Signal

    def __init__(self, sequence: Sequence[tuple[int, int, int]]) -> None:
        self._sequence = tuple(sequence)
        super().__init__({"adr": Out(30), "dat_w": Out(32), "request": Out(1), "ack": In(1), "done": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """A table and a counter."""
        m = Module()
        step = Signal(range(len(self._sequence) + 1))
        longest = max(wait for _address, _value, wait in self._sequence)
        left = Signal(range(longest + 2))
        columns = [Array(column) for column in zip(*self._sequence, strict=True)]
        with m.FSM(name="state"):
            with m.State("FETCH"):
                m.d.sync += [self.adr.eq(columns[0][step] >> 2), self.dat_w.eq(columns[1][step]),
                             left.eq(columns[2][step])]
                m.next = "WRITE"
                with m.If(step == len(self._sequence)):
                    m.next = "DONE"
            with m.State("WRITE"):
                m.d.comb += self.request.eq(1)
                with m.If(self.ack):
                    m.d.sync += step.eq(step + 1)
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.sync += left.eq(left - 1)
                with m.If(left == 0):
                    m.next = "FETCH"
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
        return m


class DramPath(wiring.Component):
    """Connect the system's memory port to the controller: into domain `mem`, and to the controller's width.

    Parameters
    ----------
    few_luts : as in Widen

    Members
    -------
    bus : In(AxiSignature(bus_bytes, MEMORY_ID_BITS)), domain `sync`
    core : Out(AxiSignature(core_bytes, MEMORY_ID_BITS)), domain `mem`
    """

    bus: Any
    core: Any

    def __init__(self, bus_bytes: int, core_bytes: int, *, few_luts: bool = False) -> None:
        self._bus_bytes, self._core_bytes, self._few_luts = bus_bytes, core_bytes, few_luts
        super().__init__({"bus": In(AxiSignature(bus_bytes, MEMORY_ID_BITS)),
                          "core": Out(AxiSignature(core_bytes, MEMORY_ID_BITS))})

    def elaborate(self, platform: object) -> Module:
        """Cross the clock domains at the narrower of both widths, so that the queues are small."""
        m = Module()
        narrower = min(self._bus_bytes, self._core_bytes)
        m.submodules.crossing = crossing = Crossing(narrower, MEMORY_ID_BITS, "mem")
        if self._core_bytes == narrower:
            wiring.connect(m, crossing.o, wiring.flipped(self.core))
        else:
            m.submodules.widen = widen = DomainRenamer("mem")(
                Widen(narrower, self._core_bytes, MEMORY_ID_BITS, few_luts=self._few_luts))
            wiring.connect(m, crossing.o, widen.i)
            wiring.connect(m, widen.o, wiring.flipped(self.core))
        if self._bus_bytes == narrower:
            wiring.connect(m, wiring.flipped(self.bus), crossing.i)
        else:
            m.submodules.narrow = narrow = Narrow(self._bus_bytes, self._core_bytes, MEMORY_ID_BITS)
            wiring.connect(m, wiring.flipped(self.bus), narrow.i)
            wiring.connect(m, narrow.o, crossing.i)
        return m


class ControlCrossing(wiring.Component):
    """Carry writes of the controller's registers from domain `sync` to domain `mem`, one at a time.

    Members
    -------
    adr : In(30), dat_w : In(32), request : In(1), held until ack : Out(1), domain `sync`
    core_adr, core_dat_w, core_request : Out, core_ack : In, domain `mem`
    """

    adr: Signal
    dat_w: Signal
    request: Signal
    ack: Signal
    core_adr: Signal
    core_dat_w: Signal
    core_request: Signal
    core_ack: Signal

    def __init__(self) -> None:
        super().__init__({"adr": In(30), "dat_w": In(32), "request": In(1), "ack": Out(1), "core_adr": Out(30),
                          "core_dat_w": Out(32), "core_request": Out(1), "core_ack": In(1)})

    def elaborate(self, platform: object) -> Module:
        """A four-phase handshake: request, acknowledge, and both low again before the next write."""
        m = Module()
        asked, asked_there = Signal(), Signal()
        served, served_here = Signal(), Signal()
        m.submodules.there = FFSynchronizer(asked, asked_there, o_domain="mem")
        m.submodules.back = FFSynchronizer(served, served_here, o_domain="sync")
        with m.FSM(name="state"):
            with m.State("IDLE"), m.If(self.request & ~served_here):
                m.d.sync += [self.core_adr.eq(self.adr), self.core_dat_w.eq(self.dat_w), asked.eq(1)]
                m.next = "ASKED"
            with m.State("ASKED"), m.If(served_here):
                m.d.sync += asked.eq(0)
                m.d.comb += self.ack.eq(1)
                m.next = "IDLE"
        m.d.comb += self.core_request.eq(asked_there & ~served)
        with m.If(~asked_there):
            m.d.mem += served.eq(0)
        with m.Elif(self.core_ack):
            m.d.mem += served.eq(1)
        return m


def add_sequencer(m: Module, sequence: Sequence[tuple[int, int, int]]) -> dict[str, Any]:
    """Add an InitSequencer in domain `mem`; return the connections of the controller's control port."""
    m.submodules.init = init = DomainRenamer("mem")(InitSequencer(sequence))
    return control_ports(init.adr, init.dat_w, init.request, init.ack)


def add_control(m: Module, master: Any) -> dict[str, Any]:
    """Let `master` (dram_adr, dram_dat_w, dram_request, dram_ack of a `Soc`) write the controller's registers."""
    m.submodules.control = control = ControlCrossing()
    m.d.comb += [control.adr.eq(master.dram_adr), control.dat_w.eq(master.dram_dat_w),
                 control.request.eq(master.dram_request), master.dram_ack.eq(control.ack)]
    return control_ports(control.core_adr, control.core_dat_w, control.core_request, control.core_ack)


def add_leveller(m: Module, levelling: Levelling, status: BoardStatus) -> dict[str, Any]:
    """Add a Leveller in domain `mem` that reports to `status`; return the connections of the control port."""
    m.submodules.init = init = DomainRenamer("mem")(Leveller(levelling))
    m.d.comb += [status.done.eq(init.done), status.failed.eq(init.failed), status.bad.eq(init.bad),
                 status.windows.eq(init.windows)]
    return control_ports(init.adr, init.dat_w, init.request, init.ack) | {
        "i_wb_ctrl_we": init.we, "o_wb_ctrl_dat_r": init.dat_r}


def control_ports(adr: Signal, dat_w: Signal, request: Signal, ack: Signal) -> dict[str, Any]:
    """Return the connections of a controller's control port."""
    return {"i_wb_ctrl_adr": adr, "i_wb_ctrl_dat_w": dat_w, "i_wb_ctrl_sel": 15, "i_wb_ctrl_cyc": request,
            "i_wb_ctrl_stb": request, "i_wb_ctrl_we": 1, "i_wb_ctrl_cti": 0, "i_wb_ctrl_bte": 0, "o_wb_ctrl_ack": ack}


def memory_ports(bus: Any, address_bits: int) -> dict[str, Any]:
    """Return the connections of a controller's memory port; `bus` is the AXI master of domain `mem`.

    Addresses beyond the DRAM wrap: the master must know its size.
    """
    ports: dict[str, Any] = {}
    for name, member in AxiSignature(1).members.items():
        if name[2:] in ("cache", "prot"):
            continue
        value = getattr(bus, name)
        if name in ("araddr", "awaddr"):
            value = value[:address_bits]
        ports[f"{'o' if member.flow is In else 'i'}_user_port_0_{name}"] = value
    return ports
