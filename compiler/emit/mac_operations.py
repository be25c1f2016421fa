"""Fields of a multiply-accumulate layer's operations: the array's, and the vector unit's that follows."""

from tq_hw.compiler.emit.emitter import Rect
from tq_hw.compiler.emit.mac_weights import Kernel, Packed
from tq_hw.compiler.ir.layers import After, Mac, Steps
from tq_hw.compiler.plan.layout import View, even_tiles, row_period, signed_step
from tq_hw.compiler.programs.words import (
    LOOK_UP,
    OUT,
    Uop,
    immediate,
    look_up_byte,
    multiplied,
    reg_a,
    reg_b,
    shifted,
    to,
)
from tq_hw.isa.config import Config
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import VECTOR_REGISTERS, Alu, Destination, Multiply, Rounding, ShiftSource, Source

__all__ = ["array_fields", "product_fields", "requantize_fields", "rounding_uops", "scaled_uops", "steps_uops"]


def product_fields(rounding: str) -> dict[str, int]:
    """Fields of the multiply and shift stages for a `rounding` of `ir.Mac`; the multiplier is the channel's."""
    stages: dict[str, dict[str, int]] = {
        "tflite": {"multiply": Multiply.HIGH_PARAM, "rounding": Rounding.HALF_AWAY},
        "divide": {"multiply": Multiply.HIGH_PARAM, "truncate": 1, "rounding": Rounding.HALF_UP},
        "shift": {"multiply": Multiply.NONE, "rounding": Rounding.HALF_AWAY},
    }
    return stages[rounding]


