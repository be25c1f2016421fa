"""The accelerator in LiteX's SoCs: headers, ports, refusals; the long tests simulate whole SoCs."""

import logging
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tq_hw.boards.build.litex_firmware import LitexProgram, build_litex_firmware
from tq_hw.hdl.top import top_members
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import OptionError, ToolError

pytest.importorskip("litex_boards", reason='the extra litex is not installed: pip install "tq-hw[litex]"')
litex = pytest.importorskip("tq_hw.litex", reason="LiteX is not installed")
EXAMPLES = Path(__file__).parents[2] / "examples" / "litex"


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make LiteX ignore the command line and print nothing."""
    monkeypatch.setattr(sys, "argv", sys.argv[:1])
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def make_soc(folder: Path, *mixins: type, **options: Any) -> Any:
    """Return a small SoC whose Verilog is not needed; `mixins` precede LiteX's class."""
    from litex.build.generic_platform import Pins
    from litex.build.io import CRG
    from litex.build.sim import SimPlatform
    from litex.soc.integration.soc_core import SoCCore

    class Nothing:
        def build(self, platform: Any, soc: Any, build_dir: str, build_name: str, **_: object) -> Any:
            fragment = soc.get_fragment()
            platform.finalize(fragment)
            verilog = platform.get_verilog(fragment, name=build_name)
            (Path(build_dir) / "soc.v").write_text(verilog.main_source, encoding="utf-8")
            return verilog.ns

    platform = SimPlatform("SIM", [("sys_clk", 0, Pins(1)), ("sys_rst", 0, Pins(1))])
    platform.toolchain = Nothing()
    kind = type("Soc", (*mixins, SoCCore), {})
    soc = kind(platform, 50_000_000, uart_name="stub", integrated_rom_size=0x4000, integrated_sram_size=0x2000,
                  timer_uptime=True, **options)
    reset: Any = platform.request("sys_rst")
    soc.crg = CRG(platform.request("sys_clk"), reset)
    return soc


def add_sdram(soc: Any) -> None:
    from litedram.modules import MT48LC16M16
    from litedram.phy.model import SDRAMPHYModel

    chip = MT48LC16M16(50_000_000, "1:1")
    soc.sdrphy = SDRAMPHYModel(chip, data_width=16, clk_freq=50_000_000)
    soc.add_sdram("sdram", phy=soc.sdrphy, module=chip, l2_cache_size=2048)


