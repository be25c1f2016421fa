"""The vector unit in plain Python, word for word after docs/reference/semantics.md and isa/uop.py."""

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tq_hw.isa.config import Config
from tq_hw.isa.layout import VECTOR
from tq_hw.isa.uop import OUTPUTS, UOP, Activation, Alu, Destination, Multiply, Reduce, Rounding, ShiftSource, Source
from tq_hw.sim.executor.uop import activate
from tq_hw.sim.golden.arith import rounding_divide_by_pot, saturating_rounding_doubling_high_mul

#: Small configurations: one word one block, two blocks a word, wider words, three lanes, one lane; activation lanes.
VECTOR_CONFIGS = {config.name: config for config in (
    Config("tiny4x4", 4, 4, 2, 16 << 10, acc_words=16, vector_words=128),
    Config("8x4", 8, 4, 2, 32 << 10, acc_words=16, vector_words=128),
    Config("n8", 8, 8, 4, 32 << 10, acc_words=16, vector_words=256, block_uops=1),
    Config("6x3", 6, 3, 3, 32 << 10, acc_words=16, vector_words=128),
    Config("tiny_few", 4, 4, 2, 16 << 10, acc_words=16, vector_words=128, few_luts=1),
    Config("3x5", 3, 5, 1, 32 << 10, acc_words=16, vector_words=128),
    Config("8x4a1", 8, 4, 2, 32 << 10, acc_words=16, vector_words=128, activation_lanes=1),
    Config("n8a2", 8, 8, 4, 32 << 10, acc_words=16, vector_words=256, activation_lanes=2),
    Config("6x3a3", 6, 3, 3, 32 << 10, acc_words=16, vector_words=128, activation_lanes=3))}
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
SIZES = (1, 2, 4, 1)
Uop = dict[str, int]
Operation = dict[str, int]


