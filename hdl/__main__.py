"""Write the accelerator as Verilog: `python -m tq_hw.hdl CONFIG -o accelerator.v [--top NAME]`."""

import argparse
import sys
from pathlib import Path

from tq_hw.hdl.machine import machine
from tq_hw.hdl.verilog import VerilogError, to_verilog
from tq_hw.isa.config import ConfigError, load_config


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code: 0 done, 2 bad input, 4 a tool failed."""
    parser = argparse.ArgumentParser(prog="python -m tq_hw.hdl", description="Write the accelerator as Verilog.")
    parser.add_argument("config", help="a preset's name, or a file that ends in .toml")
    parser.add_argument("-o", "--output", required=True, type=Path, help="file to write")
    parser.add_argument("--top", default="accelerator", help="name of the top module (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        options.output.write_text(to_verilog(machine(load_config(options.config)), options.top), encoding="utf-8")
    except (ConfigError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except VerilogError as error:
        print(f"error: {error}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
