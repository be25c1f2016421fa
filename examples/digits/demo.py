"""Run the digits network on the accelerator's RTL: accuracy, cycles and utilization. `make demo` starts this.

It is also the shortest example of the Python interface: read a model, compile it, run it, compare.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from tq_hw.cli.main import describe
from tq_hw.cli.report.layers import CLOCK_HZ, print_layers, print_summary, sim_report
from tq_hw.cli.shared.infer import infer_all
from tq_hw.cli.shared.options import ENGINES
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.memory import YARDSTICK
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import golden
from tq_hw.sim.engines import make_engine
from tq_hw.sim.oracles import Oracle, available

HERE = Path(__file__).parent


def demo(config_name: str, engine_name: str, count: int) -> bool:
    """Print everything; return whether all engines agree on every integer."""
    config = load_config(config_name)
    model = read_model(HERE / "digits.tflite")
    with np.load(HERE / "digits_test.npz") as held_out:
        images, labels = held_out["input_0"][:count], held_out["labels"][:count]
    inputs = [(image,) for image in images]

    program = compile_model(model, config).program
    engine = make_engine(engine_name, model, program, YARDSTICK)
    found = infer_all(engine, inputs, f"{engine_name} {config.name}")
    outputs = np.stack([one.outputs[0] for one in found])
    reference = np.stack([golden.run(model, one).outputs[0] for one in inputs])
    exact = np.array_equal(outputs, reference)

    print_summary(report := sim_report("digits.tflite", config, model, program, engine_name, found, exact))
    print_layers(report)
    print()
    _print_accuracy(f"{engine_name}, {config.name}", outputs, labels)
    if available("litert-ref"):
        with Oracle("litert-ref") as oracle:
            litert = np.stack([one[0] for one in oracle.run_sets(HERE / "digits.tflite", inputs)])
        _print_accuracy("LiteRT's reference kernels", litert, labels)
        exact = exact and np.array_equal(outputs, litert)
    else:
        print('LiteRT is not installed (pip install "tq-hw[oracles]"): compared with the golden model alone')
    cycles = [one.cycles for one in found if one.cycles is not None]
    if cycles:
        print(f"{np.mean(cycles):,.0f} cycles an image, {np.mean(cycles) / CLOCK_HZ * 1e6:.1f} us at "
              f"{CLOCK_HZ // 1_000_000} MHz")
    print("every integer of every output is equal" if exact else "OUTPUTS DIFFER")
    return exact


def _print_accuracy(name: str, outputs: np.ndarray, labels: np.ndarray) -> None:
    right = int(np.sum(outputs[:, 0].argmax(1) == labels))
    print(f"accuracy {right / len(labels):7.2%} ({right} of {len(labels)} held-out images): {name}")


def main() -> int:
    """Parse the options; return the exit code of the command line's contract."""
    parser = argparse.ArgumentParser(description="Run the digits network on the accelerator.")
    parser.add_argument("--config", default="n8", help="a preset's name or a TOML file (default: n8)")
    parser.add_argument("--engine", choices=ENGINES, default="rtl")
    parser.add_argument("--images", type=int, default=64, choices=range(1, 361), metavar="1..360",
                        help="number of held-out images (default: 64)")
    options = parser.parse_args()
    try:
        return 0 if demo(options.config, options.engine, options.images) else 1
    except Exception as error:
        code, message = describe(error)
        print(f"demo: {message}", file=sys.stderr)
        return code


if __name__ == "__main__":
    sys.exit(main())
