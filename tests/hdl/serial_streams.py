"""Random command streams for the serial machine: every field of its units, within what is allowed."""

import numpy as np

from tq_hw.isa.config import Config
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Port, Program
from tq_hw.isa.uop import Alu, Destination, Multiply, Reduce, Rounding, ShiftSource, Source

__all__ = ["CONFIG", "array_stream", "move_stream", "program", "vector_stream"]

CONFIG = Config("serial", 4, 4, 1, 8 << 10, acc_words=32, acc_buffers=2, bus_bytes=4, uops=32, vector_words=512,
                design="serial")
#: Words of random data at the start of the scratchpad, and where outputs go.
DATA_WORDS, OUTPUT_WORD = 1024, 1536
#: Where streams put parameters and tables among the data.
PARAM_WORD, TABLE_WORD = 64, 128
_OUTPUT_BYTES = 2048


def _words(count: int) -> dict[str, int]:
    return {"count0": 1, "count1": count, "count2": 1, "count3": 1, "step1": 1}


def begin(rng: np.random.Generator) -> tuple[Assembler, bytes]:
    """Return a stream that loads random data, whose shifts and multipliers are in range, and the data."""
    data = rng.integers(0, 256, 4 * DATA_WORDS, np.uint8)
    words = data.view(np.int32)
    # Accumulators and tables of small numbers, too.
    words[256:512] >>= rng.integers(0, 32, 256).astype(np.int32)
    shifts = data.view(np.int8)[4 * (PARAM_WORD + 8):4 * (PARAM_WORD + 9)]
    shifts[:] = rng.integers(-31, 32, 4)
    assembler = Assembler(CONFIG)
    assembler.run(Unit.LOAD, _words(DATA_WORDS) | {
        "run_bytes": 4 * DATA_WORDS, "emit_bytes": 4, "advance_bytes": 4, "last_emit_bytes": 4,
        "last_advance_bytes": 4, "post_array": 1, "post_vector": 1, "post_store": 1})
    return assembler, data.tobytes()


def program(assembler: Assembler, image: bytes, waits: dict[str, int], stored: dict[str, int] | None = None) -> Program:
    """Return the program: what lies from OUTPUT_WORD on is stored, and is the output."""
    words = _OUTPUT_BYTES // 4
    assembler.run(Unit.STORE, stored or _words(words) | {
        "source": OUTPUT_WORD, "take_bytes": 4, "last_take_bytes": 4, "region": 1, **waits})
    assembler.end()
    commands = assembler.to_bytes()
    port = Port("y", "uint8", (_OUTPUT_BYTES,), 0.0, 0, 0, _OUTPUT_BYTES)
    return Program("random", CONFIG, image + commands, len(image), len(commands), _OUTPUT_BYTES, outputs=(port,))


def clear_output(assembler: Assembler) -> None:
    """Fill the words of the output, so that those not written are the same everywhere."""
    assembler.run(Unit.LOAD, _words(_OUTPUT_BYTES // 4) | {
        "destination": OUTPUT_WORD, "fill": 0x5A, "emit_bytes": 4, "last_emit_bytes": 4, "post_vector": 1,
        "post_store": 1})


