"""A design as Verilog-2005. Modules that differ only in their names are written once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tq_hw.hdl.netlist.macros import LEAST_BITS, Macro, leave_out, model_of
from tq_hw.hdl.netlist.names import Names, legal
from tq_hw.hdl.netlist.narrow import narrow
from tq_hw.hdl.netlist.nets import Nets
from tq_hw.hdl.netlist.rtlil import Module, Part, parse
from tq_hw.hdl.netlist.uses import Uses, only_wire
from tq_hw.hdl.netlist.writer import Child, ModuleWriter

__all__ = ["Design", "readable_verilog"]


@dataclass(frozen=True)
class Design:
    """The Verilog, and statistics of its names.

    Members
    -------
    text : all modules, the top last
    modules, instances : as written, and as there would be without sharing
    nets, made_up : nets and ports of all modules as written, and those among them without a name in the source
    macros : memories that are left out, with the number of instances of each; none if memories are inferred
    models : behavioural Verilog of these
    """

    text: str
    modules: int
    instances: int
    nets: int
    made_up: int
    macros: tuple[tuple[Macro, int], ...] = ()
    models: str = ""


def readable_verilog(rtlil: str, name: str, ports: Sequence[str] = (), *, macros: bool = False,
                     least_bits: int = LEAST_BITS) -> Design:
    """Return the Verilog of a design, whose top, the first module, is called `name` and keeps its ports' names.

    `ports` stand first in the top's list of ports, in this order. With `macros`, memories of `least_bits` or more are
    left out where they can be.
    """
    return _Writer(parse(rtlil), name, ports, least_bits if macros else None).design()


class _Writer:
    def __init__(self, modules: dict[str, Module], name: str, ports: Sequence[str], least_bits: int | None) -> None:
        self._modules, self._name, self._ports = modules, name, ports
        self._top = next(iter(modules))
        self._outputs = {f"\\{module.name}": {wire.name.removeprefix("\\") for wire in module.wires.values()
                                             if wire.port == "output"} for module in modules.values()}
        self._macros: dict[str, Macro] = {}
        if least_bits is not None:
            for module in modules.values():
                self._macros |= leave_out(module, name, least_bits)
        self._outputs |= {kind: {port for port, way, _ in macro.ports if way == "output"}
                          for kind, macro in self._macros.items()}
        self._used: Counter[str] = Counter()
        for module in modules.values():
            narrow(module, self._outputs)
        self._uses = {name: Uses(module, self._outputs) for name, module in modules.items()}
        self._nets: dict[str, Nets] = {}
        self._children: dict[str, Child] = {kind: (macro.name, {port: port for port, _, _ in macro.ports})
                                            for kind, macro in self._macros.items()}
        self._names = Names()
        self._same: dict[str, str] = {}
        self._texts: list[str] = []
        self._total = self._made = self._instances = 0

    def design(self) -> Design:
        self._name_nets(self._top, {})
        for wanted in (self._name, *(macro.name for macro in self._macros.values())):
            self._names.take(wanted)
        self._write(self._top)
        text = "`default_nettype none\n\n" + "\n".join(self._texts) + "\n`default_nettype wire\n"
        macros = sorted(self._macros.values(), key=lambda macro: macro.name)
        return Design(text, len(self._texts), self._instances, self._total, self._made,
                      tuple((macro, self._used[macro.name]) for macro in macros),
                      "\n".join(model_of(macro) for macro in macros))

    def _name_nets(self, name: str, wanted: Mapping[str, str]) -> None:
        """Name the nets of a module, then those of its instances, which may want names for their ports."""
        nets = Nets(self._modules[name], self._uses[name], wanted,
                    self._ports if name == self._top else None)
        self._nets[name] = nets
        for cell in self._uses[name].instances:
            if cell.kind in self._macros:
                continue
            child = self._modules[cell.kind.removeprefix("\\")]
            hints = {}
            for port, sig in cell.ports.items():
                if port.startswith("port$"):
                    part = next((part for part in sig if isinstance(part, Part) and nets.known(part.wire)), None)
                    hints[f"\\{port}"] = nets.known(part.wire) or "" if part else _inner_name(child, f"\\{port}")
            self._name_nets(child.name, hints)

    def _write(self, name: str) -> None:
        """Write the modules of a module's instances, then the module."""
        self._instances += 1
        for cell in self._uses[name].instances:
            if cell.kind in self._macros:
                self._used[self._macros[cell.kind].name] += 1
            else:
                self._write(cell.kind.removeprefix("\\"))
        nets = self._nets[name]
        body = ModuleWriter(self._modules[name], self._uses[name], nets, self._children).body()
        if body not in self._same:
            own = self._name if name == self._top else self._names.take(
                "_".join([self._name, *(legal(part) for part in name.split(".")[1:])]))
            self._same[body] = own
            self._texts.append(f"module {own}{body}endmodule\n")
            self._total += len(nets.ports) + len(nets.nets)
            self._made += nets.made_up
        self._children[f"\\{name}"] = (self._same[body], {
            wire.removeprefix("\\"): port for wire, port in nets.ports_by_name.items()})


def _inner_name(module: Module, port: str) -> str:
    """Return a name for a port, derived from the net that it is connected to inside."""
    for target, value in module.aliases:
        if only_wire(target) == port and isinstance(value[0], Part) and value[0].wire.startswith("\\"):
            return f"{legal(value[0].wire)}_out"
    return "port"
