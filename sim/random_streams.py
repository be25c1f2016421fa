"""Random legal programs, to compare executor and RTL beyond the commands that the compiler emits.

A program loads words, runs array and vector operations with random fields on them, and stores the results. The layout
of the scratchpad is fixed: inputs, then weights and parameters, then outputs. Undefined bytes differ between two seeds
of the executor, so the RTL must match every byte that is equal under several seeds.
"""

import random
from collections.abc import Mapping

import numpy as np

from tq_hw.isa.config import Config
from tq_hw.isa.encode import Assembler
from tq_hw.isa.layout import ArrayMode, Unit, VectorKind
from tq_hw.isa.program import REGION_ARENA, Port, Program
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import (
    OUTPUTS,
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

__all__ = ["random_program"]

#: First word of the outputs, and longest reach of an operation's outputs, in words of the smallest scratchpad.
_INPUT_WORDS, _WEIGHT_WORDS, _OUTPUT_WORDS = 192, 160, 128


def random_program(config: Config, seed: int, operations: int = 6) -> Program:
    """Return a program of `operations` array and vector operations; its only output is all words that they may write.

    It follows every rule of docs/reference/semantics.md and has no races.
    """
    return _Maker(config, seed).make(operations)


def _keep_apart(uop: dict[str, int], beats: int, config: Config) -> None:
    """Replace a register operand by a stream if the micro-operation writes some of its words in other beats."""
    span, written = ceil_div(beats, config.vector_register_words), uop["d_register"]
    if uop["destination"] != Destination.REGISTER or uop["once"]:
        return
    for name in "ab":
        read, hold = uop[f"{name}_register"], uop[f"{name}_hold"]
        meets = read < written + span and written < read + (1 if hold else span)
        if uop[f"{name}_source"] == Source.REGISTER and meets and (hold or read != written):
            uop[f"{name}_source"] = Source.STREAM


class _Maker:
    def __init__(self, config: Config, seed: int) -> None:
        self.config, self.rng = config, random.Random(seed)
        self.seed = seed
        self.assembler = Assembler(config)
        self.scratchpad = np.random.default_rng(seed).integers(
            0, 256, (_INPUT_WORDS + _WEIGHT_WORDS, config.word_bytes), np.uint8)
        self.weights_at = _INPUT_WORDS
        self.begun: set[Unit] = set()

    def make(self, operations: int) -> Program:
        config, rng = self.config, self.rng
        self._define()
        for _ in range(operations):
            kind = rng.choice(("mac", "mac", "vector", "table"))
            {"mac": self._mac, "vector": self._vector, "table": self._table}[kind]()
        store = {"source": _INPUT_WORDS + _WEIGHT_WORDS, "take_bytes": config.word_bytes, "count0": 1, "step1": 1,
                 "last_take_bytes": config.word_bytes, "count1": _OUTPUT_WORDS, "count2": 1, "count3": 1,
                 "region": REGION_ARENA, "wait_vector": 1}
        size = _OUTPUT_WORDS * config.word_bytes
        # The vector unit's last operation posts a token to the store unit.
        self._run(Unit.VECTOR, {"kind": VectorKind.LOAD_TABLE, "slots": 1, "post_store": 1})
        self._run(Unit.STORE, store)
        self.assembler.end()
        body = self.assembler.to_bytes()
        first = Assembler(config)
        words = len(self.scratchpad) + _OUTPUT_WORDS
        whole = {"emit_bytes": config.word_bytes, "advance_bytes": config.word_bytes, "count0": 1, "count1": words,
                 "last_emit_bytes": config.word_bytes, "last_advance_bytes": config.word_bytes, "count2": 1,
                 "count3": 1, "step1": 1, "run_bytes": self.scratchpad.size, "post_array": 1, "post_vector": 1,
                 "fill": 0x5A}
        first.run(Unit.LOAD, whole)
        commands = first.to_bytes() + body
        image = self.scratchpad.tobytes()
        image += bytes(-len(image) % 16)
        return Program(f"random{self.seed}", config, image + commands, len(image), len(commands), size,
                       outputs=(Port("memory", "uint8", (size,), 0.0, 0, 0, size),))

    def _define(self) -> None:
        """Write all vector registers, in one RUN, and table entries: undefined values that saturate look defined."""
        slots = self.config.vector_words // self.config.beats_per_word
        cols = min(slots, _INPUT_WORDS - 3)  # an int32 slot has up to four words
        self.assembler.uop(0, {"a_source": Source.STREAM})
        self._run(Unit.VECTOR, {"cols": cols, "out_blocks": 1, "slots": slots, "tile_slots": slots,
                                "chunk_slots": slots, "repeat1": 1, "repeat2": 1, "a_type": 2, "a_col_step": 1,
                                "body_first": 1})
        step = self.config.word_bytes // 4 * 128
        for first in range(0, 512, step):
            self._run(Unit.VECTOR, {"kind": VectorKind.LOAD_TABLE, "slots": min(step, 512 - first), "a_base": 30,
                                    "table_first": first})

    def _run(self, unit: Unit, fields: Mapping[str, int]) -> None:
        fields = dict(fields)
        if unit in (Unit.ARRAY, Unit.VECTOR) and unit not in self.begun:
            # Only the first operation of each unit needs to wait: nothing is loaded later.
            fields["wait_load"] = 1
            self.begun.add(unit)
        self.assembler.run(unit, fields)

    def _reserve(self, words: int) -> int:
        """Reserve words of weights and parameters; start from the front again when they are used up."""
        if self.weights_at + words > len(self.scratchpad):
            self.weights_at = _INPUT_WORDS
        at = self.weights_at
        self.weights_at += words
        return at

    def _table(self) -> None:
        slots = self.rng.randint(1, 512)
        per_word = self.config.word_bytes // 4
        slots = min(slots, per_word * (_INPUT_WORDS - 20))
        self._run(Unit.VECTOR, {"kind": VectorKind.LOAD_TABLE, "slots": slots, "a_base": self.rng.randint(0, 19),
                                "table_first": self.rng.randint(0, 512 - slots)})

    def _mac(self) -> None:
        """One array operation and the vector operation that takes its tiles."""
        config, rng = self.config, self.rng
        mode = rng.choice(list(ArrayMode))
        rows, cols = rng.randint(1, 6), rng.randint(1, 6)
        out_cols = rng.randint(1, 4)
        f = {"mode": mode, "acc_first": 1, "acc_last": 1, "blocks_inner": rng.randint(0, 1), "out_cols": out_cols,
             "zero_point": rng.randint(-128, 127), "in_rows": rows, "in_cols": cols, "row_first": rng.randint(-2, 1),
             "col_first": rng.randint(-2, 1), "row_stride": rng.randint(1, 2), "col_stride": rng.randint(1, 3),
             "out_blocks": rng.randint(1, 3)}
        {ArrayMode.GEMM: self._gemm, ArrayMode.DEPTHWISE: self._depthwise, ArrayMode.FOLDED: self._folded}[mode](f)
        if config.acc_open and rng.random() < 0.5:
            self._add_up(f)
        else:
            self._run(Unit.ARRAY, f)
        shape = {"use_acc": 1, "blocks_inner": f["blocks_inner"], "cols": out_cols, "out_blocks": f["out_blocks"],
                 "slots": f["slots"], "tile_slots": f["tile_slots"],
                 "sub_first": f.get("sub_first", rng.randrange(config.sub_blocks))}
        self._program(shape)

    def _add_up(self, f: dict[str, int]) -> None:
        """Run operations that accumulate into the same buffers, one or all; `f` becomes the buffers' shape."""
        config, rng = self.config, self.rng
        rows = max(1, config.acc_words // f["out_cols"])
        if f["mode"] is ArrayMode.DEPTHWISE:
            f |= {"tile_rows": min(rows, f["slots"] // f["out_cols"])}
            f["slots"] = f["tile_rows"] * f["out_cols"]
        f["slots"] = f["tile_slots"] = min(f["slots"], config.acc_words)
        words = f["weight_block_step"]
        whole = words * config.acc_open <= _WEIGHT_WORDS and rng.random() < 0.7
        f["out_blocks"] = config.acc_open if whole else 1
        links = rng.randint(2, 4)
        for link in range(links):
            self._run(Unit.ARRAY, f | {"acc_first": int(link == 0), "acc_last": int(link == links - 1),
                                       "weight_base": self._reserve(words * f["out_blocks"])})

    def _gemm(self, f: dict[str, int]) -> None:
        config, rng = self.config, self.rng
        slots, steps_limit = rng.randint(1, 12), 12
        f |= {"slots": slots, "tile_slots": rng.randint(1, slots), "kernel_rows": rng.randint(1, 2),
              "kernel_cols": rng.randint(1, 2), "kernel_row_dilation": rng.randint(1, 2),
              "kernel_col_dilation": rng.randint(1, 2), "slices": config.slices,
              "weight_rows": rng.randint(1, config.gemm_rows)}
        f["kernel_blocks"] = rng.randint(1, max(1, min(2, steps_limit // (config.slices * f["kernel_rows"]
                                                                        * f["kernel_cols"]))))
        steps = f["kernel_rows"] * f["kernel_cols"] * f["kernel_blocks"] * config.slices
        pitch = f["in_cols"] * f["kernel_blocks"] | 1
        self._weights(f, steps)
        f |= {"kernel_block_step": f["in_cols"], "kernel_row_step": pitch * f["kernel_row_dilation"],
              "kernel_col_step": f["kernel_col_dilation"], "in_row_step": pitch * f["row_stride"],
              "in_col_step": f["col_stride"],
              "in_base": 20 + f["row_first"] * pitch + f["col_first"] & 0xFFFF}

    def _weights(self, f: dict[str, int], steps: int) -> None:
        """Reserve weights, with fewer rows or blocks if they would not fit."""
        while f["out_blocks"] * steps * f["weight_rows"] > _WEIGHT_WORDS and f["weight_rows"] > 1:
            f["weight_rows"] -= 1
        while f["out_blocks"] * steps * f["weight_rows"] > _WEIGHT_WORDS:
            f["out_blocks"] -= 1
        f["weight_block_step"] = steps * f["weight_rows"]
        f["weight_base"] = self._reserve(f["out_blocks"] * steps * f["weight_rows"])

    def _depthwise(self, f: dict[str, int]) -> None:
        config, rng = self.config, self.rng
        rows = rng.randint(1, 4)
        kernel_rows, kernel_cols = rng.randint(1, 5), rng.choice((3, 3, 6))
        tile_rows = rng.randint(1, max(1, min(3, config.acc_words // f["out_cols"])))
        pitch = f["in_cols"] * 3 | 1
        dilation = rng.choice((1, 1, 3))
        reach = (f["out_cols"] - 1) * f["col_stride"]
        f |= {"slots": rows * f["out_cols"], "tile_rows": tile_rows, "tile_slots": tile_rows * f["out_cols"],
              "kernel_rows": kernel_rows, "kernel_cols": kernel_cols, "kernel_row_dilation": dilation,
              "weight_rows": rng.randint(1, 3 * config.groups), "period": reach + 1 + rng.randint(0, 4),
              "in_col_step": 1, "in_block_step": f["in_cols"], "kernel_row_step": pitch * dilation,
              "sub_first": rng.randrange(config.sub_blocks), "in_row_step": pitch * f["row_stride"],
              "in_base": 20 + f["row_first"] * pitch + f["col_first"] & 0xFFFF}
        for col in range(f["col_first"], f["col_first"] + kernel_cols, 3):
            f["period"] = max(f["period"], min(f["in_cols"] - 1, col + reach + 2) - max(0, col) + 1)
        self._weights(f, ceil_div(kernel_rows, config.groups) * (kernel_cols // 3))

    def _folded(self, f: dict[str, int]) -> None:
        config, rng = self.config, self.rng
        slots, entries = rng.randint(1, 12), rng.randint(1, min(3, config.fold_steps))
        pitch = f["out_cols"] | 1
        f |= {"slots": slots, "tile_slots": rng.randint(1, slots), "kernel_blocks": entries, "in_base": 20,
              "weight_rows": rng.randint(1, config.rows), "in_row_step": pitch * f["row_stride"], "in_col_step": 1}
        f["out_blocks"] = min(f["out_blocks"], 2)
        self._weights(f, entries)
        for k in range(entries):
            ends = sorted(rng.randint(0, config.rows) for _ in range(3))
            self.assembler.fold(k, tuple({
                "address": pitch * (4 * k + g), "kernel_row": min(31, 3 * k + g),
                "rotate": rng.randrange(config.word_bytes), "lane_end": ends[g]} for g in range(3)))

    def _vector(self) -> None:
        rng = self.rng
        slots = rng.randint(1, 9)
        self._program({"cols": rng.randint(1, 3), "out_blocks": rng.randint(1, 3), "slots": slots,
                       "tile_slots": rng.randint(1, slots), "blocks_inner": rng.randint(0, 1)})

    def _program(self, shape: Mapping[str, int]) -> None:
        """Run a random vector program over the given slots."""
        config, rng = self.config, self.rng
        use_acc = bool(shape.get("use_acc"))
        use_params = use_acc or config.block == config.cols and rng.random() < 0.3
        blocks = shape["out_blocks"]
        body = rng.choice((0, 1, 2))
        count = rng.randint(1, 4) + body
        first = rng.randrange(config.uops - count)
        body_first = first + rng.randint(0, count - body - 1) if body else first + count
        f = dict(shape) | {
            "kind": VectorKind.PROGRAM, "use_params": int(use_params), "a_type": rng.randint(0, 3),
            "b_type": rng.randint(0, 3), "out_type": rng.randint(0, 2), "chunk_slots": rng.randint(1, 4),
            "first": first, "body_first": body_first, "body_last": body_first + body - 1, "last": first + count - 1,
            "repeat1": rng.randint(1, 3) if body else 1, "repeat2": rng.randint(1, 2) if body else 1,
            "a_repeat1_step": rng.randint(-3, 3), "a_repeat2_step": rng.randint(-3, 3)}
        if use_params:
            f["param_block_step"] = config.param_words
            f["param_base"] = self._parameters(blocks)
        for stream in ("a", "b"):
            f |= {f"{stream}_base": rng.randint(60, 120), f"{stream}_col_step": rng.randint(-2, 4),
                  f"{stream}_row_step": rng.randint(-4, 4), f"{stream}_block_step": rng.randint(-4, 4)}
        reach = 4 * (f["slots"] + f["cols"])
        f |= {"out_base": _INPUT_WORDS + _WEIGHT_WORDS + rng.randint(0, max(0, _OUTPUT_WORDS - 1 - reach - 4)),
              "out_col_step": 4, "out_row_step": 4 * f["cols"], "out_block_step": rng.choice((0, 1, 2))}
        if not use_acc and rng.random() < 0.5:
            f["valid_lanes"] = rng.randint(1, config.block)
        stores = False
        beats = min(f["chunk_slots"], f["tile_slots"], f["slots"]) * (
            config.beats_per_acc_word if use_acc else config.beats_per_word)
        for index in range(first, first + count):
            uop = self._uop(use_acc, use_params, index == first + count - 1 and not stores)
            _keep_apart(uop, beats, config)
            stores |= uop["destination"] in OUTPUTS
            self.assembler.uop(index, uop)
        self._run(Unit.VECTOR, f)

    def _parameters(self, blocks: int) -> int:
        """Reserve parameter blocks with legal shifts."""
        config = self.config
        at = self._reserve(blocks * config.param_words)
        shift_words = ceil_div(config.cols, config.word_bytes)
        for o in range(blocks):
            end = at + (o + 1) * config.param_words
            words = self.scratchpad[end - shift_words:end].view(np.int8)
            words[:] = words % 63 - 31
        return at

    def _uop(self, use_acc: bool, use_params: bool, must_store: bool) -> dict[str, int]:
        rng, config = self.rng, self.config
        a_sources = [Source.IMMEDIATE, Source.REGISTER, Source.STREAM, Source.STREAM]
        a_sources += [Source.ACC_OR_BIAS] * 2 * use_acc
        b_sources = [Source.IMMEDIATE, Source.REGISTER, Source.STREAM] + [Source.ACC_OR_BIAS] * use_params
        alus = [alu for alu in Alu if config.requantize_lanes % 2 == 0 or alu is not Alu.PAIR_DIFFERENCE]
        destination = Destination.OUTPUT if must_store else rng.choice(destinations(config))
        kinds = Activation if destination is Destination.ACTIVATION else Reduce
        alu, multiplies = rng.choice(alus), [m for m in Multiply if use_params or m is not Multiply.HIGH_PARAM]
        multiply = rng.choice(multiplies)
        return {
            "a_source": rng.choice(a_sources), "b_source": rng.choice(b_sources), "alu": alu,
            "a_register": rng.randrange(3), "b_register": rng.randrange(3), "d_register": rng.randrange(3),
            "a_hold": rng.random() < 0.2, "b_hold": rng.random() < 0.2, "a_table": rng.choice((0, 0, 0, 1, 2, 3)),
            "b_table": rng.choice((0, 0, 0, 1, 2)), "destination": destination, "reduce": rng.choice(list(kinds)),
            "once": destination not in OUTPUTS and rng.random() < 0.15,
            "immediate": rng.choice((rng.randint(-1 << 31, (1 << 31) - 1), -1 << 31, 7)),
            "multiply": multiply, "truncate": rng.randint(0, 1),
            "shift": rng.randint(-31, 31 if multiply is Multiply.SHL else 0), "rounding": rng.choice(list(Rounding)),
            "shift_source": rng.choice([s for s in ShiftSource if use_params or s is not ShiftSource.PARAM]),
            "clamp": rng.randint(0, 1), "zero_point": rng.randint(-32768, 32767), "act_min": rng.randint(-128, 0),
            "act_max": rng.randint(0, 127)}
