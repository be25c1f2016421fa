"""How zero points of a product of matrices are taken off: by the array, or by sums of rows and columns in registers.

`sum((a - za) * (b - zb))` is `sum(a * b) + sum(-za * b) + sum(a * -zb) + depth * za * zb`. The second sum is one for
each column, the third one for each row. Either the array adds them to every product, or each is made once: sums of rows
for all columns of a tile, sums of a block of columns for all rows. They stay in vector registers, and the program adds
them.
"""

from dataclasses import dataclass

from tq_hw.compiler.emit.mac_operations import product_fields, steps_uops
from tq_hw.compiler.ir.meaning import Code
from tq_hw.compiler.ir.staged import MatMul
from tq_hw.compiler.programs.words import OUT, Uop, reg_a, reg_b, to
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu, Destination, ShiftSource, Source

__all__ = ["COLUMNS", "ZeroSums", "negated", "result_uops", "zero_sums"]

#: Vector registers: sums of a block's columns, of the rows of a tile and those after it; programs have those before.
COLUMNS, _ROWS, _REGISTERS = 3, 4, 8
#: Cycles of the vector unit that each block's sums of columns take, and of the array besides its steps.
_SUM_CYCLES = 30
_ACC: Uop = {"a_source": Source.ACC_OR_BIAS}
_BIAS: Uop = {"b_source": Source.ACC_OR_BIAS}


def negated(zero_point: int) -> list[int]:
    """int8 values that add up to `-zero_point`."""
    return [] if zero_point == 0 else [-zero_point] if zero_point > -128 else [64, 64]


def result_uops(layer: MatMul, first: Uop) -> list[Uop]:
    """Program that makes results of sums; `first` names the two operands whose sum they are."""
    uops = _result_uops(layer, first)
    if layer.table is None:
        return uops
    return [*uops[:-1], {**uops[-1], "destination": Destination.REGISTER}, {**reg_a(0), "a_table": 1, **OUT}]


def _result_uops(layer: MatMul, first: Uop) -> list[Uop]:
    operands = {**first, "alu": Alu.ADD}
    if layer.raw:
        return [{**operands, **OUT}]
    if layer.steps is not None:
        head, *rest = steps_uops(layer.steps, layer.zero_point, -128, 127)
        return [{**head, **operands}, *rest]
    scaled = {**operands, **product_fields(layer.rounding), "shift_source": ShiftSource.PARAM,
              "zero_point": layer.zero_point}
    out = {"clamp": 1, "act_min": -128, "act_max": 127, **OUT}
    if len(layer.inputs) > 2:
        return [scaled | {"destination": Destination.REGISTER, "clamp": int(layer.saturates)},
                {"a_source": Source.STREAM, "b_source": Source.REGISTER, "alu": Alu.ADD, **out}]
    return [scaled | out]


@dataclass(frozen=True)
class ZeroSums:
    """Sums of rows and columns that stay in registers.

    Members
    -------
    tile : rows of a tile: those whose sums a register holds
    tiles : tiles at most whose sums are there together
    rows, columns : whether there are sums of rows, of columns
    spread : sums of columns come for each row of a tile: one word of a register does not hold them
    """

    tile: int
    tiles: int
    rows: bool
    columns: bool
    spread: bool

    def row_uops(self, tile: int) -> list[Uop]:
        """Keep the sums of a tile's rows."""
        return [to(_ROWS + tile, _ACC)]

    def column_uops(self) -> list[Uop]:
        """Keep the sums of a block's columns, and their biases."""
        return [to(COLUMNS, _ACC, _BIAS, alu=Alu.ADD)]

    def programs(self, layer: MatMul, tiles: int) -> list[list[Uop]]:
        """All programs of a layer whose rows come in so many tiles; without sums of rows one is for all of them."""
        tiles = tiles if self.rows else 1
        return [*(self.row_uops(tile) for tile in range(tiles) if self.rows),
                *([self.column_uops()] if self.columns else []),
                *(self.result_uops(layer, tile) for tile in range(tiles))]

    def split(self, codes: list[Code]) -> tuple[list[Code], Code | None, list[Code]]:
        """Take `programs`, placed, apart: of rows by tile, of columns, of results by tile."""
        tiles = (len(codes) - int(self.columns)) // (1 + int(self.rows))
        rows = codes[:tiles] if self.rows else []
        return rows, codes[len(rows)] if self.columns else None, codes[-tiles:]

    def result_uops(self, layer: MatMul, tile: int) -> list[Uop]:
        """Program of a tile."""
        columns = {**reg_b(COLUMNS), "b_hold": int(not self.spread)} if self.columns else _BIAS
        if not self.rows:
            return result_uops(layer, _ACC | columns)
        return [to(0, _ACC, columns, alu=Alu.ADD),
                *result_uops(layer, {"a_source": Source.REGISTER, **reg_b(_ROWS + tile)})]


def zero_sums(layer: MatMul, config: Config) -> ZeroSums | None:
    """Return how zero points are taken off by sums, or None where that takes no fewer cycles, or too much program."""
    left, right = (len(negated(point)) for point in layer.zero_points)
    if not left and not right:
        return None
    beats = config.beats_per_acc_word
    tile = min(config.acc_words, config.vector_register_words // beats)
    cols, depth = layer.inputs[1].shape[3], layer.inputs[0].shape[3]
    steps, blocks = ceil_div(depth, config.block), ceil_div(cols, config.cols)
    tiles = min(_REGISTERS - _ROWS, ceil_div(layer.lhs_rows, tile)) if right else ceil_div(layer.lhs_rows, tile)
    rows = min(layer.lhs_rows, tiles * tile)
    found = ZeroSums(tile, tiles, bool(right), bool(left), beats > 1)
    uops = max(len(found.result_uops(layer, 0)), 1)
    if not tile or (uops + 1) * (tiles if right else 1) + 1 > config.uops // 2:
        return None
    array = steps * (rows * (blocks + right) + blocks * left * (min(rows, tile) if found.spread else 1))
    vector = rows * beats * (blocks * uops + int(found.rows))
    with_sums = max(array, vector) + _SUM_CYCLES * (blocks + 1)
    without = rows * blocks * max(steps * (1 + left + right), beats * len(result_uops(layer, {})))
    return found if with_sums < without else None
