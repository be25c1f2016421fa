"""RTLIL as records, as far as Amaranth writes it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Assign", "Bits", "Case", "Cell", "Memory", "Module", "Part", "Process", "RtlilError", "Sig", "Switch",
           "Wire", "parse", "width_of"]


class RtlilError(ValueError):
    """A line of a form that Amaranth is not known to write."""


@dataclass(frozen=True)
class Part:
    """Bits `start` to `start + width - 1` of a wire."""

    wire: str
    start: int
    width: int


@dataclass(frozen=True)
class Bits:
    """A constant, highest bit first; `-` and `x` are bits that do not matter."""

    bits: str

    @property
    def width(self) -> int:
        """Number of bits."""
        return len(self.bits)


#: A value: parts from the most to the least significant.
Sig = tuple[Part | Bits, ...]


@dataclass
class Wire:
    """A net; `port` is "input", "output" or "". `init` is what a flip-flop starts with."""

    name: str
    width: int
    port: str = ""
    init: str = ""


@dataclass
class Memory:
    """A memory of `depth` words, and its attributes."""

    name: str
    width: int
    depth: int
    attributes: dict[str, str]


@dataclass
class Cell:
    """An operator (`$...`) or an instance of a module."""

    kind: str
    name: str
    parameters: dict[str, str] = field(default_factory=dict)
    ports: dict[str, Sig] = field(default_factory=dict)

    def number(self, parameter: str) -> int:
        """Return a parameter that is a number."""
        return int(self.parameters[parameter])


@dataclass
class Assign:
    """An assignment of a process; the last one counts."""

    target: Sig
    value: Sig


@dataclass
class Case:
    """The assignments that apply when one of the patterns matches; no pattern: always."""

    patterns: tuple[str, ...]
    body: "list[Assign | Switch]" = field(default_factory=list)


@dataclass
class Switch:
    """A choice of cases, of which the first match applies."""

    value: Sig
    cases: list[Case] = field(default_factory=list)


@dataclass
class Process:
    """Assignments to one target, by conditions."""

    body: list[Assign | Switch] = field(default_factory=list)


@dataclass
class Module:
    """A module; `aliases` are nets that are only additional names."""

    name: str
    wires: dict[str, Wire] = field(default_factory=dict)
    memories: dict[str, Memory] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    aliases: list[tuple[Sig, Sig]] = field(default_factory=list)


_TOKEN = re.compile(r"\{|\}|\d+'[01x-]*|[\\$]\S+(?: \[\d+(?::\d+)?\])?")


def width_of(sig: Sig) -> int:
    """Return the bits of a value."""
    return sum(part.width for part in sig)


def parse(text: str) -> dict[str, Module]:
    """Return the modules by name, in the order of the text."""
    modules: dict[str, Module] = {}
    lines = (line.strip() for line in text.splitlines() if line.strip())
    for line in lines:
        if line.startswith("attribute"):
            continue
        if not line.startswith("module \\"):
            raise RtlilError(f"expected a module: {line}")
        module = Module(line.removeprefix("module \\"))
        modules[module.name] = module
        _parse_module(module, lines)
    return modules


def _parse_module(module: Module, lines: Iterator[str]) -> None:
    attributes: dict[str, str] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "end":
            for cell in module.cells:
                cell.ports = {name: _sized(module, sig) for name, sig in cell.ports.items()}
            return
        if word == "attribute":
            name, _, value = rest.partition(" ")
            attributes[name] = value
            continue
        if word == "wire":
            _parse_wire(module, rest, attributes.get("\\init", ""))
        elif word == "memory":
            _, width, _, depth, name = rest.split()
            module.memories[name] = Memory(name, int(width), int(depth), attributes)
        elif word == "cell":
            module.cells.append(_parse_cell(rest, lines))
        elif word == "process":
            process = Process()
            _parse_body(module, process.body, lines)
            module.processes.append(process)
        elif word == "connect":
            module.aliases.append(_pair(module, rest))
        else:
            raise RtlilError(f"in {module.name}: {line}")
        attributes = {}
    raise RtlilError(f"{module.name} does not end")


def _parse_wire(module: Module, rest: str, init: str) -> None:
    words = rest.split()
    name, width = words[-1], int(words[1])
    port = next((word for word in words if word in ("input", "output", "inout")), "")
    if port == "inout":
        raise RtlilError(f"{name} goes both ways")
    module.wires[name] = Wire(name, width, port, init.partition("'")[2])


def _parse_cell(rest: str, lines: Iterator[str]) -> Cell:
    kind, _, name = rest.partition(" ")
    cell = Cell(kind, name)
    texts: dict[str, str] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "end":
            break
        if word == "parameter":
            key, _, value = rest.removeprefix("signed ").partition(" ")
            cell.parameters[key.removeprefix("\\")] = value
        else:
            key, _, value = rest.partition(" ")
            texts[key.removeprefix("\\")] = value
    cell.ports = {key: _whole(value) for key, value in texts.items()}
    return cell


def _whole(text: str) -> Sig:
    """Parse a value without looking up the widths of its wires: width -1 means the whole wire."""
    found: list[Part | Bits] = []
    for token in _TOKEN.findall(text):
        if token in "{}":
            continue
        if token[0].isdigit():
            found.append(Bits(token.partition("'")[2]))
            continue
        name, _, bits = token.partition(" [")
        if not bits:
            found.append(Part(name, 0, -1))
        else:
            high, _, low = bits.removesuffix("]").partition(":")
            found.append(Part(name, int(low or high), int(high) - int(low or high) + 1))
    return tuple(part for part in found if part.width)


def _sized(module: Module, sig: Sig) -> Sig:
    return tuple(Part(part.wire, 0, module.wires[part.wire].width) if isinstance(part, Part) and part.width < 0
                 else part for part in sig)


def _pair(module: Module, text: str) -> tuple[Sig, Sig]:
    """Parse two values, the first of which may be in braces."""
    if text.startswith("{"):
        first, _, second = text.partition("}")
    else:
        match = _TOKEN.match(text)
        if match is None:
            raise RtlilError(f"in {module.name}: {text}")
        first, second = match.group(), text[match.end():]
    return _sized(module, _whole(first)), _sized(module, _whole(second))


def _assign(module: Module, body: list[Assign | Switch], text: str) -> None:
    target, value = _pair(module, text)
    if target:  # there are assignments of no bits at all
        body.append(Assign(target, value))


def _parse_body(module: Module, body: list[Assign | Switch], lines: Iterator[str]) -> None:
    """Parse up to the `end` that belongs to the process."""
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "end":
            return
        if word == "assign":
            _assign(module, body, rest)
        elif word == "switch":
            switch = Switch(_sized(module, _whole(rest)))
            _parse_cases(module, switch, lines)
            body.append(switch)
        else:
            raise RtlilError(f"in a process of {module.name}: {line}")


def _parse_cases(module: Module, switch: Switch, lines: Iterator[str]) -> None:
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "end":
            return
        if word == "case":
            switch.cases.append(Case(tuple(pattern.partition("'")[2] for pattern in rest.split(", ") if pattern)))
        elif word == "assign":
            _assign(module, switch.cases[-1].body, rest)
        elif word == "switch":
            inner = Switch(_sized(module, _whole(rest)))
            _parse_cases(module, inner, lines)
            switch.cases[-1].body.append(inner)
        else:
            raise RtlilError(f"in a switch of {module.name}: {line}")

