"""Generate a LiteDRAM core: `python -m tq_hw.boards.build.dram_generate FOLDER < description.json`.

LiteX keeps its state in modules and reads the command line, so this is a program of its own. It writes core.v and
facts.json. The facts are:

- the size of the DRAM;
- the register writes that initialize it, [[byte address, value, cycles to wait after it], ...];
- the byte addresses of all registers by name;
- for a PHY that has to be levelled, the members of `PhyShape`.
"""

import contextlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from tq_hw.boards.gateware.axi import MEMORY_ID_BITS

__all__ = ["CORE", "UNKNOWN_CHIP", "generate", "single_assignments", "writes"]

#: Name of the Verilog module.
CORE = "tq_dram"
#: Exit code for a chip that LiteDRAM does not know.
UNKNOWN_CHIP = 2
_PHYS = {"GENSDRPHY": ("GENSDRPHY", "lattice"), "ECP5DDRPHY": ("ECP5DDRPHY", "lattice"),
         "A7DDRPHY": ("A7DDRPHY", "xilinx")}
#: All bits of `sdram_dfii_control` that give the DRAM to the controller: select, CKE, ODT, reset off.
_HARDWARE_CONTROL = 0xF


def single_assignments(verilog: str) -> str:
    """Drop repeated `assign` lines and comments, which differ from run to run, and put a constant first line.

    The generator writes the assignment of a concatenation once per part, which Yosys takes for several drivers. Each
    line of a long comment becomes an empty line: Yosys puts line numbers into the names that it makes up, and placement
    depends on names.
    """
    seen: set[str] = set()
    lines = []
    verilog = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), verilog, flags=re.DOTALL)
    for line in re.sub(r"^//.*\n", "", verilog, flags=re.MULTILINE).splitlines():
        if line.startswith("assign "):
            if line in seen:
                continue
            seen.add(line)
        lines.append(line)
    return "// LiteDRAM (BSD-2-Clause), generated\n" + "\n".join(lines) + "\n"


def writes(sequence: list[tuple[str, int, int, Any, int]], registers: dict[str, Any],
           done: bool) -> list[tuple[int, int, int]]:
    """Return the register writes of LiteDRAM's `sequence`: address, value, cycles to wait.

    `done` adds the writes that give the DRAM to the controller; a DDR3 has to be levelled first.
    """
    address = {name: register["addr"] for name, register in registers.items()}
    found: list[tuple[int, int, int]] = []
    for _comment, a, ba, command, delay in sequence:
        found += [(address["sdram_dfii_pi0_address"], a, 0), (address["sdram_dfii_pi0_baddress"], ba, 0)]
        if isinstance(command, str) and command.startswith("DFII_CONTROL"):
            found.append((address["sdram_dfii_control"], _bits(command), delay))
        else:
            found += [(address["sdram_dfii_pi0_command"], _bits(command), 0),
                      (address["sdram_dfii_pi0_command_issue"], 1, delay)]
    if done:
        found += [(address["sdram_dfii_control"], _HARDWARE_CONTROL, 0), (address["ddrctrl_init_done"], 1, 0)]
    return found


def _bits(command: object) -> int:
    names = {"DFII_CONTROL_SEL": 1, "DFII_CONTROL_CKE": 2, "DFII_CONTROL_ODT": 4, "DFII_CONTROL_RESET_N": 8,
             "DFII_COMMAND_CS": 1, "DFII_COMMAND_WE": 2, "DFII_COMMAND_CAS": 4, "DFII_COMMAND_RAS": 8,
             "DFII_COMMAND_WRDATA": 16, "DFII_COMMAND_RDDATA": 32}
    return sum(names[name] for name in str(command).split("|"))


def generate(description: dict[str, Any], folder: Path) -> None:
    """Write the core's files into `folder`; `description` has LiteDRAM's keys, modules and PHY by name.

    Its own key `port_bits` is the width of the user port, by default the controller's.
    """
    from litedram import modules, phy
    from litedram.gen import LiteDRAMCore
    from litedram.init import get_sdram_phy_init_sequence
    from litex.build.lattice import LatticePlatform
    from litex.build.xilinx import XilinxPlatform
    from litex.soc.integration.builder import Builder

    if not isinstance(getattr(modules, description["sdram_module"], None), type):
        sys.exit(UNKNOWN_CHIP)
    name, vendor = _PHYS[description["sdram_phy"]]
    core: dict[str, Any] = {**description, "cpu": None, "sdram_phy": getattr(phy, name),
                            "sdram_module": getattr(modules, description["sdram_module"]),
                            "user_ports": {"0": {"type": "axi", "id_width": MEMORY_ID_BITS,
                                                 "data_width": description.get("port_bits")}}}
    if vendor == "lattice":
        platform = LatticePlatform(description["device"], io=[], toolchain="trellis")
    else:
        from tq_hw.boards.build.lean_phy import make_lean

        platform = XilinxPlatform("", io=[], toolchain="vivado")
        make_lean(phy.s7ddrphy)
    soc = LiteDRAMCore(platform, core)
    builder = Builder(soc, output_dir=str(folder / "litex"), compile_software=False, compile_gateware=False,
                      csr_json=str(folder / "csr.json"))
    # `regular_comb` would avoid the repeated assignments, but reduces the clock by a quarter.
    builder.build(build_name=CORE, regular_comb=False)
    verilog = (folder / "litex" / "gateware" / f"{CORE}.v").read_text(encoding="utf-8")
    # TRELLIS_IO cells drive these pins, which the generator does not support.
    verilog = re.sub(r"\binput( +wire +(?:\[[\d:]+\] +)?\w+_dqs?_?p?\b)", r"inout\1", verilog)
    (folder / "core.v").write_text(single_assignments(verilog), encoding="utf-8")
    sequence, _mode_registers = get_sdram_phy_init_sequence(soc.sdram.controller.settings.phy,
                                                            soc.sdram.controller.settings.timing)
    registers = json.loads((folder / "csr.json").read_text(encoding="utf-8"))["csr_registers"]
    steps = writes(sequence, registers, description["memtype"] == "SDR")
    geometry = soc.sdram.controller.settings.geom
    words = 1 << geometry.bankbits + geometry.rowbits + geometry.colbits
    size_bytes = words * soc.sdram.controller.settings.phy.databits // 8
    facts = {"sequence": steps, "size_bytes": size_bytes, "shape": _shape(soc.sdram.controller.settings.phy),
             "registers": {name: register["addr"] for name, register in registers.items()}}
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")


def _shape(phy: Any) -> dict[str, int] | None:
    """Return the facts that a leveller needs about a PHY, None for a PHY without levelling."""
    if not phy.read_leveling:
        return None
    # In some PHYs the phases are registers; the controller uses their reset values.
    phases = {name: int(phase.reset.value if hasattr(phase, "reset") else phase)
              for name, phase in (("read_phase", phy.rdphase), ("write_phase", phy.wrphase))}
    return {"phases": phy.nphases, "words": phy.dfi_databits // 32, "lanes": phy.databits // 8, "delays": phy.delays,
            "slips": phy.bitslips, **phases}


def main() -> None:
    """Generate the core described on standard input; LiteX's own output goes to standard error."""
    folder = Path(sys.argv[1])
    description = json.load(sys.stdin)
    sys.argv[1:] = []
    with contextlib.redirect_stdout(sys.stderr):
        generate(description, folder)


if __name__ == "__main__":
    main()
