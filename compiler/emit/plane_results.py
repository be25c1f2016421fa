"""Stores of a rectangle's int16 results to dense memory: pixels of words of channels, two bytes a channel."""

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.layout import View, signed_step
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import Unit
from tq_hw.isa.sizes import ceil_div

__all__ = ["store_results"]


def store_results(emitter: Emitter, value: Value, count: int, rect: Rect, results: View) -> None:
    """Store a rectangle of a tensor of `count` int16 channels; if blocks fill their words, a pixel is one run."""
    config = emitter.config
    low, high = rect.blocks[0] * config.block, min(rect.blocks[1] * config.block, count)
    if config.block == config.word_bytes:
        _store_part(emitter, value, rect, results, (low, high), 1)
        return
    whole = (high - low) // config.block
    if whole:
        _store_part(emitter, value, rect, results, (low, low + whole * config.block), whole)
    if low + whole * config.block < high:
        _store_part(emitter, value, rect, results, (low + whole * config.block, high), 1)


def _store_part(emitter: Emitter, value: Value, rect: Rect, results: View, channels: tuple[int, int],
                blocks: int) -> None:
    """Store some channels, which are `blocks` runs of words of a pixel."""
    config, (low, high), place = emitter.config, channels, value.place
    elements = ceil_div(2 * config.block, config.word_bytes)
    region, offset = emitter.memory_of(value)
    width, height = rect.cols[1] - rect.cols[0], rect.rows[1] - rect.rows[0]
    at = offset + 2 * low + rect.cols[0] * place.pixel_bytes
    at += (rect.image * value.shape[1] + rect.rows[0]) * place.row_bytes
    size = 2 * (high - low) // blocks
    words = ceil_div(size, config.word_bytes)
    fields = {"region": region, "memory_offset_bytes": at, "take_bytes": config.word_bytes,
              "source": results.base + (low // config.block - rect.blocks[0]) * elements,
              "last_take_bytes": size - (words - 1) * config.word_bytes, "count0": words, "step0": 1,
              "count1": blocks, "step1": elements, "count2": width, "step2": results.col_pitch,
              "stride2_bytes": place.pixel_bytes, "count3": height, "step3": signed_step(results.row_pitch),
              "stride3_bytes": place.row_bytes}
    if size == place.pixel_bytes:
        fields |= {"count1": width, "step1": results.col_pitch, "count2": height,
                   "step2": signed_step(results.row_pitch), "stride2_bytes": place.row_bytes, "count3": 1}
    last = at + (height - 1) * place.row_bytes + (width - 1) * place.pixel_bytes + 2 * (high - low)
    rows = (results.row0, results.row0 + height)
    emitter.stream.add(Unit.STORE, fields, (results.access(rows, rect.blocks),), (
        Access(f"region{region}", at, last),), emitter.layer_index)
