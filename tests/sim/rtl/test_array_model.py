"""The C++ model of the multipliers equals their RTL in every cycle, for any inputs."""

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth import ResetInserter, Signal
from amaranth.sim import Simulator

from tq_hw.compiler import compile_model
from tq_hw.hdl.array.grid import MacArray
from tq_hw.hdl.outside import ARRAY_NAME, Outside
from tq_hw.hdl.simulation import SimulatedAccelerator
from tq_hw.hdl.verilog import to_verilog
from tq_hw.isa.config import PRESETS, Config
from tq_hw.model.errors import OptionError
from tq_hw.model.samples.layers import sample
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.rtl.arithmetic import Arithmetic
from tq_hw.sim.rtl.array_model import SOURCE, check_array, macros, stub
from tq_hw.sim.rtl.simulate import simulate
from tq_hw.sim.rtl.tools import compiler
from tq_hw.sim.rtl.waves import Waves

CONFIGS = [Config("a", 4, 3, 1, 8 << 10), Config("b", 9, 4, 1, 8 << 10), Config("c", 7, 5, 1, 8 << 10)]


def random_cycles(config: Config, cycles: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield inputs that follow no protocol: weights that are overwritten, consecutive swaps, resets."""
    rng = np.random.default_rng(seed)
    extremes = np.array([-128, 127, -1, 0])
    rows = config.rows
    for number in range(cycles):
        often = number // 50 % 2
        values = extremes if rng.integers(0, 3) == 0 else np.arange(-128, 128)
        yield {"a": rng.choice(values, config.rows).tolist(),
               "x": rng.choice(values, config.groups * config.cols).tolist(),
               "weight": rng.choice(values, config.cols).tolist(), "sel": int(rng.integers(0, 1 << rows)),
               "weight_row": int(rng.integers(0, 1 << rows)) if often else 1 << int(rng.integers(0, rows)),
               "swap": int(rng.integers(0, 2 if often else 12) == 0), "reset": int(rng.integers(0, 60) == 0)}


def rtl_sums(config: Config, cycles: list[dict[str, Any]]) -> list[list[int]]:
    """Return the outputs of the RTL after each cycle."""
    reset, dut, found = Signal(), MacArray(config), []

    async def bench(ctx: Any) -> None:
        for values in cycles:
            for name in ("a", "x", "weight", "sel", "weight_row", "swap"):
                ctx.set(getattr(dut, name), values[name])
            ctx.set(reset, values["reset"])
            await ctx.tick()
            found.append([ctx.get(dut.psum[c]) for c in range(config.cols)])

    simulator = Simulator(ResetInserter(reset)(dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


def model_sums(config: Config, cycles: list[dict[str, Any]], folder: Path) -> list[list[int]]:
    """Return the outputs of the model after each cycle."""
    subprocess.run([compiler()[0], "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                    *macros(config).split(), str(SOURCE), "-o", str(folder / "model.so")], check=True)
    model = ctypes.CDLL(str(folder / "model.so"))
    model.tq_array_new.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(model.tq_array_new())
    bits, found = config.partial_sum_bits, []

    def words(values: list[int]) -> Any:
        data = np.array(values, np.int8).tobytes()
        return ctypes.create_string_buffer(data + bytes(-len(data) % 4))
    for values in cycles:
        sums = (ctypes.c_uint32 * (bits * config.cols // 32 + 1))()
        model.tq_array_step(handle, ctypes.c_uint8(values["reset"]), ctypes.c_uint8(values["swap"]),
                            ctypes.byref(ctypes.c_uint32(values["sel"])),
                            ctypes.byref(ctypes.c_uint32(values["weight_row"])), words(values["a"]),
                            words(values["x"]), words(values["weight"]), sums)
        packed = int.from_bytes(bytes(sums), "little")
        lanes = [packed >> bits * c & (1 << bits) - 1 for c in range(config.cols)]
        found.append([lane - (lane >> bits - 1 << bits) for lane in lanes])
    model.tq_array_delete(handle)
    return found


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.rows}x{c.cols}")
def test_equals_the_rtl_in_every_cycle(config: Config, tmp_path: Path) -> None:
    cycles = list(random_cycles(config, 600, seed=config.rows))
    assert model_sums(config, cycles, tmp_path) == rtl_sums(config, cycles)


def test_the_design_without_the_cells() -> None:
    config = CONFIGS[0]
    text = to_verilog(SimulatedAccelerator(config), "accelerator", Outside(array=True))
    assert text.count(f"  {ARRAY_NAME} outside (") == 1 and "shadow_0_0" not in text
    assert f"module {ARRAY_NAME}(input clk, input rst, input swap, input [3:0] sel," in stub(config)


@pytest.mark.slow  # builds a simulator of its own
@pytest.mark.parametrize("seed", range(3))
def test_the_whole_machine_does_the_same(seed: int) -> None:
    program = compile_model(sample("conv", seed), PRESETS["tiny"]).program
    inputs = random_inputs(program, seed)
    runs = [simulate(program, inputs, arithmetic=Arithmetic(array)) for array in ("rtl", "model")]
    first, other = ({name: getattr(run, name) for name in ("state", "cycles", "counters", "beats", "layer_cycles")}
                    for run in runs)
    assert first == other
    for one, two in zip(runs[0].outputs, runs[1].outputs, strict=True):
        np.testing.assert_array_equal(one, two)


def test_bad_choices() -> None:
    with pytest.raises(OptionError, match="the array can be rtl or model, not 'c'"):
        check_array("c", CONFIGS[0])
    with pytest.raises(OptionError, match="configuration 'serial': only the parallel design has a model of the array"):
        check_array("model", PRESETS["serial"])
    with pytest.raises(OptionError, match="configuration 'p': there is no model of an array with dsp_packing; leave "
                                          "--array out"):
        check_array("model", Config("p", 4, 4, 1, 8 << 10, dsp_packing=2))
    program = compile_model(sample("conv", 0), PRESETS["tiny"]).program
    with pytest.raises(OptionError, match="waves show the whole RTL: leave --array and --lanes out"):
        simulate(program, random_inputs(program), waves=Waves("w.fst"), arithmetic=Arithmetic("model"))
