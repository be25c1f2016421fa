"""Rewrites of layers that depend on the configuration: the same integers in fewer cycles.

* A byte of each pixel times a constant of each channel becomes a convolution (`spread_products.py`).
* A byte of each pixel that all channels share is one word of each pixel (`spread_words.py`).
* A table before a folded convolution is applied to the windows (`join_tables.py`).
* A table before elementwise layers that look up their operands is part of their tables (`composed_tables.py`).
* A row of a patch without overlap becomes one long pixel (`patches.py`).
* SOFTMAX over two channels depends only on their difference: one table of 512 entries over dense bytes.
* RESIZE_BILINEAR by fractions of few bits becomes layers for the array (`resize.py`).
* An LSTM whose weights and state do not fit the scratchpad works through memory, step by step (`lstm_steps.py`).
* A permutation of few planes and pixels becomes convolutions that pick bytes (`planes.py`).
* A permutation of axes becomes a transpose within the scratchpad (`transpose.py`).
* An elementwise layer of few words uses no tables (`tables.py`).
* Elementwise layers of few words are merged (`fuse.py`).
* An elementwise layer goes on with the results of a convolution (`after_results.py`).
* Results of a convolution are looked up before they are written (`output_tables.py`).
* Byte tables share the entries of one table (`packed_tables.py`).
* An elementwise layer whose channels would leave most lanes of a word empty works on dense bytes.
"""

from dataclasses import replace

import numpy as np

from tq_hw.compiler.ir.layers import Elementwise, Graph, Layer, RowProgram
from tq_hw.compiler.ir.lstm import Lstm
from tq_hw.compiler.ir.staged import Flat, Resize
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.plan.layout import block_count
from tq_hw.compiler.specialize.after_results import join_results
from tq_hw.compiler.specialize.composed_tables import compose_tables
from tq_hw.compiler.specialize.fuse import fuse
from tq_hw.compiler.specialize.join_tables import join_tables
from tq_hw.compiler.specialize.lstm_steps import steps_of
from tq_hw.compiler.specialize.output_tables import look_up_results
from tq_hw.compiler.specialize.packed_tables import pack_tables
from tq_hw.compiler.specialize.patches import long_patches
from tq_hw.compiler.specialize.planes import planes_on_array
from tq_hw.compiler.specialize.resize import resize_on_array
from tq_hw.compiler.specialize.spread_products import spread_products
from tq_hw.compiler.specialize.spread_words import spread_words
from tq_hw.compiler.specialize.tables import without_tables
from tq_hw.compiler.specialize.transpose import FEW_BYTES, as_transpose
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Alu, Destination, Source
from tq_hw.sim.golden.softmax import softmax_of_table

__all__ = ["specialize"]

#: Words that may be unused between constants of two kinds in the ring.
_RING_WASTE_WORDS = 16
#: An elementwise layer works on dense bytes if that saves at least this many words, and two thirds of its words.
_DENSE_WORDS = 2048


def specialize(graph: Graph, config: Config) -> Graph:
    """Return the graph with the rewrites that save cycles at `config`."""
    done: list[Layer] = []
    graph = spread_words(spread_products(graph), config)
    graph = long_patches(compose_tables(join_tables(graph, config), config), config)
    for layer in without_tables(graph.layers, config):
        if isinstance(layer, Lstm):
            done += steps_of(layer) if _too_large(layer, config) else [layer]
            continue
        parts = resize_on_array(layer, config) if isinstance(layer, Resize) else None
        for each in parts or [as_transpose(_dense(_pairs(layer, config), config), config)]:
            done += planes_on_array(each, config) or [as_transpose(each, config, FEW_BYTES, few=0)]
    return replace(graph, layers=tuple(pack_tables(look_up_results(graph, join_results(graph, fuse(
        graph, done, config), config)))))


def _too_large(layer: Lstm, config: Config) -> bool:
    share = config.scratchpad_words // 4
    return layer.minimum_words(config) > 3 * share or layer.constant_words(config) > share - _RING_WASTE_WORDS


def _pairs(layer: Layer, config: Config) -> Layer:
    """SOFTMAX over two channels: the difference of two neighbouring lanes, then a table of all differences."""
    if (not isinstance(layer, RowProgram) or layer.program != "softmax" or layer.output.shape[3] != 2
            or layer.numbers["output_bits"] != 8 or config.requantize_lanes % 2 or layer.tables[0] is None
            or not _dense_bytes(layer)):
        return layer
    # The neighbour less the lane's own value is -255..255; the entry of -256 is never read.
    differences = np.maximum(np.arange(-256, 256), -255)
    table: IntArray = softmax_of_table(np.stack([-differences, np.zeros_like(differences)], -1),
                                       layer.tables[0][-np.arange(256) % 256])[:, 0]
    by_code = np.concatenate([table[256:], table[:256]]).astype(np.int64)
    register = {"destination": Destination.REGISTER, "d_register": 0}
    return Flat(layer.index, layer.op, layer.inputs, layer.output, layer.output.size_bytes, (0,), 0,
                ({"a_source": Source.STREAM, "alu": Alu.PAIR_DIFFERENCE, **register},
                 {"a_source": Source.REGISTER, "a_table": 3, "alu": Alu.PASS, "destination": Destination.OUTPUT}),
                tables=(by_code[:256], by_code[256:]))


def _dense_bytes(layer: Layer) -> bool:
    return all(value.dense for value in (*layer.inputs, layer.output))


def _words(value: Value, config: Config) -> int:
    n, h, w, c = value.shape
    return n * h * w * block_count(c, config)


def _dense(layer: Layer, config: Config) -> Layer:
    if (not isinstance(layer, Elementwise) or not _dense_bytes(layer)
            or any(value.shape != layer.output.shape for value in layer.inputs)):
        return layer
    dense = ceil_div(layer.output.size_bytes, config.block)
    if _words(layer.output, config) < max(3 * dense, dense + _DENSE_WORDS):
        return layer
    return Flat(layer.index, layer.op, layer.inputs, layer.output, layer.output.size_bytes, (0,) * len(layer.inputs),
                0, (layer.uop, *layer.rest), tables=layer.tables)
