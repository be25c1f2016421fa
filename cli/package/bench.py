"""The simulation: a self-contained cocotb test, with a compiled model and its expected outputs."""

from importlib.resources import files
from pathlib import Path

import numpy as np

from tq_hw.cli.package.facts import Core
from tq_hw.cli.shared.files import npz_bytes
from tq_hw.compiler import compile_model
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.golden.run import run

__all__ = ["bench_files", "filled"]

_MODEL = Path(str(files("tq_hw.model.samples"))) / "digits.tflite"
_IMPORTS = {"axi4lite": ("AxiLiteBus", "AxiLiteMaster", "AxiResp"), "apb": ("ApbBus", "ApbMaster", "AxiResp")}
_AXI_IMPORTS = ("AxiBus", "AxiRam")
_AXI_RAM = '''\
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.aclk, dut.aresetn, reset_active_level=False,
                          size=MEMORY_BYTES)
        for part, name in ((self.ram.read_if, "_read"), (self.ram.write_if, "_write")):
            setattr(part, name, self.counted(getattr(part, name)))
'''
_AXI_COUNTED = '''\
    def counted(self, plain):
        """Return an access of memory that fails when it should: the model then answers with SLVERR."""
        async def access(address, rest):
            if not self.answers():
                raise ValueError("an error, as the test wants it")
            return await plain(address, rest)
        return access

'''
_AXI_STALL = '''\
        read, write = self.ram.read_if, self.ram.write_if
        channels = (read.ar_channel, read.r_channel, write.aw_channel, write.w_channel, write.b_channel)
        for seed, channel in enumerate(channels):
            channel.set_pause_generator(chances(seed, chance))
'''
_LITE_STALL = '''\
        write, read = self.master.write_if, self.master.read_if
        channels = (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel)
        for seed, channel in enumerate(channels):
            channel.set_pause_generator(chances(seed, chance))
'''
_APB_STALL = "        self.master.set_pause_generator(chances(9, chance))\n"
_OWN_STALL = "        self.pauses = chances(9, chance)\n"
_STALLS = {"axi4lite": _LITE_STALL, "apb": _APB_STALL, "wishbone": _OWN_STALL, "plain": _OWN_STALL}
_WISHBONE_RAM = "        self.ram = WishboneRam(dut, MEMORY_BYTES, self.answers)\n"
_WISHBONE_STALL = "        self.ram.waits = chances(0, chance)\n"
_LIBRARY_MASTER = '''        self.master = {kind}Master({kind}Bus.from_prefix(dut, "{prefix}"), dut.aclk, dut.aresetn,
                                    reset_active_level=False)

    def idle(self) -> None:
        """Begin nothing: the master's own reset ends what is under way."""

    async def write(self, address: int, value: int) -> None:
        answer = await self.master.write(address, value.to_bytes(4, "little"))
        assert answer.resp is AxiResp.OKAY, hex(address)

    async def read(self, address: int) -> int:
        answer = await self.master.read(address, 4)
        assert answer.resp is AxiResp.OKAY, hex(address)
        return int.from_bytes(answer.data, "little")

'''
_WISHBONE_MASTER = '''        self.errors = 0
        self.idle()

    def idle(self) -> None:
        """Begin nothing."""
        self.dut.s_wb_cyc.value = self.dut.s_wb_stb.value = 0

    async def access(self, address: int, value: int | None) -> int:
        dut = self.dut
        while next(self.pauses):
            await RisingEdge(dut.aclk)
        dut.s_wb_adr.value, dut.s_wb_sel.value = address >> 2, 15
        dut.s_wb_we.value, dut.s_wb_dat_w.value = int(value is not None), value or 0
        dut.s_wb_cyc.value = dut.s_wb_stb.value = 1
        while True:
            await RisingEdge(dut.aclk)
            if int(dut.s_wb_ack.value) or int(dut.s_wb_err.value):
                dut.s_wb_cyc.value = dut.s_wb_stb.value = 0
                self.errors += int(dut.s_wb_err.value)
                return int(dut.s_wb_dat_r.value)

    async def write(self, address: int, value: int) -> None:
        await self.access(address, value)

    async def read(self, address: int) -> int:
        return await self.access(address, None)

'''
_PLAIN_MASTER = '''        self.idle()

    def idle(self) -> None:
        """Begin nothing."""
        self.dut.reg_write_en.value = 0

    async def write(self, address: int, value: int) -> None:
        while next(self.pauses):
            await RisingEdge(self.dut.aclk)
        self.dut.reg_addr.value, self.dut.reg_write_data.value = address, value
        self.dut.reg_write_en.value = 1
        await RisingEdge(self.dut.aclk)
        self.dut.reg_write_en.value = 0
        await RisingEdge(self.dut.aclk)

    async def read(self, address: int) -> int:
        self.dut.reg_addr.value = address
        for _ in range(4):
            await RisingEdge(self.dut.aclk)
        return int(self.dut.reg_read_data.value)

'''
_MASTERS = {"axi4lite": _LIBRARY_MASTER.format(kind="AxiLite", prefix="s_axi"),
            "apb": _LIBRARY_MASTER.format(kind="Apb", prefix="s_apb"), "wishbone": _WISHBONE_MASTER,
            "plain": _PLAIN_MASTER}
