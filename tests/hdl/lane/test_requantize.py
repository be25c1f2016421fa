"""The requantizer's steps against plain integers, for every rounding and the corners of int32."""

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from amaranth import Module, Mux, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_bench import Case, rtl

from tq_hw.hdl.lane.alu import LaneAlu, a_inverted, alu_flags
from tq_hw.hdl.lane.high_multiply import HighMultiply
from tq_hw.hdl.lane.requantize import AddClamp, Requantize
from tq_hw.hdl.lane.shift import RightShift, decoded, power_of_two
from tq_hw.isa.uop import Alu, Rounding
from tq_hw.sim.golden.arith import (
    INT32_MAX,
    INT32_MIN,
    multiply_by_quantized_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)

CORNERS = (0, 1, -1, 2, -2, 3, 255, -256, 1 << 16, (1 << 17) - 1, 1 << 17, -(1 << 17), 1 << 30, -(1 << 30),
           INT32_MAX, INT32_MAX - 1, INT32_MIN, INT32_MIN + 1)
#: Steps of machines for LUTs of four inputs, and of six.
LUTS = pytest.mark.parametrize("wide_luts", [False, True], ids=["four", "six"])
INT32 = st.one_of(st.sampled_from(CORNERS), st.integers(INT32_MIN, INT32_MAX))


def wrap(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def round_shift(x: int, amount: int, rounding: int) -> int:
    if rounding == Rounding.HALF_AWAY:
        return int(rounding_divide_by_pot(x, amount))
    half = 1 << amount >> 1 if rounding == Rounding.HALF_UP else 0
    return (x + half) >> amount


def ref_requantize(x: int, multiplier: int, right_shift: int, low: int, truncate: int, rounding: int, zero_point: int,
                   act_min: int, act_max: int) -> int:
    if low:
        x = wrap(x * multiplier)
    elif truncate:
        x = wrap(x * multiplier >> 31)
    else:
        x = int(saturating_rounding_doubling_high_mul(x, multiplier))
    x = wrap(round_shift(x, right_shift, rounding) + zero_point)
    return min(max(x, act_min), act_max)


def check(cases: Sequence[Case], rtl: Callable[[Sequence[Case]], list[int]], ref: Callable[..., int]) -> None:
    for case, found in zip(cases, rtl(cases), strict=True):
        assert found == ref(**case), case


def requantize_cases(count: int, seed: int) -> list[Case]:
    rng = random.Random(seed)

    def int32() -> int:
        return rng.choice(CORNERS) if rng.random() < 0.3 else wrap(rng.getrandbits(rng.choice((8, 16, 24, 32))))

    return [{"x": int32(), "multiplier": int32(), "right_shift": rng.randrange(32), "low": rng.random() < 0.1,
             "truncate": rng.random() < 0.2, "rounding": rng.randrange(3), "zero_point": rng.randint(-32768, 32767),
             "act_min": rng.choice((-128, -32768, 0)), "act_max": rng.choice((127, 32767, 6))}
            for _ in range(count)]


def test_takes_the_latency_it_states_and_gives_one_result_a_cycle() -> None:
    assert Requantize.LATENCY_CYCLES == 10
    cases = requantize_cases(50, seed=7)
    assert len(rtl(Requantize(), cases)) == 50


def test_requantizes_random_operands() -> None:
    check(requantize_cases(1000, seed=1), lambda cases: rtl(Requantize(), cases), ref_requantize)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.fixed_dictionaries({
    "x": INT32, "multiplier": INT32, "right_shift": st.integers(0, 31), "low": st.booleans(), "truncate": st.booleans(),
    "rounding": st.sampled_from(list(map(int, Rounding))), "zero_point": st.integers(-32768, 32767),
    "act_min": st.integers(-32768, 0), "act_max": st.integers(0, 32767)}), min_size=1, max_size=40))
def test_requantizes_any_operands(cases: list[Case]) -> None:
    check(cases, lambda c: rtl(Requantize(), c), ref_requantize)


def test_equals_multiply_by_quantized_multiplier() -> None:
    cases = requantize_cases(300, seed=2)
    for case in cases:
        case |= {"low": 0, "truncate": 0, "rounding": int(Rounding.HALF_AWAY)}
    x, multiplier, right_shift, zero_point, low, high = (
        np.array([case[name] for case in cases])
        for name in ("x", "multiplier", "right_shift", "zero_point", "act_min", "act_max"))
    wanted = multiply_by_quantized_multiplier(x, multiplier, -right_shift) + zero_point
    wanted = np.clip((wanted + (1 << 31)) % (1 << 32) - (1 << 31), low, high)
    assert rtl(Requantize(), cases) == wanted.tolist()


