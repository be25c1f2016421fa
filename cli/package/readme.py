"""`README.md` of a generated folder, for readers who know the buses."""

from collections.abc import Iterable, Sequence
from textwrap import fill

from tq_hw.boards.resources.record import KINDS
from tq_hw.cli.package.area import areas
from tq_hw.cli.package.bench import filled
from tq_hw.cli.package.facts import Core
from tq_hw.hdl.netlist.design import Design
from tq_hw.hdl.netlist.macros import LEAST_BITS
from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.control import DRAIN_CYCLES, REGISTERS, Status
from tq_hw.isa.layout import BURST_BYTES, Unit
from tq_hw.isa.reference import members

__all__ = ["readme"]

_CONTROL = {
    "axi4lite": """\
AXI4-Lite slave, 4096 bytes. Address and word of a write come in any order; one of each, and one read address, wait
while an access is under way. From the cycle in which the address (and word) is taken to `bvalid` or `rvalid`: 6. An
answer that is not taken holds up accesses of its own kind alone. `awprot` and `arprot` are ignored. Errors: SLVERR.""",
    "wishbone": """\
Wishbone B4 slave, classic cycles, 32 bits; `s_wb_adr` counts words (byte address bits 11 to 2). `ack`, or `err` for an
error, comes 6 cycles after `cyc` and `stb`, for one cycle. A master that withdraws earlier gets neither; its write may
have been carried out.""",
    "apb": """\
APB4 completer, 4096 bytes. `pready` is 1 for the last cycle of a transfer, 6 cycles after its setup cycle, with
`pslverr` for an error. `pprot` is ignored. An APB3 requester ties `pstrb` to 15.""",
    "plain": """\
The machine's own register bus: `reg_write_data` is written to `reg_addr` in each cycle with `reg_write_en`;
`reg_read_data` is the register at `reg_addr` two cycles later. No handshake and no errors: writes of what is no
register are ignored, and reads of it give any value.""",
}
_MEMORY = {
    "axi4": """\
AXI4 master `m_axi_*`: 32 address bits, {bits} data bits.

- INCR bursts of whole beats, at most {burst} bytes, that never cross {burst} bytes, and so never 4 KiB.
- Reads have id 0 (commands) or 1 (data), writes id 0. Answers of different ids may come in any order, mixed too.
- Every beat has the bus's width; writes have byte strobes.
- `rready` and `bready` are always 1. VALID never waits for READY. At most 14 reads of {burst} bytes with id 1 are open
  (more if they are shorter), 2 with id 0, and 16 writes. Write data may be offered before its
  address is.
- `arcache` and `awcache` are 3 (modifiable, bufferable, not cached), `prot` is 0. There is no lock, qos, region, user.
- SLVERR and DECERR stop the machine with BUS_ERROR. RLAST in a wrong place is an error, too.""",
    "wishbone": """\
Wishbone B4 master `m_wb_*`, classic cycles with registered feedback: {bits} data bits; `m_wb_adr` counts words of them,
of a byte address of 32 bits.

- A cycle (`cyc`) is one burst of reads or of writes, of at most {burst} bytes, which never crosses {burst} bytes. Its
  addresses go up by one; `cti` is 2 until the last word and 7 with it; `bte` is 0 (linear).
- A slave without bursts ignores `cti` and `bte`. `ack` may come in the cycle of `stb` or in any later one. There is no
  `rty`, `lock` or tag.
- `err` in place of `ack` stops the machine with BUS_ERROR; the rest of the burst is still asked for.
- `cyc` falls for a cycle between bursts. `stb` may fall within a burst of writes.
- Reads select all bytes. A burst of n words takes n + 1 cycles and those that the slave waits; only one is under way:
  with a slow memory the machine is slower than with AXI4.""",
}
_MACROS = """\
Memories of {bits} bits or more are left out: `rtl/{name}.v` has instances of the macros below, and
`rtl/{name}_memories.v` behavioural models to simulate with. A macro has one clock, one write port, and read ports that
may all be used in each cycle. A word is written where its bit of `w_en` is 1, which stands for as many bits as are
written together. A read takes a cycle: with `r0_en`, `r0_data` is the word at `r0_addr` after the clock's edge, and
stays until the next read. Contents may start undefined. The models give undefined words where the last column allows
it. Smaller memories, and those that are read within a cycle, are registers in the Verilog.
"""
_RULES = """\
- The two low bits of a byte address are ignored.
- An error, with nothing written: a word without a register; a write of a read-only register; a write of some
  bytes of a word. A write of no byte (all strobes 0) writes nothing and is no error. `control` reads as 0.
- A write is answered after it has taken effect: a read of `status` right after a start sees `busy`.
"""


