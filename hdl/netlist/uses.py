"""The driver and the readers of each net in a module, to decide which operators are written inline."""

from collections import Counter
from collections.abc import Iterable, Mapping

from tq_hw.hdl.netlist.operators import LONE, OPERATORS, operands
from tq_hw.hdl.netlist.rtlil import Assign, Cell, Module, Part, Process, Sig, Switch
from tq_hw.hdl.netlist.values import Leaf, Node, chosen, condition_of, references, segments

__all__ = ["OUTPUTS", "Uses", "by_value", "only_wire"]

#: Output ports with names other than Y.
OUTPUTS = {"$dff": "Q", "$memrd_v2": "DATA"}
_NO_OUTPUT = ("$memwr_v2", "$meminit_v2")
#: From this number of cases on, statements are written as `case`.
_CASES = 3
#: Conditions that may be repeated inline, and how often.
_SHORT = frozenset({"$not", "$and", "$or", "$eq", "$ne", "$lt", "$le", "$gt", "$ge", "$reduce_or", "$reduce_bool"})
_MOST_COPIES = 4


def only_wire(sig: Sig) -> str:
    """Return the wire of a value that is a part of one."""
    (part,) = sig
    assert isinstance(part, Part)
    return part.wire


def by_value(switch: Switch) -> bool:
    """Whether a switch becomes a `case`: enough patterns, and every bit of them matters."""
    patterns = [pattern for case in switch.cases for pattern in case.patterns]
    return len(switch.cases) >= _CASES and all(set(pattern) <= set("01") for pattern in patterns)


class Uses:
    """Drivers and readers of a module's nets.

    Parameters
    ----------
    outputs : names of the output ports, by module

    Members
    -------
    instances : of other modules
    drivers : operators, read ports and flip-flops by the wire that each drives
    clocked : processes that only compute the next state of one flip-flop, by the flip-flop's wire
    values : what each other process assigns to its target, by target, as first bit, width and choice
    """

    def __init__(self, module: Module, outputs: Mapping[str, set[str]]) -> None:
        self._module, self._outputs = module, outputs
        self.instances = [cell for cell in module.cells if not cell.kind.startswith("$")]
        self.drivers = {only_wire(cell.ports[OUTPUTS.get(cell.kind, "Y")]): cell for cell in module.cells
                        if cell.kind.startswith("$") and cell.kind not in _NO_OUTPUT}
        self._counts: Counter[str] = Counter()
        self._pinned: set[str] = set()
        self._assigned: set[str] = set()
        processes = {only_wire(process.body[0].target): process for process in module.processes
                     if isinstance(process.body[0], Assign)}
        for cell in module.cells:
            for sig in self._cell_reads(cell):
                self._note(sig)
        for _, sig in module.aliases:
            self._note(sig)
        self._inside = {part.wire for process in module.processes for sig in _statement_reads(process.body)
                        for part in sig if isinstance(part, Part)}
        self.clocked = {wire: process for wire, cell in self.drivers.items() if cell.kind == "$dff"
                        and (process := self._alone(cell, processes)) is not None}
        taken = {only_wire(self.drivers[wire].ports["D"]) for wire in self.clocked}
        self.values: dict[str, list[tuple[int, int, Node]]] = {
            target: [(start, width, chosen(process.body, start, width, Leaf(())))
                     for start, width in segments(process.body, module.wires[target].width)]
            for target, process in processes.items() if target not in taken}
        for process in self.clocked.values():
            self._assign_all(process.body)
            for sig in _statement_reads(process.body):
                self._note(sig)
        for parts in self.values.values():
            for _, _, node in parts:
                for sig in references(node):
                    self._note(sig)

    def inlined(self, wire: str) -> Cell | None:
        """Return the operator or read port that is written inline: used whole, and only once unless it is short."""
        cell = self.drivers.get(wire)
        if cell is None or not wire.startswith("$") or wire in self._pinned:
            return None
        if self._counts[wire] != 1 and not (self._counts[wire] <= _MOST_COPIES and self._is_short(cell, 1)):
            return None
        if cell.kind in LONE:
            return cell if wire in self._assigned and cell.kind != "$shift" and self._counts[wire] == 1 else None
        read = cell.kind == "$memrd_v2" and not cell.number("CLK_ENABLE")
        return cell if read or cell.kind in OPERATORS else None

    def _is_short(self, cell: Cell, deep: int) -> bool:
        """Whether a condition is as short as a name for it would be."""
        if cell.kind not in _SHORT or self._module.wires[only_wire(cell.ports["Y"])].width != 1:
            return False
        parts = [part for name, sig in cell.ports.items() if name != "Y" for part in sig]
        inner = [self.drivers.get(part.wire) for part in parts if isinstance(part, Part) and part.wire.startswith("$")]
        return len(parts) <= 2 and all(deep and one is not None and one.kind in _SHORT and self._is_short(one, 0)
                                       for one in inner)

    def count(self, wire: str) -> int:
        """How often a net is read."""
        return self._counts[wire]

    def _alone(self, cell: Cell, processes: Mapping[str, Process]) -> Process | None:
        """Return the process that computes a flip-flop's next state, if nothing else reads its result."""
        data = cell.ports["D"]
        if len(data) != 1 or not isinstance(data[0], Part):
            return None
        wire, width = data[0].wire, data[0].width
        if (not wire.startswith("$") or width != self._module.wires[wire].width or self._counts[wire] != 1
                or wire in self._inside):
            return None
        return processes.get(wire)

    def _cell_reads(self, cell: Cell) -> Iterable[Sig]:
        if cell.kind in OPERATORS or cell.kind in LONE:
            yield from operands(cell).values()
        elif cell.kind == "$dff":
            yield from (cell.ports["CLK"], cell.ports["D"])
            self._assign(cell.ports["D"])
        elif cell.kind == "$memrd_v2":
            yield cell.ports["ADDR"]
            if cell.number("CLK_ENABLE"):
                yield from (cell.ports["EN"], cell.ports["CLK"])
        elif cell.kind == "$memwr_v2":
            yield from (cell.ports["CLK"], cell.ports["ADDR"], cell.ports["DATA"], cell.ports["EN"])
            if len(set(cell.ports["EN"])) > 1:
                self._pinned.update(part.wire for part in cell.ports["DATA"] if isinstance(part, Part))
        elif not cell.kind.startswith("$"):
            yield from (sig for name, sig in cell.ports.items() if name not in self._outputs[cell.kind])

    def _assign(self, sig: Sig) -> None:
        """Note that a value is all that is assigned to something as wide."""
        if len(sig) == 1 and isinstance(sig[0], Part):
            self._assigned.add(sig[0].wire)

    def _assign_all(self, body: list[Assign | Switch]) -> None:
        for item in body:
            if isinstance(item, Assign):
                self._assign(item.value)
            else:
                for case in item.cases:
                    self._assign_all(case.body)

    def _note(self, sig: Sig) -> None:
        for part in sig:
            if isinstance(part, Part):
                self._counts[part.wire] += 1
                if part.width != self._module.wires[part.wire].width:
                    self._pinned.add(part.wire)


def _statement_reads(body: list[Assign | Switch]) -> Iterable[Sig]:
    """Yield the values that statements read, as often as they stand there."""
    for item in body:
        if isinstance(item, Assign):
            yield item.value
            continue
        if by_value(item):
            yield item.value
        else:
            for case in item.cases:
                yield from (sig for sig, _ in condition_of(item.value, case.patterns))
        for case in item.cases:
            yield from _statement_reads(case.body)
