"""The facts about a generated core, in one place: every file of the folder is made from them."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from amaranth.lib.wiring import In

from tq_hw.cli.package.area import areas
from tq_hw.hdl.netlist.design import Design
from tq_hw.hdl.netlist.names import legal
from tq_hw.hdl.top import CONTROLS, MEMORY_BUSES, top_members
from tq_hw.isa.config import Config
from tq_hw.isa.control import MAGIC, REGISTERS, WINDOW_BYTES, ControlRegister, Status
from tq_hw.isa.layout import BURST_BYTES, Unit
from tq_hw.isa.program_file import FILE_MAGIC, HEADER_WORDS, PORT_MEMBERS
from tq_hw.model.errors import OptionError

__all__ = ["DRIVER", "MEMORIES", "Core", "Port", "core_of"]

#: Whether memories are in the Verilog, or are left out as macros.
MEMORIES = ("inferred", "blackbox")

#: The files of the driver that a processor needs if the accelerator is in its address space.
DRIVER = ("tq.c", "tq.h", "tq_layout.h", "tq_mmio.c", "tq_float.c")
_PROTOCOLS = {"axi4": "AXI4", "wishbone": "Wishbone B4"}
_DETAILS: dict[str, dict[str, object]] = {
    "axi4": {"id_bits": 1, "burst": "INCR"},
    "wishbone": {"cycles": "classic, registered feedback", "burst": "linear", "address_unit": "word"}}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")


@dataclass(frozen=True)
class Port:
    """A port of the top module; `direction` is "input" or "output"."""

    name: str
    direction: str
    width: int


@dataclass(frozen=True)
class Core:
    """A configuration with its register bus and memory bus, under a name."""

    name: str
    config: Config
    control: str
    ports: tuple[Port, ...]
    memory_bus: str = "axi4"
    memories: str = "inferred"

    @property
    def sources(self) -> tuple[str, ...]:
        """Verilog files in the folder, without the macros' models."""
        return (f"rtl/{self.name}.v",)

    @property
    def models(self) -> tuple[str, ...]:
        """Verilog files with models of the parts that are left out."""
        return (f"rtl/{self.name}_memories.v",) if self.memories == "blackbox" else ()

    @property
    def prefix(self) -> str:
        """Prefix of the ports of the register bus."""
        return CONTROLS[self.control].prefix

    @property
    def memory_prefix(self) -> str:
        """Prefix of the ports of the memory bus."""
        return MEMORY_BUSES[self.memory_bus].prefix

    @property
    def guard(self) -> str:
        """The include guard of the C header."""
        return f"TQ_{self.name.upper()}_H"

    @property
    def macros(self) -> dict[str, int]:
        """Values of the C header; names are without TQ_."""
        return {f"{self.name}_fingerprint": self.config.fingerprint, f"{self.name}_window_bytes": WINDOW_BYTES,
                f"{self.name}_bus_bytes": self.config.bus_bytes}

    @property
    def version(self) -> str:
        """Version of the generator."""
        return version("tq-hw")

    def reset_value(self, register: ControlRegister) -> int:
        """The value of a register after a reset."""
        return {"magic": MAGIC, "fingerprint": self.config.fingerprint}.get(register.name, 0)

    def facts(self, design: Design) -> dict[str, Any]:
        """Return all facts as a JSON value."""
        return {
            "name": self.name, "generator": f"tq-hw {self.version}", "config": asdict(self.config),
            "fingerprint": f"{self.config.fingerprint:08x}", "magic": f"{MAGIC:08x}", "control": self.control,
            "clock": "aclk", "reset": "aresetn", "interrupt": "interrupt", "macs_per_cycle": self.config.macs,
            "ports": [asdict(port) for port in self.ports], "window_bytes": WINDOW_BYTES,
            "memory_bus": {"protocol": _PROTOCOLS[self.memory_bus], "address_bits": 32,
                           "data_bits": 8 * self.config.bus_bytes, "most_burst_bytes": BURST_BYTES,
                           **_DETAILS[self.memory_bus]},
            "registers": [{"name": register.name, "offset": register.offset_bytes, "access": register.access,
                           "reset": self.reset_value(register), "doc": register.doc,
                           "fields": [asdict(field) for field in register.fields]} for register in REGISTERS],
            "status_codes": {status.name: status.value for status in Status},
            "units": {unit.name.lower(): unit.value for unit in Unit},
            "compiled_file": {"magic": FILE_MAGIC.decode(), "header_words": list(HEADER_WORDS),
                              "port_format": "<" + "".join(code for code, _ in PORT_MEMBERS.values()),
                              "port_members": list(PORT_MEMBERS)},
            "area": [area.facts() for area in areas(self.config)],
            "memories": {"style": self.memories, "macros": [
                {"module": macro.name, "instances": count, "depth": macro.depth, "width": macro.width,
                 "write_bits": macro.write_bits, "read_ports": macro.reads, "write_ports": 1, "read_latency_cycles": 1,
                 "collision": macro.collision, "ports": [{"name": name, "direction": way, "width": bits}
                                                         for name, way, bits in macro.ports]}
                for macro, count in design.macros]},
            "verilog": {"modules": design.modules, "nets": design.nets, "nets_without_a_name": design.made_up},
        }


