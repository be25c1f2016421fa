"""The rule for multipliers agrees with the elaborated design, in every product that no constant reduces to a shift.

Yosys maps each product of nine bits or more to multipliers of 18 x 18 bits, also with an operand that is a negative
constant or no power of two; with the latter it sometimes maps narrower products, too. So a product that the rule does
not count is an error before synthesis.
"""

import importlib
import re
from typing import Any

import pytest
from amaranth.hdl import Value

from tq_hw.boards.resources.memories import multipliers
from tq_hw.hdl.array.unit import ArrayUnit
from tq_hw.hdl.control.fetch import Fetch
from tq_hw.hdl.dma.load import LoadUnit
from tq_hw.hdl.dma.store import StoreUnit
from tq_hw.hdl.vector.unit import VectorUnit
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

rtlil: Any = importlib.import_module("amaranth.back.rtlil")
UNITS: dict[str, Any] = {"array": ArrayUnit, "vector": VectorUnit, "load": LoadUnit, "store": StoreUnit, "fetch": Fetch}
#: Least bits of a result; bits of a multiplier's operands.
LEAST_BITS, OPERAND_BITS = 9, {"ecp5": (18, 18), "xc7": (25, 18)}
#: Words of several blocks of channels, sizes that are no powers of two, all options.
CONFIGS = (Config("coded", 4, 20, 2, 64 << 10, compressed_weights=1),
           Config("sub_blocks", 9, 3, 3, 16 << 10, acc_words=16, bus_bytes=4),
           Config("three_lanes", 10, 12, 3, 32 << 10), Config("three_beats", 11, 3, 1, 16 << 10),
           Config("options", 7, 2, 2, 16 << 10, acc_words=16, acc_open=4, activation_lanes=1, bus_bytes=16))
PACKED = (Config("packed", 16, 4, 1, 32 << 10, dsp_packing=2), Config("packed_odd", 9, 3, 1, 16 << 10, dsp_packing=2))


def products(unit: Any) -> list[str]:
    """Return the product cells of a unit, as text."""
    ports = [Value.cast(value) for _path, _member, value in unit.signature.flatten(unit)]
    return re.findall(r"cell \$mul \S+\n(.*?)\n  end", rtlil.convert(unit, ports=ports), re.DOTALL)


def count_multipliers(cells: list[str], family: str = "ecp5") -> int:
    """Return how many multipliers synthesis makes of the cells that `products` returns."""
    widest, other = OPERAND_BITS[family]
    count = 0
    for cell in cells:
        bits = {port: int(number) for port, number in re.findall(r"([ABY])_WIDTH (\d+)", cell)}
        constants = [int(text, 2) for text in re.findall(r"connect \\[AB] \d+'([01]+)\n", cell)]
        if (bits["Y"] >= LEAST_BITS or constants and min(bits["A"], bits["B"]) > 1) and not any(
                constant & constant - 1 == 0 for constant in constants):
            most, least = max(bits["A"], bits["B"]), min(bits["A"], bits["B"])
            count += ceil_div(most, widest) * ceil_div(least, other)
    return count


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_the_rule_counts_every_product(config: Config, unit: str) -> None:
    assert count_multipliers(products(UNITS[unit](config))) == multipliers(config, "ecp5").get(unit, 0)


@pytest.mark.parametrize("config", PACKED, ids=lambda config: config.name)
def test_two_products_share_a_multiplier_of_25_bits(config: Config) -> None:
    counts = {family: multipliers(config, family)["array"] for family in OPERAND_BITS}
    found = products(ArrayUnit(config))
    assert counts == {family: count_multipliers(found, family) for family in OPERAND_BITS}
    cells = -(-config.rows // 2) * config.cols
    assert counts == {"ecp5": 2 * cells, "xc7": cells}