def vector_stream(seed: int) -> Program:
    """A table, then a program of random micro-operations in one or more chunks."""
    rng = np.random.default_rng(seed)
    assembler, image = begin(rng)
    clear_output(assembler)

    def one(*choices: int) -> int:
        return int(rng.choice(choices))

    slots = int(rng.integers(1, 25))
    chunk = int(rng.integers(1, slots + 1))
    steps = {f"{stream}_{step}_step": int(rng.integers(0, 4))
             for stream in ("a", "b") for step in ("col", "row", "block")}
    fields = {
        "use_params": 1, "blocks_inner": one(0, 1), "a_type": one(0, 1, 2, 3), "b_type": one(0, 1, 2, 3),
        "out_type": one(0, 1, 2), "a_base": int(rng.integers(0, 500)), "b_base": int(rng.integers(0, 500)), **steps,
        "out_base": OUTPUT_WORD, "out_col_step": 4, "out_row_step": 4 * int(rng.integers(5, 9)), "out_block_step": 200,
        "cols": int(rng.integers(1, 6)), "out_blocks": one(1, 2), "slots": slots,
        "tile_slots": int(rng.integers(1, slots + 1)), "chunk_slots": chunk, "param_base": PARAM_WORD,
        "a_repeat1_step": int(rng.integers(0, 9)), "a_repeat2_step": int(rng.integers(0, 9)),
        "valid_lanes": int(rng.integers(0, 5)), "repeat1": one(1, 2, 3), "repeat2": one(1, 2),
        "wait_load": 2, "post_store": 1}
    fields["out_row_step"] = 4 * fields["cols"]
    assembler.run(Unit.VECTOR, {"kind": 1, "slots": 512, "a_base": TABLE_WORD, "wait_load": 0})
    uops = [{"a_source": Source.STREAM, "d_register": 0}, {"a_source": Source.STREAM, "d_register": 1},
            {"a_source": Source.STREAM, "d_register": 2, "destination": Destination.REDUCE, "reduce": one(*Reduce)}]
    # All of what is read was written: registers 0 and 1 whole, word 0 of 2.
    for last in (False, False, False, True):
        alu = one(*(alu for alu in Alu if alu is not Alu.PAIR_DIFFERENCE))
        uop = {"a_source": one(*Source, Source.REGISTER), "b_source": one(*Source), "a_register": one(0, 1),
               "b_register": one(0, 1), "a_table": one(0, 0, 1, 2, 3), "b_table": one(0, 0, 1, 2), "alu": alu,
               "immediate": int(rng.integers(-1 << 31, 1 << 31)) >> one(0, 0, 16, 24, 31),
               "multiply": (multiply := one(*Multiply)), "truncate": one(0, 1), "shift_source": one(*ShiftSource),
               "shift": int(rng.integers(-31, 32 if multiply == Multiply.SHL else 1)), "rounding": one(*Rounding),
               "clamp": one(0, 1), "zero_point": one(0, -128, 5), "act_min": -100, "act_max": 90,
               "destination": Destination.OUTPUT if last else one(Destination.REGISTER, Destination.REDUCE),
               "d_register": one(0, 1), "reduce": one(*Reduce)}
        if uop["a_source"] == Source.ACC_OR_BIAS:
            uop["a_source"] = Source.IMMEDIATE
        if uop["destination"] == Destination.REDUCE:
            uop["d_register"] = 2
        if one(0, 1, 2) == 0:
            uop |= {"b_source": Source.REGISTER, "b_register": 2, "b_hold": 1}
        if not last and one(0, 1, 2, 3) == 0:
            uop |= {"once": 1}
        uops.append(uop)
    for number, uop in enumerate(uops):
        assembler.uop(number, uop)
    body = one(0, 1)
    bounds = {"first": 0, "body_first": 4, "body_last": 5, "last": 6} if body else {
        "first": 0, "body_first": 7, "body_last": 6, "last": 6, "repeat1": 1, "repeat2": 1}
    assembler.run(Unit.VECTOR, fields | bounds)
    return program(assembler, image, {"wait_vector": 1, "wait_load": 2})


