"""Files for other tools: FuseSoC, Verilator, simulators with assertions, C compilers."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from tq_hw.cli.package.bench import filled
from tq_hw.cli.package.facts import DRIVER, Core
from tq_hw.isa.c_header import defines, guarded
from tq_hw.isa.sizes import ceil_log2

__all__ = ["source_files"]

_AXI_LITE = """\
  s_axi_b_holds: `HOLDS(s_axi_bvalid, s_axi_bready, s_axi_bresp);
  s_axi_r_holds: `HOLDS(s_axi_rvalid, s_axi_rready, ({s_axi_rdata, s_axi_rresp}));
"""
_WISHBONE = """\
  s_wb_one_answer: assert property (@(posedge aclk) disable iff (!aresetn || !awake) !(s_wb_ack && s_wb_err));
  s_wb_answers_end: assert property (@(posedge aclk) disable iff (!aresetn || !awake)
      (s_wb_ack || s_wb_err) |=> (!s_wb_ack && !s_wb_err));
"""
_APB = """\
  s_apb_ready_ends: assert property (@(posedge aclk) disable iff (!aresetn || !awake) s_apb_pready |=> !s_apb_pready);
  s_apb_error_with_ready: assert property (@(posedge aclk) disable iff (!aresetn || !awake)
      s_apb_pslverr |-> s_apb_pready);
"""
_ASSERTIONS = {"axi4lite": _AXI_LITE, "wishbone": _WISHBONE, "apb": _APB, "plain": ""}


def source_files(core: Core) -> dict[str, bytes]:
    """Return the files by their names in the folder."""
    name = core.name
    texts = {
        f"{name}.core": filled("fusesoc.in", NAME=name, VERSION=core.version, CONFIG=core.config.name,
                               CONTROL=core.control, RTL=", ".join((*core.sources, *core.models)),
                               COPIES=_copies(core)),
        f"lint/{name}.vlt": filled("lint.vlt.in", NAME=name, MODELS="".join(
            filled("lint_models.vlt.in", FILE=Path(file).name) for file in core.models)),
        f"sv/{name}_sva.sv": _assertions(core),
        f"driver/tq_{name}.h": _header(core),
        f"sw/{name}_run.c": filled("uio.c.in", NAME=name, MACRO=name.upper()),
        "sw/Makefile": filled("sw.mk.in", NAME=name),
    }
    driver = files("tq_hw.firmware").joinpath("driver")
    return {path: text.encode() for path, text in texts.items()} | {
        f"driver/{file}": driver.joinpath(file).read_bytes() for file in DRIVER}


def _copies(core: Core) -> str:
    """Return FuseSoC's copy rules for the simulation: each file to its path in the folder."""
    bench = ("run.py", f"test_{core.name}.py", "drive.c", "ports.vlt", "digits.tqm", "digits.npz")
    names = (*core.sources, *core.models, f"lint/{core.name}.vlt", f"sv/{core.name}_sva.sv",
             *(f"tb/{name}" for name in bench), *(f"driver/{name}" for name in (*DRIVER, f"tq_{core.name}.h")),
             f"{core.name}.json")
    return "".join(f"      - {name}: {{file_type: user, copyto: {name}}}\n" for name in names)


def _assertions(core: Core) -> str:
    ports = ",\n".join(f"  input wire {f'[{port.width - 1}:0] ' if port.width > 1 else ''}{port.name}"
                       for port in core.ports)
    lane_bits = ceil_log2(core.config.bus_bytes)
    memory = filled(f"sva_{core.memory_bus}.in", BUS_BYTES=str(core.config.bus_bytes), SIZE=f"3'd{lane_bits}",
                    ZEROS=str(lane_bits))
    return filled("sva.sv.in", NAME=core.name, PORTS=ports, MEMORY=memory, CONTROL=_ASSERTIONS[core.control])


def _header(core: Core) -> str:
    def lines() -> Iterator[str]:
        fingerprint, *sizes = core.macros.items()
        yield from defines("This configuration: what a compiled model must have been made for.", [fingerprint],
                           "#010x")
        yield from defines("Bytes that the registers take in the address space; width of the memory bus.", sizes)

    return guarded(core.guard, "tq-hw generate", "the configuration", lines())
