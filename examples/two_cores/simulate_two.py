"""Generate two cores that share one memory, run a model on both at once: `python simulate_two.py [SIMULATOR]`.

Works in a temporary folder; needs tq-hw, cocotb, cocotbext-axi and a simulator (default: verilator).
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cocotb_tools.runner import VerilatorControlFile, get_runner

HERE = Path(__file__).resolve().parent
CONTROLS = {"left": "axi4lite", "right": "apb"}


def main() -> int:
    """Return 0 if both outputs are exact."""
    simulator = sys.argv[1] if len(sys.argv) > 1 else "verilator"
    work = Path(tempfile.mkdtemp(prefix="two_cores."))
    try:
        for name, control in CONTROLS.items():
            subprocess.run([sys.executable, "-m", "tq_hw", "generate", "--config", "tiny", "--control", control,
                            "--name", name, "-o", work / name], check=True)
            shutil.copy(work / name / "tb" / f"test_{name}.py", work)
            for file in ("digits.tqm", "digits.npz"):
                shutil.copy(work / name / "tb" / file, work)
            shutil.copy(work / name / f"{name}.json", work)
        shutil.copy(HERE / "test_two_cores.py", work)
        sources: list[Path | VerilatorControlFile] = [HERE / "two_cores.v"]
        sources += [work / name / "rtl" / f"{name}.v" for name in CONTROLS]
        options = []
        if simulator == "verilator":
            ports = work / "ports.vlt"
            ports.write_text('`verilator_config\npublic_flat_rw -module "two_cores" -port "*"\n', encoding="utf-8")
            waivers = [work / name / "lint" / f"{name}.vlt" for name in CONTROLS]
            sources = [*map(VerilatorControlFile, (ports, *waivers)), *sources,
                       *(work / name / "sv" / f"{name}_sva.sv" for name in CONTROLS)]
            options = ["--assert", "--no-public-flat-rw", "-O1"]
        runner = get_runner(simulator)
        runner.build(sources=sources, hdl_toplevel="two_cores", build_dir=work / "build", build_args=options,
                     timescale=("1ns", "1ps"))
        results = runner.test(test_module="test_two_cores", hdl_toplevel="two_cores", build_dir=work / "build",
                              test_dir=work)
        return int("<failure" in results.read_text())
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
