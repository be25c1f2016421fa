"""The C++ model of the lanes equals their RTL in every cycle, for any inputs."""

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Shape
from amaranth.lib import data
from amaranth.sim import Simulator

from tq_hw.compiler import compile_model
from tq_hw.hdl.lane.alu import AluFlags, alu_flags
from tq_hw.hdl.lane.lane import Lane, LaneControl
from tq_hw.hdl.outside import LANES_NAME, Outside
from tq_hw.hdl.simulation import SimulatedAccelerator
from tq_hw.hdl.verilog import to_verilog
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.uop import Alu
from tq_hw.model.errors import OptionError
from tq_hw.model.samples.layers import sample
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.rtl import tools
from tq_hw.sim.rtl.arithmetic import RTL, Arithmetic, models
from tq_hw.sim.rtl.lanes_model import HEADER, SOURCE, check_lanes, header, macros, stub, widths
from tq_hw.sim.rtl.simulate import simulate
from tq_hw.sim.rtl.tools import compiler
from tq_hw.sim.rtl.waves import Waves

WORDS = ("acc", "register_a", "register_b", "bias", "stream_a", "stream_b", "multiplier")
EXTREMES = [-2**31, 2**31 - 1, -1, 0, 1, 2**30, -2**30]


def flags_of_operations() -> list[list[int]]:
    """Return the AluFlags of each operation, stage by stage."""
    found: list[list[int]] = []
    operation = Signal(range(len(Alu)))

    async def bench(ctx: Any) -> None:
        for alu in Alu:
            ctx.set(operation, alu)
            found.append([int(ctx.get(flags)) for flags in alu_flags(operation)])

    simulator = Simulator(Module())
    simulator.add_testbench(bench)
    simulator.run()
    return found


FLAGS = flags_of_operations()


class Lanes(Elaboratable):
    """Some lanes with their partners, connected as by add_lanes."""

    def __init__(self, count: int) -> None:
        self.lanes = [Lane(odd=number % 2 == 1) for number in range(count)]

    def elaborate(self, platform: object) -> Module:
        """Connect the partners."""
        m = Module()
        for number, lane in enumerate(self.lanes):
            m.submodules += lane
            m.d.comb += lane.partner.eq(
                self.lanes[number ^ 1].operand if number ^ 1 < len(self.lanes) else ~lane.operand)
        return m


def random_control(rng: np.random.Generator) -> dict[str, int]:
    """Return controls that need not belong together; the ALU's flags in each stage are those of some operation."""
    found = {}
    for name, field in LaneControl:
        shape = Shape.cast(field.shape)
        if str(name).startswith("alu"):
            found[str(name)] = FLAGS[rng.integers(0, len(FLAGS))][int(str(name)[3:])]
        elif shape.signed and rng.integers(0, 4) == 0:
            found[str(name)] = int(rng.choice([-1 << shape.width - 1, (1 << shape.width - 1) - 1, -1, 0, 1]))
        else:
            low = -1 << shape.width - 1 if shape.signed else 0
            found[str(name)] = int(rng.integers(low, low + (1 << shape.width)))
    found["table_write"] = int(rng.integers(0, 8) == 0)
    if rng.integers(0, 2):
        found["multiplier"] = 0
    return found