def array_stream(seed: int) -> Program:
    """Array operations of a random kind, and a vector operation that writes the sums."""
    rng = np.random.default_rng(seed)
    assembler, image = begin(rng)
    clear_output(assembler)

    def upto(most: int) -> int:
        return int(rng.integers(1, most + 1))

    mode = int(rng.integers(0, 3))
    out_cols, out_rows = upto(6), upto(4)
    tile_rows = upto(out_rows)
    tile = tile_rows * out_cols if mode == 1 else upto(min(CONFIG.acc_words, out_cols * out_rows))
    slots = out_cols * out_rows if mode == 1 else upto(out_cols * out_rows)
    blocks = upto(3)
    taps = upto(5) if mode == 1 else upto(3)
    fields = {
        "mode": mode, "acc_first": 1, "acc_last": 1, "blocks_inner": int(rng.integers(0, 2)),
        "zero_point": int(rng.integers(-128, 128)), "in_base": int(rng.integers(50, 150)),
        "in_col_step": int(rng.integers(0, 3)), "in_row_step": int(rng.integers(0, 20)),
        "in_block_step": int(rng.integers(0, 5)), "kernel_col_step": int(rng.integers(0, 3)),
        "kernel_row_step": 2 * int(rng.integers(0, 9)) + 1, "kernel_block_step": int(rng.integers(0, 5)),
        "kernel_blocks": upto(3), "row_first": int(rng.integers(-3, 3)), "col_first": int(rng.integers(-3, 3)),
        "row_stride": upto(3), "col_stride": upto(3), "kernel_row_dilation": upto(2), "kernel_col_dilation": upto(2),
        "in_rows": upto(9), "in_cols": upto(9), "out_cols": out_cols, "period": 99, "slots": slots,
        "tile_slots": tile, "tile_rows": tile_rows, "out_blocks": blocks, "kernel_rows": upto(3), "kernel_cols": taps,
        "weight_base": 600, "weight_block_step": int(rng.integers(0, 50)),
        "weight_rows": min(3, taps) if mode == 1 else upto(4), "slices": 1}
    if mode == 1:
        # Taps that do not exist have no weights: the data of the weights have none, so there are as many as rows.
        fields["kernel_cols"] = 3 * upto(2) if taps > 3 else taps
        fields["weight_rows"] = 3 if taps > 3 else taps
    assembler.fold(0, ({"address": 0, "kernel_row": 0, "rotate": upto(3), "lane_end": 2},
                       {"address": 5, "kernel_row": 1, "rotate": 0, "lane_end": upto(4)},
                       {"address": 10, "kernel_row": 2, "rotate": upto(31), "lane_end": 4}))
    assembler.fold(1, ({"address": -3, "kernel_row": 1, "rotate": 1, "lane_end": 4}, {}, {}))
    assembler.fold(2, ({}, {"address": 7, "kernel_row": 0, "rotate": 3, "lane_end": 3}, {"lane_end": 2}))
    assembler.uop(0, {"a_source": Source.ACC_OR_BIAS, "destination": Destination.OUTPUT})
    read = {"use_acc": 1, "blocks_inner": fields["blocks_inner"], "out_type": 2, "out_base": OUTPUT_WORD,
            "out_col_step": 4, "out_row_step": 4 * out_cols, "out_block_step": 4 * out_cols * out_rows,
            "cols": out_cols, "out_blocks": blocks, "slots": slots, "tile_slots": tile, "chunk_slots": upto(tile),
            "body_first": 1, "body_last": 0, "last": 0, "repeat1": 1, "repeat2": 1, "wait_load": 2, "post_store": 1}
    if slots <= tile and blocks == 1 and rng.integers(0, 2):
        assembler.run(Unit.ARRAY, fields | {"acc_last": 0, "wait_load": 1})
        fields |= {"acc_first": 0, "weight_base": 700}
        assembler.run(Unit.ARRAY, fields)
    else:
        assembler.run(Unit.ARRAY, fields | {"wait_load": 1})
    assembler.run(Unit.VECTOR, read)
    return program(assembler, image, {"wait_vector": 1, "wait_load": 2})


def move_stream(seed: int) -> Program:
    """Loads and a store with random loops, at odd places."""
    rng = np.random.default_rng(seed)
    assembler, image = begin(rng)
    clear_output(assembler)

    def upto(most: int) -> int:
        return int(rng.integers(1, most + 1))

    for number in range(3):
        run_bytes = int(rng.integers(0, 40))
        assembler.run(Unit.LOAD, {
            "memory_offset_bytes": int(rng.integers(0, 500)), "run_bytes": run_bytes, "fill": int(rng.integers(0, 256)),
            "pad_before_bytes": int(rng.integers(0, 9)), "pad_after_bytes": int(rng.integers(0, 9)),
            "destination": OUTPUT_WORD + 128 * number, "flip": int(rng.integers(0, 2)), "emit_bytes": 4,
            "last_emit_bytes": 4, "advance_bytes": int(rng.integers(0, 5)),
            "last_advance_bytes": int(rng.integers(0, 5)), "count0": upto(3), "step0": 1, "count1": upto(3), "step1": 3,
            "count2": upto(3), "step2": 9, "count3": upto(3), "step3": 27,
            "stride2_bytes": int(rng.integers(0, 50)), "stride3_bytes": int(rng.integers(0, 200)),
            "post_store": number == 2})
    lane = int(rng.integers(0, 4))
    take, last = upto(4 - lane), upto(4 - lane)
    stored = {"source": OUTPUT_WORD, "count0": 3, "step0": 1, "count1": 5, "step1": 3, "count2": 4, "step2": 15,
              "count3": 2, "step3": 128, "take_bytes": take, "last_take_bytes": last, "lane": lane,
              "flip": int(rng.integers(0, 2)), "memory_offset_bytes": int(rng.integers(0, 8)), "stride2_bytes": 61,
              "stride3_bytes": 501, "region": 1, "wait_load": 3}
    return program(assembler, image, {}, stored)
