"""Registers, labels and helpers that the parts of the microprogram share."""

from collections.abc import Mapping

from tq_hw.hdl.serial.assembler import Assembler, Label, Reg
from tq_hw.hdl.serial.encoding import PLACES, Op, Place
from tq_hw.hdl.serial.host import WORD_OF
from tq_hw.hdl.serial.rules import require_all
from tq_hw.isa.config import Config
from tq_hw.isa.control import Status
from tq_hw.isa.layout import UNITS, Register, Unit
from tq_hw.isa.legality import RULES, bound, names

__all__ = ["LANES", "Shared"]

#: Bytes, and so channels, of a scratchpad word.
LANES = 4


class Shared:
    """Registers and labels that more than one part uses.

    Members
    -------
    unit : register: Place.CURSOR plus the number of the unit that is visited
    number : register: the unit's number
    code : register: the Status of an error
    start, stop : labels: of a run; of its end by the error `code`
    errors : labels: by Status, jump there to end the run
    done, visited : labels where a visit to a unit ends: with the end of the operation, or before it
    blocked : label where a visit ends in which the unit could do nothing
    full, open_buffer : registers: accumulator buffers handed over; whether one was left open
    """

    def __init__(self, asm: Assembler, config: Config) -> None:
        self.asm, self.config = asm, config
        self.unit, self.number, self.code = asm.reg("unit"), asm.reg("number"), asm.reg("code")
        self.start, self.stop = asm.label("start"), asm.label("stop")
        self.errors: dict[Status, Label] = {
            status: asm.label(status.name) for status in Status if status is not Status.OK}
        self.done, self.visited, self.blocked = asm.label("done"), asm.label("visited"), asm.label("blocked")
        self.full, self.open_buffer = asm.reg("full"), asm.reg("open")

    def error(self, status: Status) -> Label:
        """Return where to jump to end the run with `status`."""
        return self.errors[status]

    def require(self, op: Op, a: Reg | int, b: Reg | int) -> None:
        """End the run with BAD_OPERATION unless op(a, b)."""
        self.asm.branch(Op(op ^ 1), a, b, self.errors[Status.BAD_OPERATION])

    def require_legal(self, unit: Unit, fields: Mapping[str, Reg]) -> None:
        """End the run with BAD_OPERATION unless the operation keeps to the rules; the scheduler checks tokens."""
        tests = [test for rule, test in bound(RULES[unit], self.config)
                 if not rule.running and not any(name.startswith(("wait_", "post_")) for name in names(test))]
        require_all(self.asm, tests, fields, self.errors[Status.BAD_OPERATION])

    def decode(self, unit: Unit, fields: Mapping[str, Reg]) -> None:
        """Fetch fields of a unit's registers, each register once."""
        asm = self.asm
        word = asm.local("word")
        left = set(fields)
        for register in UNITS[unit].registers:
            names = [field.name for field in register.fields if field.name in fields]
            if names:
                asm.load_private(word, PLACES[unit], register.index)
            for name in names:
                asm.field(fields[name], word, register, name)
            left -= set(names)
        assert not left, left

    def parts(self, word: Reg, register: Register, fields: Mapping[str, Reg]) -> None:
        """Take fields of one word."""
        for name, d in fields.items():
            self.asm.field(d, word, register, name)

    def base(self, d: Reg, region: Reg) -> None:
        """Set d to the base address of `region`."""
        asm = self.asm
        end = asm.label("end of base")
        labels = [asm.label() for _ in range(4)]
        asm.select(region, labels)
        for number, label in enumerate(labels):
            asm.place(label)
            asm.move(d, asm.host(4 * WORD_OF[f"base{number}"]))
            asm.jump(end)
        asm.place(end)

    def next_buffer(self, pointer: Reg) -> None:
        """Let `pointer` go to the next accumulator buffer."""
        asm, config = self.asm, self.config
        size = LANES * config.acc_words
        asm.add(pointer, pointer, size)
        with asm.when(Op.BEQ, pointer, Place.ACCUMULATORS + size * config.acc_buffers):
            asm.move(pointer, Place.ACCUMULATORS)
