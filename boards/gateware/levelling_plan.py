"""The leveller's accesses to the registers of a LiteDRAM controller, as lists."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tq_hw.boards.link.protocol import DRAM_LANES
from tq_hw.model.errors import OptionError

__all__ = ["Levelling", "PhyShape", "Step", "plan_levelling"]

#: Byte address, value to write or to expect, cycles to wait, whether it is a read that must return the value.
Step = tuple[int, int, int, bool]

#: Bits of LiteDRAM's `sdram_dfii_pi*_command`.
_CS, _WE, _CAS, _RAS, _WRITE, _READ = (1 << bit for bit in range(6))
_BURST_WORDS = 8
#: Patterns in one row of the DRAM, one burst each.
_PATTERNS = 4
_ALL_BANKS = 1 << 10
#: Longer than any required time between two commands, and than the latency of a read.
_COMMAND_CYCLES = 15
#: All bits of `sdram_dfii_control` that give the DRAM to the controller: select, CKE, ODT, reset off.
_HARDWARE_CONTROL = 0xF


@dataclass(frozen=True)
class PhyShape:
    """A PHY of LiteDRAM: phases of its clock, 32-bit words per phase, bytes, delays, bitslips, command phases."""

    phases: int
    words: int
    lanes: int
    delays: int
    slips: int
    read_phase: int
    write_phase: int


@dataclass(frozen=True)
class Levelling:
    """The leveller's accesses to the controller's registers.

    Members
    -------
    before : initializes the DRAM and writes the patterns
    point : reads the patterns at one setting
    after : gives the DRAM to the controller
    select, delay_reset, delay_step, slip_reset, slip_step, error : byte addresses
    """

    before: tuple[Step, ...]
    point: tuple[Step, ...]
    after: tuple[Step, ...]
    select: int
    delay_reset: int
    delay_step: int
    slip_reset: int
    slip_step: int
    error: int
    lanes: int
    delays: int
    slips: int


def plan_levelling(wake: tuple[tuple[int, int, int], ...], address: Mapping[str, int], shape: PhyShape) -> Levelling:
    """Return the accesses for a controller: `wake` is its initialization, `address` its registers by LiteDRAM's names.

    OptionError for a DRAM wider than the board's status registers can report.
    """
    if shape.lanes > DRAM_LANES:
        raise OptionError(f"a DRAM {shape.lanes} bytes wide cannot be levelled here: expected {DRAM_LANES} or fewer")
    random = Random(1)

    def command(phase: int, bits: int, at: int) -> list[Step]:
        pins = f"sdram_dfii_pi{phase}_"
        return [(address[f"{pins}address"], at, 0, False), (address[f"{pins}baddress"], 0, 0, False),
                (address[f"{pins}command"], bits, 0, False),
                (address[f"{pins}command_issue"], 1, _COMMAND_CYCLES, False)]

    def words(kind: str) -> list[int]:
        return [address[f"sdram_dfii_pi{phase}_{kind}"] + 4 * word for phase in range(shape.phases)
                for word in range(shape.words)]

    write, read = command(0, _CS | _RAS, 0), command(0, _CS | _RAS, 0)
    for pattern in range(_PATTERNS):
        values = [random.getrandbits(32) for _ in words("wrdata")]
        write += [(register, value, 0, False) for register, value in zip(words("wrdata"), values, strict=True)]
        write += command(shape.write_phase, _CS | _CAS | _WE | _WRITE, _BURST_WORDS * pattern)
        read += command(shape.read_phase, _CS | _CAS | _READ, _BURST_WORDS * pattern)
        read += [(register, value, 0, True) for register, value in zip(words("rddata"), values, strict=True)]
    close = command(0, _CS | _RAS | _WE, _ALL_BANKS)
    return Levelling(
        (*((*step, False) for step in wake), *write, *close), (*read, *close),
        ((address["sdram_dfii_control"], _HARDWARE_CONTROL, 0, False), (address["ddrctrl_init_done"], 1, 0, False)),
        address["ddrphy_dly_sel"], address["ddrphy_rdly_dq_rst"], address["ddrphy_rdly_dq_inc"],
        address["ddrphy_rdly_dq_bitslip_rst"], address["ddrphy_rdly_dq_bitslip"], address["ddrctrl_init_error"],
        shape.lanes, shape.delays, shape.slips)
