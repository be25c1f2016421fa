"""Vector operations of the executor give the results of scalar Python, one lane at a time."""

import random

import numpy as np
import pytest

from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.control import Status
from tq_hw.isa.layout import UNITS, Unit
from tq_hw.isa.uop import (
    OUTPUTS,
    UOP,
    Activation,
    Alu,
    Destination,
    Multiply,
    Reduce,
    Rounding,
    ShiftSource,
    Source,
    destinations,
)
from tq_hw.sim.executor.machine import Fault, Machine
from tq_hw.sim.executor.uop import activate
from tq_hw.sim.executor.vector import load_table, run_tiles, vector_tiles
from tq_hw.sim.golden.fixedpoint import logistic, tanh

FIELDS = dict.fromkeys(UNITS[Unit.VECTOR].fields, 0)
NO_UOP = {f.name: 0 for register in UOP for f in register.fields}
CONFIGS = [*PRESETS.values(), Config("r6c4", 6, 4, 4, 8 << 10), Config("r12c12", 12, 12, 6, 16 << 10)]
SIZES, SIGNED = (1, 2, 4, 1), (True, True, True, False)


def wrap(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def scalar_alu(alu: int, a: int, b: int, neighbour: int) -> int:
    return wrap({
        Alu.PASS: a, Alu.ADD: a + b, Alu.SUB: a - b, Alu.MAX: max(a, b), Alu.MIN: min(a, b),
        Alu.CLZ: 32 - ((a + b) % (1 << 32)).bit_length(), Alu.LESS: int(a < b), Alu.LESS_EQUAL: int(a <= b),
        Alu.EQUAL: int(a == b), Alu.NOT_EQUAL: int(a != b), Alu.AND: a & b, Alu.SELECT_NEGATIVE: a if a >= 0 else b,
        Alu.PAIR_DIFFERENCE: neighbour - a}[Alu(alu)])


def scalar_round(x: int, by: int, rounding: int) -> int:
    if rounding == Rounding.FLOOR or by == 0:
        return x >> by
    if rounding == Rounding.HALF_UP:
        return x + (1 << by - 1) >> by
    magnitude = abs(x) + (1 << by - 1) >> by
    return magnitude if x >= 0 else -magnitude


def scalar(u: dict[str, int], a: int, b: int, neighbour: int, m: int, shift: int, is_int16: bool) -> int:
    x = scalar_alu(u["alu"], a, b, neighbour)
    uses_shift = u["shift_source"] in (ShiftSource.IMMEDIATE, ShiftSource.PARAM)
    if u["multiply"] == Multiply.LOW_B:
        x = wrap(x * b)
    elif u["multiply"] == Multiply.SHL:
        x = wrap(x << (max(shift, 0) if uses_shift else 0))
        uses_shift = False
    elif u["multiply"] == Multiply.SHL_B:
        x = wrap(x << (b & 31))
    elif u["multiply"] == Multiply.SHL_B_SATURATE:
        x = max(-1 << 31, min((1 << 31) - 1, x << (b & 31)))
    elif u["multiply"]:
        product = x * (b if u["multiply"] == Multiply.HIGH_B else m)
        x = wrap(product >> 31) if u["truncate"] else min(product + (1 << 30) >> 31, (1 << 31) - 1)
    by = b & 31 if u["shift_source"] == ShiftSource.SHIFT_B else max(-shift, 0) if uses_shift else 0
    x = wrap(scalar_round(x, by, u["rounding"]) + u["zero_point"])
    if u["clamp"]:
        low, high = (-32768, 32767) if is_int16 else (u["act_min"], u["act_max"])
        x = max(low, min(high, x))
    return x


def high16(a: int, b: int) -> int:
    return a * b + (1 << 14) >> 15


def activation(function: Activation, x: int) -> int:
    """gemmlowp's int16 functions of x / 2^12 and x / 2^13, step by step."""
    if x == 0:
        return 1 << 14 if function == Activation.LOGISTIC else 0
    below = min(abs(x), 1 << 16) - 1
    a = (1 << 12) - 8 * ((below & 1023) + 1)
    a2 = high16(a, a)
    tail = high16(scalar_round(high16(a2, a2), 2, Rounding.HALF_AWAY) + high16(a2, a), 10923) + a2
    e = min(28918 + high16(28918, a + scalar_round(tail, 1, Rounding.HALF_AWAY)), 32767)
    for bit, factor in enumerate((25520, 19875, 12055, 4435, 600, 11)):
        e = high16(e, factor) if below >> 10 + bit & 1 else e
    half = scalar_round(e + 32767, 1, Rounding.HALF_AWAY)
    recip = 23130 + high16(half, -15420)
    for _ in range(3):
        recip += 4 * high16(recip, (1 << 13) - high16(half, recip))
    if function == Activation.LOGISTIC:
        y = min(2 * recip, 32767)
        return y if x > 0 else 32767 - y
    y = min(4 * recip - (1 << 15), 32767)
    return y if x > 0 else -y


class Reference:
    """The vector unit, one lane at a time."""

    def __init__(self, machine: Machine, f: dict[str, int], uops: list[dict[str, int]]) -> None:
        self.m, self.f, self.uops, config = machine, f, uops, machine.config
        self.config = config
        self.lanes = config.requantize_lanes
        self.pad = machine.scratchpad.copy()
        self.registers = machine.registers.astype(object)
        self.written: set[tuple[int, int]] = set()

    def element(self, word: int, channel: int, kind: int) -> int:
        at = channel * SIZES[kind]
        flat = [int(self.pad[(word + (at + i) // self.config.word_bytes) % 65536, (at + i) % self.config.word_bytes])
                for i in range(SIZES[kind])]
        return int.from_bytes(bytes(flat), "little", signed=SIGNED[kind])

    def run(self, acc: np.ndarray | None) -> None:
        f = self.f
        tiles = -(-f["slots"] // f["tile_slots"])
        pairs = [(o, t) for o in range(f["out_blocks"]) for t in range(tiles)]
        if f["blocks_inner"]:
            pairs.sort(key=lambda pair: pair[1])
        for o, t in pairs:
            end = min(f["slots"], (t + 1) * f["tile_slots"])
            for low in range(t * f["tile_slots"], end, f["chunk_slots"]):
                self.chunk(o, list(range(low, min(end, low + f["chunk_slots"]))), acc)

    def chunk(self, o: int, slots: list[int], acc: np.ndarray | None) -> None:
        f = self.f
        for u in range(f["first"], f["body_first"]):
            self.uop(u, 0, 0, o, slots, acc)
        for i2 in range(f["repeat2"]):
            for i1 in range(f["repeat1"]):
                for u in range(f["body_first"], f["body_last"] + 1):
                    self.uop(u, i1, i2, o, slots, acc)
        for u in range(f["body_last"] + 1, f["last"] + 1):
            self.uop(u, 0, 0, o, slots, acc)

    def uop(self, number: int, i1: int, i2: int, o: int, slots: list[int], acc: np.ndarray | None) -> None:
        f, u, config, lanes = self.f, self.uops[number], self.config, self.lanes
        channels = config.cols if f["use_acc"] else config.block
        beats = channels // lanes
        sub = (f["sub_first"] + o) % config.sub_blocks if f["use_acc"] else 0
        ob = (f["sub_first"] + o) // config.sub_blocks if f["use_acc"] else o

        def address(stream: str, slot: int) -> int:
            row, col = divmod(slot, f["cols"])
            word = (f[f"{stream}_base"] + ob * f[f"{stream}_block_step"] + row * f[f"{stream}_row_step"]
                    + col * f[f"{stream}_col_step"])
            return word + (i1 * f["a_repeat1_step"] + i2 * f["a_repeat2_step"] if stream == "a" else 0)

        def param(kind: int, channel: int) -> int:
            wide = -(-4 * config.cols // config.word_bytes)
            word = f["param_base"] + o * f["param_block_step"] + kind * wide
            return self.element(word, channel, 2 if kind < 2 else 0)

        results = []
        for n in range(1 if u["once"] else len(slots) * beats):
            slot, first = slots[n // beats], sub * channels + n % beats * lanes

            def operand(name: str, lane: int, n=n, slot=slot, first=first) -> int:
                source = u[f"{name}_source"]
                if source == Source.IMMEDIATE:
                    x = u["immediate"]
                elif source == Source.REGISTER:
                    beat = 0 if u[f"{name}_hold"] else n
                    x = int(self.registers[u[f"{name}_register"] * config.vector_register_words + beat, lane])
                elif source == Source.STREAM:
                    x = self.element(address(name, slot), first + lane, f[f"{name}_type"])
                elif name == "a":
                    assert acc is not None
                    x = int(acc[o, slot, first - sub * channels + lane])
                else:
                    x = param(0, n % beats * lanes + lane)
                which = u[f"{name}_table"]
                return int(self.m.table[(x & 511) if which == 3 else (x & 255) + 256 * (which - 1)]) if which else x

            a = [operand("a", lane) for lane in range(lanes)]
            b = [operand("b", lane) for lane in range(lanes)]
            row = []
            for lane in range(lanes):
                channel = n % beats * lanes + lane
                m = param(1, channel) if u["multiply"] == Multiply.HIGH_PARAM else u["immediate"]
                shift = param(2, channel) if u["shift_source"] == ShiftSource.PARAM else u["shift"]
                row.append(scalar(u, a[lane], b[lane], a[lane ^ 1] if lanes > 1 else 0, m, shift, f["out_type"] == 1))
            results.append(row)
        base = u["d_register"] * config.vector_register_words
        if u["destination"] == Destination.REGISTER:
            for n, row in enumerate(results):
                self.registers[base + n] = row
        elif u["destination"] in OUTPUTS:
            if u["destination"] == Destination.ACTIVATION:
                results = [[activation(Activation(u["reduce"]), x) for x in row] for row in results]
            for n, row in enumerate(results):
                for lane, x in enumerate(row):
                    self.put(address("out", slots[n // beats]), sub * channels + n % beats * lanes + lane, x)
        else:
            values = []
            for n, row in enumerate(results):
                for lane, x in enumerate(row):
                    channel = sub * channels + n % beats * lanes + lane
                    if not (n // beats == len(slots) - 1 and 0 < f["valid_lanes"] <= channel):
                        values.append(x)
            self.registers[base] = {Reduce.SUM: lambda: wrap(sum(values)), Reduce.MAX: lambda: max(values),
                                    Reduce.MIN: lambda: min(values)}[Reduce(u["reduce"])]()

    def put(self, word: int, channel: int, x: int) -> None:
        size = SIZES[self.f["out_type"]]
        data = (x % (1 << 32)).to_bytes(4, "little")[:size]
        for i, byte in enumerate(data):
            row, lane = divmod(channel * size + i, self.config.word_bytes)
            self.pad[(word + row) % 65536, lane] = byte
            self.written.add(((word + row) % 65536, lane))


def random_uop(rng: random.Random, config: Config, use_acc: bool, use_params: bool, registers: int) -> dict[str, int]:
    a_sources = [Source.IMMEDIATE, Source.REGISTER, Source.STREAM, Source.STREAM] + [Source.ACC_OR_BIAS] * use_acc
    b_sources = [Source.IMMEDIATE, Source.REGISTER, Source.STREAM] + [Source.ACC_OR_BIAS] * use_params
    multiplies = [m for m in Multiply if use_params or m is not Multiply.HIGH_PARAM]
    shifts = [s for s in ShiftSource if use_params or s is not ShiftSource.PARAM]
    alus = [a for a in Alu if config.requantize_lanes % 2 == 0 or a is not Alu.PAIR_DIFFERENCE]
    destination = rng.choice(destinations(config))
    kinds = Activation if destination is Destination.ACTIVATION else Reduce
    return NO_UOP | {
        "a_source": rng.choice(a_sources), "b_source": rng.choice(b_sources), "alu": rng.choice(alus),
        "a_register": rng.randrange(registers), "b_register": rng.randrange(registers),
        "d_register": rng.randrange(registers), "a_hold": rng.random() < 0.2, "b_hold": rng.random() < 0.2,
        "a_table": rng.choice([0, 0, 0, 1, 2, 3]), "b_table": rng.choice([0, 0, 0, 1, 2]),
        "destination": destination, "reduce": rng.choice(list(kinds)),
        "once": rng.random() < 0.15, "immediate": rng.choice([rng.randint(-1 << 31, (1 << 31) - 1), -1 << 31, 7]),
        "multiply": (multiply := rng.choice(multiplies)), "truncate": rng.randint(0, 1),
        "shift_source": rng.choice(shifts), "shift": rng.randint(-31, 31 if multiply == Multiply.SHL else 0),
        "rounding": rng.choice(list(Rounding)), "clamp": rng.randint(0, 1),
        "zero_point": rng.randint(-32768, 32767), "act_min": rng.randint(-128, 0), "act_max": rng.randint(0, 127)}


def set_parameters(machine: Machine, base: int, blocks: int, step: int) -> None:
    """Make the shifts of parameter blocks legal."""
    config = machine.config
    wide = -(-4 * config.cols // config.word_bytes)
    for o in range(blocks):
        for word in range(base + o * step + 2 * wide, base + o * step + config.param_words):
            machine.scratchpad[word] = machine.scratchpad[word].view(np.int8).clip(-31, 31).view(np.uint8)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("use_acc", [False, True])
def test_program(config, use_acc):
    rng = random.Random(config.name)
    for seed in range(25):
        machine = Machine(config, [], seed)
        use_params = use_acc or (config.block == config.cols and seed % 3 == 0)
        slots, cols = rng.randint(1, 9), rng.randint(1, 3)
        blocks, step = rng.randint(1, 3), config.param_words
        body = rng.choice([0, 2])
        count = rng.randint(1, 4) + body
        f = FIELDS | {
            "use_acc": int(use_acc), "use_params": int(use_params), "blocks_inner": rng.randint(0, 1),
            "a_type": rng.randint(0, 3), "b_type": rng.randint(0, 3), "out_type": rng.randint(0, 2),
            "sub_first": rng.randrange(config.sub_blocks) if use_acc else 0, "cols": cols, "out_blocks": blocks,
            "slots": slots, "tile_slots": rng.randint(1, slots), "chunk_slots": rng.randint(1, 4), "param_base": 20,
            "param_block_step": step, "first": 3, "body_first": 3 + count if not body else 3 + count - 3,
            "body_last": 3 + count - 1 if not body else 3 + count - 2, "last": 3 + count - 1,
            "repeat1": rng.randint(1, 3) if body else 1, "repeat2": rng.randint(1, 2) if body else 1,
            "a_repeat1_step": rng.randint(-3, 3), "a_repeat2_step": rng.randint(-3, 3),
            "valid_lanes": rng.choice([0, rng.randint(1, config.block)])}
        for stream, base in (("a", 150), ("b", 250), ("out", rng.choice([150, 350, 350]))):
            f |= {f"{stream}_base": base, f"{stream}_col_step": rng.randint(1, 4) if stream != "out" else 4,
                  f"{stream}_row_step": rng.randint(-4, 4) if stream != "out" else 4 * cols,
                  f"{stream}_block_step": rng.randint(-4, 4) if stream != "out" else 48}
        uops = [NO_UOP] * config.uops
        for u in range(3, 3 + count):
            uops[u] = random_uop(rng, config, use_acc, use_params, 3)
            # `once` leaves parts of an output word undefined, so it writes only to registers.
            uops[u]["once"] &= uops[u]["destination"] not in OUTPUTS
        uops[2 + count] = uops[2 + count] | {"destination": Destination.OUTPUT, "once": 0}
        if f["valid_lanes"] and use_acc:
            f["valid_lanes"] = config.block
        set_parameters(machine, 20, blocks, step)
        acc = np.random.default_rng(seed).integers(-1 << 31, 1 << 31, (blocks, slots, config.cols)).astype(np.int32)
        reference = Reference(machine, f, uops)
        reference.run(acc if use_acc else None)
        tiles = list(vector_tiles(machine, f))
        if use_acc:
            for tile in tiles:
                run_tiles(machine, f, uops, [tile], acc[tile.block, tile.first:tile.last])
        else:
            run_tiles(machine, f, uops, tiles, None)
        rows, lanes = np.array(sorted(reference.written)).T
        if f["out_base"] == 350 or not use_acc and config.block * SIZES[f["out_type"]] % config.word_bytes == 0:
            assert np.array_equal(machine.scratchpad[rows, lanes], reference.pad[rows, lanes])
            assert np.array_equal(machine.registers, reference.registers.astype(np.int32))


def test_other_sub_blocks_are_kept():
    config = PRESETS["n16x8"]
    machine = Machine(config, [], 0)
    f = FIELDS | {"use_acc": 1, "cols": 2, "out_blocks": 1, "slots": 2, "tile_slots": 2, "chunk_slots": 2, "repeat1": 1,
                  "repeat2": 1, "body_first": 1, "sub_first": 1, "out_base": 10, "out_col_step": 1}
    before = machine.scratchpad.copy()
    acc = np.arange(16, dtype=np.int32).reshape(2, 8)
    uops = [NO_UOP | {"a_source": Source.ACC_OR_BIAS, "destination": Destination.OUTPUT}] * 64
    run_tiles(machine, f, uops, list(vector_tiles(machine, f)), acc)
    assert np.array_equal(machine.scratchpad[10:12, :8], before[10:12, :8])
    assert np.array_equal(machine.scratchpad[10:12, 8:], acc.astype(np.uint8))
    assert np.array_equal(np.delete(machine.scratchpad, [10, 11], 0), np.delete(before, [10, 11], 0))


def test_load_table():
    machine = Machine(PRESETS["n16"], [], 0)
    before = machine.table.copy()
    load_table(machine, FIELDS | {"kind": 1, "a_base": 7, "slots": 10, "table_first": 250})
    expected = machine.scratchpad[7:10].reshape(-1).view("<i4")[:10]
    assert np.array_equal(machine.table[250:260], expected)
    assert np.array_equal(np.delete(machine.table, range(250, 260)), np.delete(before, range(250, 260)))
    with pytest.raises(Fault, match=r"^slots \+ table_first <= 512, where kind == VectorKind.LOAD_TABLE, does not "
                                    "hold: kind 1, slots 300, table_first 250$"):
        load_table(machine, FIELDS | {"kind": 1, "slots": 300, "table_first": 250})


GOOD = FIELDS | {"cols": 1, "out_blocks": 1, "slots": 1, "tile_slots": 1, "chunk_slots": 1, "repeat1": 1, "repeat2": 1,
                 "body_first": 1}


@pytest.mark.parametrize(("change", "uop", "message"), [
    ({"repeat1": 0}, {}, "repeat1 >= 1, where kind == VectorKind.PROGRAM, does not hold: kind 0, repeat1 0"),
    ({"chunk_slots": 0}, {}, "chunk_slots >= 1, .*"), ({"out_type": 3}, {}, "out_type <= 2, .*: kind 0, out_type 3"),
    ({"last": 64, "body_last": 63, "body_first": 64}, {}, "last < config.uops, .* last 64, config.uops 64"),
    ({"repeat2": 2}, {}, "repeat1 == 1 and repeat2 == 1, where kind == VectorKind.PROGRAM and body_first > body_last"
     ", does not hold: kind 0, body_first 1, body_last 0, repeat1 1, repeat2 2"),
    ({"sub_first": 1}, {}, "sub_first == 0, .*"),
    ({}, {"a_source": 2}, "micro-operation 0: use_acc == 1, where a_source == Source.ACC_OR_BIAS, does not hold: "
     "a_source 2, use_acc 0"),
    ({}, {"b_source": 2}, "micro-operation 0: use_params == 1, .*"),
    ({}, {"b_table": 3}, "micro-operation 0: b_table <= 2 does not hold: b_table 3"),
    ({}, {"destination": 3, "reduce": 2}, "micro-operation 0: config.activation_lanes >= 1 and .* reduce 2, .*"),
    ({}, {"destination": 2, "reduce": 3}, "micro-operation 0: reduce <= Reduce.MIN, .*"),
    ({}, {"alu": 13}, "micro-operation 0: alu <= Alu.PAIR_DIFFERENCE does not hold: alu 13"),
    ({}, {"rounding": 3}, "micro-operation 0: rounding <= Rounding.FLOOR does not hold: rounding 3"),
    ({"chunk_slots": 65, "tile_slots": 65, "slots": 65}, {"d_register": 7}, "micro-operation 0: once == 1 or d_register"
     r" \+ chunk_registers <= 8, .* d_register 7, once 0, chunk_registers 2"),
])
def test_wrong(change, uop, message):
    machine = Machine(PRESETS["n16"], [], 0)
    f = GOOD | change
    with pytest.raises(Fault, match=f"^{message}$") as caught:
        run_tiles(machine, f, [NO_UOP | uop] * 64, list(vector_tiles(machine, f)), None)
    assert caught.value.status is Status.BAD_OPERATION


def test_an_activation_needs_lanes():
    machine = Machine(PRESETS["n8"], [], 0)
    uops = [NO_UOP | {"destination": Destination.ACTIVATION}] * 64
    with pytest.raises(Fault, match=r"activation_lanes >= 1 .* config.activation_lanes 0$") as caught:
        run_tiles(machine, GOOD, uops, list(vector_tiles(machine, GOOD)), None)
    assert caught.value.status is Status.BAD_OPERATION


def test_int16_activations_equal_gemmlowp():
    x = np.arange(-32768, 32768, dtype=np.int32)
    assert np.array_equal(activate(Activation.LOGISTIC, x), logistic(x, 3))
    assert np.array_equal(activate(Activation.TANH, 2 * x), tanh(x, 3))
    assert np.array_equal(activate(Activation.TANH, x), tanh(x, 2))
