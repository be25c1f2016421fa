"""Subtraction of the zero points in a product of matrices: by the array, or by sums of rows and columns in registers.

`sum((a - za) * (b - zb))` is `sum(a * b) + sum(-za * b) + sum(a * -zb) + depth * za * zb`. The second sum depends only
on the column, the third only on the row.

Either the array adds these sums to every product, or each is computed once: sums of rows for all columns of a tile,
sums of a block of columns for all rows. They stay in vector registers, and the program adds them.
"""

import math
from dataclasses import dataclass

import numpy as np

from tq_hw.compiler.emit.mac_operations import scaled_uops, steps_uops
from tq_hw.compiler.ir.meaning import Code
from tq_hw.compiler.ir.staged import MatMul
from tq_hw.compiler.programs.words import OUT, Uop, immediate, reg_a, reg_b, to
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import VECTOR_REGISTERS, Alu, Destination, Source
from tq_hw.sim.golden.arith import wrap_int32

__all__ = ["Zeros", "negated", "plain_zeros", "zeros"]

#: Vector registers: sums of a block's columns; sums of rows, from this register on, one tile each. Programs use those
#: before.
_COLUMNS, _ROWS = 3, 4
#: Cycles of each block's column sums, in the vector unit, and in the array in addition to its steps.
_SUM_CYCLES = 30
_ACC: Uop = {"a_source": Source.ACC_OR_BIAS}


def negated(zero_point: int) -> list[int]:
    """Return int8 values whose sum is `-zero_point`."""
    return [] if zero_point == 0 else [-zero_point] if zero_point > -128 else [64, 64]


def _constant_sum(layer: MatMul, from_parameters: bool) -> Uop:
    """Operand b and ALU function that add the bias and the product of the zero points, which all rows share."""
    if from_parameters:
        return {"b_source": Source.ACC_OR_BIAS, "alu": Alu.ADD}
    product = int(wrap_int32(np.array(layer.inputs[0].shape[3] * layer.zero_points[0] * layer.zero_points[1])))
    return {**immediate(product), "alu": Alu.ADD} if product else {"alu": Alu.PASS}


def _result_uops(layer: MatMul, first: Uop, from_parameters: bool) -> list[Uop]:
    """Return the program that rescales sums to results; `first` has the operands of the sums."""
    uops = _scaled(layer, first, from_parameters)
    if layer.table is None:
        return uops
    return [*uops[:-1], {**uops[-1], "destination": Destination.REGISTER}, {**reg_a(0), "a_table": 1, **OUT}]


def _scaled(layer: MatMul, first: Uop, from_parameters: bool) -> list[Uop]:
    if layer.raw:
        return [{**first, **OUT}]
    if layer.steps is not None:
        head, *rest = steps_uops(layer.steps, layer.zero_point, -128, 127)
        return [{**head, **first}, *rest]
    def scaled(last: Uop) -> list[Uop]:
        return scaled_uops({**first, "zero_point": layer.zero_point, **last}, layer.rounding,
                           None if from_parameters else (int(layer.multiplier), int(layer.shift)),
                           left=bool(np.max(layer.shift) > 0))
    out = {"clamp": 1, "act_min": -128, "act_max": 127, **OUT}
    if len(layer.inputs) > 2:
        return [*scaled({"destination": Destination.REGISTER, "clamp": int(layer.saturates)}),
                {"a_source": Source.STREAM, "b_source": Source.REGISTER, "alu": Alu.ADD, **out}]
    return scaled(out)


