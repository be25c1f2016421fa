"""Read levelling of a DDR3 at power-up: find, set and report the bitslip and delay of each byte.

The arrival time of DDR3 data is unknown and differs from byte to byte and board to board. For each byte, LiteDRAM's
PHY has a chain of delays and a shift by whole bits (bitslip).

The leveller writes patterns and reads them back at every setting. It takes the longest run of delays without an error
at any bitslip, sets the middle of it, and reads once more. Only after success does the controller get the DRAM.
Otherwise the DRAM stays unusable, and the status says which bytes failed.
"""

from collections.abc import Callable
from typing import Any

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.boards.gateware.levelling_plan import Levelling, Step

__all__ = ["WINDOW", "Leveller"]

_WAIT_BITS = 16

#: Result for a byte: the first delay without an error, the number of such delays, their bitslip, and the delay that is
#: set.
WINDOW = data.StructLayout({"first": 8, "length": 8, "slip": 8, "delay": 8})


class _Accesses(wiring.Component):
    """Run a section of a table of accesses, or a single write of a setting.

    A byte is selected only while its setting changes: an ECP5 does not read bytes that are selected.

    Members
    -------
    run : In(1), strobe while idle: from entry `first` to the end of its section
    poke : In(1), strobe while idle: write 1 to `address` while `chosen` bytes are selected
    idle : Out(1)
    wrong : Out(lanes), the bytes in which a word of this section differed from the expected one
    adr, dat_w, dat_r, we, request, ack : Wishbone
    """

    def __init__(self, sections: tuple[tuple[Step, ...], ...], lanes: int, select: int) -> None:
        self._lanes, self._select = lanes, select
        self._entry = data.StructLayout({"word": 30, "value": 32, "wait": _WAIT_BITS, "check": 1, "last": 1})
        self._table: list[Any] = [
            {"word": address >> 2, "value": value, "wait": wait, "check": int(check),
             "last": int(number == len(section) - 1)}
            for section in sections for number, (address, value, wait, check) in enumerate(section)]
        super().__init__({
            "run": In(1), "first": In(range(len(self._table))), "poke": In(1), "address": In(32), "chosen": In(lanes),
            "idle": Out(1), "wrong": Out(lanes), "adr": Out(30), "dat_w": Out(32), "dat_r": In(32), "we": Out(1),
            "request": Out(1), "ack": In(1)})

    def elaborate(self, platform: object) -> Module:
        """A table, and the current entry."""
        m = Module()
        m.submodules.table = table = memory.Memory(shape=self._entry, depth=len(self._table), init=self._table)
        port, entry = table.read_port(), Signal(self._entry)
        place = Signal(range(len(self._table)))
        left = Signal(_WAIT_BITS)
        action, steps = Signal(30), Signal(2)
        different = self.dat_r ^ entry.value
        m.d.comb += [port.addr.eq(place), self.adr.eq(entry.word), self.dat_w.eq(entry.value), self.we.eq(~entry.check)]
        with m.FSM(name="access"):
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                m.d.sync += [place.eq(self.first), action.eq(self.address >> 2), steps.eq(2), entry.wait.eq(0),
                             entry.word.eq(self._select >> 2), entry.value.eq(self.chosen), entry.check.eq(0),
                             entry.last.eq(1)]
                with m.If(self.run):
                    m.d.sync += [self.wrong.eq(0), steps.eq(0)]
                    m.next = "LOOK"
                with m.Elif(self.poke):
                    m.next = "ACCESS"
            with m.State("LOOK"):
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.sync += entry.eq(port.data)
                m.next = "ACCESS"
            with m.State("ACCESS"):
                m.d.comb += self.request.eq(1)
                m.d.sync += left.eq(entry.wait)
                with m.If(self.ack):
                    with m.If(entry.check):
                        m.d.sync += self.wrong.eq(self.wrong | Cat(
                            Cat(different.word_select(byte, 8).any() for byte in range(lane, 4, self._lanes)).any()
                            for lane in range(self._lanes)))
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.sync += left.eq(left - 1)
                with m.If(left == 0):
                    m.d.sync += place.eq(place + 1)
                    m.next = "LOOK"
                    with m.If(steps != 0):
                        # After the write itself, deselect all bytes.
                        m.d.sync += [steps.eq(steps - 1), entry.word.eq(Mux(steps == 2, action, self._select >> 2)),
                                     entry.value.eq(steps == 2)]
                        m.next = "ACCESS"
                    with m.Elif(entry.last):
                        m.next = "IDLE"
        return m


