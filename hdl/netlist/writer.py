"""One module as Verilog."""

from collections.abc import Iterator, Mapping

from tq_hw.hdl.netlist.nets import Nets, memory_of
from tq_hw.hdl.netlist.operators import ATOM, Text, inverse, operator_text, tight
from tq_hw.hdl.netlist.rtlil import Bits, Cell, Module, Part, Sig, width_of
from tq_hw.hdl.netlist.statements import Statements
from tq_hw.hdl.netlist.text import wrapped
from tq_hw.hdl.netlist.uses import Uses, only_wire
from tq_hw.hdl.netlist.values import Condition, Leaf, Node, constant, piece

__all__ = ["Child", "ModuleWriter"]

#: Longer texts are assigned to a net of their own.
_MOST_TEXT = 240
#: Verilog's name of a module, and of its ports by Amaranth's.
Child = tuple[str, Mapping[str, str]]


class ModuleWriter:
    """Write a module: operators inline where possible, flip-flops as clocked statements.

    Parameters
    ----------
    module, uses, nets : the module, and what is known about it
    children : the modules of its instances, by Amaranth's name
    """

    def __init__(self, module: Module, uses: Uses, nets: Nets, children: Mapping[str, Child]) -> None:
        self._module, self._uses, self._nets, self._children = module, uses, nets, children
        self._assigns: list[str] = []
        self._clocked = Statements(self.show, self.condition)

    def body(self) -> str:
        """Return the module's text after its name."""
        for target, value in self._module.aliases:
            (part,) = target
            if isinstance(part, Part) and self._nets.known(part.wire):
                self._assign(self._slice(part), self.show(value))
        for wire, pieces in self._uses.values.items():
            for start, width, node in pieces:
                self._assign(self._slice(Part(wire, start, width)), self._node(node))
        for wire, cell in self._uses.drivers.items():
            if cell.kind not in ("$dff", "$shift") and not self._uses.inlined(wire) and not _is_clocked(cell):
                self._assign(self._nets.name(wire), self._expression(cell))
            elif cell.kind == "$shift":
                self._assign_part(wire, cell)
        instances = "".join(self._instance(cell) for cell in self._uses.instances)
        memories = "".join(self._memory_ports(cell) for cell in self._module.cells
                           if cell.kind in ("$memwr_v2", "$memrd_v2"))
        registers = "".join(self._flip_flop(wire, cell) for wire, cell in self._uses.drivers.items()
                            if cell.kind == "$dff")
        parts = (self._declarations(), "".join(self._assigns), instances, memories, registers)
        return self._header() + "\n".join(part for part in parts if part)

    def show(self, sig: Sig) -> Text:
        """Return the text of a value."""
        texts: list[tuple[str, str, int]] = []
        for part in _joined(sig):
            text, kind = (constant(part.bits), ATOM) if isinstance(part, Bits) else self._part(part)
            if texts and texts[-1][0] == text and part.width == 1 and isinstance(part, Part):
                texts[-1] = (text, kind, texts[-1][2] + 1)
            else:
                texts.append((text, kind, 1))
        if len(texts) == 1 and texts[0][2] == 1:
            return texts[0][0], texts[0][1]
        shown = ", ".join(text if count == 1 else f"{{{count}{{{text}}}}}" for text, _, count in texts)
        return (shown if len(texts) == 1 else f"{{{shown}}}"), ATOM

    def condition(self, condition: Condition) -> Text:
        """Return the text of a condition."""
        texts = []
        for sig, bits in condition:
            shown = self.show(sig)
            if len(bits) == 1:
                texts.append(shown if bits == "1" else inverse(shown))
            else:
                texts.append((f"{tight(shown)} == {constant(bits)}", "=="))
        return texts[0] if len(texts) == 1 else (" | ".join(tight(text) for text in texts), "|")

    def _part(self, part: Part) -> Text:
        cell = self._uses.inlined(part.wire)
        if cell is not None and self._nets.known(part.wire) is None:
            text = self._expression(cell)
            if len(text[0]) <= _MOST_TEXT:
                return text
            self._assign(self._nets.name(part.wire), text)
        return self._slice(part), ATOM

    def _slice(self, part: Part) -> str:
        name, whole = self._nets.name(part.wire), self._module.wires[part.wire].width
        if part.width == whole:
            return name
        return f"{name}[{part.start}]" if part.width == 1 else f"{name}[{part.start + part.width - 1}:{part.start}]"

    def _expression(self, cell: Cell) -> Text:
        if cell.kind == "$memrd_v2":
            return f"{self._nets.memories[memory_of(cell)]}[{self.show(cell.ports['ADDR'])[0]}]", ATOM
        return operator_text(cell, self.show)

    def _node(self, node: Node) -> Text:
        if isinstance(node, Leaf):
            return self.show(node.sig)
        then, other = self._node(node.then), self._node(node.other)
        return f"{tight(self.condition(node.condition))} ? {tight(then)} : {other[0]}", "?"

    def _assign(self, target: str, value: Text) -> None:
        self._assigns.append(wrapped(f"assign {target} = {value[0]};"))

    def _assign_part(self, wire: str, cell: Cell) -> None:
        """Shift the whole value, and take the low bits."""
        text, name = operator_text(cell, self.show), self._nets.name(wire)
        whole, width = width_of(cell.ports["A"]), self._module.wires[wire].width
        if whole <= width:
            self._assign(name, text)
            return
        shifted = self._nets.extra(f"{name}_shifted", whole)
        self._assign(shifted, text)
        self._assign(name, (f"{shifted}[{width - 1}:0]" if width > 1 else f"{shifted}[0]", ATOM))

    def _instance(self, cell: Cell) -> str:
        kind, ports = self._children[cell.kind]
        lines = [f"    .{ports[port]}({self.show(sig)[0]})" for port, sig in cell.ports.items()]
        return f"  {kind} {self._nets.instances[cell.name]} (\n" + ",\n".join(lines) + "\n  );\n"

    def _memory_ports(self, cell: Cell) -> str:
        memory = self._nets.memories[memory_of(cell)]
        clock, addr = self.show(cell.ports["CLK"])[0], self.show(cell.ports["ADDR"])[0]
        if cell.kind == "$memrd_v2":
            if not _is_clocked(cell):
                return ""
            name = self._nets.name(only_wire(cell.ports["DATA"]))
            return (f"  always @(posedge {clock})\n" + _guard(self.show(cell.ports["EN"])[0])
                    + f"{name} <= {memory}[{addr}];\n")
        lines = []
        groups = list(_groups(cell.ports["EN"]))
        for start, width, enable in groups:
            part = "" if len(groups) == 1 else f"[{start + width - 1}:{start}]" if width > 1 else f"[{start}]"
            data = self.show(piece(cell.ports["DATA"], start, width))[0]
            lines.append(wrapped(f"if ({self.show(enable)[0]}) {memory}[{addr}]{part} <= {data};", "    "))
        return f"  always @(posedge {clock}) begin\n" + "".join(lines) + "  end\n"

    def _flip_flop(self, wire: str, cell: Cell) -> str:
        process = self._uses.clocked.get(wire)
        name, clock = self._nets.name(wire), self.show(cell.ports["CLK"])[0]
        width = self._module.wires[wire].width
        if process is None:
            return f"  always @(posedge {clock})\n" + wrapped(f"{name} <= {self.show(cell.ports['D'])[0]};", "    ")
        return f"  always @(posedge {clock})\n" + self._clocked.text(process.body, wire, name, width)

    def _header(self) -> str:
        lines = []
        for wire in self._nets.ports:
            port = self._module.wires[wire]
            kind = "reg" if port.port == "output" and self._is_register(wire) else "wire"
            lines.append(f"  {port.port} {kind} {_range(port.width)}{self._nets.name(wire)}")
        return " (\n" + ",\n".join(lines) + "\n);\n"

    def _is_register(self, wire: str) -> bool:
        cell = self._uses.drivers.get(wire)
        return cell is not None and (cell.kind == "$dff" or _is_clocked(cell))

    def _declarations(self) -> str:
        lines, first = [], []
        for wire in self._nets.nets:
            kind = "reg" if self._is_register(wire) else "wire"
            lines.append(f"  {kind} {_range(self._nets.width(wire))}{self._nets.name(wire)};\n")
        for wire, cell in self._uses.drivers.items():
            init = self._module.wires[wire].init
            if cell.kind == "$dff" and init:
                first.append(f"    {self._nets.name(wire)} = {constant(init)};\n")
        for name, memory in self._module.memories.items():
            shown = ", ".join(f"{key.removeprefix(chr(92))} = {value}" for key, value in memory.attributes.items())
            lines.append((f"  (* {shown} *)\n" if shown else "") + f"  reg {_range(memory.width)}"
                         f"{self._nets.memories[name]} [0:{memory.depth - 1}];\n")
        for cell in self._module.cells:
            if cell.kind == "$meminit_v2":
                first += self._contents(cell)
        return "".join(lines) + ("  initial begin\n" + "".join(first) + "  end\n" if first else "")

    def _contents(self, cell: Cell) -> Iterator[str]:
        """Yield the words of a memory that is not initialized with zeros only."""
        bits = "".join(part.bits for part in cell.ports["DATA"] if isinstance(part, Bits))
        width, words = cell.number("WIDTH"), cell.number("WORDS")
        if "1" in bits:
            name = self._nets.memories[memory_of(cell)]
            for word in range(words):
                end = len(bits) - word * width
                yield f"    {name}[{word}] = {constant(bits[end - width:end])};\n"


def _is_clocked(cell: Cell) -> bool:
    return cell.kind == "$memrd_v2" and bool(cell.number("CLK_ENABLE"))


def _guard(enable: str) -> str:
    return "    " if enable == "1'b1" else f"    if ({enable}) "


def _range(width: int) -> str:
    return "" if width == 1 else f"[{width - 1}:0] "


def _joined(sig: Sig) -> list[Part | Bits]:
    """Return the parts with adjacent constants merged."""
    found: list[Part | Bits] = []
    for part in sig:
        if found and isinstance(part, Bits) and isinstance(found[-1], Bits):
            found[-1] = Bits(found[-1].bits + part.bits)
        else:
            found.append(part)
    return found


def _groups(enable: Sig) -> Iterator[tuple[int, int, Sig]]:
    """Yield the groups of bits that share a write enable: first bit, number, and enable."""
    bits = [piece(enable, at, 1) for at in range(width_of(enable))]
    start = 0
    for at in range(1, len(bits) + 1):
        if at == len(bits) or bits[at] != bits[start]:
            yield start, at - start, bits[start]
            start = at


