"""Generate LiteDRAM's controller of a DDR3 with its own model of the DRAM: `python ddr3_core.py FOLDER SHAPE`.

A separate program, like boards/build/dram_generate.py. It writes core.v and registers.json, which has the byte
addresses by name. In core.v the bits of a port `garble` corrupt the data read, as wrong settings of the PHY would.
SHAPE is JSON: the phases of reads and writes, and what differs from the Arty: phases per cycle, bits of the user port,
data rate.
"""

import json
import re
import sys
import types
from pathlib import Path
from typing import Any


def main() -> None:
    folder = Path(sys.argv[1])
    shape = json.loads(sys.argv[2])
    sys.argv[1:] = []
    from litedram import modules, phy
    from litedram.common import PhySettings
    from litedram.gen import LiteDRAMCore
    from litex.build.generic_platform import Pins
    from litex.build.sim import SimPlatform, verilator
    from litex.soc.integration.builder import Builder

    phases = shape.get("phases", 4)

    def settings(**_: object) -> Any:
        return PhySettings(phytype="A7DDRPHY", memtype="DDR3", databits=16, dfi_databits=128 // phases, nranks=1,
                           nphases=phases, rdphase=shape["read_phase"], wrphase=shape["write_phase"], cl=7, cwl=5,
                           read_latency=8, write_latency=1, cmd_latency=0, strobes=2)

    # The module of that name needs packages that nothing else needs.
    stand_in: Any = types.ModuleType("litex.tools.litex_sim")
    stand_in.get_sdram_phy_settings = settings
    sys.modules["litex.tools.litex_sim"] = stand_in
    class Chip(modules.MT41K128M16):
        def __init__(self, clock_hz: float, rate: str) -> None:
            super().__init__(clock_hz, rate=f"1:{phases}")

    platform = SimPlatform("SIM", io=[])
    platform.add_extension([("clk", 0, Pins(1))])
    soc = LiteDRAMCore(platform, {
        "device": "", "cpu": None, "memtype": "DDR3", "sdram_phy": phy.A7DDRPHY, "sdram_module": Chip,
        "sdram_module_nb": 2, "sdram_rank_nb": 1, "sys_clk_freq": shape.get("clock_hz", 100e6), "input_clk_freq": 100e6,
        "user_ports": {"0": {"type": "axi", "id_width": 3, "data_width": shape.get("port_bits", 64)}}})
    # Files other than the Verilog are not needed either.
    verilator._generate_sim_variables = verilator._build_sim = lambda *_, **__: None
    Builder(soc, output_dir=str(folder / "litex"), compile_software=False, compile_gateware=False,
            csr_json=str(folder / "csr.json")).build(build_name="tq_dram", regular_comb=False, run=False)
    text = (folder / "litex" / "gateware" / "tq_dram.v").read_text(encoding="utf-8")
    # LiteDRAM's model signals valid data in the first phase only; the PHYs do so in every phase.
    text, valid = re.subn(r"(rddata_valid\} = )(soc_ddrphy_new_banks_read\d+);", rf"\1{{{phases}{{\2}}}};", text)
    text, data = re.subn(r"(rddata\} = )(soc_ddrphy_new_banks_read_data\d+);", r"\1\2 ^ garble;", text)
    assert valid and data, "LiteDRAM's model has changed"
    text = text.replace("module tq_dram (", "module tq_dram (input wire [127:0] garble,", 1)
    (folder / "core.v").write_text(text, encoding="utf-8")
    registers = json.loads((folder / "csr.json").read_text(encoding="utf-8"))["csr_registers"]
    (folder / "registers.json").write_text(json.dumps({name: one["addr"] for name, one in registers.items()}),
                                           encoding="utf-8")


if __name__ == "__main__":
    main()
