"""One lane of the vector unit: the pipeline of isa/uop.py, and the controls shared by all lanes.

Stages are numbered in cycles after the start of a beat:

    4  accumulator, registers, bias, immediate    5  stream elements, choice of the operands
    6  table                                      8  alu
    11 product                                    15 right shift
    17 zero point, clamp                          20 result
"""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.hdl import ShapeLike, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.lane.alu import AluFlags, LaneAlu
from tq_hw.hdl.lane.high_multiply import HighMultiply
from tq_hw.hdl.lane.requantize import AddClamp
from tq_hw.hdl.lane.shift import RightShift, decoded, power_of_two
from tq_hw.hdl.lane.table import LaneTable
from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.latency import STAGE_OPERANDS, STAGE_RESULT
from tq_hw.isa.uop import ShiftSource, Source

__all__ = ["Lane", "LaneControl", "STAGE_ALU", "STAGE_CLAMP", "STAGE_PRODUCT", "STAGE_RIGHT",
           "STAGE_SHIFT", "STAGE_TABLE"]

STAGE_TABLE = STAGE_OPERANDS + 2
STAGE_ALU = STAGE_TABLE + LaneTable.LATENCY_CYCLES
STAGE_PRODUCT = STAGE_ALU + LaneAlu.LATENCY_CYCLES
#: The shift of a channel or micro-operation; the factor follows in three cycles.
STAGE_SHIFT = STAGE_PRODUCT - 4
STAGE_RIGHT = STAGE_PRODUCT + HighMultiply.LATENCY_CYCLES
#: The amount of a right shift is known; the shifter takes it a cycle before x.
STAGE_AMOUNT = STAGE_SHIFT + 2
STAGE_CLAMP = STAGE_RIGHT + RightShift.LATENCY_CYCLES
assert STAGE_RESULT == STAGE_CLAMP + AddClamp.LATENCY_CYCLES

#: Every control of a lane, and the stage that takes it.
CONTROL: dict[str, tuple[int, ShapeLike]] = {
    "a_source": (STAGE_OPERANDS, 2), "b_source": (STAGE_OPERANDS, 2), "operand": (STAGE_OPERANDS, signed(32)),
    "a_table": (STAGE_TABLE, 2), "b_table": (STAGE_TABLE, 2),
    "a_used": (STAGE_TABLE + 1, 1), "b_used": (STAGE_TABLE + 1, 1), "a_inverted": (STAGE_TABLE + 1, 2),
    **{f"alu{late}": (STAGE_ALU + late, flags) for late, flags in enumerate(AluFlags)},
    "shift_source": (STAGE_SHIFT, 2), "shift": (STAGE_SHIFT, signed(6)), "shifts_left": (STAGE_SHIFT, 1),
    "by_b": (STAGE_SHIFT + 1, 1), "shifts_by_b": (STAGE_SHIFT + 1, 1), "by_power": (STAGE_SHIFT + 2, 1),
    "power_late": (STAGE_SHIFT + 3, 1),
    "by_param": (STAGE_PRODUCT - 1, 1), "multiplier": (STAGE_PRODUCT - 1, signed(32)),
    "nudge": (STAGE_PRODUCT + 1, 1), "low_product": (STAGE_PRODUCT + 3, 1), "saturate": (STAGE_PRODUCT + 3, 1),
    "rounding": (STAGE_RIGHT - 1, 2),
    "zero_point": (STAGE_CLAMP, signed(16)),
    "used": (STAGE_CLAMP + 1, 1), "clamp": (STAGE_CLAMP + 1, 1),
    "low": (STAGE_CLAMP + 1, signed(16)), "high": (STAGE_CLAMP + 1, signed(16)),
    "low_late": (STAGE_CLAMP + 2, signed(16)), "high_late": (STAGE_CLAMP + 2, signed(16)), "take": (STAGE_CLAMP + 2, 1),
    "also": (STAGE_CLAMP + 2, signed(32)),
    "table_write": (STAGE_TABLE, 1), "table_index": (STAGE_TABLE, 9), "table_entry": (STAGE_TABLE, signed(32)),
}

