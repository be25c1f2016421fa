"""What a board is: one frozen record, filled in by one small file per board."""

from dataclasses import dataclass
from enum import Enum

from tq_hw.boards.gateware.on_chip import SPRAM_BYTES
from tq_hw.isa.config import Config

__all__ = ["FAMILIES", "Board", "Ddr3", "Device", "Memory", "OnChip", "Sdr", "Spram", "Toolchain"]


class Toolchain(Enum):
    """The programs that make a bitstream of a netlist."""

    ECP5 = "Yosys, nextpnr-ecp5"
    ICE40 = "Yosys, nextpnr-ice40"
    GOWIN = "Yosys, nextpnr-himbaechel, Apicula"
    XILINX = "Vivado"


#: Kinds of FPGA, as Yosys' scripts are named.
FAMILIES = {Toolchain.ECP5: "ecp5", Toolchain.ICE40: "ice40", Toolchain.GOWIN: "gowin", Toolchain.XILINX: "xc7"}


@dataclass(frozen=True)
class Device:
    """What there is on the FPGA, by the names of the resource table: at most as much may be used."""

    name: str
    luts: int
    flip_flops: int
    multipliers: int
    block_rams: int


@dataclass(frozen=True)
class OnChip:
    """Block RAM of the FPGA."""

    size_bytes: int
    name: str = "block RAM"


@dataclass(frozen=True)
class Spram:
    """One half of the single-port RAM of an iCE40UP5K; the other half is the serial machine's own."""

    size_bytes: int = SPRAM_BYTES
    name: str = "SPRAM"


@dataclass(frozen=True)
class Sdr:
    """SDR SDRAM behind a LiteDRAM core with a clock of its own.

    Members
    -------
    chip : LiteDRAM's name of the chip; boards of one kind may carry others
    size_bytes, data_bytes : of all chips together
    clock_hz : of core and chip; the chip's pin lags by `pin_phase_degrees`
    """

    chip: str
    size_bytes: int
    data_bytes: int = 2
    clock_hz: int = 75_000_000
    pin_phase_degrees: int = 90
    name: str = "SDR SDRAM"


@dataclass(frozen=True)
class Ddr3:
    """DDR3 behind a LiteDRAM core, which has a PLL of its own. It answers only after it has been levelled.

    Members
    -------
    chip, phy : LiteDRAM's names
    clock_hz, data_bytes : of the core's user port, which is as wide as the controller's words: LiteDRAM's converter to
        narrower ones reads a word at a time, an eighth of this rate
    options : further keys of the core's description
    """

    chip: str
    phy: str
    size_bytes: int
    clock_hz: int
    data_bytes: int = 16
    options: tuple[tuple[str, object], ...] = ()
    name: str = "DDR3"


Memory = OnChip | Spram | Sdr | Ddr3


@dataclass(frozen=True)
class Board:
    """Everything that `tq-hw build` has to know.

    Members
    -------
    name : of `--board`
    title : what people call it
    platform : class of amaranth-boards, as "module:Class"
    device : what the FPGA has
    toolchain : what makes the bitstream
    config : of the accelerator
    clock_hz : of the accelerator and everything on domain `sync`; the target of timing
    memories : kinds that the board can be built with, the default first
    loader : options of openFPGALoader that name the board or its cable
    led : resource that lights while the machine is done or stopped, "" for none
    soc_clock_hz : in place of `clock_hz` with a soft core, whose paths are longer; 0 where none can be built
    seed, seeds : of the placer: where `tq-hw build` begins, and how many it tries at once. Timing is partly luck: where
        `seed` is not 1, it is known to meet the target with the first kind of memory
    program : what a soft core boots; with it the board has one in place of the host link
    """

    name: str
    title: str
    platform: str
    device: Device
    toolchain: Toolchain
    config: Config
    clock_hz: int
    memories: tuple[Memory, ...]
    loader: tuple[str, ...]
    baud: int = 1_000_000
    led: str = "led"
    soc_clock_hz: int = 0
    seed: int = 1
    seeds: int = 1
    program: bytes = b""

    @property
    def core_clock_hz(self) -> int:
        """The clock beside a soft core; that of the board where such a core is only simulated."""
        return self.soc_clock_hz or self.clock_hz
