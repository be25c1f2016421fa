"""Memories as macros: instances in the Verilog, a table of the required macros, and behavioural models of them."""

from dataclasses import dataclass

from amaranth.utils import ceil_log2

from tq_hw.hdl.netlist.nets import memory_of
from tq_hw.hdl.netlist.rtlil import Assign, Bits, Case, Cell, Module, Part, Process, Sig, Switch
from tq_hw.hdl.netlist.uses import only_wire

__all__ = ["LEAST_BITS", "Macro", "leave_out", "model_of"]

#: Smaller memories stay in the Verilog as registers, because no RAM compiler makes them.
LEAST_BITS = 2048
#: Suffixes of module names whose memories never read the word being written: Amaranth's queues, the lanes' tables.
_APART = (".fifo", ".table")
#: The name of such memories in any module: those of registered queues.
_APART_MEMORY = "\\entries"


@dataclass(frozen=True)
class Macro:
    """A memory with one write port and `reads` read ports on one clock. Reads take one cycle and hold their word.

    Members
    -------
    name : of the module
    depth, width : words, bits of a word
    write_bits : bits that share a write enable
    collision : requirement for a read and a write of one word in one cycle: "never", "any" word, or the "old" one
    """

    name: str
    depth: int
    width: int
    write_bits: int
    reads: int
    collision: str

    @property
    def address_bits(self) -> int:
        """Bits of an address."""
        return ceil_log2(self.depth)

    @property
    def ports(self) -> tuple[tuple[str, str, int], ...]:
        """Name, direction and bits of each port."""
        reads = tuple(port for number in range(self.reads) for port in (
            (f"r{number}_en", "input", 1), (f"r{number}_addr", "input", self.address_bits),
            (f"r{number}_data", "output", self.width)))
        return (("clk", "input", 1), ("w_en", "input", self.width // self.write_bits),
                ("w_addr", "input", self.address_bits), ("w_data", "input", self.width), *reads)


def leave_out(module: Module, prefix: str, least_bits: int = LEAST_BITS) -> dict[str, Macro]:
    """Replace memories of a module by instances; return the macros by the kind of their cells.

    A memory is replaced if it has at least `least_bits`, is initialized with zeros, is not requested as distributed
    RAM, has one write port, and its reads are clocked or go to a register with an enable and no reset.
    """
    found = {}
    for name, memory in list(module.memories.items()):
        cells = [cell for cell in module.cells if "MEMID" in cell.parameters and memory_of(cell) == name]
        writes = [cell for cell in cells if cell.kind == "$memwr_v2"]
        reads = [_Read.of(module, cell) for cell in cells if cell.kind == "$memrd_v2"]
        first = any("1" in part.bits for cell in cells if cell.kind == "$meminit_v2"
                    for part in cell.ports["DATA"] if isinstance(part, Bits))
        known = [read for read in reads if read is not None]
        if (memory.depth * memory.width < least_bits or first or len(writes) != 1 or len(known) != len(reads)
                or "distributed" in memory.attributes.get("\\ram_style", "")):
            continue
        (write,) = writes
        lanes = _lanes(write.ports["EN"], memory.width)
        collision = ("never" if module.name.endswith(_APART) or name == _APART_MEMORY else
                     "any" if "\\no_rw_check" in memory.attributes else "old")
        shape = f"{memory.depth}x{memory.width}" + (f"_w{memory.width // len(lanes)}" if len(lanes) > 1 else "")
        macro = Macro(f"{prefix}_ram_{shape}_r{len(reads)}_{collision}", memory.depth, memory.width,
                      memory.width // len(lanes), len(reads), collision)
        _replace(module, name, cells, write, lanes, known, macro)
        found[f"\\{macro.name}"] = macro
    return found


def model_of(macro: Macro) -> str:
    """Return a behavioural model; results that users must not rely on are undefined in it."""
    lines = ",\n".join(f"  {way} {'reg' if way == 'output' else 'wire'} {_range(bits)}{name}"
                       for name, way, bits in macro.ports)
    lanes = macro.width // macro.write_bits
    body = []
    for lane in range(lanes):
        enable = "w_en" if lanes == 1 else f"w_en[{lane}]"
        part = "" if lanes == 1 else f"[{(lane + 1) * macro.write_bits - 1}:{lane * macro.write_bits}]"
        body.append(f"    if ({enable}) words[w_addr]{part} <= w_data{part};\n")
    for number in range(macro.reads):
        word = f"words[r{number}_addr]"
        if macro.collision != "old":
            any_en = "w_en" if lanes == 1 else "|w_en"
            word = f"({any_en} && w_addr == r{number}_addr) ? {macro.width}'bx : {word}"
        body.append(f"    if (r{number}_en) r{number}_data <= {word};\n")
    return (f"module {macro.name} (\n{lines}\n);\n  reg {_range(macro.width)}words [0:{macro.depth - 1}];\n"
            f"  always @(posedge clk) begin\n{''.join(body)}  end\nendmodule\n")


@dataclass(frozen=True)
class _Read:
    """A read port with its register: when it reads, where, and the wire of its word; what goes with it."""

    enable: Sig
    addr: Sig
    word: str
    register: Cell | None = None
    process: Process | None = None

    @staticmethod
    def of(module: Module, cell: Cell) -> "_Read | None":
        """Return the port; None if its word is used in the same cycle."""
        data = only_wire(cell.ports["DATA"])
        if cell.number("CLK_ENABLE"):
            return _Read(cell.ports["EN"], cell.ports["ADDR"], data)
        for process in module.processes:
            match process.body:
                case [Assign(target, held), Switch(enable, [Case(("1",), [Assign(then, taken)])])] if (
                        taken == cell.ports["DATA"] and then == target):
                    register = next((one for one in module.cells if one.kind == "$dff" and one.ports["D"] == target
                                     and one.ports["Q"] == held), None)
                    if register is not None and _reads(module, data) == 2:
                        return _Read(enable, cell.ports["ADDR"], only_wire(held), register, process)
        return None


def _reads(module: Module, wire: str) -> int:
    """Return how often each wire is used in a module, including its driver."""
    def count(sig: Sig) -> int:
        return sum(isinstance(part, Part) and part.wire == wire for part in sig)

    def inside(body: list[Assign | Switch]) -> int:
        return sum(count(item.value) if isinstance(item, Assign) else
                   count(item.value) + sum(inside(case.body) for case in item.cases) for item in body)

    return (sum(count(sig) for cell in module.cells for sig in cell.ports.values())
            + sum(count(value) for _, value in module.aliases) + sum(inside(p.body) for p in module.processes))


def _lanes(enable: Sig, width: int) -> list[Sig]:
    """Return the enables of equal groups of bits, lowest first."""
    bits = [bit for part in reversed(enable) for bit in _bits(part)]
    size = next(size for size in range(width, 0, -1) if width % size == 0
                and all(bits[at] == bits[at - at % size] for at in range(width)))
    return [(bits[at],) for at in range(0, width, size)]


def _bits(part: Part | Bits) -> list[Part | Bits]:
    if isinstance(part, Bits):
        return [Bits(bit) for bit in reversed(part.bits)]
    return [Part(part.wire, part.start + at, 1) for at in range(part.width)]


def _replace(module: Module, name: str, cells: list[Cell], write: Cell, lanes: list[Sig], reads: list[_Read],
             macro: Macro) -> None:
    ports: dict[str, Sig] = {
        "clk": write.ports["CLK"], "w_en": tuple(part for lane in reversed(lanes) for part in lane),
        "w_addr": write.ports["ADDR"], "w_data": write.ports["DATA"]}
    gone = {id(cell) for cell in cells}
    for number, read in enumerate(reads):
        width = module.wires[read.word].width
        ports |= {f"r{number}_en": read.enable, f"r{number}_addr": read.addr,
                  f"r{number}_data": (Part(read.word, 0, width),)}
        if read.register is not None:
            gone.add(id(read.register))
    kept = [read.process for read in reads if read.process is not None]
    module.processes = [one for one in module.processes if all(one is not process for process in kept)]
    module.cells = [cell for cell in module.cells if id(cell) not in gone]
    module.cells.append(Cell(f"\\{macro.name}", name, {}, ports))
    del module.memories[name]


def _range(width: int) -> str:
    return "" if width == 1 else f"[{width - 1}:0] "
