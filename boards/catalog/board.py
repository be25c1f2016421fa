"""The record of a board: frozen, filled in by one small file per board."""

from dataclasses import dataclass
from enum import Enum

from tq_hw.boards.gateware.on_chip import SPRAM_BYTES
from tq_hw.isa.config import Config

__all__ = ["FAMILIES", "Board", "Ddr3", "Device", "Memory", "OnChip", "Sdr", "Spram", "Toolchain"]


class Toolchain(Enum):
    """The programs that make a bitstream from a netlist."""

    ECP5 = "Yosys, nextpnr-ecp5"
    ICE40 = "Yosys, nextpnr-ice40"
    GOWIN = "Yosys, nextpnr-himbaechel, Apicula"
    XILINX = "Vivado"


#: Kinds of FPGA, by the names of Yosys' scripts.
FAMILIES = {Toolchain.ECP5: "ecp5", Toolchain.ICE40: "ice40", Toolchain.GOWIN: "gowin", Toolchain.XILINX: "xc7"}


@dataclass(frozen=True)
class Device:
    """The FPGA's resources, by the names of the resource table; a design may use all of them."""

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
    """One half of the single-port RAM of an iCE40UP5K; the serial machine uses the other half."""

    size_bytes: int = SPRAM_BYTES
    name: str = "SPRAM"


@dataclass(frozen=True)
class Sdr:
    """SDR SDRAM with a LiteDRAM controller in its own clock domain.

    Members
    -------
    chip : LiteDRAM's name of the chip; other units of the same board may have other chips
    size_bytes, data_bytes : of all chips together
    clock_hz : of controller and chip; the clock at the chip's pin lags by `pin_phase_degrees`
    """

    chip: str
    size_bytes: int
    data_bytes: int = 2
    clock_hz: int = 75_000_000
    pin_phase_degrees: int = 90
    name: str = "SDR SDRAM"


@dataclass(frozen=True)
class Ddr3:
    """DDR3 with a LiteDRAM controller, which has its own PLL. It responds only after levelling.

    Members
    -------
    chip, phy : LiteDRAM's names
    clock_hz, data_bytes : of the controller's user port, which is as wide as the controller's words: LiteDRAM's
        converter to a narrower port reads one word at a time, at an eighth of this rate
    options : further keys of the controller's description
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
    """Everything that `tq-hw build` needs to know.

    Members
    -------
    name : of `--board`
    title : the product's name
    platform : class of amaranth-boards, as "module:Class"
    device : the FPGA's resources
    toolchain : the programs that make the bitstream
    config : of the accelerator
    clock_hz : of the accelerator and all of domain `sync`; the target of timing
    memories : kinds that the board can be built with, the default first
    loader : options of openFPGALoader that name the board or its cable
    led : resource that lights while the machine is done or stopped, "" for none
    soc_clock_hz : replaces `clock_hz` with a soft core, whose paths are longer; 0 where none can be built
    seed, seeds : of the placer: the first seed of `tq-hw build`, and how many it runs at once. Timing is partly luck: a
        `seed` other than 1 is known to meet the target with the first kind of memory
    program : initial program of a soft core; with it the board has a soft core instead of the host link
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
        """The clock with a soft core; the board's clock where such a core is only simulated."""
        return self.soc_clock_hz or self.clock_hz
