"""Programs for multipliers of two words, and the stream of these words."""

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.ir.layers import Wide
from tq_hw.compiler.ir.meaning import Code, Walk
from tq_hw.compiler.ir.value import IntArray
from tq_hw.compiler.programs.words import (
    OUT,
    STREAM_A,
    Uop,
    immediate,
    low,
    program_fields,
    reg_a,
    reg_b,
    set_to,
    shifted,
    to,
)
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu, Multiply, Rounding, Source

__all__ = ["WideProgram"]

_INT32 = 2


class WideProgram:
    """Rescales accumulators by a `Wide`.

    Stream A has the lower word of the multiplier in the first of two passes, the upper word in the second. The result
    of a pass is the high product plus a carry: that of the low 31 bits (without the last two) and the result of the
    pass before.
    """

    def __init__(self, emitter: Emitter, wide: Wide, zero_point: int, act_min: int, act_max: int):
        self._emitter, self._wide, config = emitter, wide, emitter.config
        acc: Uop = {"a_source": Source.ACC_OR_BIAS, "b_source": Source.ACC_OR_BIAS}
        before = [to(0, acc, alu=Alu.ADD)]
        if wide.limit is not None:
            before += [to(0, reg_a(0), immediate(wide.limit), alu=Alu.MIN),
                       to(0, reg_a(0), immediate(-wide.limit), alu=Alu.MAX)]
        if wide.left_shift:
            before.append(to(0, reg_a(0), shifted(wide.left_shift)))
        before.append(set_to(1, 0))
        floor = Rounding.FLOOR
        body = [
            to(2, STREAM_A, reg_b(0), {"multiply": Multiply.HIGH_B, "truncate": 1}),
            to(3, STREAM_A, reg_b(0), low()),
            to(3, reg_a(3), immediate((1 << 31) - 1), shifted(-2, floor), alu=Alu.AND),
            to(3, reg_a(3), reg_b(1), shifted(-wide.low_bits, floor), alu=Alu.ADD),
            to(1, reg_a(2), reg_b(3), alu=Alu.ADD)]
        after: Uop = {**reg_a(1), **shifted(-wide.right_shift, Rounding.HALF_UP), "zero_point": zero_point, "clamp": 1,
                      "act_min": act_min, "act_max": act_max, **OUT}
        self._uops, self.body = [*before, *body, after], (len(before), len(body))
        self._step = _slot_words(config)
        #: Slots that fit in the registers.
        self._slots = max(1, config.vector_register_words // config.beats_per_acc_word)

    def fields(self, block: int, tile_slots: int) -> tuple[Code, dict[str, int], Access, Walk]:
        """Return program, fields, further access and walk of an operation on one word block; called in a scope."""
        config, first = self._emitter.config, block * self._emitter.config.block
        data = b"".join(_padded(word[first:first + config.block], config) for word in (self._wide.low, self._wide.high))
        base, access = self._emitter.constant(data, config.word_bytes)
        code = self._emitter.program(self._uops)
        fields = {**program_fields(code, self.body), "repeat1": 2, "a_type": _INT32, "a_base": base, "a_col_step": 0,
                  "a_repeat1_step": self._step, "chunk_slots": min(tile_slots, self._slots)}
        return code, fields, access, Walk(data, len(data), repeat1=self._step * config.word_bytes, type=_INT32)


def _slot_words(config: Config) -> int:
    return ceil_div(4 * config.block, config.word_bytes)


def _padded(numbers: IntArray, config: Config) -> bytes:
    return numbers.astype("<i4").tobytes().ljust(_slot_words(config) * config.word_bytes, b"\0")
