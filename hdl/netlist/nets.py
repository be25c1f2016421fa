"""Names for the nets, ports, instances and memories of a module."""

import re
from collections.abc import Mapping, Sequence

from tq_hw.hdl.netlist.names import MOST_LETTERS, Names, legal
from tq_hw.hdl.netlist.rtlil import Bits, Cell, Module, Part, Sig
from tq_hw.hdl.netlist.uses import Uses, only_wire

__all__ = ["Nets", "memory_of"]

_WORDS = {"$and": "and", "$or": "or", "$xor": "xor", "$add": "plus", "$sub": "minus", "$mul": "times", "$shl": "shl",
          "$shr": "shr", "$sshr": "shr", "$shift": "part", "$divfloor": "over", "$modfloor": "rest",
          "$eq": "is", "$ne": "is_not", "$lt": "below", "$le": "upto", "$gt": "above", "$ge": "from",
          "$not": "not", "$neg": "minus", "$reduce_or": "any", "$reduce_bool": "any",
          "$reduce_and": "all", "$reduce_xor": "parity", "$mux": "or"}
#: Clocks and resets of Amaranth's domains.
_FIRST = ("clk", "rst")
_DOMAIN = re.compile(r"\\units\d+_(clk|rst)$")


class Nets:
    """Everything of a module that has a name.

    Parameters
    ----------
    wanted : names for ports that have none, by Amaranth's name
    ports : the ports are called as they are, and stand in this order; None: they may be called anything

    Members
    -------
    ports, nets : Amaranth's names of ports, and of the other nets that are declared
    instances, memories : Verilog's names, by Amaranth's
    """

    def __init__(self, module: Module, uses: Uses, wanted: Mapping[str, str],
                 ports: Sequence[str] | None) -> None:
        self._module, self._uses = module, uses
        self._names = Names()
        self._of: dict[str, str] = {}
        self._made: set[str] = set()
        self._extra: dict[str, int] = {}
        self.ports: list[str] = []
        self.nets: list[str] = []
        self._name_ports(wanted, ports)
        self.instances = {cell.name: self._names.take(f"u_{legal(cell.name)}") for cell in uses.instances}
        self.memories = {name: self._names.take(legal(name)) for name in module.memories}
        self._name_nets()

    @property
    def ports_by_name(self) -> dict[str, str]:
        """Verilog's names of the ports."""
        return {wire: self._of[wire] for wire in self.ports}

    @property
    def made_up(self) -> int:
        """Nets without a name in the source."""
        return len(self._made)

    def known(self, wire: str) -> str | None:
        """Return the name of a wire that has one by now."""
        return self._of.get(wire)

    def name(self, wire: str) -> str:
        """Return the name of a wire, made up if necessary."""
        if wire not in self._of:
            self._made.add(wire)
            self._of[wire] = self._names.take(self._hint(wire))
            self.nets.append(wire)
        return self._of[wire]

    def width(self, wire: str) -> int:
        """Return the bits of a net."""
        return self._extra[wire] if wire in self._extra else self._module.wires[wire].width

    def extra(self, wanted: str, width: int) -> str:
        """Declare an additional net; return its name."""
        name = self._names.take(wanted)
        self._of[name] = name
        self._made.add(name)
        self._extra[name] = width
        self.nets.append(name)
        return name

    def _name_ports(self, wanted: Mapping[str, str], ports: Sequence[str] | None) -> None:
        """Name the ports, and sort them so that equal modules have equal texts."""
        for wire in self._module.wires.values():
            if not wire.port:
                continue
            self.ports.append(wire.name)
            domain = _DOMAIN.match(wire.name)
            name = domain.group(1) if domain else wanted.get(wire.name) or legal(wire.name)
            if wire.name.startswith("\\$") or (wire.name.startswith("\\port$") and name == "port"):
                self._made.add(wire.name)
            self._of[wire.name] = self._names.take(wire.name.removeprefix("\\") if ports is not None else name)

        order = {f"\\{name}": number for number, name in enumerate(ports or ())}
        self.ports.sort(key=lambda wire: (order.get(wire, len(order)), self._of[wire] not in _FIRST,
                                          self._module.wires[wire].port, self._of[wire]))

    def _name_nets(self) -> None:
        """Name the nets that have a name in the source and are not just an alias."""
        module = self._module
        aliased = {only_wire(target) for target, _ in module.aliases}
        dropped = {only_wire(target) for target, value in module.aliases if not self._worth(only_wire(target), value)}
        for wire in module.wires.values():
            driven = wire.name in aliased or wire.name in self._uses.drivers or wire.name in self._uses.values
            if wire.port or wire.name.startswith("$") or wire.name in dropped or not (
                    driven or self._uses.count(wire.name)):
                continue
            self._of[wire.name] = self._names.take(legal(wire.name))
            self.nets.append(wire.name)
            if wire.name.startswith("\\$"):
                self._made.add(wire.name)

    def _worth(self, target: str, value: Sig) -> bool:
        """Whether an alias is kept: ports are, and names of a part, such as a field."""
        if self._module.wires[target].port or self._uses.count(target):
            return True
        if all(isinstance(part, Bits) for part in value):
            return False
        part = value[0]
        return len(value) > 1 or isinstance(part, Part) and part.width != self._module.wires[part.wire].width

    def _hint(self, wire: str) -> str:
        """Make up a name from the driver of a wire."""
        cell = self._uses.drivers.get(wire)
        for instance in self._uses.instances:
            for port, sig in instance.ports.items():
                if cell is None and sig and isinstance(sig[0], Part) and sig[0].wire == wire:
                    return f"{legal(instance.name)}_{legal(port)}"
        if cell is None or cell.kind == "$dff":
            for target, value in self._module.aliases:
                if any(isinstance(part, Part) and part.wire == wire for part in value):
                    return f"{legal(only_wire(target))}_part"
            return "choice"
        if cell.kind == "$memrd_v2":
            return f"{self.memories[memory_of(cell)]}_word"
        parts = [self._operand_hint(cell.ports.get("B" if port == "A" and cell.kind == "$mux" else port, ()))
                 for port in ("A", "B") if port in cell.ports]
        word = _WORDS[cell.kind]
        text = f"{word}_{parts[0]}" if len(parts) == 1 else f"{parts[0]}_{word}_{parts[-1]}"
        return legal(text if len(text) <= MOST_LETTERS else f"{parts[0][:MOST_LETTERS - 10]}_{word}")

    def _operand_hint(self, sig: Sig) -> str:
        if not sig:
            return "0"
        part = sig[-1]
        if all(isinstance(one, Bits) for one in sig):
            return str(int("".join(one.bits for one in sig if isinstance(one, Bits)), 2))
        part = next(one for one in reversed(sig) if isinstance(one, Part))
        if part.wire in self._of:
            whole = part.width == self._module.wires[part.wire].width
            return self._of[part.wire] + ("" if whole else f"_{part.start}")
        cell = self._uses.drivers.get(part.wire)
        if cell is None or cell.kind == "$dff":
            return "choice"
        inner = next((one for port in ("B", "A", "ADDR") for one in cell.ports.get(port, ())
                      if isinstance(one, Part) and one.wire in self._of), None)
        return self._of[inner.wire] if inner else _WORDS.get(cell.kind, "word")


def memory_of(cell: Cell) -> str:
    """Return Amaranth's name of the memory of a port."""
    return cell.parameters["MEMID"].strip('"').replace("\\\\", "\\")
