"""Programs of packed float32: each result is the nearest float32 number, for numbers of all magnitudes."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.programs.evaluated import evaluated, registers_after
from tq_hw.compiler.programs.in_pairs import in_pairs
from tq_hw.compiler.programs.packed_division import quotient_program, quotient_table, root_program, root_table
from tq_hw.compiler.programs.packed_float import (
    integer_program,
    product_program,
    reduce_program,
    round_program,
    sum_program,
)
from tq_hw.compiler.programs.packed_order import (
    extreme_program,
    float_program,
    key_program,
    number_program,
    sign_program,
)
from tq_hw.sim.golden.packed_float import packed, unpacked

COUNT = 1 << 15
#: Approximate exponents of the last bits: usual ones, and those of products below the smallest numbers.
REACHES = ((-40, 20), (-90, -60), (-110, -70), (-150, 10))


def found(uops: list[dict[str, int]], *numbers: np.ndarray, table: np.ndarray | None = None) -> np.ndarray:
    """Run a program on float32 numbers; its results stay packed."""
    return evaluated(uops, *(packed(each) for each in numbers), tables=table)


def numbers(seed: int, low: int, high: int) -> np.ndarray:
    """Of all magnitudes; some have few bits, some are powers of two, some are 0."""
    rng = np.random.default_rng(seed)
    made = np.ldexp(rng.integers(-(1 << 24), 1 << 24, COUNT), rng.integers(low, high, COUNT))
    few = COUNT // 8
    made[:few] = np.ldexp(rng.integers(-4096, 4096, few), rng.integers(low, high, few))
    made[few:2 * few] = np.ldexp(rng.choice([-1.0, 0.0, 1.0], few), rng.integers(low, high, few))
    return made.astype(np.float32)


def positive(seed: int, low: int, high: int) -> np.ndarray:
    made = np.abs(numbers(seed, low, high))
    return np.where(made == 0, np.float32(1), made)


def same(made: np.ndarray, want: np.ndarray) -> None:
    assert want.dtype == np.float32
    np.testing.assert_array_equal(unpacked(made), want)
    # Each number has only one form.
    np.testing.assert_array_equal(made, packed(want))


@pytest.mark.parametrize("reach", [*REACHES, (-173, -140)])
def test_every_number_is_itself(reach: tuple[int, int]) -> None:
    each = numbers(0, *reach)
    np.testing.assert_array_equal(unpacked(packed(each)), each)


@pytest.mark.parametrize("reach", [*REACHES, (-173, -140), (60, 80)])
def test_float32_of_numbers(reach: tuple[int, int]) -> None:
    """Bits of float32, including those of the smallest numbers; 0 is positive."""
    each = numbers(0, *reach)
    each[each == 0] = 0
    powers = np.ldexp(np.float32(1), np.arange(-149, 104)).astype(np.float32)
    for every in (each, powers, -powers, -powers[:23] * 3):
        np.testing.assert_array_equal(found(float_program(), every).view(np.uint32), every.view(np.uint32))


def test_signs_of_products() -> None:
    """By the signs of two numbers, also where the product is 0."""
    a, b = numbers(6, -40, 20), numbers(7, -40, 20)
    negative = found(sign_program(), a, b)
    np.testing.assert_array_equal(negative, np.where((a < 0) != (b < 0), -(1 << 31), 0))
    products = (a * np.where(b == 0, np.float32(0), b)).astype(np.float32)
    made = evaluated(float_program(signed=True), packed(products), negative).view(np.float32)
    np.testing.assert_array_equal(made, products)
    np.testing.assert_array_equal(np.signbit(made), (a < 0) != (b < 0))


@pytest.mark.parametrize("reach", [*REACHES, (-173, -140)])
@pytest.mark.parametrize("relu", [False, True])
def test_sums(reach: tuple[int, int], relu: bool) -> None:
    """Ties, cancellation down to 0, numbers of very different magnitude."""
    a, rng = numbers(1, *reach), np.random.default_rng(2)
    near = np.nextafter(-a, rng.choice(np.array([-9e9, 9e9], np.float32), a.shape).astype(np.float32))
    half = np.ldexp(rng.integers(-7, 8, a.shape), np.frexp(a)[1] - 26).astype(np.float32)
    for b in (numbers(3, *reach), near, -near, a, -a, half, np.zeros_like(a)):
        for is_difference in (False, True):
            uops = sum_program(difference=is_difference, relu=relu)
            for one, other in ((a, b), (b, a)):
                want = one - other if is_difference else one + other
                same(found(uops, one, other), np.maximum(want, np.float32(0)) if relu else want)


@pytest.mark.parametrize("reach", [*REACHES, (-173, -140), (-2, 2)])
@pytest.mark.parametrize("order", [list, in_pairs])
def test_sums_of_many(reach: tuple[int, int], order: Callable[[list[dict[str, int]]], list[dict[str, int]]]) -> None:
    """In sequence, each one rounded; some reach 0 and continue."""
    terms = [numbers(20 + at, *reach) for at in range(6)]
    terms[3][::3], terms[5][::5] = -terms[2][::3], -sum(terms[:5], np.zeros(COUNT, np.float32))[::5]
    before, body, after = map(order, reduce_program())
    state, _ = registers_after(before, terms[0])
    want = np.zeros(COUNT, np.float32)
    for term in terms:
        state, _ = registers_after(body, packed(term), registers=state)
        want = want + term
    made = registers_after(after, terms[0], registers=state)[1]
    assert made is not None
    same(made, want + np.float32(0))


@pytest.mark.parametrize("reach", REACHES)
def test_products(reach: tuple[int, int]) -> None:
    a, b = numbers(4, *reach), numbers(5, *reach)
    with np.errstate(under="ignore"):
        for other in (a, b, -b):
            same(found(product_program(relu=False), a, other), a * other)
            same(found(product_program(relu=True), a, other), np.maximum(a * other, np.float32(0)))


@pytest.mark.parametrize("reach", REACHES)
def test_quotients(reach: tuple[int, int]) -> None:
    """Also divisions by counts, as in means."""
    a, divisors = numbers(6, *reach), positive(7, -60, -20)
    for b in (divisors, np.random.default_rng(8).integers(1, 5000, COUNT).astype(np.float32), np.abs(a) + divisors):
        with np.errstate(under="ignore", over="ignore"):
            want = a / b
        inside = np.abs(want) < 2.0**100
        same(found(quotient_program(), a[inside], b[inside], table=quotient_table()), want[inside])


@pytest.mark.parametrize("reach", REACHES)
def test_roots(reach: tuple[int, int]) -> None:
    """Squares and their neighbours, among others."""
    some = positive(9, *reach)
    squares = np.square(np.random.default_rng(10).integers(1, 4096, COUNT)).astype(np.float32)
    for a in (some, squares, np.nextafter(squares, np.float32(0)), np.nextafter(squares, np.float32(9e9))):
        same(found(root_program(reciprocal=True), a, table=root_table()), np.float32(1) / np.sqrt(a))
        same(found(root_program(reciprocal=False), a, table=root_table()), np.sqrt(a))
    zero = np.zeros(4, np.float32)
    same(found(root_program(reciprocal=False), zero, table=root_table()), zero)


def of_fractions(exponent: int, fractions: np.ndarray) -> np.ndarray:
    """Return the numbers of a biased exponent with 23 bits of fraction."""
    return ((exponent << 23) + fractions).astype(np.int32).view(np.float32)


def test_reciprocal_roots_with_the_largest_errors_before_the_last_step() -> None:
    """Of these numbers the reciprocal was two less than the estimate."""
    for exponent in (1, 63, 127, 191, 229):
        a = of_fractions(exponent, np.array([0x125EF, 0x125EE, 0x125F0]))
        same(found(root_program(reciprocal=True), a, table=root_table()), np.float32(1) / np.sqrt(a))


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [126, 127])
def test_every_root(exponent: int) -> None:
    for first in range(0, 1 << 23, 1 << 19):
        a = of_fractions(exponent, np.arange(first, first + (1 << 19)))
        same(found(root_program(reciprocal=True), a, table=root_table()), np.float32(1) / np.sqrt(a))
        same(found(root_program(reciprocal=False), a, table=root_table()), np.sqrt(a))


@pytest.mark.parametrize("reach", [*REACHES, (-173, -140)])
def test_order(reach: tuple[int, int]) -> None:
    a, b = numbers(11, *reach), numbers(12, *reach)
    keys = evaluated(key_program(), packed(a))
    np.testing.assert_array_equal(np.sort(a), a[np.argsort(keys, kind="stable")])
    np.testing.assert_array_equal(evaluated(number_program(), keys), packed(a))
    for other in (b, a, -a, np.zeros_like(a)):
        same(found(extreme_program(least=False), a, other), np.maximum(a, other))
        same(found(extreme_program(least=True), a, other), np.minimum(a, other))


def test_integers() -> None:
    each = np.arange(-(1 << 15), 1 << 15)
    same(evaluated(integer_program(), each), each.astype(np.float32))


@pytest.mark.parametrize("reach", [(-30, 8), (-26, -8), (-12, -9), (-173, -140), (40, 80)])
def test_rounds_to_int16(reach: tuple[int, int]) -> None:
    """Halves, their neighbours, and numbers out of range."""
    each = numbers(9, *reach)
    halves = np.random.default_rng(10).integers(-(1 << 17), 1 << 17, COUNT).astype(np.float32) / np.float32(2)
    for number in (each, halves, np.nextafter(halves, np.float32(0)), np.nextafter(halves, np.float32(9e9)),
                   np.nextafter(halves, np.float32(-9e9))):
        wide = number.astype(np.float64)
        want = np.clip(np.copysign(np.floor(np.abs(wide) + 0.5), wide), -(1 << 15), (1 << 15) - 1)
        np.testing.assert_array_equal(evaluated(round_program(), packed(number), int16=True), want.astype(np.int64))
