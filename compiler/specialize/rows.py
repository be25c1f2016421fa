"""The form of SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION: row by row, in pieces, or a row in each lane.

The scalars of a row are a chain of about fifty micro-operations, each of which waits for the one before. Row by row,
every row costs these waits. With a row in each lane, many rows share them; in exchange, one move makes columns of the
rows, and another makes rows again. Rows longer than the registers are read in pieces, several times.
"""

from dataclasses import replace

from tq_hw.compiler.ir.layers import Graph, Layer, RowProgram
from tq_hw.compiler.ir.staged import Columns, LongRows, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import block_count, row_registers
from tq_hw.compiler.programs.row_parts import PROGRAMS
from tq_hw.compiler.programs.rows import ROW, parts_of, scalars_of
from tq_hw.compiler.specialize.transpose import as_transpose, move_cycles
from tq_hw.isa.config import Config
from tq_hw.isa.latency import UOP_WAIT_CYCLES
from tq_hw.isa.sizes import ceil_div
from tq_hw.sim.golden.arith import rounding_divide_by_pot
from tq_hw.sim.golden.softmax import ACCUMULATION_INTEGER_BITS

__all__ = ["columns_of", "lies_across", "rows_again", "spread_rows", "upright_cycles"]

#: Cycles per byte of a move, and least cycles of two moves.
_MOVE_CYCLES, _MOVE_LEAST_CYCLES = 0.45, 600
#: Micro-operations for each element: row by row, in columns, and in columns that keep differences.
_PASSES, _COLUMN_PASSES, _KEPT_PASSES = 5, 7, 6
#: Largest share of the scratchpad for one word of each element of a row, in columns.
_COLUMN_SHARE = 8
#: Share of the scratchpad that is expected to be available for columns.
_ROOM_SHARE = 6
#: Least bytes for which two transposes in the scratchpad are tried.
_LEAST_BYTES = 256
#: Estimated cycles of the waits of a load or a store.
_WAITS = 80
#: Least beats of a row program's elements for which a table of the sum's terms is worth its load.
_TERM_BEATS = 1024


def _fits(layer: RowProgram, config: Config) -> bool:
    return row_registers(layer, config) + PROGRAMS[layer.program][1] <= ROW + 1


def _row_cycles(layer: RowProgram, config: Config) -> float:
    """Estimate the cycles row by row."""
    n, h, w, c = layer.output.shape
    code = scalars_of(parts_of(layer.program, layer.numbers))
    chain = len(code.uops) + code.body[1] * (code.repeats - 1)
    beats = block_count(c, config) * config.beats_per_word
    return n * h * w * (chain * UOP_WAIT_CYCLES + _PASSES * max(UOP_WAIT_CYCLES, beats))


def _column_cycles(layer: RowProgram, config: Config, transposed: bool) -> float:
    """Estimate the cycles with a row in each lane; `transposed`: rows already lie across, without moves."""
    n, h, w, c = layer.output.shape
    rows = n * h * w
    parts = parts_of(layer.program, layer.numbers)
    code = scalars_of(parts)
    chain = len(code.uops) + code.body[1] * (code.repeats - 1)
    beats = ceil_div(rows, config.block) * config.beats_per_word
    room = config.scratchpad_words // _ROOM_SHARE // c * config.beats_per_word
    tiles = ceil_div(beats, max(1, min(room, config.vector_register_words)))
    passes = (_COLUMN_PASSES if parts.kept is None else _KEPT_PASSES) * c + chain
    moves = 0 if transposed else 2 * _MOVE_CYCLES * rows * c + _MOVE_LEAST_CYCLES
    return passes * max(tiles * UOP_WAIT_CYCLES, beats) + moves


def lies_across(layer: RowProgram, config: Config, transposed: bool = False) -> bool:
    """Whether a program is faster with a row in each lane; `transposed`: rows already lie across, without moves."""
    dense = layer.inputs[0].dense and layer.output.dense
    fits = dense and layer.output.shape[3] <= config.scratchpad_words // _COLUMN_SHARE
    return fits and _column_cycles(layer, config, transposed) < _row_cycles(layer, config)


def columns_of(layer: RowProgram, source: Value, output: Value, config: Config) -> Columns:
    """Return the layer of a program with a row in each lane; source and output are [1, elements, rows]."""
    numbers, tables, (_, count, h, w) = layer.numbers, layer.tables, output.shape
    if layer.program == "softmax" and count * ceil_div(h * w, config.requantize_lanes) >= _TERM_BEATS:
        assert tables[0] is not None
        numbers = {**numbers, "terms": 1}
        tables = (tables[0], rounding_divide_by_pot(tables[0], ACCUMULATION_INTEGER_BITS))
    return Columns(layer.index, layer.op, (source,), output, layer.program, numbers, tables)


def _transposed_rows(layer: RowProgram, source: Value, output: Value, config: Config, *, back: bool) -> Layer:
    """Return the move between rows and a row in each lane, or with `back` the opposite; a transpose if possible."""
    n, h, w, c = layer.output.shape
    upright, across = blank((h * n * w, c), "int8"), blank((c, h * n * w), "int8")
    copy = (copy_between(0, across.transpose(1, 0, 2), across, upright, upright) if back else
            copy_between(0, upright.transpose(1, 0, 2), upright, across, across))
    # In memory, the program would load and store its columns, too.
    return as_transpose(Move(layer.index, layer.op, (source,), output, (copy,)), config, _LEAST_BYTES,
                        few=_WAITS + output.size_bytes // config.bus_bytes)


def rows_again(layer: RowProgram, results: Value, config: Config) -> Layer:
    """Return the layer that makes rows of a program's results, of which each lane has a row."""
    return _transposed_rows(layer, results, layer.output, config, back=True)


def _in_columns(layer: RowProgram, config: Config) -> list[Layer]:
    """Return layers that make columns of rows, run the program, and make rows again; with transposes if possible."""
    source, output = layer.inputs[0], layer.output
    n, h, w, c = output.shape
    image = (h, w) if n == 1 else (1, n * h * w)
    columns = Value(f"{source.name} (columns)", source.tensor, (1, c, *image), source.zero_point)
    results = Value(f"{output.name} (columns)", output.tensor, (1, c, *image), output.zero_point)
    return [_transposed_rows(layer, source, columns, config, back=False), columns_of(layer, columns, results, config),
            rows_again(layer, results, config)]


def upright_cycles(layer: RowProgram, config: Config) -> float:
    """Estimate the cycles that a program takes because its rows do not lie across."""
    if lies_across(layer, config):
        return sum(move_cycles(made, config, inside=True) for made in _in_columns(layer, config)
                   if isinstance(made, Move))
    return _row_cycles(layer, config) - _column_cycles(layer, config, True)


def _spread(layer: Layer, config: Config) -> list[Layer]:
    if not isinstance(layer, RowProgram):
        return [layer]
    if lies_across(layer, config):
        return _in_columns(layer, config)
    if _fits(layer, config):
        return [layer]
    return [LongRows(layer.index, layer.op, layer.inputs, layer.output, layer.program, layer.numbers, layer.tables)]


def spread_rows(graph: Graph, config: Config) -> Graph:
    """Return the graph with every program over rows in the fastest form."""
    return replace(graph, layers=tuple(new for layer in graph.layers for new in _spread(layer, config)))