class Leveller(wiring.Component):
    """Bring a DDR3 up after reset, as a master of the controller's registers.

    With 32 delays, 8 bitslips and four patterns it takes some 100,000 cycles in addition to the DRAM's initialization.

    Members
    -------
    adr, dat_w, dat_r, we, request, ack : Wishbone; `request` is cycle and strobe
    done, failed : Out(1), ended with success or with failure
    bad : Out(lanes), bytes without a window, or with an error at its middle
    windows : Out(WINDOW), for each byte
    """

    def __init__(self, levelling: Levelling) -> None:
        self._plan = levelling
        super().__init__({
            "adr": Out(30), "dat_w": Out(32), "dat_r": In(32), "we": Out(1), "request": Out(1), "ack": In(1),
            "done": Out(1), "failed": Out(1), "bad": Out(levelling.lanes),
            "windows": Out(data.ArrayLayout(WINDOW, levelling.lanes))})

    def elaborate(self, platform: object) -> Module:
        """One state per access; each byte's run of good delays grows during a scan of the delays."""
        m = Module()
        plan = self._plan
        sections = (plan.before, plan.point, plan.after)
        m.submodules.accesses = bus = _Accesses(sections, plan.lanes, plan.select)
        m.d.comb += [self.adr.eq(bus.adr), self.dat_w.eq(bus.dat_w), self.we.eq(bus.we), self.request.eq(bus.request),
                     bus.dat_r.eq(self.dat_r), bus.ack.eq(self.ack), bus.chosen.eq((1 << plan.lanes) - 1)]
        slip, delay = Signal(range(plan.slips)), Signal(range(plan.delays))
        runs = [Signal(range(plan.delays + 1), name=f"run{lane}") for lane in range(plan.lanes)]

        def section(number: int) -> None:
            m.d.comb += [bus.run.eq(1), bus.first.eq(sum(len(one) for one in sections[:number]))]

        def poke(address: int) -> None:
            m.d.comb += [bus.poke.eq(1), bus.address.eq(address)]

        with m.FSM(name="levelling"):
            with m.State("BEFORE"):
                section(0)
                m.next = "FIRST_SLIP"
            with m.State("FIRST_SLIP"), m.If(bus.idle):
                poke(plan.slip_reset)
                m.next = "ROW"
            with m.State("ROW"), m.If(bus.idle):
                poke(plan.delay_reset)
                m.d.sync += [delay.eq(0), *(run.eq(0) for run in runs)]
                m.next = "POINT"
            with m.State("POINT"), m.If(bus.idle):
                section(1)
                m.next = "JUDGE"
            with m.State("JUDGE"), m.If(bus.idle):
                self._judge(m, bus.wrong, runs, slip, delay)
                with m.If(delay != plan.delays - 1):
                    poke(plan.delay_step)
                    m.d.sync += delay.eq(delay + 1)
                    m.next = "POINT"
                with m.Elif(slip != plan.slips - 1):
                    poke(plan.slip_step)
                    m.d.sync += slip.eq(slip + 1)
                    m.next = "ROW"
                with m.Else():
                    m.next = "CLEAR_DELAY"
            self._apply(m, bus, poke)
            self._finish(m, bus, section, poke)
        return m

    def _judge(self, m: Module, wrong: Signal, runs: list[Signal], slip: Signal, delay: Signal) -> None:
        """Extend or end each byte's run, and keep the longest."""
        for number, run in enumerate(runs):
            window = self.windows[number]
            longer = Signal(8, name=f"longer{number}")
            m.d.comb += longer.eq(run + 1)
            m.d.sync += run.eq(Mux(wrong[number], 0, longer))
            with m.If(~wrong[number] & (longer > window.length)):
                first = (delay - run)[:8]
                m.d.sync += [window.first.eq(first), window.length.eq(longer), window.slip.eq(slip),
                             window.delay.eq(first + (longer >> 1))]

    def _apply(self, m: Module, bus: _Accesses, poke: Callable[[int], None]) -> None:
        """Set the middle of each byte's window."""
        plan = self._plan
        lane, steps = Signal(range(plan.lanes)), Signal(8)
        found = Array(self.windows[number] for number in range(plan.lanes))[lane]

        def one(address: int) -> None:
            poke(address)
            m.d.comb += bus.chosen.eq(Const(1) << lane)

        with m.State("CLEAR_DELAY"), m.If(bus.idle):
            one(plan.delay_reset)
            m.next = "CLEAR_SLIP"
        with m.State("CLEAR_SLIP"), m.If(bus.idle):
            one(plan.slip_reset)
            m.d.sync += steps.eq(found.slip)
            m.next = "SLIPS"
        with m.State("SLIPS"), m.If(bus.idle):
            m.d.sync += steps.eq(steps - 1)
            with m.If(steps == 0):
                m.d.sync += steps.eq(found.delay)
                m.next = "DELAYS"
            with m.Else():
                one(plan.slip_step)
        with m.State("DELAYS"), m.If(bus.idle):
            m.d.sync += steps.eq(steps - 1)
            with m.If(steps != 0):
                one(plan.delay_step)
            with m.Elif(lane == plan.lanes - 1):
                m.next = "CONFIRM"
            with m.Else():
                m.d.sync += lane.eq(lane + 1)
                m.next = "CLEAR_DELAY"

    def _finish(self, m: Module, bus: _Accesses, section: Callable[[int], None],
                poke: Callable[[int], None]) -> None:
        """Read once more with the settings found; then give the DRAM to the controller, or report failure."""
        plan = self._plan
        with m.State("CONFIRM"), m.If(bus.idle):
            section(1)
            m.next = "VERDICT"
        with m.State("VERDICT"), m.If(bus.idle):
            bad = bus.wrong | Cat(window.length == 0 for window in self.windows)
            m.d.sync += self.bad.eq(bad)
            with m.If(bad == 0):
                section(2)
                m.next = "HAND_OVER"
            with m.Else():
                poke(plan.error)
                m.next = "GIVE_UP"
        with m.State("HAND_OVER"), m.If(bus.idle):
            m.next = "DONE"
        with m.State("GIVE_UP"), m.If(bus.idle):
            m.next = "FAILED"
        with m.State("DONE"):
            m.d.comb += self.done.eq(1)
        with m.State("FAILED"):
            m.d.comb += self.failed.eq(1)
