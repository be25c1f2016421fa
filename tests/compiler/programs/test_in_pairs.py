"""Reordered micro-operations give the same registers and outputs, in no more cycles."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.programs.evaluated import registers_after
from tq_hw.compiler.cost.operation_cycles import chunk_runs
from tq_hw.compiler.programs.in_pairs import in_pairs, waiting_cycles
from tq_hw.compiler.programs.packed_division import quotient_program, root_program
from tq_hw.compiler.programs.packed_float import codes_program, product_program, sum_program
from tq_hw.compiler.programs.words import Uop, immediate_a, reg_a, reg_b, to
from tq_hw.isa.config import PRESETS
from tq_hw.isa.uop import Alu, Destination, Source

PROGRAMS: dict[str, Callable[[], list[Uop]]] = {
    "sum": lambda: sum_program(difference=True, relu=True), "product": lambda: product_program(relu=False),
    "quotient": quotient_program, "root": lambda: root_program(reciprocal=True),
    "codes": lambda: codes_program(-7, 1 << 30, -3, 5)}


def some(rng: random.Random, count: int) -> list[Uop]:
    """Micro-operations with operands of all kinds, some of which write outputs."""
    def uop() -> Uop:
        made = to(rng.randrange(8), alu=rng.choice([Alu.ADD, Alu.SUB, Alu.MAX, Alu.AND]))
        for name in "ab":
            made[f"{name}_source"] = rng.choice([Source.REGISTER, Source.REGISTER, Source.STREAM, Source.IMMEDIATE])
            made[f"{name}_register"] = rng.randrange(8)
        return made | {"immediate": rng.randrange(-9, 9)}
    return [uop() for _ in range(count)]


def counted(uops: list[Uop]) -> int:
    """Cycles by the cost model of one beat."""
    f = {"first": 0, "last": len(uops) - 1, "body_first": len(uops), "body_last": len(uops) - 1, "repeat1": 1,
         "repeat2": 1}
    return chunk_runs(f, uops, 1, [1] * len(uops), PRESETS["n16"])[1]


def same(uops: list[Uop], tables: np.ndarray | None = None) -> list[Uop]:
    made, rng = in_pairs(uops), np.random.default_rng(0)
    assert sorted(map(str, made)) == sorted(map(str, uops))
    streams = rng.integers(-(1 << 31), 1 << 31, (2, 50)).astype(np.int32)
    registers = list(rng.integers(-(1 << 31), 1 << 31, (8, 50)).astype(np.int32))
    want, out = registers_after(uops, *streams, registers=registers, tables=tables)
    got, found = registers_after(made, *streams, registers=registers, tables=tables)
    assert (out is None) == (found is None)
    if out is None:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_array_equal(found, out)
    assert waiting_cycles(made) <= waiting_cycles(uops)
    return made


@pytest.mark.parametrize("seed", range(100))
def test_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    uops = some(rng, rng.randrange(1, 40))
    same(uops)
    same([*uops, {**reg_a(3), **reg_b(4), "alu": Alu.SUB, "destination": Destination.OUTPUT}])


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_wait_less(name: str) -> None:
    uops = PROGRAMS[name]()
    made = same(uops, np.arange(512))
    assert counted(made) < counted(uops)
    for each in (uops, made):
        assert abs(counted(each) - waiting_cycles(each)) <= 2


def test_outputs_and_reductions_keep_their_order() -> None:
    uops = [to(0, immediate_a(1)), {**reg_a(0), "destination": Destination.REDUCE, "d_register": 1},
            {**reg_a(0), "destination": Destination.OUTPUT}, to(0, immediate_a(2)),
            {**reg_a(0), "destination": Destination.OUTPUT, "zero_point": 1}]
    made = in_pairs(uops)
    assert [uops.index(uop) for uop in made if uop.get("destination")] == [1, 2, 4]
    assert made.index(uops[3]) > made.index(uops[2])