_LIBRARY_ERRORS = '''    assert (await unit.master.read(0x28, 4)).resp is AxiResp.SLVERR
    assert (await unit.master.write(0x00, bytes(4))).resp is AxiResp.SLVERR
'''
_WISHBONE_ERRORS = '''    assert unit.errors == 0
    await unit.read(0x28)
    await unit.write(0x00, 0)
    assert unit.errors == 2
'''
_ERRORS = {"axi4lite": _LIBRARY_ERRORS, "apb": _LIBRARY_ERRORS, "wishbone": _WISHBONE_ERRORS, "plain": ""}


def filled(template: str, **values: str) -> str:
    """Return a file of `templates/` with the texts between at-signs replaced."""
    text = files("tq_hw.cli.package").joinpath("templates", template).read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def bench_files(core: Core) -> dict[str, bytes]:
    """Return the files of `tb/`: the test, its runner, and the digits model with a picture and its expected answer."""
    model = read_model(str(_MODEL))
    program = compile_model(model, core.config).program
    with np.load(_MODEL.with_name("digits_test.npz")) as arrays:
        image = arrays["input_0"][0]
    vectors = {"input_0": image, **{f"output_{number}": output
                                  for number, output in enumerate(run(model, [image]).outputs)}}
    test = _test(core)
    runner = filled("run.py.in", NAME=core.name, SOURCES=_sources(core))
    return {f"tb/test_{core.name}.py": test.encode(), "tb/run.py": runner.encode(),
            "tb/drive.c": filled("drive.c.in", NAME=core.name, MACRO=core.name.upper()).encode(),
            "tb/ports.vlt": filled("ports.vlt.in", NAME=core.name).encode(),
            "tb/requirements.txt": ("cocotb>=2.0\n" + ("cocotbext-axi>=0.1.28\n" if _names(core) else "")).encode(),
            "tb/digits.tqm": to_bytes(program), "tb/digits.npz": npz_bytes(vectors)}


def _sources(core: Core) -> str:
    return ", ".join("HERE.parent / " + " / ".join(f'"{part}"' for part in file.split("/"))
                     for file in (*core.sources, *core.models))


def _names(core: Core) -> list[str]:
    """Return the names that the test imports from cocotbext-axi."""
    return sorted((*_IMPORTS.get(core.control, ()), *(_AXI_IMPORTS if core.memory_bus == "axi4" else ())))


def _test(core: Core) -> str:
    names, axi = _names(core), core.memory_bus == "axi4"
    return filled("test.py.in", NAME=core.name, MASTER=_MASTERS[core.control], ERRORS=_ERRORS[core.control],
                  IMPORTS=f"from cocotbext.axi import {', '.join(names)}\n" if names else "",
                  LIBRARY=" and cocotbext-axi" if names else "",
                  MEMORY="" if axi else filled("wishbone_ram.in"), RAM=_AXI_RAM if axi else _WISHBONE_RAM,
                  STALL=(_AXI_STALL if axi else _WISHBONE_STALL) + _STALLS[core.control],
                  COUNTED=_AXI_COUNTED if axi else "")
