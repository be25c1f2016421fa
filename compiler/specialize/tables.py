"""The choice of elementwise layers without tables: their words fit a vector register and are done before a table loads.

A table can load while the array works on an earlier layer, if the vector unit is idle then.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tq_hw.compiler.ir.layers import Elementwise, Layer, Mac
from tq_hw.compiler.plan.layout import blocked_words
from tq_hw.isa.config import Config
from tq_hw.isa.latency import UOP_WAIT_CYCLES

__all__ = ["may_be_plain", "without_tables"]

#: Cycles of loading a table.
_TABLE_CYCLES = 264


def _beats(layer: Layer, config: Config) -> int:
    return blocked_words(layer.output, config) * config.beats_per_word


def may_be_plain(layer: Elementwise, config: Config) -> bool:
    """Whether a layer may be faster without tables."""
    return bool(layer.plain) and _beats(layer, config) <= config.vector_register_words


def _cycles(layer: Elementwise, uops: Sequence[object], config: Config) -> int:
    return len(uops) * max(_beats(layer, config), layer.output.shape[0] * UOP_WAIT_CYCLES)


def _gains(layer: Elementwise, slack: int, config: Config) -> bool:
    """Whether a layer is faster without tables; `slack`: the cycles in which tables can load during other work."""
    loaded = max(0, _TABLE_CYCLES * sum(table is not None for table in layer.tables) - slack)
    return may_be_plain(layer, config) and _cycles(layer, layer.plain, config) < loaded + _cycles(
        layer, (layer.uop, *layer.rest), config)


def without_tables(layers: Iterable[Layer], config: Config) -> list[Layer]:
    """Return the layers, some of them without tables."""
    done: list[Layer] = []
    slack = 0
    for layer in layers:
        if isinstance(layer, Mac):
            slack += max(0, layer.macs // config.macs - _beats(layer, config))
        if isinstance(layer, Elementwise) and _gains(layer, slack, config):
            first, *rest = layer.plain
            done.append(replace(layer, uop=first, rest=tuple(rest), tables=(None, None)))
            continue
        if any(table is not None for table in getattr(layer, "tables", ())):
            slack = 0
        done.append(layer)
    return done