#: All controls, each valid at its own stage.
LaneControl = data.StructLayout({name: shape for name, (_, shape) in CONTROL.items()})


class Lane(wiring.Component):
    """Compute one element of each beat.

    Timing: `result` is valid STAGE_RESULT cycles after the beat's start, until the next beat with `take`.

    Parameters
    ----------
    odd : whether the lane's number is odd
    wide_luts : make the best of LUTs of six inputs, with more registers; the results and their timing are the same

    Members
    -------
    control : In(LaneControl), shared by all lanes
    acc, register_a, register_b, bias : In(signed(32)), stage 4
    stream_a, stream_b : In(signed(32)), stage 5; 0 where the operand is not a stream
    partner : In(signed(32)), `operand` of lane l ^ 1; operand : Out(signed(32)), a at stage 8, or its complement
    shift : In(signed(6)), stage 7; multiplier : In(signed(32)), stage 10, of the lane's channel
    result : Out(signed(32)), stage 20
    """

    control: Any
    acc: Signal
    register_a: Signal
    register_b: Signal
    bias: Signal
    stream_a: Signal
    stream_b: Signal
    partner: Signal
    operand: Signal
    shift: Signal
    multiplier: Signal
    result: Signal

    def __init__(self, *, odd: bool = False, wide_luts: bool = False) -> None:
        self._odd, self._wide_luts = odd, wide_luts
        super().__init__({
            "control": In(LaneControl),
            **{name: In(signed(32)) for name in ("acc", "register_a", "register_b", "bias", "stream_a", "stream_b",
                                                 "partner", "multiplier")},
            "shift": In(signed(6)), "operand": Out(signed(32)), "result": Out(signed(32)),
        })

    def elaborate(self, platform: object) -> Module:
        """Connect the stages."""
        m = Module()
        control = self.control
        m.submodules.table = table = LaneTable(4 if self._wide_luts else 1)
        m.submodules.alu = alu = LaneAlu(odd=self._odd, wide_luts=self._wide_luts)
        m.submodules.product = product = HighMultiply(wide_luts=self._wide_luts)
        m.submodules.right = right = RightShift()
        m.submodules.clamp = clamp = AddClamp(wide_luts=self._wide_luts)

        for name, register, other, stream, into in (
                ("a", self.register_a, self.acc, self.stream_a, table.a_in),
                ("b", self.register_b, self.bias, self.stream_b, table.b_in)):
            # An operand source that is not selected is 0, by the reset of its register; streams arrive so.
            source = control[f"{name}_source"]
            choices = []
            for of_source, value in ((Source.REGISTER, register), (Source.ACC_OR_BIAS, other),
                                     (Source.IMMEDIATE, control.operand)):
                kept = Signal(signed(32), name=f"{name}_{of_source.name.lower()}", reset_less=True)
                m.d.sync += kept.eq(Mux(source == of_source, value, 0))
                choices.append(kept)
            if self._wide_luts:
                m.d.comb += into.eq(Cat(choices, stream))
                continue
            chosen = Signal(signed(32), name=f"{name}_chosen", reset_less=True)
            m.d.sync += chosen.eq(choices[0] | choices[1] | choices[2] | stream)
            m.d.comb += into.eq(chosen)
        m.d.comb += [
            table.a_table.eq(control.a_table), table.b_table.eq(control.b_table),
            table.a_used.eq(control.a_used), table.b_used.eq(control.b_used),
            table.a_inverted.eq(control.a_inverted[self._odd]),
            table.write.eq(control.table_write), table.index.eq(control.table_index),
            table.entry.eq(control.table_entry),
            self.operand.eq(table.a),
            alu.a.eq(table.a), alu.b.eq(table.b), alu.partner.eq(self.partner),
            alu.flags0.eq(control.alu0), alu.flags1.eq(control.alu1), alu.flags2.eq(control.alu2),
        ]

        # Shift amounts arrive four cycles before the product, the channel's multiplier one cycle before it.
        shift = Signal(signed(6))
        m.d.comb += shift.eq(Mux(control.shift_source == ShiftSource.PARAM, self.shift,
                                 Mux(control.shift_source == ShiftSource.IMMEDIATE, control.shift, 0)))
        exponent, right_amount = self._amounts(m, shift, table.b[:5])
        # A factor that is not used is 0; without a product `control.multiplier` is 1.
        b_late = Signal(32, reset_less=True)
        m.d.sync += b_late.eq(Mux(control.by_b, table.b, 0))
        b_or_power = self._b_or_power(m, b_late, exponent)
        factor = control.multiplier | b_or_power | self.multiplier & control.by_param.replicate(32)
        # 2^31 is not negative.
        multiplier = Signal(signed(33), reset_less=True)
        m.d.sync += multiplier.eq(Cat(factor[:32], factor[31] & ~control.power_late))
        m.d.comb += [
            product.x.eq(alu.x), product.multiplier.eq(multiplier),
            product.nudge.eq(control.nudge),
            product.low.eq(control.low_product), product.saturate.eq(control.saturate),
            right.x.eq(product.y), right.rounding.eq(control.rounding),
            right.amount.eq(delayed(m, right_amount, STAGE_RIGHT - 1 - STAGE_AMOUNT, "right_amount")),
            clamp.x.eq(right.y), clamp.up.eq(right.up), clamp.zero_point.eq(control.zero_point),
            clamp.used.eq(control.used), clamp.clamp.eq(control.clamp), clamp.also.eq(control.also),
            clamp.low.eq(control.low), clamp.high.eq(control.high), clamp.low_late.eq(control.low_late),
            clamp.high_late.eq(control.high_late), clamp.take.eq(control.take),
            self.result.eq(clamp.y),
        ]
        return m

    def _amounts(self, m: Module, shift: Value, b: Value) -> tuple[Value, Value]:
        """Return the exponent of a left shift and the amount of a right shift, by `shift` or a cycle later by b."""
        control = self.control
        exponent, right_amount = (Signal(5, name=name, reset_less=True) for name in ("exponent", "right_amount"))
        by_operand = delayed(m, control.shift_source == ShiftSource.SHIFT_B, 1, "by_operand")
        negative, to_right = shift[5], shift[5] & ~control.shifts_left
        if self._wide_luts:
            size = delayed(m, ((shift ^ negative.replicate(6)) + negative)[:5], 1, "size")
            left = size & delayed(m, ~negative, 1, "to_left").replicate(5)
            right = size & delayed(m, to_right, 1, "to_right").replicate(5)
        else:
            left, right = (Signal(5, name=name, reset_less=True) for name in ("left_amount", "right_or_none"))
            m.d.sync += [left.eq(Mux(negative, 0, shift[:5])), right.eq(Mux(to_right, -shift, 0))]
        m.d.sync += [exponent.eq(Mux(control.shifts_by_b, b, left)), right_amount.eq(Mux(by_operand, b, right))]
        return exponent, right_amount

    def _b_or_power(self, m: Module, b: Value, exponent: Value) -> Value:
        """Return b or the power of two, of which one is 0, one cycle later."""
        low, high = decoded(exponent, self.control.by_power)
        if self._wide_luts:
            parts = (delayed(m, Cat(bits), 1, name) for bits, name in ((low, "low"), (high, "high")))
            either: Value = delayed(m, b, 1, "b") | power_of_two(*parts)
            return either
        late = Signal(32, name="b_or_power", reset_less=True)
        m.d.sync += late.eq(b | power_of_two(low, high))
        return late