def steps_uops(steps: Steps, zero_point: int, act_min: int, act_max: int) -> list[Uop]:
    """Rescale accumulators by `steps`, whose table is table 2."""
    clamp: Uop = {"clamp": 1, "act_min": act_min, "act_max": act_max}
    limited = [] if steps.limit is None else [
        to(1, reg_a(0), immediate(steps.limit), alu=Alu.MIN), to(1, reg_a(1), immediate(-steps.limit), alu=Alu.MAX)]
    product: Uop = {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": steps.multiplier, "truncate": 1}
    if steps.left_shift:
        limited = [*limited[:-1], (limited[-1] if limited else to(1, reg_a(0))) | shifted(steps.left_shift)]
    source = reg_a(1 if limited else 0)
    if steps.right_shift:
        scaled = [to(1, source, product, clamp, shifted(-steps.right_shift, Rounding.HALF_UP), zero_point=zero_point)]
    else:
        scaled = [to(1, source, product, clamp, zero_point=zero_point + 1)]
    return [
        to(0, {"a_source": Source.ACC_OR_BIAS, "b_source": Source.ACC_OR_BIAS}, alu=Alu.ADD), *limited, *scaled,
        to(2, reg_a(0), reg_b(1), b_table=2, alu=Alu.LESS),
        {**reg_a(1), **reg_b(2), "alu": Alu.SUB, **OUT}]


def rounding_uops(layer: Mac, uniform: bool) -> list[Uop]:
    """Bias, multiplier and shift; the last two are immediates if they are the same for all channels."""
    if layer.steps is not None:
        return steps_uops(layer.steps, layer.zero_point, layer.act_min, layer.act_max)
    table, after = layer.output_table, layer.after
    held = 0 if after is None else _free_register(after)
    uop: Uop = {**(OUT if table is None and after is None else to(held)), "a_source": Source.ACC_OR_BIAS,
                "b_source": Source.ACC_OR_BIAS, "alu": Alu.ADD, "zero_point": layer.zero_point, "clamp": 1,
                "act_min": layer.act_min, "act_max": layer.act_max}
    uops = scaled_uops(uop, layer.rounding, (int(layer.multiplier[0]), int(layer.shift[0])) if uniform else None,
                       left=int(layer.shift.max()) > 0)
    if after is not None:
        uops = [*uops, *(_from_register(uop, "ab"[after.position], held) for uop in after.uops)]
        if table is not None:
            uops[-1] = uops[-1] | {"destination": Destination.REGISTER, "d_register": held}
    return uops if table is None else [*uops, LOOK_UP | reg_a(held) | look_up_byte(table)]


def _free_register(after: After) -> int:
    """Return a vector register that a program does not use."""
    used = {uop[name] for uop in after.uops for name in ("a_register", "b_register", "d_register") if name in uop}
    return min(set(range(VECTOR_REGISTERS)) - used)


def _from_register(uop: Uop, operand: str, register: int) -> Uop:
    """Return a micro-operation with a register in place of a stream."""
    if uop.get(f"{operand}_source") != Source.STREAM:
        return uop
    return uop | {f"{operand}_source": Source.REGISTER, f"{operand}_register": register}


def scaled_uops(uop: Uop, rounding: str, scale: tuple[int, int] | None, *, left: bool) -> list[Uop]:
    """Return a micro-operation with a multiplier and shift: `scale`, or if that is None the channel's.

    `left`: whether a shift is to the left; it takes a micro-operation of its own (`words.multiplied`).
    """
    product: Uop = product_fields(rounding)
    shift: Uop = {"shift_source": ShiftSource.PARAM}
    if scale is not None:
        shift = {"shift_source": ShiftSource.IMMEDIATE, "shift": scale[1]}
        if product["multiply"] == Multiply.HIGH_PARAM:
            product |= {"multiply": Multiply.HIGH_IMMEDIATE, "immediate": scale[0]}
    return multiplied(uop, product, shift, 0, left=left)


def array_fields(layer: Mac, packed: Packed, config: Config, rect: Rect, source: View, blocks: tuple[int, int],
                 kernel: Kernel | None, tile_words: int) -> dict[str, int]:
    """Fields of an array operation for some output blocks of a rectangle, except those of the weights.

    `kernel` is the part of the kernel that it covers, None for all; a tile has at most `tile_words` slots.
    """
    _, h, w, _ = layer.inputs[0].shape
    (sy, sx), (dy, dx), (pad_top, pad_left) = layer.stride, layer.dilation, layer.pad
    row0 = rect.rows[0] * sy - pad_top
    col0 = rect.cols[0] * sx - pad_left
    width = rect.cols[1] - rect.cols[0]
    fields = {
        "mode": packed.mode, "acc_first": 1, "acc_last": 1, "blocks_inner": 0,
        "zero_point": layer.pad_value, "in_row_step": signed_step(sy * source.row_pitch),
        "row_first": row0, "col_first": col0, "row_stride": sy, "col_stride": sx, "kernel_row_dilation": dy,
        "kernel_col_dilation": dx, "in_rows": h, "in_cols": w, "out_cols": width, "slots": rect.slots,
        "out_blocks": blocks[1] - blocks[0], "weight_rows": packed.rows, "slices": 1}
    image_row = rect.image * h
    if packed.mode is ArrayMode.FOLDED:
        assert packed.fold is not None
        fields |= {"in_base": source.address(image_row + row0, 0, source.col0), "in_col_step": 1,
                   "kernel_blocks": len(packed.fold.steps), "kernel_rows": 1, "kernel_cols": 1,
                   **even_tiles(rect.slots, tile_words)}
    elif packed.mode is ArrayMode.DEPTHWISE:
        first = blocks[0] // config.sub_blocks
        kernel_rows, kernel_cols = layer.kernel
        if kernel is not None:
            row0, col0 = row0 + kernel.rows[0] * config.groups * dy, col0 + 3 * kernel.cols[0]
            kernel_rows = min(kernel_rows, kernel.rows[1] * config.groups) - kernel.rows[0] * config.groups
            kernel_cols = min(kernel_cols, 3 * kernel.cols[1]) - 3 * kernel.cols[0]
        rows = rect.rows[1] - rect.rows[0]
        tiles = ceil_div(rows, max(1, tile_words // width))
        tile_rows = ceil_div(rows, tiles)
        fields |= {
            "row_first": row0, "col_first": col0, "in_base": source.address(image_row + row0, first, col0),
            "in_col_step": 1, "in_block_step": signed_step(source.block_pitch),
            "kernel_row_step": signed_step(dy * source.row_pitch), "kernel_rows": kernel_rows,
            "kernel_cols": kernel_cols, "tile_rows": tile_rows, "tile_slots": tile_rows * width,
            "sub_first": blocks[0] % config.sub_blocks, "period": row_period(width, sx, kernel_cols, col0, w)}
    else:
        rows_, cols_, blocks_ = (kernel.rows, kernel.cols, kernel.blocks) if kernel is not None else (
            (0, layer.kernel[0]), (0, layer.kernel[1]), (0, packed.weights.shape[3]))
        row0, col0 = row0 + rows_[0] * dy, col0 + cols_[0] * dx
        in_block = blocks_[0] + (blocks[0] // config.sub_blocks if packed.diagonal else 0)
        fields |= {
            "row_first": row0, "col_first": col0, "in_base": source.address(image_row + row0, in_block, col0),
            "in_col_step": sx, "kernel_col_step": dx, "kernel_row_step": signed_step(dy * source.row_pitch),
            "kernel_block_step": signed_step(source.block_pitch), "kernel_blocks": blocks_[1] - blocks_[0],
            "kernel_rows": rows_[1] - rows_[0], "kernel_cols": cols_[1] - cols_[0], "slices": config.slices,
            **even_tiles(rect.slots, tile_words)}
    return fields


def requantize_fields(layer: Mac, packed: Packed, config: Config, rect: Rect, target: View, blocks: tuple[int, int],
                      columns: tuple[int, int], tile_words: int) -> dict[str, int]:
    """Fields of the vector operation that follows, except those of the parameters and the program.

    It requantizes the columns of the rectangle from columns[0] on, columns[1] apart.
    """
    first, step = columns
    width = ceil_div(rect.cols[1] - rect.cols[0] - first, step)
    row = rect.image * layer.output.shape[1] + rect.rows[0]
    slots = (rect.rows[1] - rect.rows[0]) * width
    tiles = even_tiles(slots, tile_words)
    if packed.mode is ArrayMode.DEPTHWISE:
        rows = rect.rows[1] - rect.rows[0]
        count = ceil_div(rows, max(1, tile_words // width))
        tiles = {"tile_slots": ceil_div(rows, count) * width}
    return {
        "use_acc": 1, "use_params": 1, "blocks_inner": 0, "sub_first": blocks[0] % config.sub_blocks,
        "out_base": target.address(row, blocks[0] // config.sub_blocks, rect.cols[0] + first),
        "out_col_step": step * target.col_pitch,
        "out_row_step": signed_step(target.row_pitch), "out_block_step": signed_step(target.block_pitch),
        "cols": width, "out_blocks": blocks[1] - blocks[0], "slots": slots, **tiles,
        "chunk_slots": tiles["tile_slots"], "repeat1": 1, "repeat2": 1}