def readme(core: Core, design: Design) -> str:
    """Return the page."""
    name, config = core.name, core.config
    rules = "" if core.control == "plain" else _RULES
    compile_config = config.name if PRESETS.get(config.name) == config else f"{name}.toml"
    return filled(
        "readme.in", NAME=name, CONFIG=config.name, COMPILE=compile_config, CONTROL=_CONTROL[core.control],
        PROTOCOL="AXI4" if core.memory_bus == "axi4" else "Wishbone",
        MEMORY=_MEMORY[core.memory_bus].format(bits=8 * config.bus_bytes, burst=BURST_BYTES),
        BLOCK="" if core.control != "axi4lite" or core.memory_bus != "axi4" else
        "; `block_design.tcl`, a Zynq with the core at its ports",
        RULES=rules, FINGERPRINT=f"{config.fingerprint:08x}", MACS=str(config.macs),
        MEMORIES=_memories(core, design), SOURCES=" ".join((*core.sources, *core.models)),
        DRAIN=f"{DRAIN_CYCLES:,}", VERSION=core.version,
        AREA=_area(config), SIZES=_table(("size", "value"), _sizes(config)),
        PORTS=_table(("port", "direction", "bits"), [(f"`{port.name}`", port.direction, port.width)
                                                     for port in core.ports]),
        REGISTERS=_table(("offset", "register", "access", "after reset", "meaning"), [
            (f"0x{register.offset_bytes:02x}", f"`{register.name}`", register.access,
             f"0x{core.reset_value(register):08x}", register.doc) for register in REGISTERS]),
        FIELDS=_table(("register", "bits", "field", "meaning"), [
            (f"`{register.name}`", f"{field.first + field.bits - 1}..{field.first}", f"`{field.name}`", field.doc)
            for register in REGISTERS for field in register.fields if field.bits < 32]),
        CODES="\n".join(members(Status)),
        UNITS=", ".join(f"{unit.value} {unit.name.lower()}" for unit in Unit))


def _sizes(config: Config) -> Iterable[tuple[object, ...]]:
    yield "array", f"{config.rows} x {config.cols}, {config.macs} multiply-accumulates per cycle"
    yield "requantizers", config.requantize_lanes
    yield "scratchpad", f"{config.scratchpad_bytes >> 10} KiB"
    yield "accumulators", f"{config.acc_buffers} x {config.acc_words} words of {config.cols} x 32 bits"
    yield "memory bus", f"{8 * config.bus_bytes} bits"
    yield "design", config.design


_COLLISIONS = {"never": "does not happen", "any": "any word", "old": "the old word"}


def _memories(core: Core, design: Design) -> str:
    if core.memories == "inferred":
        return ("Memories are inferred, with `ram_style` where it matters. Where `no_rw_check` is set, a read of a "
                "word in the\ncycle of its write may give any word.")
    rows = [(f"`{macro.name}`", count, macro.depth, macro.width, macro.write_bits, macro.reads,
             _COLLISIONS[macro.collision]) for macro, count in design.macros]
    return (_MACROS.format(name=core.name, bits=LEAST_BITS) + "\n"
            + _table(("macro", "instances", "words", "bits", "written together", "read ports",
                      "read of a word as it is written"), rows))


def _area(config: Config) -> str:
    rows, notes = [], []
    for area in areas(config):
        cells = ["" if area.cells is None else f"{area.cells[kind]:,.10g}" for kind in KINDS]
        clock = "not measured" if area.clock_mhz is None else f"{area.clock_mhz:g}"
        rows.append((area.family, area.source, *cells, clock))
        if area.worst is not None:
            notes.append(f"- {area.family} is estimated from other configurations; of those, each left out once, LUTs "
                         f"or flip-flops were off by {area.worst:.1%} at most.")
        if area.clock_of:
            notes.append(f"- The clock of {area.family} was reached {area.clock_of}.")
    if config.design == "serial":
        notes.append("- On ice40 the engine's memory of 64 KiB is RAM of the device (SPRAM), which is not among these.")
    head = ("family", "figures are", *(kind.replace("_", " ") for kind in KINDS), "MHz after routing")
    return "\n".join([_table(head, rows), "", *(
        fill(note, 120, subsequent_indent="  ", break_on_hyphens=False) for note in notes)]).rstrip()


def _table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