@dataclass(frozen=True)
class Zeros:
    """The method of subtracting zero points.

    Members
    -------
    rows, columns : whether sums of rows and of columns are in registers; otherwise the array adds them to every product
    tile : rows of a tile, which fit in the accumulators, and whose sums fit in a register
    tiles : most tiles whose sums are in registers at the same time
    spread : whether sums of columns are repeated for each row of a tile, because one word of a register is too small
    """

    rows: bool
    columns: bool
    tile: int
    tiles: int
    spread: bool

    def has_parameters(self, layer: MatMul) -> bool:
        """Whether biases, multipliers and shifts are parameters: a micro-operation has only one immediate."""
        return layer.bias is not None or not (self.rows or self.columns) and all(layer.zero_points)

    def row_uops(self, layer: MatMul, tile: int) -> list[Uop]:
        """Keep the sums of a tile's rows in a register, plus the common addend if columns have no sums."""
        other = self.columns or self.has_parameters(layer)
        more: Uop = {"alu": Alu.PASS} if other else _constant_sum(layer, False)
        return [to(_ROWS + tile, {**_ACC, **more})]

    def column_uops(self, layer: MatMul) -> list[Uop]:
        """Keep the sums of a block's columns in a register, plus the common addend of all rows."""
        return [to(_COLUMNS, {**_ACC, **_constant_sum(layer, self.has_parameters(layer))})]

    def programs(self, layer: MatMul, tiles: int) -> list[list[Uop]]:
        """All programs of a layer with `tiles` tiles of rows; without sums of rows one program serves all tiles."""
        tiles = tiles if self.rows else 1
        return [*(self.row_uops(layer, tile) for tile in range(tiles) if self.rows),
                *([self.column_uops(layer)] if self.columns else []),
                *(self.result_uops(layer, tile) for tile in range(tiles))]

    def split(self, codes: list[Code]) -> tuple[list[Code], Code | None, list[Code]]:
        """Split the placed `programs`: of rows by tile, of columns, of results by tile."""
        tiles = (len(codes) - int(self.columns)) // (1 + int(self.rows))
        rows = codes[:tiles] if self.rows else []
        return rows, codes[len(rows)] if self.columns else None, codes[-tiles:]

    def result_uops(self, layer: MatMul, tile: int) -> list[Uop]:
        """Return the program of a tile's results."""
        rows: Uop = {**reg_b(_ROWS + tile), "alu": Alu.ADD}
        parameters = self.has_parameters(layer)
        first: Uop = _constant_sum(layer, parameters)
        if self.columns:
            first = {**reg_b(_COLUMNS), "b_hold": int(not self.spread), "alu": Alu.ADD}
        elif self.rows and not parameters:
            return _result_uops(layer, _ACC | rows, parameters)
        if not self.rows:
            return _result_uops(layer, _ACC | first, parameters)
        return [to(0, _ACC | first), *_result_uops(layer, reg_a(0) | rows, parameters)]

    def cycles(self, layer: MatMul, config: Config) -> float:
        """Estimate the cycles of a product of all rows; infinite if its programs do not fit."""
        left, right = (len(negated(point)) for point in layer.zero_points)
        beats, uops = config.beats_per_acc_word, len(self.result_uops(layer, 0))
        cols, depth = layer.inputs[1].shape[3], layer.inputs[0].shape[3]
        steps, blocks = ceil_div(depth, config.block), ceil_div(cols, config.cols)
        rows = min(layer.lhs_rows, self.tiles * self.tile)
        if (uops + 1) * (ceil_div(rows, self.tile) if self.rows else 1) + 1 > config.uops:
            return math.inf
        passes = 1 + (0 if self.columns else left) + (0 if self.rows else right)
        array = steps * rows * (blocks * passes + (right if self.rows else 0))
        if self.columns:
            array += steps * blocks * left * (min(rows, self.tile) if self.spread else 1)
        vector = rows * beats * (blocks * uops + int(self.rows))
        more = _SUM_CYCLES * (blocks if self.columns else 1 if self.rows else 0)
        return (max(array, vector) + more) * layer.lhs_rows / rows


def plain_zeros(config: Config) -> Zeros:
    """Return the method in which the array subtracts the zero points."""
    return Zeros(False, False, config.acc_words, 1, config.beats_per_acc_word > 1)


def zeros(layer: MatMul, config: Config) -> Zeros:
    """Return the method that subtracts the zero points in the fewest cycles."""
    left, right = (point != 0 for point in layer.zero_points)
    tile = min(config.acc_words, config.vector_register_words // config.beats_per_acc_word)
    plain = plain_zeros(config)
    ways = [plain]
    for rows, columns in ((False, True), (True, False), (True, True)):
        if tile and rows <= right and columns <= left:
            most = VECTOR_REGISTERS - _ROWS if rows else ceil_div(config.acc_words, tile)
            ways.append(Zeros(rows, columns, tile, most, plain.spread))
    return min(ways, key=lambda way: way.cycles(layer, config))
