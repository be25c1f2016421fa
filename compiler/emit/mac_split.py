"""Multiply-accumulate layers whose weights of one output block do not fit the ring: these are loaded in pieces."""

import itertools

from tq_hw.compiler.emit.emitter import Rect
from tq_hw.compiler.emit.mac_layer import MacLayer
from tq_hw.compiler.emit.mac_weights import kernel_parts
from tq_hw.compiler.plan.layout import View
from tq_hw.compiler.stream.stream import Access

__all__ = ["emit_split"]


def emit_split(mac: MacLayer, ring: int) -> None:
    """Emit a layer tile by tile, loading the weights of an output block in pieces for each tile."""
    limit = ring // 2 - mac.config.param_words
    sub = mac.config.sub_blocks
    for first in range(0, mac.out_blocks, sub):
        blocks = (first, min(first + sub, mac.out_blocks))
        for layer in mac.layers:
            mac.layer = layer
            for rect in itertools.chain.from_iterable(mac.spans(layer, blocks, mac.config.acc_words)):
                source, reads = mac.source(rect)
                target = mac.emitter.target(mac.layer, mac.plan, rect)
                for o in range(*blocks):
                    _split_job(mac, rect, source, reads, target, o, limit)
                mac.emitter.finish(mac.layer, target, rect)


def _split_job(mac: MacLayer, rect: Rect, source: View, reads: tuple[Access, ...], target: View, o: int,
               limit: int) -> None:
    config = mac.config
    with mac.emitter.scope():
        params = mac.parameters[o].ljust(config.param_words * config.word_bytes, b"\0")
        at_params, access = mac.emitter.constant(params, config.word_bytes)
        parts = list(kernel_parts(mac.layer, mac.packed, limit))
        tile = mac.tile(rect, (o, o + 1))
        for index, part in enumerate(parts):
            with mac.emitter.scope():
                row_bytes = config.word_bytes if config.cols == config.word_bytes else config.cols
                weights, read = mac.emitter.constant(mac.packed.part((o, o + 1), part), row_bytes)
                fields = mac.array(rect, source, (o, o + 1), {"weight_base": weights}, part)
                fields |= {"acc_first": int(index == 0), "acc_last": int(index == len(parts) - 1)}
                mac.emitter.array(fields, (*reads, read), mac.part(tile, part))
        mac.requantize(rect, target, tile, {"param_base": at_params}, (access,), tile_words=config.acc_words)
