"""Two cores run the digits model at once in one memory that stalls at random; `simulate_two.py` provides the files."""

import random
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import Combine, RisingEdge, with_timeout
from cocotbext.axi import ApbBus, ApbMaster, AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

#: Where the regions of each begin: image, arena, state.
PLACES = {"left": 0x1000, "right": 0x20000}
MEMORY_BYTES = 1 << 18


def chances(seed: int) -> Iterator[bool]:
    """Yield whether a channel waits in a cycle."""
    rng = random.Random(seed)
    while True:
        yield rng.random() < 0.3


class Core:
    """One of the two: its registers by a master, its part of the memory."""

    def __init__(self, dut: Any, ram: Any, name: str, master: Any, test: Any) -> None:
        self.ram, self.name, self.master, self.offset = ram, name, master, test.OFFSET
        self.interrupt = getattr(dut, f"{name}_interrupt")
        self.model = test.Model(test.MODEL.read_bytes())
        self.bases = [base - test.ALIGN + PLACES[name] for base in self.model.bases()]

    async def write(self, register: str, value: int) -> None:
        """Write a register."""
        await self.master.write(self.offset[register], value.to_bytes(4, "little"))

    async def read(self, register: str) -> int:
        """Return a register."""
        answer = await self.master.read(self.offset[register], 4)
        return int.from_bytes(answer.data, "little")

    async def run(self, data: bytes, expected: bytes) -> None:
        """Run the model once."""
        model = self.model
        self.ram.write(self.bases[0], model.image)
        self.ram.write(self.bases[2], model.state)
        (port,), (result,) = model.inputs, model.outputs
        self.ram.write(self.bases[port["region"]] + port["region_offset"], data)
        for region, base in enumerate(self.bases):
            await self.write(f"base{region}", base)
        await self.write("command_offset", model.header["command_offset"])
        await self.write("command_bytes", model.header["command_bytes"])
        await self.write("control", 1)
        if not int(self.interrupt.value):
            await with_timeout(RisingEdge(self.interrupt), 10, "ms")
        assert await self.read("status") == 2, self.name
        cocotb.log.info("%s: %d cycles", self.name, await self.read("counter_cycles"))
        found = self.ram.read(self.bases[result["region"]] + result["region_offset"], result["size_bytes"])
        assert bytes(found) == expected, self.name


@cocotb.test()
async def both_are_exact_at_once(dut: Any) -> None:
    """Three times, with both started in the same cycles."""
    dut.aresetn.value = 0
    Clock(dut.aclk, 10, "ns").start()
    reset = {"reset_active_level": False}
    ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.aclk, dut.aresetn, size=MEMORY_BYTES, **reset)
    masters = {"left": AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.aclk, dut.aresetn, **reset),
               "right": ApbMaster(ApbBus.from_prefix(dut, "s_apb"), dut.aclk, dut.aresetn, **reset)}
    tests: dict[str, Any] = {name: import_module(f"test_{name}") for name in PLACES}
    cores = [Core(dut, ram, name, masters[name], tests[name]) for name in PLACES]
    read, write = ram.read_if, ram.write_if
    for seed, channel in enumerate((read.ar_channel, read.r_channel, write.aw_channel, write.w_channel,
                                    write.b_channel)):
        channel.set_pause_generator(chances(seed))
    for _ in range(4):
        await RisingEdge(dut.aclk)
    dut.aresetn.value = 1
    await RisingEdge(dut.aclk)
    (data,), (expected,) = tests["left"].vectors(cores[0].model)
    for _ in range(3):
        await Combine(*(cocotb.start_soon(core.run(data, expected)) for core in cores))
