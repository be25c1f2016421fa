"""Random legal vector operations and programs."""

import random

from vector_reference import Operation, Scenario, Uop, operation, put_params

from tq_hw.isa.config import Config
from tq_hw.isa.uop import UOP, Activation, Alu, Destination, Multiply, ShiftSource, Source, destinations

#: Words left between two slots of a stream, enough for int32 elements.
_REGION_WORDS = 512


def random_uop(rng: random.Random, config: Config, op: Operation, written: set[int]) -> Uop:
    """Return a micro-operation that reads only registers in `written`, and note the one it writes."""
    uop = {f.name: rng.randint(-(1 << f.bits - 1), (1 << f.bits - 1) - 1) if f.signed else rng.randrange(1 << f.bits)
           for register in UOP for f in register.fields}
    uop["alu"] = rng.choice(list(Alu))
    if uop["alu"] == Alu.PAIR_DIFFERENCE and config.requantize_lanes % 2:
        uop["alu"] = int(Alu.SUB)
    a_sources, b_sources = [Source.IMMEDIATE, Source.STREAM], [Source.IMMEDIATE, Source.STREAM]
    if op["use_acc"]:
        a_sources += [Source.ACC_OR_BIAS] * 3
    if op["use_params"]:
        b_sources += [Source.ACC_OR_BIAS]
    if written:
        a_sources += [Source.REGISTER] * 3
        b_sources += [Source.REGISTER] * 3
        uop["a_register"], uop["b_register"] = (rng.choice(sorted(written)) for _ in "ab")
    uop["a_source"], uop["b_source"] = rng.choice(a_sources), rng.choice(b_sources)
    uop["a_table"] = rng.choice((0, 0, 0, 1, 2, 3))
    uop["b_table"] = rng.choice((0, 0, 0, 1, 2))
    uop["multiply"] = rng.choice([m for m in Multiply if m != Multiply.HIGH_PARAM or op["use_params"]])
    uop["shift_source"] = rng.choice([s for s in ShiftSource if s != ShiftSource.PARAM or op["use_params"]])
    uop["shift"] = rng.choice((0, -1, rng.randint(-31, 0)))
    if uop["multiply"] == Multiply.SHL:
        uop["shift"] = rng.randint(-31, 31)
    uop["rounding"] = rng.randrange(3)
    uop["reduce"] = rng.randrange(3)
    uop["once"] = rng.random() < 0.15
    uop["act_min"], uop["act_max"] = sorted((uop["act_min"], uop["act_max"]))
    uop["immediate"] = rng.choice((uop["immediate"], rng.randint(-300, 300)))
    uop["destination"] = rng.choice((Destination.REGISTER, *destinations(config)))
    if uop["destination"] == Destination.ACTIVATION:
        uop["reduce"] = rng.choice(list(Activation))
        uop["once"] = 0
    elif uop["destination"] != Destination.OUTPUT:
        # A shorter vector hides nothing: what is read is what was written by whole vectors, or held word 0.
        if uop["once"] or uop["destination"] == Destination.REDUCE:
            if written and rng.random() < 0.7:
                uop["d_register"] = rng.choice(sorted(written))
            else:
                uop["destination"] = Destination.OUTPUT
        if uop["destination"] == Destination.REGISTER and not uop["once"]:
            written.add(uop["d_register"])
    return uop


def random_program(rng: random.Random, config: Config, op: Operation, long: bool) -> list[Uop]:
    """Return a program of up to six micro-operations; `long`: its vectors fill two registers each."""
    written: set[int] = set()
    program = [random_uop(rng, config, op, written) for _ in range(rng.choice((1, 1, 2, 3, 4, 6)))]
    if long:
        for uop in program:
            for name in ("a_register", "b_register", "d_register"):
                uop[name] &= 6
        written = {number & 6 for number in written}
    program[-1]["destination"] = int(Destination.OUTPUT)
    return program


def random_scenario(config: Config, seed: int) -> Scenario:
    """Return operations one after the other, some of which read what earlier ones wrote."""
    rng = random.Random(seed)
    uops: list[Uop] = []
    operations: list[Operation] = []
    outputs: list[Operation] = []
    param_base, table_base = config.scratchpad_words - 128, config.scratchpad_words - 1024
    for number in range(rng.choice((1, 2, 3))):
        if rng.random() < 0.3:
            first = rng.randrange(512)
            operations.append(operation(kind=1, a_base=table_base, table_first=first,
                                        slots=rng.randint(1, min(60, 512 - first))))
        cols, slots = rng.randint(1, 6), rng.randint(1, 14)
        rows = -(-slots // cols)
        steps = rng.choice((4, 5))
        row_step = cols * steps + rng.randrange(3)
        block_step = rows * row_step
        op = operation(
            use_acc=rng.random() < 0.5, blocks_inner=rng.random() < 0.5, a_type=rng.randrange(4),
            b_type=rng.randrange(4), out_type=rng.randrange(3), cols=cols, slots=slots, out_blocks=rng.randint(1, 3),
            tile_slots=min(rng.randint(1, 16), config.acc_words), valid_lanes=rng.randrange(config.block + 1),
            param_base=param_base, param_block_step=config.param_words, a_base=0, b_base=_REGION_WORDS,
            out_base=(2 + number) * _REGION_WORDS, **{f"{s}_col_step": steps for s in ("a", "b", "out")},
            **{f"{s}_row_step": row_step for s in ("a", "b", "out")},
            **{f"{s}_block_step": block_step for s in ("a", "b", "out")})
        if op["use_acc"]:
            op["sub_first"] = rng.randrange(config.sub_blocks)
        op["use_params"] = rng.random() < 0.6 and (op["use_acc"] or config.block == config.cols)
        if outputs and rng.random() < 0.6:
            before = rng.choice(outputs)
            op[f"{rng.choice('ab')}_base"] = before["out_base"]
        elif rng.random() < 0.3:
            op["out_base"], op["a_type"] = op["a_base"], op["out_type"]
        beats = (config.cols if op["use_acc"] else config.block) // config.requantize_lanes
        most = config.vector_register_words // beats
        long = rng.random() < 0.2
        most = 2 * most if long else most
        op["chunk_slots"] = rng.randint(1, most) if rng.random() < 0.8 else most
        program = random_program(rng, config, op, long)
        op["first"], op["last"] = len(uops), len(uops) + len(program) - 1
        op["body_first"], op["body_last"] = op["last"] + 1, op["last"]
        if rng.random() < 0.4:
            op["body_first"], op["body_last"] = sorted(rng.randint(op["first"], op["last"]) for _ in range(2))
            op["repeat1"], op["repeat2"] = rng.randint(1, 3), rng.randint(1, 2)
            if op["out_base"] != op["a_base"]:
                op["a_repeat1_step"], op["a_repeat2_step"] = rng.randint(0, 6), rng.randint(0, 9)
        uops += program
        operations.append(op)
        outputs.append(op)
    scenario = Scenario(config, uops, operations, seed, refuse=rng.choice((0, 0, 0.3, 0.7)),
                        acc_cycles=rng.choice((0, 0, 40)), gap_cycles=rng.choice((0, 0, 30)))
    for block in range(3):
        put_params(config, scenario.memory, param_base + block * config.param_words, seed + block)
    return scenario
