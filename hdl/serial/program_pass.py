"""One pass of a micro-operation over the elements of a chunk, with the arithmetic of isa/uop.py."""

from collections.abc import Mapping

from amaranth.utils import ceil_log2

from tq_hw.hdl.serial.assembler import Label, Reg
from tq_hw.hdl.serial.encoding import Op, Place, Size
from tq_hw.hdl.serial.program_arithmetic import LEAST, MOST, Arithmetic
from tq_hw.hdl.serial.rules import require_all
from tq_hw.hdl.serial.shared import LANES, Shared
from tq_hw.isa.control import Status
from tq_hw.isa.layout import UOP_BASE, UOP_WORDS
from tq_hw.isa.legality import UOP_RULES, bound, names
from tq_hw.isa.uop import UOP, Destination, Reduce, Source

__all__ = ["Pass", "next_slot"]

_STREAMS = ("a", "b", "out")
#: Size in bytes and sign, by the code of an element type.
_TYPES = ((Size.BYTE, 1), (Size.HALF, 2), (Size.WORD, 4), (Size.UNSIGNED_BYTE, 1))


def next_slot(shared: Shared, f: Mapping[str, Reg], place: Mapping[str, Reg]) -> None:
    """Advance the addresses of all streams by a slot."""
    asm = shared.asm
    same_row, there = asm.label(), asm.label()
    asm.sub(place["left"], place["left"], 1)
    asm.branch(Op.BNE, place["left"], 0, same_row)
    asm.move(place["left"], f["cols"])
    for stream in _STREAMS:
        asm.add(place[f"{stream}_row"], place[f"{stream}_row"], f[f"{stream}_row_step"])
        asm.move(place[stream], place[f"{stream}_row"])
    asm.jump(there)
    asm.place(same_row)
    for stream in _STREAMS:
        asm.add(place[stream], place[stream], f[f"{stream}_col_step"])
    asm.place(there)


