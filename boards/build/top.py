"""The top module of every board: clocks, reset, pins, and the selected memory.

Clock domains:

- `sync` is the accelerator's, the link's and that of memory on the chip;
- `mem` is the DRAM controller's;
- `mem_pin` is the lagging clock of an SDR chip.

Only `boards.gateware.axi.Crossing` connects `sync` and `mem`.
"""

import importlib
import sys
from typing import Any

from amaranth import ClockDomain, ClockSignal, Const, Elaboratable, Instance, Module, ResetSignal, Signal
from amaranth.lib import io, wiring
from amaranth.lib.cdc import ResetSynchronizer

from tq_hw.boards.build.dram_core import DramCore
from tq_hw.boards.build.dram_generate import CORE
from tq_hw.boards.catalog.board import Board, Ddr3, Memory, OnChip, Sdr, Spram, Toolchain
from tq_hw.boards.gateware.dram import DramPath, add_control, add_leveller, add_sequencer, memory_ports
from tq_hw.boards.gateware.on_chip import BlockCells, OnChipMemory
from tq_hw.boards.gateware.pll import (
    Clock,
    Ecp5Pll,
    Ice40Pll,
    PllPlan,
    XilinxPll,
    plan_ecp5,
    plan_ice40,
    plan_xilinx,
)
from tq_hw.boards.gateware.serial_cells import SmallCells
from tq_hw.boards.gateware.spram_system import SpramSystem
from tq_hw.boards.gateware.system import System
from tq_hw.boards.soc.soc import SocSystem, cpu_verilog
from tq_hw.hdl.serial.cells import Cells
from tq_hw.isa.sizes import ceil_log2
from tq_hw.model.errors import MissingToolError, OptionError

__all__ = ["BoardTop", "board_clocks", "check_board", "input_hz", "load_platform", "plan_clocks"]

#: Cycles of the oscillator that the board stays in reset after configuration.
_POWER_ON_CYCLES = 1024
_PLANNERS = {Toolchain.ECP5: plan_ecp5, Toolchain.ICE40: plan_ice40, Toolchain.XILINX: plan_xilinx}
#: Resources of amaranth-boards through which memories are connected.
_PADS: dict[type, str] = {Sdr: "sdram", Ddr3: "ddr3"}


def load_platform(board: Board) -> Any:
    """Return a new platform object, in most cases from amaranth-boards.

    Raises MissingToolError when that package is not installed, OptionError for a module or class that does not exist.
    """
    module, _, name = board.platform.partition(":")
    try:
        return getattr(importlib.import_module(module), name)()
    except ModuleNotFoundError as error:
        if error.name == "amaranth_boards":
            raise MissingToolError('the Python package amaranth-boards is not installed: pip install "tq-hw[boards]"'
                                   ) from None
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise OptionError(f"{board.name}: platform {board.platform!r}: there is no module {error.name}") from None
    except AttributeError:
        if hasattr(sys.modules[module], name):
            raise
        raise OptionError(f"{board.name}: platform {board.platform!r}: {module} has no {name!r}") from None


def input_hz(platform: Any) -> int:
    """Return the rate of the board's oscillator."""
    hz: float = platform.default_clk_frequency
    return round(hz)


def board_clocks(board: Board, memory: Memory) -> list[Clock]:
    """Return the clocks that the board's PLL generates: `sync`, and those of an SDR chip."""
    clocks = [Clock(board.clock_hz)]
    if isinstance(memory, Sdr):
        clocks += [Clock(memory.clock_hz), Clock(memory.clock_hz, memory.pin_phase_degrees)]
    return clocks


def plan_clocks(board: Board, memory: Memory, given: int) -> PllPlan | None:
    """Return a PLL's plan for the board's clocks from an oscillator of `given` Hz, None if the oscillator is the clock.

    OptionError for clocks that no PLL setting gives.
    """
    wanted = board_clocks(board, memory)
    if [clock.hz for clock in wanted] == [given]:
        return None
    planner = _PLANNERS.get(board.toolchain)
    if planner is None:
        raise OptionError(f"{board.name}: clock_hz must be the oscillator's {given:,}, not {board.clock_hz:,}: there "
                          f"is no PLL of a {board.device.name} here")
    return planner(given, wanted)


def check_board(board: Board, memory: Memory) -> None:
    """Raise OptionError for resources that a board's platform lacks, before any long step."""
    platform = load_platform(board)
    if platform.default_clk is None:
        raise OptionError(f"{board.name}: {board.platform} has no default clock")
    needed = ["uart", *([board.led] if board.led else []), *([_PADS[type(memory)]] if type(memory) in _PADS else []),
              *(["spi_flash"] if board.program else [])]
    missing = [name for name in needed if (name, 0) not in platform.resources]
    if missing:
        raise OptionError(f"{board.name}: {board.platform} has no {' and no '.join(missing)}")
    plan_clocks(board, memory, input_hz(platform))


