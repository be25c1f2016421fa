"""Reduces unnamed nets: operators no wider than what is read of them, and no duplicates.

Amaranth makes sums wide enough for every result, and then assigns a part of them. Where all readers of an operator
read the same part, the operator is narrowed to it, so that it can be written inline. Bitwise operators are split where
readers use different parts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from tq_hw.hdl.netlist.rtlil import Assign, Bits, Cell, Module, Part, Sig, Switch, Wire
from tq_hw.hdl.netlist.uses import OUTPUTS, Uses, only_wire
from tq_hw.hdl.netlist.values import piece

__all__ = ["narrow"]

#: Operators whose low bits depend only on the low bits of their operands; bitwise operators.
_LOW = ("$add", "$sub", "$mul", "$neg", "$shl")
_BITWISE = ("$and", "$or", "$xor", "$not", "$mux")
#: With more parts than these an operator is not split.
_MOST_PARTS = 4
_ROUNDS = 20
#: First bit and width.
Piece = tuple[int, int]


def narrow(module: Module, outputs: Mapping[str, set[str]]) -> None:
    """Rewrite a module until nothing can be narrowed, split or joined."""
    for _ in range(_ROUNDS):
        if not (_narrow_once(module, outputs) | _join_once(module, outputs)):
            return


def _reads(module: Module, outputs: Mapping[str, set[str]]) -> Iterator[Sig]:
    for cell in module.cells:
        yield from (sig for name, sig in cell.ports.items() if not _drives(cell, name, outputs))
    yield from (sig for _, sig in module.aliases)
    for process in module.processes:
        yield from _body_reads(process.body)


def _drives(cell: Cell, port: str, outputs: Mapping[str, set[str]]) -> bool:
    if cell.kind.startswith("$"):
        return port == OUTPUTS.get(cell.kind, "Y")
    return port in outputs[cell.kind]


def _body_reads(body: list[Assign | Switch]) -> Iterator[Sig]:
    for item in body:
        if isinstance(item, Assign):
            yield item.value
        else:
            yield item.value
            for case in item.cases:
                yield from _body_reads(case.body)


def _rewrite(module: Module, outputs: Mapping[str, set[str]], change: Callable[[Part], Part]) -> None:
    """Replace parts in everything that is read."""
    def changed(sig: Sig) -> Sig:
        return tuple(part if isinstance(part, Bits) else change(part) for part in sig)

    def visit(body: list[Assign | Switch]) -> None:
        for item in body:
            item.value = changed(item.value)
            if isinstance(item, Switch):
                for case in item.cases:
                    visit(case.body)

    for cell in module.cells:
        cell.ports = {name: sig if _drives(cell, name, outputs) else changed(sig) for name, sig in cell.ports.items()}
    module.aliases = [(target, changed(sig)) for target, sig in module.aliases]
    for process in module.processes:
        visit(process.body)


def _narrow_once(module: Module, outputs: Mapping[str, set[str]]) -> bool:
    """Narrow or split every operator whose result is read in parts; return whether there was one."""
    reads: dict[str, dict[Piece, None]] = defaultdict(dict)
    for sig in _reads(module, outputs):
        for part in sig:
            if isinstance(part, Part):
                reads[part.wire][part.start, part.width] = None
    new: dict[str, dict[Piece, str]] = {}
    cells: list[Cell] = []
    for cell in module.cells:
        wire = only_wire(cell.ports["Y"]) if cell.kind in _LOW or cell.kind in _BITWISE else ""
        pieces = _pieces(cell, list(reads[wire]), module.wires[wire].width) if wire.startswith("$") else []
        if not pieces:
            cells.append(cell)
            continue
        new[wire] = {}
        for start, width in pieces:
            name = f"{wire}.{start}.{width}"
            module.wires[name] = Wire(name, width)
            new[wire][start, width] = name
            cells.append(_part_of(cell, name, start, width))
    module.cells = cells

    def change(part: Part) -> Part:
        for (start, width), name in new.get(part.wire, {}).items():
            if start <= part.start and part.start + part.width <= start + width:
                return Part(name, part.start - start, part.width)
        return part

    if new:
        _rewrite(module, outputs, change)
    return bool(new)


def _pieces(cell: Cell, reads: list[Piece], width: int) -> list[Piece]:
    """Return the pieces that replace an operator, or nothing where it stays."""
    if not reads or (0, width) in reads:
        return []
    if cell.kind in _LOW:
        top = max(start + count for start, count in reads)
        return [(0, top)] if top < width else []
    ordered = sorted(reads)
    apart = all(low + count <= following for (low, count), (following, _) in zip(ordered, ordered[1:], strict=False))
    if apart and len(ordered) <= _MOST_PARTS:
        return ordered
    low, top = ordered[0][0], max(start + count for start, count in ordered)
    return [(low, top - low)] if top - low < width else []


def _part_of(cell: Cell, wire: str, start: int, width: int) -> Cell:
    """Return the operator for a part of its result."""
    made = Cell(cell.kind, f"{cell.name}.{start}.{width}", dict(cell.parameters), dict(cell.ports))
    made.ports["Y"] = (Part(wire, 0, width),)
    made.parameters["WIDTH" if cell.kind == "$mux" else "Y_WIDTH"] = str(width)
    for port in ("A",) if cell.kind == "$shl" else ("A", "B"):
        if port in cell.ports:
            made.ports[port] = piece(cell.ports[port], start, width)
            made.parameters[f"{port}_WIDTH"] = str(width)
    return made


def _join_once(module: Module, outputs: Mapping[str, set[str]]) -> bool:
    """Merge identical operators that would need nets; return whether there were any."""
    uses = Uses(module, outputs)
    first: dict[object, str] = {}
    same: dict[str, str] = {}
    kept: list[Cell] = []
    for cell in module.cells:
        wire = only_wire(cell.ports["Y"]) if "Y" in cell.ports and cell.kind.startswith("$") else ""
        if wire.startswith("$") and uses.inlined(wire) is None:
            key = (cell.kind, tuple(sorted(cell.parameters.items())),
                   tuple((name, sig) for name, sig in cell.ports.items() if name != "Y"))
            if key in first:
                same[wire] = first[key]
                continue
            first[key] = wire
        kept.append(cell)
    module.cells = kept
    if same:
        _rewrite(module, outputs, lambda part: Part(same.get(part.wire, part.wire), part.start, part.width))
    return bool(same)
