"""How far each net of an ECP5 netlist is from the registers before and after it."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any

from tq_hw.boards.build.block_registers import Cell, Readers, readers_of
from tq_hw.boards.build.lut_functions import Net

__all__ = ["LUT_DEPTH", "Depths"]

#: A LUT and the wire before it. Other depths are fractions of it, after nextpnr's timing of the slowest grade.
LUT_DEPTH = 10
#: From input to output of a cell without registers; of a carry chain, from one cell to the next.
_LUT_INPUTS = ("A", "B", "C", "D")
_CHAIN_DEPTH = 1
_MUX_TYPES = {"PFUMX": "C0", "L6MUX21": "SD"}
_MEMORY = "TRELLIS_DPR16X4"
#: From the clock to the output of other cells.
_CLOCK_DEPTHS = {"DP16KD": 2 * LUT_DEPTH, "MULT18X18D": LUT_DEPTH}


class Depths:
    """Depths of the nets of a module, which follow its changes.

    Members
    -------
    before : by net: the longest way from a register
    after : by net: the longest way to a register
    readers : by net: cells and their inputs
    """

    def __init__(self, module: Any) -> None:
        self._cells: dict[str, Cell] = module["cells"]
        self.readers: Readers = readers_of(module)
        self._driver: dict[Net, str] = {}
        for name, cell in self._cells.items():
            for _pin, net in _pins(cell, "output"):
                self._driver[net] = name
        self.before: dict[Net, int] = defaultdict(int)
        self.after: dict[Net, int] = defaultdict(int)
        self._spread(list(self._cells), [net for cell in self._cells.values() for net in _sources(cell)])

    def driver(self, net: Net) -> str | None:
        """Return the name of the cell that drives a net; None for an input or a constant."""
        return self._driver.get(net)

    def through(self, net: Net) -> int:
        """Return the length of the longest way through a net."""
        return self.before[net] + self.after[net]

    def replace(self, gone: dict[str, Cell], new: dict[str, Cell]) -> None:
        """Take over that some cells were replaced by others, which drive nets of theirs."""
        for name, cell in gone.items():
            for pin, net in _pins(cell, "input"):
                self.readers[net].remove((name, pin))
            for _pin, net in _pins(cell, "output"):
                del self._driver[net]
        for name, cell in new.items():
            for pin, net in _pins(cell, "input"):
                self.readers[net].append((name, pin))
            for _pin, net in _pins(cell, "output"):
                self._driver[net] = name
        self._spread(list(new), [net for cell in gone.values() for net in _sources(cell)])

    def _spread(self, names: Iterable[str], nets: Iterable[Net]) -> None:
        """Compute the depths before the outputs of cells and after nets, and of all that depend on those."""
        forward, backward = _Waiting(names), _Waiting(nets)
        while forward:
            cell = self._cells[forward.next()]
            for pin, net in _pins(cell, "output"):
                depth = max((self.before[source] + step for source, step in _arcs_to(cell, pin)),
                            default=_CLOCK_DEPTHS.get(cell["type"], 0))
                if depth != self.before[net]:
                    self.before[net] = depth
                    forward.add(reader for reader, _pin in self.readers[net] if reader)
        while backward:
            net = backward.next()
            depth = max((self._after(reader, pin) for reader, pin in self.readers[net] if reader), default=0)
            if depth != self.after[net]:
                self.after[net] = depth
                driver = self._driver.get(net)
                backward.add(_sources(self._cells[driver]) if driver else ())

    def _after(self, name: str, pin: str) -> int:
        """Return the longest way from an input of a cell."""
        cell = self._cells[name]
        return max((step + self.after[net] for out, net in _pins(cell, "output")
                    if (step := _step(cell, pin, out)) is not None), default=0)


class _Waiting:
    """What waits, each once, the oldest first: in another order much would be computed again and again."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._order = deque(dict.fromkeys(items))
        self._items = set(self._order)

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, items: Iterable[Any]) -> None:
        for item in items:
            if item not in self._items:
                self._items.add(item)
                self._order.append(item)

    def next(self) -> Any:
        item = self._order.popleft()
        self._items.remove(item)
        return item


def _pins(cell: Cell, direction: str) -> Iterator[tuple[str, Net]]:
    """Yield the pins of a direction and their nets, without constants."""
    for pin, nets in cell["connections"].items():
        if cell["port_directions"].get(pin) == direction:
            for net in nets:
                if not isinstance(net, str):
                    yield pin, net


def _arcs_to(cell: Cell, out: str) -> Iterator[tuple[Net, int]]:
    """Yield the nets on which an output depends within the cycle, and the depths from them to it."""
    for pin, net in _pins(cell, "input"):
        step = _step(cell, pin, out)
        if step is not None:
            yield net, step


def _sources(cell: Cell) -> list[Net]:
    """Return the nets on which outputs of a cell depend within the cycle."""
    outputs = [out for out, _net in _pins(cell, "output")]
    return [net for pin, net in _pins(cell, "input") if any(_step(cell, pin, out) is not None for out in outputs)]


def _step(cell: Cell, pin: str, out: str) -> int | None:
    """Return the depth from an input to an output; None if a register lies between, or nothing."""
    kind = cell["type"]
    if kind == "LUT4":
        return LUT_DEPTH
    if kind in _MUX_TYPES:
        return LUT_DEPTH if pin == _MUX_TYPES[kind] else 0
    if kind == "CCU2C":
        early = pin[-1] == "1" and out == "S0"
        return None if early else (_CHAIN_DEPTH if pin == "CIN" else LUT_DEPTH)
    if kind == _MEMORY:
        return LUT_DEPTH if pin.startswith("RAD") else None
    return None
