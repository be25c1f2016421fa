"""The simulated design: a component, its configuration, and their Verilog."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass

from tq_hw.isa.config import Config
from tq_hw.model.errors import ToolError, last_words
from tq_hw.sim.rtl.arithmetic import RTL, Arithmetic, check_arithmetic
from tq_hw.sim.rtl.condense import condensed

__all__ = ["ACCELERATOR", "TOP", "Design", "accelerator_with", "by_yosys", "config_values", "generated"]

TOP = "accelerator"
_GENERATE = f"""
import importlib, json, sys
from tq_hw.hdl.outside import Outside
from tq_hw.hdl.verilog import to_readable_verilog, to_verilog
from tq_hw.isa.config import Config
values, module, name, arguments, outside, by_yosys = json.load(sys.stdin)
component = getattr(importlib.import_module(module), name)(Config.from_mapping(values, "simulated"), *arguments)
platform = Outside(**outside) if any(outside.values()) else None
if by_yosys:
    sys.stdout.write(to_verilog(component, {TOP!r}, platform) + getattr(component, "verilog", ""))
else:
    sys.stdout.write(to_readable_verilog(component, {TOP!r}).text)
"""


@dataclass(frozen=True)
class Design:
    """The design to build.

    Members
    -------
    module, name : the component, called with the configuration and `arguments`; an attribute `verilog` is the Verilog
        of further modules that it instantiates
    packages : that contain its sources
    link : it has the byte ports of a link instead of the register bus, and its operations are not recorded
    soc : these bytes are a soft core's UART, and it has the ports of its memory and of a flash
    arithmetic : whether models replace the multipliers and the lanes (arithmetic.py)
    """

    module: str = "tq_hw.hdl.simulation"
    name: str = "SimulatedAccelerator"
    packages: tuple[str, ...] = ("tq_hw.hdl", "tq_hw.isa")
    arguments: tuple[int, ...] = ()
    link: bool = False
    soc: bool = False
    arithmetic: Arithmetic = RTL


ACCELERATOR = Design()


def accelerator_with(arithmetic: Arithmetic, config: Config) -> Design:
    """Return the accelerator with RTL or models as its arithmetic; OptionError for a model that does not exist."""
    check_arithmetic(arithmetic, config)
    return Design(arithmetic=arithmetic)


def config_values(config: Config) -> dict[str, object]:
    """Return the parameters that determine a configuration's hardware, without its name."""
    return {k: v for k, v in asdict(config).items() if k != "name"}


def by_yosys(design: Design, trace: str) -> bool:
    """Whether Yosys writes the simulated Verilog, which takes a minute the first time.

    Yosys keeps the modules and names that waves show. Models and foreign modules depend on its text. All else is
    written by `hdl/netlist`: the same machine in half as many lines.
    """
    return bool(trace) or design.soc or design.arithmetic != RTL


def generated(config: Config, design: Design, trace: str = "") -> str:
    """Return the Verilog of a configuration, from a new interpreter that has not imported older sources.

    With models, the text is an equivalent that simulates faster. `trace`: the kind of waves.
    """
    outside = {part: choice == "model" for part, choice in design.arithmetic._asdict().items()}
    asked = json.dumps([config_values(config), design.module, design.name, design.arguments, outside,
                        by_yosys(design, trace)])
    run = subprocess.run([sys.executable, "-X", "utf8", "-c", _GENERATE], input=asked, encoding="utf-8",
                         capture_output=True, check=False)
    if run.returncode:
        raise ToolError(f"the hardware could not be generated; {last_words(run.stderr)}")
    return run.stdout if design.arithmetic == RTL else condensed(run.stdout)