def test_high_product_of_all_corners() -> None:
    cases = [{"x": x, "multiplier": y, "nudge": nudge, "low": 0, "saturate": nudge}
             for x in CORNERS for y in CORNERS for nudge in (0, 1)]

    def ref(x: int, multiplier: int, nudge: int, low: int, saturate: int) -> int:
        return int(saturating_rounding_doubling_high_mul(x, multiplier)) if nudge else wrap(x * multiplier >> 31)

    check(cases, lambda c: rtl(HighMultiply(), c, {"nudge": 1, "low": 3, "saturate": 3}), ref)


def test_saturates_the_one_product_that_overflows() -> None:
    case = {"x": INT32_MIN, "multiplier": INT32_MIN, "nudge": 1, "low": 0, "saturate": 1}
    assert rtl(HighMultiply(), [case], {"nudge": 1, "low": 3, "saturate": 3}) == [INT32_MAX]


@LUTS
def test_low_product_of_all_corners(wide_luts: bool) -> None:
    cases = [{"x": x, "multiplier": y, "nudge": 0, "low": 1, "saturate": saturate}
             for x in CORNERS for y in (*CORNERS, *(1 << bit for bit in range(32))) for saturate in (0, 1)]

    def ref(x: int, multiplier: int, nudge: int, low: int, saturate: int) -> int:
        product = x * multiplier
        return min(max(product, INT32_MIN), INT32_MAX) if saturate else wrap(product)

    check(cases, lambda c: rtl(HighMultiply(wide_luts=wide_luts), c, {"nudge": 1, "low": 3, "saturate": 3}), ref)


