"""The test of a generated folder, run as its user runs it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tq_hw.cli.main import run
from tq_hw.compiler import compile_model
from tq_hw.hdl.top import CONTROLS
from tq_hw.isa.config import load_config
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim.golden.run import run as golden


def simulate(core: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the folder's test as its user does: with its own program, in Verilator, with assertions."""
    environment = {**os.environ, **environment, "MAKEFLAGS": "OPT_FAST=-O1 OPT_GLOBAL=-O0",
                   "COCOTB_LOG_LEVEL": "WARNING"}
    return subprocess.run([sys.executable, "-P", core / "tb" / "run.py", "verilator"], env=environment,
                          cwd=core.parent, capture_output=True, text=True, check=False)


def test_what_cannot_be_simulated_is_said(tmp_path: Path) -> None:
    core = tmp_path / "my core"
    assert run(["generate", "--config", "tiny", "--name", "npu", "-o", str(core)]) == 0
    done = simulate(core)
    assert (done.returncode, done.stderr) == (
        1, f"{core / 'tb'}: Verilator's makefile takes no folder with a space in its name\n")
    core = core.rename(tmp_path / "core")
    done = simulate(core, TQ_MODEL="none.tqm")
    assert (done.returncode, done.stderr) == (1, f"TQ_MODEL: there is no file {tmp_path / 'none.tqm'}\n")
    done = subprocess.run([sys.executable, core / "tb" / "run.py", "none"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("none: Simulator 'none' is not in supported list: ")
    # A simulation that cannot be built: the error includes the simulator's message.
    (core / "rtl" / "npu.v").write_text("module npu(; endmodule")
    done = simulate(core)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("verilator: Command failed")


#: Simulated cores: configuration, register bus, memory bus, memories.
SIMULATED = [
    *(("tiny", control, "axi4", "inferred") for control in CONTROLS), ("tiny", "apb", "wishbone", "inferred"),
    ("serial", "wishbone", "wishbone", "inferred"), ("n8", "axi4lite", "axi4", "inferred"),
    ("n8", "wishbone", "wishbone", "inferred"), ("n8", "apb", "axi4", "blackbox"),
    ("square12", "axi4lite", "axi4", "inferred"), ("n16", "axi4lite", "axi4", "inferred"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "control", "memory_bus", "memories"), SIMULATED,
                         ids=["-".join(one) for one in SIMULATED])
def test_the_simulation_is_exact(name: str, control: str, memory_bus: str, memories: str, tmp_path: Path,
                                 shared: Path) -> None:
    """The digits model, and from n8 on also keyword spotting."""
    config = name
    if name == "square12":
        config = str(tmp_path / "square12.toml")
        Path(config).write_text('rows = 12\ncols = 12\nrequantize_lanes = 4\nscratchpad_bytes = "64 KiB"\n')
    core = tmp_path / "core"
    assert run(["generate", "--config", config, "--control", control, "--memory-bus", memory_bus, "--memories",
                memories, "--name", "npu", "-o", str(core)]) == 0
    done = simulate(core)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    if name not in ("tiny", "serial"):
        model = read_model(str(shared / "models" / "mlperf_tiny_kws_dscnn.tflite"))
        sound = np.random.default_rng(5).integers(-128, 128, (1, 49, 10, 1), dtype=np.int8)
        (expected,) = golden(model, [sound]).outputs
        np.savez(tmp_path / "kws.npz", input_0=sound, output_0=expected)
        (tmp_path / "kws.tqm").write_bytes(to_bytes(compile_model(model, load_config(config)).program))
        done = simulate(core, TQ_MODEL="kws.tqm", TQ_INPUTS="kws.npz", TQ_OUTPUTS="kws.npz", TQ_TRIALS="2")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