def build(soc: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run LiteX's generation without the accelerator's Verilog, which takes long and is tested elsewhere."""
    from litex.soc.integration.builder import Builder

    class Text:
        text = "// the accelerator\n"

    def written(component: Any, name: str) -> type[Text]:
        component._MustUse__silence = True  # Amaranth warns of components that are never elaborated
        return Text

    monkeypatch.setattr(litex, "to_readable_verilog", written)
    Builder(soc, output_dir=str(folder), compile_software=False).build(build_name="soc")
    assert (folder / "gateware" / "npu.v").read_text(encoding="utf-8") == Text.text
    return folder / "software" / "include"


def macros(include: Path, name: str) -> dict[str, int]:
    found = re.findall(r"#define (\w+) \(?(0x[0-9a-f]+|\d+)L?\)?$", (include / "generated" / name).read_text(), re.M)
    return {key: int(value, 0) for key, value in found}


@pytest.mark.usefixtures("quiet")
def test_what_litex_generates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions, interrupt and event have the names of the guide; firmware compiles with the generated headers."""
    soc = make_soc(tmp_path)
    add_sdram(soc)
    unit = litex.add_tq_hw(soc, "tiny", name="npu", memory_bytes=1 << 16)
    include = build(soc, tmp_path, monkeypatch)
    memory = macros(include, "mem.h")
    assert memory["NPU_SIZE"] == 4096
    assert memory["NPU_MEMORY_BASE"] + memory["NPU_MEMORY_SIZE"] == memory["MAIN_RAM_BASE"] + memory["MAIN_RAM_SIZE"]
    assert memory["NPU_MEMORY_SIZE"] == 1 << 16
    assert not soc.bus.regions["npu"].cached and unit is soc.npu
    assert macros(include, "soc.h")["NPU_INTERRUPT"] == soc.irq.locs["npu"]
    assert "static inline void npu_ev_enable_write(uint32_t v)" in (include / "generated" / "csr.h").read_text()
    instance = re.search(r"^npu npu\((.*?)\);", (tmp_path / "gateware" / "soc.v").read_text(), re.S | re.M)
    assert instance is not None
    connected = dict(re.findall(r"\.(\w+) +\((.*?)\)(?:,|$)", instance.group(1), re.M))
    assert set(connected) == set(top_members(PRESETS["tiny"], "wishbone"))
    assert connected["s_wb_adr"].endswith("_adr[9:0]") and connected["m_axi_rdata"].endswith("_r_payload_data")
    assert len(set(connected.values())) == len(connected), "two ports on one signal"
    rom, ram = soc.bus.regions["rom"], soc.bus.regions["sram"]
    program = LitexProgram("npu", "here", include, "vexriscv", soc.cpu.gcc_flags, (rom.origin, rom.size),
                           (ram.origin, ram.size), 0x20000000)
    assert 4096 < build_litex_firmware(program).ram_bytes < rom.size
    with pytest.raises(ToolError, match="^zig did not compile the runtime; its last output:\n"):
        build_litex_firmware(replace(program, code=(rom.origin, 1024)))
    with pytest.raises(OptionError, match=r"^the firmware is for RV32 processors, not for rocket \(-march=rv64i\)$"):
        build_litex_firmware(replace(program, cpu="rocket", cpu_flags="-march=rv64i"))


@pytest.mark.usefixtures("quiet")
def test_a_master_on_the_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soc = make_soc(tmp_path, integrated_main_ram_size=0x10000)
    litex.add_tq_hw(soc, PRESETS["tiny"], name="npu", memory_bytes=1 << 15, origin=0x90000000)
    assert "npu" in soc.bus.masters and soc.bus.regions["npu"].origin == 0x90000000
    build(soc, tmp_path, monkeypatch)


@pytest.mark.usefixtures("quiet")
def test_a_soc_with_the_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The method does the same as the function: the generated files are equal."""
    headers = []
    for folder, mixins in ((tmp_path / "function", ()), (tmp_path / "method", (litex.WithTqHw,))):
        soc = make_soc(folder, *mixins)
        add_sdram(soc)
        add = soc.add_tq_hw if mixins else partial(litex.add_tq_hw, soc)
        unit = add(config="tiny", name="npu", memory_bytes=1 << 16)
        assert unit is soc.npu and isinstance(unit, litex.TqHw)
        include = build(soc, folder, monkeypatch)
        headers.append([macros(include, name) for name in ("mem.h", "soc.h", "csr.h")])
    assert headers[0] == headers[1] and headers[0][0]["NPU_SIZE"] == 4096
    with pytest.raises(OptionError, match=r"^the SoC has no main_ram: call soc\.add_sdram first"):
        make_soc(tmp_path, litex.WithTqHw).add_tq_hw(config="n9x8")


@pytest.mark.usefixtures("quiet")
def test_two_in_one_soc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two accelerators of different configurations; each has its own page, interrupt, memory and port."""
    soc = make_soc(tmp_path)
    add_sdram(soc)
    litex.add_tq_hw(soc, "tiny", name="npu", memory_bytes=1 << 16)
    litex.add_tq_hw(soc, "n8", name="other", memory_bytes=1 << 15)
    with pytest.raises(OptionError) as caught:
        litex.add_tq_hw(soc, "n8", name="other", memory_bytes=1 << 15)
    assert str(caught.value) == "name 'other': the SoC has a part of this name; give the accelerator another one"
    include = build(soc, tmp_path, monkeypatch)
    memory, constants = macros(include, "mem.h"), macros(include, "soc.h")
    assert memory["OTHER_MEMORY_BASE"] + memory["OTHER_MEMORY_SIZE"] == memory["NPU_MEMORY_BASE"]
    assert memory["NPU_BASE"] != memory["OTHER_BASE"] and constants["NPU_INTERRUPT"] != constants["OTHER_INTERRUPT"]
    assert (tmp_path / "gateware" / "other.v").is_file()


@pytest.mark.usefixtures("quiet")
def test_what_is_refused(tmp_path: Path) -> None:
    soc = make_soc(tmp_path)
    for arguments, message in (
            ({}, "the SoC has no main_ram: call soc.add_sdram first, or build it with integrated_main_ram_size"),
            ({"memory": "axi"}, "memory must be one of auto, dram, bus, not 'axi'")):
        with pytest.raises(OptionError) as error:
            litex.add_tq_hw(soc, "tiny", **arguments)
        assert str(error.value) == message
    soc = make_soc(tmp_path, integrated_main_ram_size=0x10000)
    power = "memory_bytes must be a power of 2 from 256 to the 65536 bytes of main_ram, not"
    for arguments, message in (
            ({}, f"{power} 1048576"), ({"memory_bytes": 100}, f"{power} 100"),
            ({"memory_bytes": 256, "memory": "dram"}, 'memory="dram": the SoC has no sdram; use "bus"'),
            ({"memory_bytes": 256, "name": "module"},
             "name 'module': expected a Verilog module name that is not a keyword")):
        with pytest.raises(OptionError) as error:
            litex.add_tq_hw(soc, "tiny", **arguments)
        assert str(error.value) == message


@pytest.mark.slow
@pytest.mark.parametrize("options", [
    ("--config", "tiny"), ("--config", "tiny", "--way", "bus"), ("--config", "tiny", "--ram", "integrated"),
    ("--config", "tiny", "--ram", "ddr3", "--sets", "2"), ("--config", "serial", "--cpu-variant", "lite", "--l2", "0"),
    ("--config", "n8", "--model", "mlperf_tiny_kws_dscnn.tflite"),
], ids=" ".join)
def test_a_simulated_soc_is_exact(options: tuple[str, ...], tmp_path: Path) -> None:
    """As a user runs it: firmware in ROM, LiteX's own DRAM initialization, VexRiscv with its caches."""
    models = Path(__file__).parents[3] / "shared" / "models"
    done = subprocess.run([sys.executable, EXAMPLES / "sim.py", "--folder", tmp_path,
                           *(models / each if each.endswith(".tflite") else each for each in options)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout.endswith("every integer equals the golden model's\n")


@pytest.mark.slow
@pytest.mark.parametrize("board", ["ulx3s", "arty"])
def test_boards_are_generated(board: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, EXAMPLES / f"{board}.py", "--config", "tiny", "--folder", tmp_path],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert {path.name for path in tmp_path.iterdir()} >= {"image.bin", "program.bin", "images.json", "gateware"}
    assert (tmp_path / "gateware" / "tq_hw.v").stat().st_size > 100_000