class Pass:
    """Writes the pass; `uop` is its number, `size` the chunk's slots, `here` and `sums` where it begins."""

    def __init__(self, shared: Shared, f: Mapping[str, Reg], block: Mapping[str, Reg], here: Mapping[str, Reg],
                 sums: Reg, size: Reg, repeat: Reg, uop: Reg) -> None:
        asm = self.asm = shared.asm
        self.shared, self.f, self.block, self.start = shared, f, block, here
        self.sums, self.size, self.repeat, self.uop = sums, size, repeat, uop
        self.u = {field.name: asm.local(f"uop {field.name}") for register in UOP for field in register.fields}
        self.place = {name: asm.local(f"pass {name}") for name in here}
        #: byte addresses in the streams; registers or accumulators of the operands and the result
        self.byte = {stream: asm.local(f"byte {stream}") for stream in _STREAMS}
        self.at = {name: asm.local(f"at {name}") for name in ("a", "b", "d")}
        self.step = {name: asm.local(f"step {name}") for name in ("a", "b")}
        self.table = {name: asm.local(f"table {name}") for name in ("a", "b")}
        self.mask = asm.local("mask a")
        self.low, self.high = asm.local("low"), asm.local("high")
        self.count, self.channel = asm.local("elements"), asm.local("channel")
        #: channels of the last word that a reduction sees
        self.valid = asm.local("valid")
        self.a, self.b, self.x = asm.local("a"), asm.local("b"), asm.local("x")
        self.t, self.amount, self.reduced = asm.local("t"), asm.local("amount"), asm.local("reduced")

    def write(self) -> None:
        """Decode the micro-operation, then process element after element."""
        asm, u = self.asm, self.u
        self._decode()
        arithmetic = Arithmetic(asm, u, self.block["param"], self.channel, a=self.a, b=self.b, x=self.x, t=self.t,
                                amount=self.amount)
        with asm.loop() as (_, end):
            self._operand("a", self.a)
            self._operand("b", self.b)
            arithmetic.alu()
            arithmetic.multiply_and_shift()
            asm.add(self.x, self.x, u["zero_point"])
            asm.op(Op.MAX, self.x, self.x, self.low)
            asm.op(Op.MIN, self.x, self.x, self.high)
            self._result()
            asm.sub(self.count, self.count, 1)
            asm.branch(Op.BEQ, self.count, 0, end)
            asm.add(self.channel, self.channel, 1)
            with asm.when(Op.BEQ, self.channel, LANES):
                asm.move(self.channel, 0)
                next_slot(self.shared, self.f, self.place)
                self._bytes()
        with asm.when(Op.BEQ, u["destination"], Destination.REDUCE):
            asm.store_private(self.at["d"], self.reduced)

    def _bytes(self) -> None:
        """Set the byte addresses of the slot's first channel."""
        for stream in _STREAMS:
            self.asm.op(Op.SLL, self.byte[stream], self.place[stream], 2)

    def _decode(self) -> None:
        asm, u, shared = self.asm, self.u, self.shared
        word, t = asm.local("word"), self.t
        asm.op(Op.SLL, t, self.uop, ceil_log2(UOP_WORDS))
        asm.add(t, t, Place.VECTOR + UOP_BASE)
        for register in UOP:
            asm.load_private(word, t, register.index)
            shared.parts(word, register, {field.name: u[field.name] for field in register.fields})
        # Elements of the chunk; the first one alone with `once`.
        asm.move(self.count, 1)
        with asm.when(Op.BEQ, u["once"], 0):
            asm.op(Op.SLL, self.count, self.size, 2)
        asm.move(self.channel, 0)
        for name, place in self.place.items():
            stream = name.partition("_")[0]
            if stream == "left":
                asm.move(place, self.start[name])
            else:
                asm.add(place, self.start[name], self.block[stream])
        for name in ("a", "a_row"):
            asm.add(self.place[name], self.place[name], self.repeat)
        self._bytes()
        self._require_legal()
        self._decode_registers()
        for name in ("a", "b"):
            self._decode_operand(name)
        # Tables 1 and 3 begin with the first entry, table 2 with entry 256.
        asm.move(self.mask, 0xFF)
        with asm.when(Op.BEQ, u["a_table"], 3):
            asm.move(self.mask, 0x1FF)
        for name in ("a", "b"):
            asm.move(self.table[name], Place.TABLE)
            with asm.when(Op.BEQ, u[f"{name}_table"], 2):
                asm.move(self.table[name], Place.TABLE + 256)
        self._decode_limits()

    def _require_legal(self) -> None:
        """Refuse a micro-operation that breaks a rule; the extent of registers is checked where they are decoded."""
        tests = [test for _, test in bound(UOP_RULES, self.shared.config) if "chunk_registers" not in names(test)]
        fields = self.u | {name: self.f[name] for name in ("use_acc", "use_params")}
        require_all(self.asm, tests, fields, self.shared.error(Status.BAD_OPERATION))

    def _decode_registers(self) -> None:
        """Find the vector registers, and require that they reach no further than the file."""
        asm, u, config = self.asm, self.u, self.shared.config
        shift = ceil_log2(config.vector_register_words)
        last = asm.local("last")
        for name in ("a", "b", "d"):
            at = self.at[name]
            asm.op(Op.SLL, at, u[f"{name}_register"], shift)
            good = asm.label()
            if name == "d":
                asm.branch(Op.BNE, u["destination"], Destination.REGISTER, good)
            else:
                asm.branch(Op.BNE, u[f"{name}_source"], Source.REGISTER, good)
                asm.branch(Op.BNE, u[f"{name}_hold"], 0, good)
            asm.add(last, at, self.count)
            self.shared.require(Op.BGEU, config.vector_words, last)
            asm.place(good)
            asm.add(at, at, Place.VECTOR_REGISTERS)

    def _decode_operand(self, name: str) -> None:
        """Set `step`, and combine source and type to one number: sources 0 to 2, then streams by type."""
        asm, u, f = self.asm, self.u, self.f
        source, step = u[f"{name}_source"], self.step[name]
        asm.move(step, 1)
        with asm.when(Op.BNE, u[f"{name}_hold"], 0):
            asm.move(step, 0)
        with asm.when(Op.BEQ, source, Source.STREAM):
            asm.add(source, source, f[f"{name}_type"])
        if name == "a":
            with asm.when(Op.BEQ, source, Source.ACC_OR_BIAS):
                asm.move(self.at["a"], self.sums)
                asm.move(step, 1)

    def _decode_limits(self) -> None:
        asm, u = self.asm, self.u
        good = asm.label()
        asm.move(self.low, LEAST)
        asm.move(self.high, MOST)
        asm.branch(Op.BEQ, u["clamp"], 0, good)
        asm.move(self.low, -1 << 15)
        asm.move(self.high, (1 << 15) - 1)
        asm.branch(Op.BEQ, self.f["out_type"], 1, good)
        asm.move(self.low, u["act_min"])
        asm.move(self.high, u["act_max"])
        asm.place(good)
        # A reduction starts with its neutral element.
        done = asm.label()
        labels = {reduce: asm.label() for reduce in Reduce}
        asm.branch(Op.BNE, u["destination"], Destination.REDUCE, done)
        asm.select(u["reduce"], list(labels.values()))
        for reduce, label in labels.items():
            asm.place(label)
            asm.move(self.reduced, {Reduce.SUM: 0, Reduce.MAX: LEAST, Reduce.MIN: MOST}[reduce])
            asm.jump(done)
        asm.place(done)
        asm.move(self.valid, 0xFFFF)
        with asm.when(Op.BNE, self.f["valid_lanes"], 0):
            asm.move(self.valid, self.f["valid_lanes"])

    def _operand(self, name: str, value: Reg) -> None:
        """Fetch an operand and pass it through its table."""
        asm, u = self.asm, self.u
        fetched = asm.label()
        sources = [asm.label(f"{name} {source.name}") for source in Source][:3]
        streams = [asm.label(f"{name} stream") for _ in _TYPES]
        asm.select(u[f"{name}_source"], sources + streams)
        asm.place(sources[Source.IMMEDIATE])
        asm.move(value, u["immediate"])
        asm.jump(fetched)
        if name == "b":
            asm.place(sources[Source.ACC_OR_BIAS])
            asm.add(value, self.block["param"], self.channel)
            asm.load(value, value)
            asm.jump(fetched)
        asm.place(sources[Source.REGISTER])
        if name == "a":
            asm.place(sources[Source.ACC_OR_BIAS])
        asm.load_private(value, self.at[name])
        asm.add(self.at[name], self.at[name], self.step[name])
        asm.jump(fetched)
        for label, (size, size_bytes) in zip(streams, _TYPES, strict=True):
            asm.place(label)
            if size is Size.WORD:
                # A word has a word address.
                asm.op(Op.SRL, value, self.byte[name], 2)
                asm.load(value, value)
            else:
                asm.load(value, self.byte[name], size)
            asm.add(self.byte[name], self.byte[name], size_bytes)
            if label is not streams[-1]:
                asm.jump(fetched)
        asm.place(fetched)
        with asm.when(Op.BNE, u[f"{name}_table"], 0):
            asm.op(Op.AND, value, value, self.mask if name == "a" else 0xFF)
            asm.add(value, value, self.table[name])
            asm.load_private(value, value)

    def _result(self) -> None:
        asm, u, x = self.asm, self.u, self.x
        done = asm.label()
        labels = [asm.label(destination.name) for destination in Destination if destination != Destination.ACTIVATION]
        asm.select(u["destination"], labels)
        asm.place(labels[Destination.REGISTER])
        asm.store_private(self.at["d"], x)
        asm.add(self.at["d"], self.at["d"], 1)
        asm.jump(done)
        asm.place(labels[Destination.OUTPUT])
        types = [asm.label("out") for _ in _TYPES[:3]]
        asm.select(self.f["out_type"], types)
        for label, (size, size_bytes) in zip(types, _TYPES, strict=False):
            asm.place(label)
            at = self.byte["out"]
            if size is Size.WORD:
                asm.op(Op.SRL, self.t, at, 2)
                at = self.t
            asm.store(at, x, size)
            asm.add(self.byte["out"], self.byte["out"], size_bytes)
            asm.jump(done)
        asm.place(labels[Destination.REDUCE])
        self._reduce(done)
        asm.place(done)

    def _reduce(self, done: Label) -> None:
        asm, u, x, reduced = self.asm, self.u, self.x, self.reduced
        seen = asm.label()
        asm.branch(Op.BLTU, LANES, self.count, seen)
        asm.branch(Op.BGEU, self.channel, self.valid, done)
        asm.place(seen)
        labels = [asm.label(reduce.name) for reduce in Reduce]
        asm.select(u["reduce"], labels)
        for reduce, op in ((Reduce.SUM, Op.ADD), (Reduce.MAX, Op.MAX), (Reduce.MIN, Op.MIN)):
            asm.place(labels[reduce])
            asm.op(op, reduced, reduced, x)
            if reduce is not Reduce.MIN:
                asm.jump(done)
