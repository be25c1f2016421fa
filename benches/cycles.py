"""Cycles of networks on the RTL, and how fast the simulator is: `python benches/cycles.py [MODEL.tflite...]`.

Without models: the demo's network, and those of the table below that lie in ../shared/models. Each inference is cold:
commands, weights and input from memory, 8 bytes per cycle, latency 30, batch 1.
"""

import argparse
import sys
import time
from pathlib import Path

from tq_hw.cli.arrays import draw_inputs
from tq_hw.cli.main import describe
from tq_hw.cli.report import CLOCK_HZ
from tq_hw.cli.tables import percent, print_table
from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config, load_config
from tq_hw.model.reader import read_model
from tq_hw.sim.compare import divergences
from tq_hw.sim.golden import run
from tq_hw.sim.rtl.build import library
from tq_hw.sim.rtl.simulate import simulate

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "models"
#: Cycles to stay below, by network and configuration: what a good schedule of this design takes.
GOALS = {
    "mlperf_tiny_kws_dscnn": {"n16": 15_500, "n8": 55_000},
    "mlperf_tiny_vww_96": {"n16": 46_000, "n8": 157_000},
    "mlperf_tiny_ic_resnet8": {"n16": 55_000, "n8": 212_000},
    "mlperf_tiny_ad01": {"n16": 36_000, "n8": 36_500},
}


def bench(path: Path, config: Config) -> tuple[object, ...]:
    """Run one model once; return a row of the table."""
    model = read_model(path)
    inputs = draw_inputs(model, 1, 0)[0]
    program = compile_model(model, config).program
    library(config)
    start = time.process_time()
    result = simulate(program, inputs)
    seconds = time.process_time() - start
    exact = not divergences(result.outputs, run(model, inputs).outputs)
    goal = GOALS.get(path.stem, {}).get(config.name)
    macs = sum(layer.macs for layer in program.layers)
    return (path.stem, result.cycles, goal, f"{result.cycles / goal:.2f}" if goal else "",
            f"{result.cycles / CLOCK_HZ * 1e6:,.1f}", percent(macs / (result.cycles * config.macs)),
            int(result.cycles / seconds), "yes" if exact else "NO")


def main() -> int:
    """Print the table; return 1 if an output differs from the golden model's."""
    parser = argparse.ArgumentParser(description="Cycles of networks on the RTL.")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.tflite")
    parser.add_argument("--config", default="n16", help="a preset's name or a TOML file (default: n16)")
    options = parser.parse_args()
    known = [SHARED / f"{name}.tflite" for name in GOALS]
    models = options.models or [ROOT / "examples/digits/digits.tflite", *(path for path in known if path.is_file())]
    try:
        config = load_config(options.config)
        rows = [bench(path, config) for path in models]
    except Exception as error:
        code, message = describe(error)
        print(f"cycles: {message}", file=sys.stderr)
        return code
    print(f"{config.name}, 8 bytes per cycle, latency 30")
    print_table(("network", ">cycles", ">goal", ">ratio", ">us at 100 MHz", ">utilization", ">cycles per CPU second",
                 "bit exact"), rows)
    return 0 if all(row[-1] == "yes" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