def wrap(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def operation(**fields: int) -> Operation:
    """Return a vector operation; what is not given takes the values of a plain one-uop program on one row."""
    base = dict.fromkeys(VECTOR.fields, 0)
    base |= {"cols": 1 << 15, "out_blocks": 1, "slots": 1, "tile_slots": 1, "repeat1": 1, "repeat2": 1, "a_col_step": 1,
             "b_col_step": 1, "out_col_step": 1}
    base |= fields
    base.setdefault("chunk_slots", 0)
    if "chunk_slots" not in fields:
        base["chunk_slots"] = base["tile_slots"]
    if "last" not in fields:
        base["last"] = base["first"]
    if "body_first" not in fields:
        base["body_first"], base["body_last"] = base["last"] + 1, base["last"]
    return base


def alu(kind: Alu, a: int, b: int, partner: int) -> int:
    results: dict[Alu, Callable[[], int]] = {
        Alu.PASS: lambda: a, Alu.ADD: lambda: a + b, Alu.SUB: lambda: a - b, Alu.MAX: lambda: max(a, b),
        Alu.MIN: lambda: min(a, b),
        Alu.CLZ: lambda: 32 - (a + b & 0xFFFFFFFF).bit_length(), Alu.LESS: lambda: int(a < b),
        Alu.LESS_EQUAL: lambda: int(a <= b), Alu.EQUAL: lambda: int(a == b), Alu.NOT_EQUAL: lambda: int(a != b),
        Alu.AND: lambda: a & b, Alu.SELECT_NEGATIVE: lambda: a if a >= 0 else b,
        Alu.PAIR_DIFFERENCE: lambda: partner - a,
    }
    return wrap(results[kind]())


def shift_right(x: int, by: int, rounding: int) -> int:
    if rounding == Rounding.HALF_AWAY:
        return int(rounding_divide_by_pot(x, by))
    return x + (1 << by >> 1 if rounding == Rounding.HALF_UP else 0) >> by


def element(uop: Uop, op: Operation, a: int, b: int, partner: int, multiplier: int, param_shift: int) -> int:
    """Stages 2 to 5 of isa/uop.py."""
    x = alu(Alu(uop["alu"]), a, b, partner)
    shift = {ShiftSource.IMMEDIATE: uop["shift"], ShiftSource.PARAM: param_shift}.get(
        ShiftSource(uop["shift_source"]), 0)
    if uop["multiply"] == Multiply.SHL:
        x, shift = wrap(x << max(shift, 0)), 0
    elif uop["multiply"] == Multiply.SHL_B:
        x = wrap(x << (b & 31))
    elif uop["multiply"] == Multiply.SHL_B_SATURATE:
        x = min(max(x << (b & 31), INT32_MIN), INT32_MAX)
    elif uop["multiply"] == Multiply.LOW_B:
        x = wrap(x * b)
    elif uop["multiply"] != Multiply.NONE:
        m = {Multiply.HIGH_IMMEDIATE: uop["immediate"], Multiply.HIGH_PARAM: multiplier, Multiply.HIGH_B: b}[
            Multiply(uop["multiply"])]
        x = wrap(x * m >> 31) if uop["truncate"] else int(saturating_rounding_doubling_high_mul(x, m))
    x = shift_right(x, b & 31 if uop["shift_source"] == ShiftSource.SHIFT_B else max(-shift, 0), uop["rounding"])
    x = wrap(x + uop["zero_point"])
    if uop["clamp"]:
        low, high = (-32768, 32767) if op["out_type"] == 1 else (uop["act_min"], uop["act_max"])
        x = min(max(x, low), high)
    return x


@dataclass
class Reference:
    """State between operations: scratchpad bytes, registers, table, complete accumulator buffers."""

    config: Config
    uops: list[Uop]
    memory: list[bytearray]
    accs: deque[list[list[int]]]
    registers: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    table: list[int] = field(default_factory=lambda: [0] * 512)

    def run(self, op: Operation) -> None:
        if op["kind"] == 1:
            for i in range(op["slots"]):
                self.table[op["table_first"] + i] = self.load("a_type", {"a_type": 2}, op["a_base"], i)
            return
        tiles = range(-(-op["slots"] // op["tile_slots"]))
        blocks = range(op["out_blocks"])
        order = [(o, t) for o in blocks for t in tiles]
        if op["blocks_inner"]:
            order = [(o, t) for t in tiles for o in blocks]
        for o, t in order:
            acc = self.accs.popleft() if op["use_acc"] else None
            low, end = t * op["tile_slots"], min((t + 1) * op["tile_slots"], op["slots"])
            for first in range(low, end, op["chunk_slots"]):
                self.chunk(op, o, range(first, min(first + op["chunk_slots"], end)), low, acc)

    def chunk(self, op: Operation, o: int, slots: range, tile_low: int, acc: Any) -> None:
        for u in range(op["first"], op["body_first"]):
            self.step(op, self.uops[u], o, slots, tile_low, acc, 0, 0)
        if op["body_first"] <= op["body_last"]:
            for i2 in range(op["repeat2"]):
                for i1 in range(op["repeat1"]):
                    for u in range(op["body_first"], op["body_last"] + 1):
                        self.step(op, self.uops[u], o, slots, tile_low, acc, i1, i2)
        for u in range(max(op["body_last"] + 1, op["body_first"]), op["last"] + 1):
            self.step(op, self.uops[u], o, slots, tile_low, acc, 0, 0)

    def load(self, type_field: str, op: Mapping[str, int], address: int, channel: int) -> int:
        code = op[type_field]
        size, w = SIZES[code], self.config.word_bytes
        byte = channel * size
        word = self.memory[(address + byte // w) % 65536]
        return int.from_bytes(word[byte % w:byte % w + size], "little", signed=code != 3)

    def parameter(self, op: Operation, o: int, channel: int) -> tuple[int, int, int]:
        base, w, cols = op["param_base"] + o * op["param_block_step"], self.config.word_bytes, self.config.cols
        wide = -(-4 * cols // w)
        bias, multiplier = (self.load("t", {"t": 2}, base + k * wide, channel) for k in (0, 1))
        return bias, multiplier, self.load("t", {"t": 0}, base + 2 * wide, channel)

    def look_up(self, which: int, x: int) -> int:
        return (x, self.table[x & 255], self.table[256 + (x & 255)], self.table[x & 511])[which]

    def step(self, op: Operation, uop: Uop, o: int, slots: range, tile_low: int, acc: Any, i1: int, i2: int) -> None:
        config = self.config
        lanes = config.requantize_lanes
        channels = config.cols if op["use_acc"] else config.block
        first_sub = op["sub_first"] + o if op["use_acc"] else 0
        sub, ob = (first_sub % config.sub_blocks, first_sub // config.sub_blocks) if op["use_acc"] else (0, o)
        words = config.vector_register_words

        def register(number: int, n: int) -> tuple[int, int]:
            return divmod(number * words + n, words)

        kept: list[tuple[int, int]] = []
        n = 0
        for slot in slots if not uop["once"] else slots[:1]:
            row, col = divmod(slot, op["cols"])

            def address(stream: str, row: int = row, col: int = col) -> int:
                return (op[f"{stream}_base"] + ob * op[f"{stream}_block_step"] + row * op[f"{stream}_row_step"]
                        + col * op[f"{stream}_col_step"])

            a_address = address("a") + i1 * op["a_repeat1_step"] + i2 * op["a_repeat2_step"]
            for beat in range(channels // lanes if not uop["once"] else 1):
                params = [self.parameter(op, o, beat * lanes + lane) if op["use_params"] else (0, 0, 0)
                          for lane in range(lanes)]
                operands: list[list[int]] = []
                for name in ("a", "b"):
                    source = uop[f"{name}_source"]
                    if source == Source.REGISTER:
                        single = uop[f"{name}_hold"] or uop["once"]
                        key = register(uop[f"{name}_register"], 0 if single else n)
                        values = list(self.registers[key])
                    else:
                        values = []
                        for lane in range(lanes):
                            channel = beat * lanes + lane
                            if source == Source.IMMEDIATE:
                                value = uop["immediate"]
                            elif source == Source.STREAM:
                                where = a_address if name == "a" else address("b")
                                value = self.load(f"{name}_type", op, where, sub * config.cols + channel)
                            else:
                                value = acc[slot - tile_low][channel] if name == "a" else params[lane][0]
                            values.append(value)
                    operands.append([self.look_up(uop[f"{name}_table"], value) for value in values])
                x = [element(uop, op, operands[0][lane], operands[1][lane],
                             operands[0][lane ^ 1] if lane ^ 1 < lanes else 0, params[lane][1], params[lane][2])
                     for lane in range(lanes)]
                if uop["destination"] == Destination.REGISTER:
                    self.registers[register(uop["d_register"], n)] = x
                elif uop["destination"] in OUTPUTS:
                    if uop["destination"] == Destination.ACTIVATION:
                        x = activate(Activation(uop["reduce"]), np.array(x)).tolist()
                    size, w = SIZES[op["out_type"]], config.word_bytes
                    for lane in range(lanes):
                        byte = (sub * config.cols + beat * lanes + lane) * size
                        word = self.memory[(address("out") + byte // w) % 65536]
                        word[byte % w:byte % w + size] = (x[lane] % (1 << 8 * size)).to_bytes(size, "little")
                else:
                    for lane in range(lanes):
                        channel = sub * config.cols + beat * lanes + lane
                        if slot != slots[-1] or op["valid_lanes"] == 0 or channel < op["valid_lanes"]:
                            kept.append((n, x[lane]))
                n += 1
        if uop["destination"] == Destination.REDUCE:
            values = [x for _, x in kept]
            result = {Reduce.SUM: lambda: wrap(sum(values)), Reduce.MAX: lambda: max(values, default=INT32_MIN),
                      Reduce.MIN: lambda: min(values, default=INT32_MAX)}[Reduce(uop["reduce"])]()
            self.registers[register(uop["d_register"], 0)] = [result] * lanes


@dataclass
class Scenario:
    """Operations with their initial state, and the stalls of the surroundings."""

    config: Config
    uops: list[Uop]
    operations: list[Operation]
    seed: int = 0
    #: chance that a read is refused; cycles until the next accumulator buffer is full
    refuse: float = 0.0
    acc_cycles: int = 0
    gap_cycles: int = 0
    memory: list[bytearray] = field(default_factory=list)
    accs: list[list[list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        config = self.config
        if not self.memory:
            self.memory = [bytearray(rng.randbytes(config.word_bytes)) for _ in range(config.scratchpad_words)]
        if not self.accs:
            for op in self.operations:
                if op["use_acc"] and op["kind"] == 0:
                    for _ in range(op["out_blocks"] * -(-op["slots"] // op["tile_slots"])):
                        self.accs.append([[wrap(rng.getrandbits(rng.choice((12, 20, 32)))) for _ in range(config.cols)]
                                          for _ in range(op["tile_slots"])])

    def expected(self) -> list[bytearray]:
        reference = Reference(self.config, self.uops, [bytearray(word) for word in self.memory], deque(self.accs))
        for op in self.operations:
            reference.run(op)
        assert not reference.accs
        return reference.memory


def uop(a: Source = Source.IMMEDIATE, b: Source = Source.IMMEDIATE, alu: Alu = Alu.PASS,
        destination: Destination = Destination.OUTPUT, **fields: int) -> Uop:
    """Return a micro-operation."""
    base = {f.name: 0 for register in UOP for f in register.fields}
    return base | {"a_source": int(a), "b_source": int(b), "alu": int(alu), "destination": int(destination)} | fields


def requantize(config: Config) -> Uop:
    """Return the micro-operation that ends a convolution."""
    return uop(Source.ACC_OR_BIAS, Source.ACC_OR_BIAS, Alu.ADD, multiply=Multiply.HIGH_PARAM,
               shift_source=ShiftSource.PARAM, zero_point=-5, clamp=1, act_min=-128, act_max=127)


def put_params(config: Config, memory: Sequence[bytearray], base: int, seed: int) -> None:
    """Write a legal parameter block at `base`."""
    rng = random.Random(seed)
    w, cols = config.word_bytes, config.cols
    wide = -(-4 * cols // w)
    for channel in range(cols):
        bias, multiplier = wrap(rng.getrandbits(20)), rng.choice((0, rng.randrange(1 << 30, 1 << 31)))
        for k, value in enumerate((bias, multiplier)):
            word, byte = divmod(4 * channel, w)
            memory[base + k * wide + word][byte:byte + 4] = (value % (1 << 32)).to_bytes(4, "little")
        word, byte = divmod(channel, w)
        memory[base + 2 * wide + word][byte] = rng.randint(-31, 31) % 256
