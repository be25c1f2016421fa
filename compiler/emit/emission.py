"""The function that emits each kind of layer."""

from collections.abc import Iterator

from tq_hw.compiler.emit.chain import emit_chain
from tq_hw.compiler.emit.columns import emit_columns
from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.flat import emit_flat, emit_one_hot
from tq_hw.compiler.emit.long_rows import emit_long_rows
from tq_hw.compiler.emit.lstm import emit_lstm
from tq_hw.compiler.emit.mac import emit_mac
from tq_hw.compiler.emit.matmul import emit_matmul
from tq_hw.compiler.emit.matmul_parts import emit_parts
from tq_hw.compiler.emit.move import emit_move
from tq_hw.compiler.emit.plane_mac import emit_plane_mac
from tq_hw.compiler.emit.pool import emit_max_pool
from tq_hw.compiler.emit.resize import emit_resize
from tq_hw.compiler.emit.rows import emit_rows
from tq_hw.compiler.emit.transpose import emit_transpose, transposed_through
from tq_hw.compiler.emit.vector import emit_elementwise, emit_pad
from tq_hw.compiler.ir.chain import Chain
from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac, MaxPool, Pad, RowProgram
from tq_hw.compiler.ir.lstm import Lstm
from tq_hw.compiler.ir.sixteen import PlaneMac
from tq_hw.compiler.ir.staged import Columns, Flat, LongRows, MatMul, Move, OneHot, Parts, Resize, Transpose
from tq_hw.compiler.plan.places import LayerPlan

__all__ = ["emission"]


def emission(emitter: Emitter, layer: Layer, plan: LayerPlan) -> Iterator[None]:
    """Emit one layer; a layer that others may be interleaved with yields after each rectangle."""
    match layer:
        case Mac():
            yield from emit_mac(emitter, layer, plan)
        case Elementwise():
            yield from emit_elementwise(emitter, layer, plan)
        case Chain():
            yield from emit_chain(emitter, layer, plan)
        case MaxPool():
            yield from emit_max_pool(emitter, layer, plan)
        case RowProgram():
            emit_rows(emitter, layer, plan)
        case LongRows():
            emit_long_rows(emitter, layer, plan)
        case Columns():
            emit_columns(emitter, layer, plan)
        case Pad():
            emit_pad(emitter, layer, plan)
        case Flat():
            emit_flat(emitter, layer, plan)
        case OneHot():
            emit_one_hot(emitter, layer, plan)
        case Resize():
            emit_resize(emitter, layer, plan)
        case Lstm():
            emit_lstm(emitter, layer, plan)
        case PlaneMac():
            emit_plane_mac(emitter, layer, plan)
        case MatMul():
            emit_matmul(emitter, layer, plan, layer.output)
        case Parts() if all(map(emitter.is_resident, layer.inputs)):
            emit_parts(emitter, layer, plan)
        case Parts():
            emit_matmul(emitter, layer.product, plan, layer.output)
        case Transpose() if emitter.is_resident(layer.inputs[0]) and emitter.is_resident(layer.output):
            emit_transpose(emitter, layer, plan)
        case Transpose() if transposed_through(emitter, layer, plan):
            pass
        case Move():
            emit_move(emitter, layer, plan)
