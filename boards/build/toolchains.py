"""Choose the programs that make a board's bitstream, and say why others are not used."""

from dataclasses import dataclass

from tq_hw.boards.build.openxc7 import OpenFlow, find_openxc7
from tq_hw.boards.build.tools import find_tool, require_tool, require_tools
from tq_hw.boards.catalog.board import Board, Toolchain
from tq_hw.model.errors import OptionError

__all__ = ["OPENXC7", "STEPS", "TOOLS_OF", "VIVADO", "Choice", "choose"]

VIVADO, OPENXC7 = "vivado", "openxc7"
TOOLS_OF: dict[Toolchain, tuple[str, ...]] = {
    Toolchain.ECP5: ("yosys", "nextpnr-ecp5", "ecppack"),
    Toolchain.ICE40: ("yosys", "nextpnr-ice40", "icepack"),
    Toolchain.GOWIN: ("yosys", "nextpnr-himbaechel-gowin", "gowin_pack"),
    Toolchain.XILINX: ("yosys", "vivado"),
}
#: Each program's task, and the share of the build's time at which it starts.
STEPS = {"yosys": ("synthesizing", 0.05), "nextpnr-ecp5": ("placing and routing", 0.2),
         "nextpnr-ice40": ("placing and routing", 0.2), "nextpnr-himbaechel-gowin": ("placing and routing", 0.2),
         "gowin_pack": ("packing", 0.98), "ecppack": ("packing", 0.98), "icepack": ("packing", 0.98),
         "vivado": ("Vivado", 0.2), "nextpnr-xilinx": ("placing and routing", 0.2), "fasm2frames": ("packing", 0.96),
         "xc7frames2bit": ("packing", 0.98)}


@dataclass(frozen=True)
class Choice:
    """The programs after synthesis.

    Members
    -------
    name : the tools that make the bitstream, or would make it
    flow : the open tools, None for others
    missing : programs that are not installed; without them there is no bitstream
    why : why other programs, or the requested ones, are not used; "" where there was no choice
    """

    name: str
    flow: OpenFlow | None = None
    missing: tuple[str, ...] = ()
    why: str = ""


def choose(board: Board, wanted: str = "") -> Choice:
    """Return the programs for a board: the `wanted` ones, by default those installed, the vendor's first.

    Raises OptionError for a choice that the board does not have, MissingToolError for programs that come from pip.
    """
    if board.toolchain is not Toolchain.XILINX:
        if wanted:
            raise OptionError(f"--toolchain {wanted}: {board.name} is built with {board.toolchain.value} alone")
        require_tools(TOOLS_OF[board.toolchain])
        return Choice(board.toolchain.value)
    require_tool("yosys")
    vivado = find_tool("vivado") is not None
    if wanted == VIVADO or (not wanted and vivado):
        return Choice(board.toolchain.value, missing=() if vivado else ("vivado",))
    flow = find_openxc7(board.device.name)
    if isinstance(flow, OpenFlow):
        return Choice("Yosys, nextpnr-xilinx", flow, why="" if wanted else "Vivado was not used: vivado not on the "
                                                                           "PATH")
    why = f"openXC7 was not used: {flow}"
    if wanted == OPENXC7:
        return Choice("Yosys, nextpnr-xilinx", missing=("openXC7",), why=why)
    return Choice(board.toolchain.value, missing=("vivado",), why=why)