def core_of(config: Config, control: str, name: str | None, memory_bus: str = "axi4",
            memories: str = "inferred", spelled: Mapping[str, str] | None = None) -> Core:
    """Return the core; OptionError for a name that Verilog, C or a file system would not accept.

    Macros have no initial contents, which the memories of the serial machine need; that is an OptionError, too.
    `spelled` replaces an option's name in messages: --memories for `memories` by default.
    """
    words = {"memories": "--memories", "name": "--name"} | dict(spelled or {})
    if memories == "blackbox" and config.design == "serial":
        raise OptionError(f"{words['memories']} blackbox: the serial machine ({config.name}) starts with its program "
                          "in memory, which RAM of an ASIC cannot; use a configuration of the parallel design, such "
                          "as tiny")
    chosen = name if name is not None else re.sub(r"\W", "_", f"tq_hw_{config.name}", flags=re.ASCII)
    if not _NAME.fullmatch(chosen) or legal(chosen) != chosen:
        raise OptionError(f"{words['name']} {chosen!r}: expected a name for a Verilog module: a letter, then up to 47 "
                          "letters, digits and underscores, no keyword and no underscore at the end; the nearest is "
                          f"{_near(chosen)}")
    ports = tuple(Port(port, "input" if member.flow is In else "output", _width(member.shape))
                  for port, member in top_members(config, control, memory_bus).items())
    core = Core(chosen, config, control, ports, memory_bus, memories)
    if taken := _taken(core):
        raise OptionError(f"{words['name']} {chosen!r}: {taken}; the nearest is n_{chosen}")
    return core


def _taken(core: Core) -> str:
    """Return the reason why a legal name is taken, "" if it is free."""
    if core.name in [port.name for port in core.ports]:
        return "a port has this name, and Verilator needs another one for the module"
    headers = "".join(files("tq_hw.firmware").joinpath("driver", file).read_text(encoding="utf-8")
                      for file in DRIVER if file.endswith(".h"))
    macro = next((macro for macro in (core.guard, *(f"TQ_{name.upper()}" for name in core.macros))
                  if re.search(rf"\b{macro}\b", headers)), None)
    return f"the driver's headers already define {macro}" if macro else ""


def _near(name: str) -> str:
    """Return a legal name similar to an illegal one."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)[:46].strip("_")
    return plain if _NAME.fullmatch(plain) and legal(plain) == plain else f"n_{plain}".rstrip("_")


def _width(shape: Any) -> int:
    return shape if isinstance(shape, int) else int(shape.width)