class BoardTop(Elaboratable):
    """One board's design, for `platform.prepare`.

    Parameters
    ----------
    board, memory : from the catalog
    core : the generated DRAM core, for a memory that has one
    image : initial contents of block RAM from address 0
    """

    def __init__(self, board: Board, memory: Memory, *, core: DramCore | None = None, image: bytes = b"") -> None:
        if image and not isinstance(memory, OnChip):
            raise OptionError(f"{memory.name} cannot be initialized: only block RAM can be filled by the bitstream")
        if len(image) > memory.size_bytes:
            raise OptionError(f"{len(image):,} bytes do not fit into {memory.size_bytes:,} bytes of {memory.name}")
        self._board, self._memory, self._core, self._image = board, memory, core, image

    def elaborate(self, platform: Any) -> Module:
        """Clocks first, then the system and its memory."""
        m = Module()
        board, memory = self._board, self._memory
        oscillator, cause = self._make_clocks(m, platform)
        system: System | SocSystem | SpramSystem
        if board.program:
            system = SocSystem(board.config, board.clock_hz, board.baud, memory.size_bytes, board.program)
            platform.add_file("VexRiscv.v", cpu_verilog())
            _connect_flash(m, platform, system)
        elif isinstance(memory, Spram):
            system = SpramSystem(board.config, board.clock_hz, board.baud)
        elif board.config.design == "serial" and isinstance(memory, OnChip):
            system = SpramSystem(board.config, board.clock_hz, board.baud, SmallCells(board.config.scratchpad_bytes),
                                 Cells(memory.size_bytes // 4, self._image), memory.size_bytes)
        else:
            system = System(board.config, board.clock_hz, board.baud, memory.size_bytes,
                            levelled=isinstance(memory, Ddr3))
        m.submodules.system = system
        uart = platform.request("uart", 0, dir="-")
        m.submodules.pin_rx = rx = io.Buffer(io.Direction.Input, uart.rx)
        m.d.comb += [system.rx.eq(rx.i), _drive(m, "tx", uart.tx).eq(system.tx)]
        if board.led:
            led = platform.request(board.led, 0, dir="-")
            m.d.comb += _drive(m, "led", led.g if board.led == "rgb_led" else led).eq(system.interrupt)
        if isinstance(system, SpramSystem):
            return m
        if isinstance(memory, OnChip):
            m.submodules.memory = chip = OnChipMemory(BlockCells(board.config.bus_bytes, memory.size_bytes,
                                                                 self._image))
            wiring.connect(m, system.memory, chip.bus)
            if isinstance(system, SocSystem):
                m.d.comb += system.dram_ack.eq(1)
        else:
            self._make_dram(m, platform, system, oscillator, cause)
        return m

    def _make_clocks(self, m: Module, platform: Any) -> tuple[Signal, Signal]:
        """Return the oscillator's clock, and the reset of all domains."""
        plan = plan_clocks(self._board, self._memory, input_hz(platform))
        oscillator, locked = Signal(name="oscillator"), Signal()
        m.domains.power_on = ClockDomain(reset_less=True, local=True)
        m.domains.sync = ClockDomain()
        m.d.comb += ClockSignal("power_on").eq(oscillator)
        if plan is None:
            pad = platform.request(platform.default_clk, 0, dir="-")
            m.submodules.oscillator = buffer = io.Buffer(io.Direction.Input, pad)
            m.d.comb += [oscillator.eq(buffer.i), locked.eq(1), ClockSignal("sync").eq(oscillator)]
        else:
            self._make_pll(m, platform, oscillator, locked, plan)
        left = Signal(range(_POWER_ON_CYCLES), init=_POWER_ON_CYCLES - 1)
        with m.If(left != 0):
            m.d.power_on += left.eq(left - 1)
        cause = Signal(name="reset_cause")
        button: Any = Const(0, 1)
        if platform.default_rst is not None:
            m.submodules.pin_reset = buffer = io.Buffer(io.Direction.Input,
                                                        platform.request(platform.default_rst, 0, dir="-"))
            button = buffer.i
        # A register, so that the domains' reset has no glitches.
        m.d.power_on += cause.eq((left != 0) | ~locked | button)
        m.submodules.reset_sync = ResetSynchronizer(cause, domain="sync")
        if isinstance(self._memory, Sdr):
            m.submodules.reset_mem = ResetSynchronizer(cause, domain="mem")
        return oscillator, cause

    def _make_pll(self, m: Module, platform: Any, oscillator: Signal, locked: Signal, plan: PllPlan) -> None:
        pad = platform.request(platform.default_clk, 0, dir="-")
        pll: Ecp5Pll | XilinxPll | Ice40Pll
        if self._board.toolchain is Toolchain.ICE40:
            pll = Ice40Pll(plan, pad.io)
            m.d.comb += oscillator.eq(pll.outputs[0])
        else:
            pll = Ecp5Pll(plan) if self._board.toolchain is Toolchain.ECP5 else XilinxPll(plan)
            m.submodules.oscillator = buffer = io.Buffer(io.Direction.Input, pad)
            m.d.comb += [oscillator.eq(buffer.i), pll.input.eq(oscillator)]
        m.submodules.pll = pll
        m.d.comb += [locked.eq(pll.locked), ClockSignal("sync").eq(pll.outputs[0])]
        if isinstance(self._memory, Sdr):
            m.domains.mem = ClockDomain()
            m.domains.mem_pin = ClockDomain(reset_less=True)
            m.d.comb += [ClockSignal("mem").eq(pll.outputs[1]), ClockSignal("mem_pin").eq(pll.outputs[2])]

    def _make_dram(self, m: Module, platform: Any, system: System | SocSystem, oscillator: Signal,
                   cause: Signal) -> None:
        memory = self._memory
        assert isinstance(memory, Sdr | Ddr3) and self._core is not None
        platform.add_file(f"{CORE}.v", self._core.verilog)
        m.submodules.path = path = DramPath(
            self._board.config.bus_bytes, memory.data_bytes, few_luts=self._board.toolchain is Toolchain.XILINX)
        wiring.connect(m, system.memory, path.bus)
        ports = memory_ports(path.core, ceil_log2(memory.size_bytes))
        if isinstance(system, SocSystem):
            ports |= add_control(m, system)
        elif system.status is None:
            ports |= add_sequencer(m, self._core.sequence)
        else:
            assert self._core.levelling is not None
            ports |= add_leveller(m, self._core.levelling, system.status)
        if isinstance(memory, Sdr):
            ports |= {"i_clk": ClockSignal("mem"), "i_rst": ResetSignal("mem"), **_sdr_pads(m, platform)}
        else:
            # The core's own PLL generates this clock.
            m.domains.mem = ClockDomain()
            ports |= {"i_clk": oscillator, "i_rst": cause, "o_user_clk": ClockSignal("mem"),
                      "o_user_rst": ResetSignal("mem"), **_ddr3_pads(m, platform)}
        m.submodules.core = Instance(CORE, **ports)


def _drive(m: Module, name: str, port: Any, *, inverted: bool = False) -> Signal:
    """Return a signal that drives an output pin; `inverted` when it is active low where the pin is not."""
    signal = Signal(len(port), name=f"to_{name}")
    m.submodules[f"pin_{name}"] = buffer = io.Buffer(io.Direction.Output, port)
    m.d.comb += buffer.o.eq(~signal if inverted else signal)
    return signal


def _connect_flash(m: Module, platform: Any, system: SocSystem) -> None:
    """Connect the flash's pins to the soft core; an ECP5 drives its clock by a cell: configuration uses that pin."""
    pads = platform.request("spi_flash", 0, dir="-")
    m.submodules.pin_cipo = cipo = io.Buffer(io.Direction.Input, pads.cipo)
    m.submodules.flash_clk = Instance("USRMCLK", i_USRMCLKI=system.flash_clk, i_USRMCLKTS=0)
    m.d.comb += [system.flash_cipo.eq(cipo.i), _drive(m, "flash_cs", pads.cs).eq(system.flash_select),
                 _drive(m, "flash_copi", pads.copi).eq(system.flash_copi),
                 _drive(m, "flash_hold", pads.hold).eq(0), _drive(m, "flash_wp", pads.wp).eq(0)]


def _sdr_pads(m: Module, platform: Any) -> dict[str, Any]:
    """Return the connections of the chip's pins; the clock pin is driven here."""
    pads = platform.request("sdram", 0, dir="-")
    m.submodules.pin_clk = clock = io.DDRBuffer(io.Direction.Output, pads.clk, o_domain="mem_pin")
    m.d.comb += [clock.o[0].eq(1), clock.o[1].eq(0)]
    ports: dict[str, Any] = {"io_sdram_dq": pads.dq.io}
    for ours, theirs, inverted in (("a", "a", False), ("ba", "ba", False), ("we", "we_n", True), ("ras", "ras_n", True),
                                   ("cas", "cas_n", True), ("cs", "cs_n", True), ("clk_en", "cke", False),
                                   ("dqm", "dm", False)):
        if hasattr(pads, ours):
            ports[f"o_sdram_{theirs}"] = _drive(m, ours, getattr(pads, ours), inverted=inverted)
    return ports


def _ddr3_pads(m: Module, platform: Any) -> dict[str, Any]:
    """Return the connections of the chip's pins; the core drives data and strobes with cells of its own."""
    pads = platform.request("ddr3", 0, dir="-")
    ports: dict[str, Any] = {"io_ddram_dq": pads.dq.io, "io_ddram_dqs_p": pads.dqs.p}
    if platform.device.lower().startswith("xc7"):
        ports |= {"io_ddram_dqs_n": pads.dqs.n, "io_ddram_clk_p": pads.clk.p, "io_ddram_clk_n": pads.clk.n}
    else:
        ports["o_ddram_clk_p"] = _drive(m, "clk", pads.clk)
    for ours, theirs, inverted in (("a", "a", False), ("ba", "ba", False), ("we", "we_n", True), ("ras", "ras_n", True),
                                   ("cas", "cas_n", True), ("cs", "cs_n", True), ("clk_en", "cke", False),
                                   ("dm", "dm", False), ("odt", "odt", False), ("rst", "reset_n", True)):
        if hasattr(pads, ours):
            ports[f"o_ddram_{theirs}"] = _drive(m, ours, getattr(pads, ours), inverted=inverted)
    return ports