def random_cycles(lanes: int, cycles: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield inputs that follow no protocol; in some periods they are constant or take few values."""
    rng = np.random.default_rng(seed)
    held: dict[str, Any] = {}
    for number in range(cycles):
        if not held or number // 40 % 4 != 3 or rng.integers(0, 8) == 0:
            few = rng.integers(0, 3) == 0
            held = {name: (rng.choice(EXTREMES, lanes) if few else
                           rng.integers(-2**31, 2**31, lanes) >> rng.integers(0, 32, lanes)).tolist()
                    for name in WORDS}
            held["shift"] = rng.integers(-32, 32, lanes).tolist()
            held["control"] = random_control(rng)
        yield held


def rtl_results(lanes: int, cycles: list[dict[str, Any]]) -> list[list[int]]:
    """Return the outputs of the RTL after each cycle."""
    dut, found = Lanes(lanes), []

    async def bench(ctx: Any) -> None:
        for values in cycles:
            packed = LaneControl.const({name: values["control"][name] if not name.startswith("alu") else {
                flag: values["control"][name] >> bit & 1 for bit, (flag, _) in enumerate(AluFlags[int(name[3:])])}
                for name in values["control"]})
            for number, lane in enumerate(dut.lanes):
                ctx.set(lane.control, packed)
                for name in (*WORDS, "shift"):
                    ctx.set(getattr(lane, name), values[name][number])
            await ctx.tick()
            found.append([ctx.get(lane.result) for lane in dut.lanes])

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def model_results(config: Config, cycles: list[dict[str, Any]], folder: Path) -> list[list[int]]:
    """Return the outputs of the model after each cycle."""
    (folder / HEADER).write_text(header(), encoding="utf-8")
    subprocess.run([compiler()[0], "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                    f"-I{folder}", f"-I{SOURCE.parent}", *macros(config).split(), str(SOURCE), "-o",
                    str(folder / "model.so")], check=True)
    model = ctypes.CDLL(str(folder / "model.so"))
    model.tq_lanes_new.restype = ctypes.c_void_p
    handle, lanes, found = ctypes.c_void_p(model.tq_lanes_new()), config.requantize_lanes, []

    def words(values: list[int], bits: int) -> Any:
        packed = sum((value & (1 << bits) - 1) << bits * number for number, value in enumerate(values))
        return ctypes.create_string_buffer(packed.to_bytes(4 * (bits * len(values) // 32 + 1), "little"))
    fields = {str(name): field for name, field in LaneControl}
    for values in cycles:
        control = sum((value & (1 << Shape.cast(fields[name].shape).width) - 1) << fields[name].offset
                      for name, value in values["control"].items())
        result = (ctypes.c_int32 * lanes)()
        model.tq_lanes_step(handle, words([control], LaneControl.size), *(
            words(values[name], 6 if name == "shift" else 32) for name in widths(config) if name != "control"), result)
        found.append(list(result))
    model.tq_lanes_delete(handle)
    return found


@pytest.mark.parametrize("lanes", [2, 3])
def test_equals_the_rtl_in_every_cycle(lanes: int, tmp_path: Path) -> None:
    config = Config("lanes", 4, 2 * lanes, lanes, 8 << 10)
    cycles = list(random_cycles(lanes, 600, seed=lanes))
    found = model_results(config, cycles, tmp_path)
    assert found == rtl_results(lanes, cycles)
    assert len({result for results in found for result in results}) > 100


def test_the_header_has_all_controls() -> None:
    assert isinstance(LaneControl, data.StructLayout)
    text = header()
    assert "    uint32_t a_source;" in text and "    int32_t zero_point;" in text and "    uint32_t alu2_pair;" in text
    assert "constexpr uint32_t TQ_SHIFT_B = 3;" in text


def test_the_design_without_the_lanes() -> None:
    config = PRESETS["tiny"]
    text = to_verilog(SimulatedAccelerator(config), "accelerator", Outside(lanes=True))
    assert text.count(f"  {LANES_NAME} lanes (") == 1 and "high_high" not in text and "shadow_0_0" in text
    assert f"module {LANES_NAME}(input clk, input [{LaneControl.size - 1}:0] control," in stub(config)


@pytest.mark.slow  # builds simulators of its own
@pytest.mark.parametrize("arithmetic", [Arithmetic(lanes="model"), Arithmetic("model", "model")])
@pytest.mark.parametrize("kind", ["conv", "softmax", "add"])
def test_the_whole_machine_does_the_same(kind: str, arithmetic: Arithmetic) -> None:
    program = compile_model(sample(kind, 1), PRESETS["tiny"]).program
    inputs = random_inputs(program, 1)
    first, other = (
        {name: getattr(run, name) for name in ("state", "cycles", "counters", "beats", "layer_cycles")}
        | {"outputs": [output.tolist() for output in run.outputs]}
        for run in (simulate(program, inputs), simulate(program, inputs, arithmetic=arithmetic)))
    assert first == other


def test_options_of_the_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "cpuinfo"
    monkeypatch.setattr(tools, "_PROCESSOR", about)
    both = Arithmetic("model", "model")
    assert tools.processor_options() == ()
    plain = models(both, PRESETS["tiny"]).texts
    about.write_text("vendor_id : x\nflags : fpu avx2 bmi1 bmi2 sse\n", encoding="utf-8")
    assert "override OPT_FAST := -O2 -mavx2 -mbmi -mbmi2\n" in models(both, PRESETS["tiny"]).makefile
    assert models(both, PRESETS["tiny"]).texts != plain
    assert models(RTL, PRESETS["tiny"]).texts == [""]
    about.write_text("flags : fpu avx2 bmi1\n", encoding="utf-8")
    assert models(both, PRESETS["tiny"]).texts == plain


def test_bad_choices() -> None:
    with pytest.raises(OptionError, match="the lanes can be rtl or model, not 'c'"):
        check_lanes("c", PRESETS["tiny"])
    with pytest.raises(OptionError, match="configuration 'serial': only the parallel design has a model of the lanes"):
        check_lanes("model", PRESETS["serial"])
    program = compile_model(sample("conv", 0), PRESETS["tiny"]).program
    with pytest.raises(OptionError, match="waves show the whole RTL: leave --array and --lanes out"):
        simulate(program, random_inputs(program), waves=Waves("w.fst"), arithmetic=Arithmetic(lanes="model"))
