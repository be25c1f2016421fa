"""Zero points that a look-up subtracts: the same results for every code, and cases where this is not allowed."""

from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pytest

from tq_hw.compiler.programs.chain import Node
from tq_hw.compiler.programs.look_ups import with_offsets
from tq_hw.isa.uop import Alu, Multiply, Rounding, ShiftSource
from tq_hw.sim.executor.uop import evaluate, look_up

Ints = npt.NDArray[np.int32]
CODES = np.arange(-128, 128, dtype=np.int32)
STREAMS = [x.reshape(-1) for x in np.meshgrid(CODES, CODES[::5])]
TABLE = np.random.default_rng(5).integers(-128, 128, 512, dtype=np.int32) << 24
LEAST = -(1 << 31)


def _look_up(stream: int = 0) -> Node:
    return Node({"a_table": 1, "immediate": 0, "alu": Alu.PASS, "multiply": Multiply.SHL_B,
                 "shift_source": ShiftSource.IMMEDIATE, "shift": -24, "rounding": Rounding.FLOOR}, stream)


def _minus(node: Node, zero_point: int) -> Node:
    return Node({"alu": Alu.SUB, "immediate": zero_point, "shift_source": ShiftSource.IMMEDIATE, "shift": 0}, node)


def _from(zero_point: int, node: "Node | int") -> Node:
    return Node({"alu": Alu.SUB, "immediate": zero_point}, None, node)


def _product(a: Node, b: Node) -> Node:
    return Node({"alu": Alu.PASS, "multiply": Multiply.LOW_B}, a, b)


def _scaled(node: Node, multiplier: int = -1455921152, **fields: int) -> Node:
    return Node({"alu": Alu.PASS, "multiply": Multiply.HIGH_IMMEDIATE, "immediate": multiplier, "zero_point": -2,
                 "shift_source": ShiftSource.IMMEDIATE, "shift": -5, "clamp": 1, "act_min": -128, "act_max": 127,
                 **fields}, node)


def _result(node: Node) -> Ints:
    uop: Mapping[str, int] = defaultdict(int, node.uop)

    def operand(of: "Node | int | None", table: int) -> Ints:
        if of is None:
            return look_up(TABLE, table, np.full(len(STREAMS[0]), uop["immediate"], np.int32))
        return look_up(TABLE, table, STREAMS[of] if isinstance(of, int) else _result(of))
    return evaluate(uop, operand(node.a, uop["a_table"]), operand(node.b, uop["b_table"]), uop["immediate"],
                    uop["shift"], int16_output=False)


def _both() -> list[Node]:
    """Differences of each sign in products; another stream's difference stays."""
    one, other = _look_up(), _look_up(1)
    plus, minus, third = _minus(one, -128), _from(7, other), _from(-9, 0)
    first, second = _product(plus, minus), _product(plus, third)
    ends = [_scaled(first), _scaled(second)]
    return [one, other, plus, minus, third, first, second, *ends,
            Node({"alu": Alu.ADD, "clamp": 1, "act_min": -128, "act_max": 127}, *ends)]


def _square() -> list[Node]:
    """Both operands change their sign, the product does not."""
    one = _look_up()
    minus = _from(-128, one)
    square = _product(minus, minus)
    return [one, minus, square, _scaled(square, 1 << 30)]


def _two_signs() -> list[Node]:
    """Differences of both signs of one look-up, as operands of one product."""
    one = _look_up()
    plus, minus = _minus(one, 3), _from(3, one)
    product = _product(plus, minus)
    return [one, plus, minus, product, _scaled(product)]


@pytest.mark.parametrize(("make", "fewer"), [(_both, 2), (_square, 1), (_two_signs, 2)])
def test_the_same_results_with_fewer(make: Callable[[], list[Node]], fewer: int) -> None:
    nodes = make()
    wanted = _result(nodes[-1])
    left = with_offsets(nodes)
    assert len(left) == len(nodes) - fewer
    assert left == [node for node in nodes if node in left]
    np.testing.assert_array_equal(_result(left[-1]), wanted)
    assert len(np.unique(wanted)) > 20


def _stays(name: str) -> list[Node]:
    """A look-up and nodes that need it."""
    one = _look_up()
    plus, turned = _minus(one, 3), _from(3, one)
    other = Node({"alu": Alu.PASS}, 1)
    product = _product(turned, other)
    match name:
        case "two zero points":
            return [one, plus, _minus(one, 4)]
        case "also needed as it is":
            return [one, plus, _product(plus, one)]
        case "the other sign is a result":
            return [one, turned]
        case "the other sign is added":
            return [one, turned, Node({"alu": Alu.ADD, "immediate": 5}, turned)]
        case "a product is a result":
            return [one, turned, other, product]
        case "the least multiplier":
            return [one, turned, other, product, _scaled(product, LEAST)]
        case "a product that is cut":
            return [one, turned, other, product, _scaled(product, truncate=1)]
        case "it is clamped":
            one.uop = {**one.uop, "clamp": 1, "act_min": -5, "act_max": 5}
            return [one, plus]
    assert name == "too far"
    return [one, _minus(one, 40000)]


@pytest.mark.parametrize("name", [
    "two zero points", "also needed as it is", "the other sign is a result", "the other sign is added",
    "a product is a result", "the least multiplier", "a product that is cut", "it is clamped", "too far"])
def test_what_stays(name: str) -> None:
    nodes = _stays(name)
    before = [dict(node.uop) for node in nodes]
    assert with_offsets(nodes) == nodes
    assert [dict(node.uop) for node in nodes] == before
