"""Equivalent Verilog from which Verilator makes less code, for simulators with models (arithmetic.py).

Verilator evaluates the whole machine in every cycle, so run time grows with the size of its code. Two forms of the
generated text are replaced:

- a chain of registers, each updated by itself, becomes one shift register;
- byte-wise writes of a memory become one statement.

The names of all registers remain, as wires. In `tests/sim/rtl/test_condense.py`, Yosys proves the equivalence for an
example; whole machines are compared in simulation.
"""

import re
from typing import NamedTuple

__all__ = ["condensed"]

#: Registers are joined up to a machine word; a shorter chain than the second number is not worth it.
_MOST_BITS, _SHORTEST = 64, 3
_NAME = r"(\\\S+ |\w+)"
_REGISTER = re.compile(rf"  always @\(posedge (\w+)\)\n    {_NAME}\s*<= {_NAME}\s*;\n")
_DECLARED = re.compile(rf"  reg (\[(\d+):0\] )?{_NAME}\s*= \d+'h0+;\n")
#: The next value of a register with a reset: another signal, or 0.
_NEXT = re.compile(rf"  always @\* begin\n    if \(\S+ \) begin end\n    {_NAME}\s*= {_NAME}\s*;\n"
                   rf"    if \((\w+)\) begin\n      {_NAME}\s*= \d+'h0+;\n    end\n  end\n")
_BYTE = re.compile(rf"    if \({_NAME}\s*\[(\d+)\]\)\n"
                   rf"      {_NAME}\s*\[([^\[\]]+(?:\[[^\]]*\])?)\]\[(\d+):(\d+)\] <= {_NAME}\s*\[(\d+):(\d+)\];\n")
_BYTES = re.compile(rf"  always @\(posedge (\w+)\) begin\n((?:{_BYTE.pattern}){{2,}})  end\n")
_MODULES = re.compile(r"(?<=endmodule\n)")


class _Register(NamedTuple):
    """A register that loads another signal in each cycle.

    Members
    -------
    clock, reset : names; "" without reset
    source : the signal that it loads without a reset
    following : its next value, including the reset
    bits : its width
    """

    clock: str
    reset: str
    source: str
    following: str
    bits: int

    def goes_with(self, other: "_Register") -> bool:
        """Whether both can be bits of one register."""
        return (self.clock, self.reset, self.bits) == (other.clock, other.reset, other.bits)


def condensed(verilog: str) -> str:
    """Return Verilog, as Yosys writes it, with chains of registers and byte-wise writes joined."""
    return "".join(_BYTES.sub(_whole_write, _with_chains(module)) for module in _MODULES.split(verilog))


def _registers(module: str) -> dict[str, _Register]:
    """Return the registers with initial value 0 that load other signals, by name."""
    bits = {name.strip(): int(high or 0) + 1 for _, high, name in _DECLARED.findall(module)}
    nexts = {name: (source, reset) for name, source, reset, again in _NEXT.findall(module) if name == again}
    found = {}
    for clock, name, following in _REGISTER.findall(module):
        if name.strip() in bits:
            source, reset = nexts.get(following, (following, ""))
            found[name.strip()] = _Register(clock, reset, source.strip(), following, bits[name.strip()])
    return found


def _chains(registers: dict[str, _Register]) -> list[list[str]]:
    """Return chains of register names, each loading the one before it, split into machine words."""
    after: dict[str, str] = {}
    for name, register in registers.items():
        before = registers.get(register.source)
        if before is not None and before.goes_with(register) and register.source != name:
            after.setdefault(register.source, name)
    inside, found = set(after.values()), []
    for name in registers:
        if name in inside:
            continue
        chain = [name]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        most = max(1, _MOST_BITS // registers[name].bits)
        found += [chain[at:at + most] for at in range(0, len(chain), most)]
    return [chain for chain in found if len(chain) >= _SHORTEST]


def _with_chains(module: str) -> str:
    registers = _registers(module)
    places: dict[str, str] = {}
    added = []
    for number, chain in enumerate(_chains(registers)):
        first, name = registers[chain[0]], f"tq_chain{number}"
        bits, all_bits = first.bits, first.bits * len(chain)
        moved = f"{{ {name}[{all_bits - bits - 1}:0], {first.following} }}"
        added.append(f"  reg [{all_bits - 1}:0] {name} = {all_bits}'h0;\n"
                     f"  always @(posedge {first.clock})\n"
                     f"    {name} <= {f'{first.reset} ? {all_bits}{chr(39)}h0 : ' if first.reset else ''}{moved};\n")
        places |= {member: f"{name}[{bits * (at + 1) - 1}:{bits * at}]" for at, member in enumerate(chain)}
    if not places:
        return module

    def wire(declared: re.Match[str]) -> str:
        place = places.get(declared[3].strip())
        if place is None:
            return declared[0]
        return f"  wire {declared[1] or ''}{declared[3]};\n  assign {declared[3]} = {place};\n"
    begin = module.index(";\n") + 2
    body = _REGISTER.sub(lambda moved: "" if moved[2].strip() in places else moved[0], module[begin:])
    return module[:begin] + "".join(added) + _DECLARED.sub(wire, body)


def _whole_write(block: re.Match[str]) -> str:
    """Return a memory write with a mask for the whole word, or the same text if its bytes are not contiguous."""
    parts = _BYTE.findall(block[2])
    enable, _, memory, address, high, low, data, _, _ = parts[0]
    bits = int(high) - int(low) + 1
    expected = [(enable, str(number), memory, address, *2 * (str(bits * number + bits - 1), str(bits * number)))
                for number in range(len(parts))]
    if [(*part[:6], *part[7:]) for part in parts] != expected or {part[6] for part in parts} != {data}:
        return block[0]
    mask = ", ".join(f"{{{bits}{{{enable}[{number}]}}}}" for number in reversed(range(len(parts))))
    word = f"{memory}[{address}]"
    return (f"  always @(posedge {block[1]})\n    if (|{enable})\n"
            f"      {word} <= {word} & ~{{ {mask} }} | {data}[{bits * len(parts) - 1}:0] & {{ {mask} }};\n")