class RoundedShift(wiring.Component):
    """RightShift with what is to be added."""

    LATENCY_CYCLES = RightShift.LATENCY_CYCLES

    def __init__(self) -> None:
        super().__init__({"amount": In(5), "rounding": In(2), "x": In(signed(32)), "y": Out(signed(32))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.shift = shift = RightShift()
        m.d.comb += [*(getattr(shift, name).eq(getattr(self, name)) for name in ("amount", "rounding", "x")),
                     self.y.eq(shift.y + shift.up)]
        return m


@pytest.mark.parametrize(("rounding", "positive", "negative"), [
    (Rounding.HALF_AWAY, 2, -2), (Rounding.HALF_UP, 2, -1), (Rounding.FLOOR, 1, -2)])
def test_rounds_three_halves(rounding: Rounding, positive: int, negative: int) -> None:
    cases = [{"x": x, "amount": 1, "rounding": int(rounding)} for x in (3, -3)]
    assert rtl(RoundedShift(), cases, {"amount": -1, "rounding": -1}) == [positive, negative]


def test_right_shift_by_every_amount_at_every_tie() -> None:
    cases = [{"x": wrap(x), "amount": n, "rounding": int(rounding)} for rounding in Rounding for n in range(32)
             for half in [1 << n >> 1] for x in (half, -half, half - 1, -half - 1, 3 * half, -3 * half, *CORNERS)]
    check(cases, lambda c: rtl(RoundedShift(), c, {"amount": -1, "rounding": -1}), round_shift)


class PowerOfTwo(wiring.Component):
    """`power_of_two` in a register."""

    LATENCY_CYCLES = 1

    def __init__(self) -> None:
        super().__init__({"exponent": In(5), "used": In(1), "y": Out(32)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.sync += self.y.eq(power_of_two(*decoded(self.exponent, self.used)))
        return m


def test_every_power_of_two() -> None:
    cases = [{"exponent": exponent, "used": used} for exponent in range(32) for used in (0, 1)]
    check(cases, lambda c: rtl(PowerOfTwo(), c), lambda exponent, used: used << exponent)


#: Cycles after x in which AddClamp takes its other inputs.
WHEN = {"low": 1, "high": 1, "used": 1, "clamp": 1, "low_late": 2, "high_late": 2, "also": 2, "take": 2}


@LUTS
def test_clamps_after_a_wrapping_sum(wide_luts: bool) -> None:
    cases = [{"x": x, "up": up, "zero_point": z, "low": low, "high": high, "used": 1, "clamp": clamp,
              "low_late": low, "high_late": high, "also": 0, "take": 1}
             for x in CORNERS for z in (0, 1, -1, 32767, -32768) for low, high in ((-128, 127), (-32768, 32767))
             for clamp in (0, 1) for up in (0, 1)]

    def ref(x: int, up: int, zero_point: int, low: int, high: int, clamp: int, **_: int) -> int:
        x = wrap(x + up + zero_point)
        return min(max(x, low), high) if clamp else x

    check(cases, lambda c: rtl(AddClamp(wide_luts=wide_luts), c, WHEN), ref)


def test_a_number_for_all_lanes_comes_where_no_sum_is_used() -> None:
    cases = [{"x": x, "zero_point": 5, "low": -1, "high": 1, "used": 0, "clamp": 0, "also": also, "take": 1}
             for x in CORNERS for also in CORNERS]
    check(cases, lambda c: rtl(AddClamp(), c, WHEN), lambda also, **_: also)


def test_clamped_value_stays_until_the_next_is_taken() -> None:
    cases = [{"x": x, "zero_point": 0, "used": 1, "clamp": 0, "take": take}
             for x, take in ((5, 1), (6, 0), (7, 0), (8, 1))]
    assert rtl(AddClamp(), cases, WHEN) == [5, 5, 5, 8]


def ref_alu(a: int, b: int, partner: int, alu: int) -> int:
    return wrap({
        Alu.PASS: lambda: a, Alu.ADD: lambda: a + b, Alu.SUB: lambda: a - b, Alu.MAX: lambda: max(a, b),
        Alu.MIN: lambda: min(a, b),
        Alu.CLZ: lambda: 32 - (a + b & 0xFFFFFFFF).bit_length(), Alu.LESS: lambda: int(a < b),
        Alu.LESS_EQUAL: lambda: int(a <= b), Alu.EQUAL: lambda: int(a == b), Alu.NOT_EQUAL: lambda: int(a != b),
        Alu.AND: lambda: a & b, Alu.SELECT_NEGATIVE: lambda: a if a >= 0 else b,
        Alu.PAIR_DIFFERENCE: lambda: partner - a,
    }[Alu(alu)]())


class DecodedAlu(wiring.Component):
    """The ALU after its decoder, which the vector unit has once for all lanes."""

    LATENCY_CYCLES = LaneAlu.LATENCY_CYCLES

    def __init__(self, odd: bool, wide_luts: bool) -> None:
        self._odd, self._wide_luts = odd, wide_luts
        super().__init__({**{name: In(signed(32)) for name in ("a", "b", "partner")},
                          **{f"alu{late}": In(4) for late in range(3)}, "x": Out(signed(32))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.alu = alu = LaneAlu(odd=self._odd, wide_luts=self._wide_luts)
        inverted = a_inverted(self.alu0)
        m.d.comb += [alu.b.eq(self.b), alu.a.eq(Mux(inverted[self._odd], ~self.a, self.a)),
                     alu.partner.eq(Mux(inverted[not self._odd], ~self.partner, self.partner))]
        for late in range(3):
            flags = alu_flags(getattr(self, f"alu{late}"))[late]
            m.d.comb += getattr(alu, f"flags{late}").as_value().eq(flags)
        m.d.comb += self.x.eq(alu.x)
        return m


@LUTS
@pytest.mark.parametrize("odd", [False, True], ids=["even", "odd"])
@pytest.mark.parametrize("alu", list(Alu), ids=lambda alu: alu.name)
def test_alu_operation(alu: Alu, odd: bool, wide_luts: bool) -> None:
    rng = random.Random(int(alu))
    operands = [(a, b) for a in CORNERS for b in (0, 1, -1, 31, 12, INT32_MAX, INT32_MIN)]
    operands += [(wrap(rng.getrandbits(32)) >> rng.randrange(32), rng.randrange(64)) for _ in range(60)]
    operands += [(a, a) for a in CORNERS]
    cases = [{"a": a, "b": b, "partner": rng.choice(CORNERS), "alu": int(alu)} for a, b in operands]
    spread = [{k: v for k, v in case.items() if k != "alu"} | {f"alu{i}": case["alu"] for i in range(3)}
              for case in cases]
    found = rtl(DecodedAlu(odd, wide_luts), spread, {"alu1": 1, "alu2": 2}, "x")
    check(cases, lambda _: found, ref_alu)
