"""int4, sparse and DENSIFY: the same integers as the int8, dense model, and as LiteRT gives for the file."""

import dataclasses

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import ModelError, UnsupportedError
from tq_hw.model.graph import Model, Operator
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.constants import pack_nibbles
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import _Writer, write_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute
from tq_hw.sim.oracles import Oracle

RNG = np.random.default_rng(5)


def weighted(op, dtype="int8", columns=5):
    """An operator with weights -8..7 (tensor 1), with a scale for each channel; for FULLY_CONNECTED a single one."""
    b = ModelBuilder(op.lower())
    shapes = {"CONV_2D": (6, 3, 2, columns), "DEPTHWISE_CONV_2D": (1, 3, 3, columns), "FULLY_CONNECTED": (7, columns)}
    shape = shapes[op]
    image = b.input((1, columns) if op == "FULLY_CONNECTED" else (1, 6, 7, columns), scale=0.1, zero_point=-4)
    channels = 1 if op == "FULLY_CONNECTED" else shape[3] if op.startswith("DEPTH") else shape[0]
    scale = [0.02 + 0.01 * n for n in range(channels)]
    weights = b.constant(RNG.integers(-8, 8, shape).astype(np.int8), scale=scale,
                         dimension=3 if op.startswith("DEPTH") else 0)
    bias = b.bias(image, weights, RNG.integers(-99, 99, shape[-1] if op.startswith("DEPTH") else shape[0]))
    out = b.add(op, [image, weights, bias], scale=0.2, zero_point=5)
    model = b.model(out)
    tensors = list(model.main.tensors)
    tensors[weights] = dataclasses.replace(tensors[weights], dtype=dtype)
    return Model(model.name, (dataclasses.replace(model.main, tensors=tuple(tensors)),))


@pytest.fixture(scope="module")
def oracles():
    """The public engines, each started once."""
    with Oracle("litert-ref") as litert, Oracle("tflm") as tflm:
        yield {"litert": litert, "tflm": tflm}


def check_equal(data, oracles, profile="litert"):
    """LiteRT's results for the file equal those of the model read from it, golden and compiled."""
    model = parse_model(data, "m.tflite").under(profile)
    tensor = model.main.tensors[model.main.inputs[0]]
    inputs = [RNG.integers(-128, 128, tensor.shape).astype(np.int8)]
    program = compile_model(model, load_config("tiny")).program
    expected = oracles[profile].run(data, inputs)
    for found in (golden.run(model, inputs).outputs, execute(program, inputs).outputs):
        np.testing.assert_array_equal(found[0], expected[0])
    return model


@pytest.mark.parametrize("columns", [4, 5])
@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_int4_weights_are_unpacked(op, columns, oracles):
    wide, packed = weighted(op, "int8", columns), weighted(op, "int4", columns)
    assert len(write_model(packed)) < len(write_model(wide)) + 16
    model = check_equal(write_model(packed), oracles)
    assert model.main.tensors[1].dtype == "int8"
    np.testing.assert_array_equal(model.main.tensors[1].data, packed.main.tensors[1].data)
    check_equal(write_model(packed), oracles, "tflm")


def test_nibbles():
    assert pack_nibbles(np.array([1, -1, -8], np.int8)).tolist() == [0xF1, 0x08]


class SparseWriter(_Writer):
    """Writes one tensor as sparse: levels in `order`, blocks as (dimension, size), the `compressed` levels as lists.

    `damage` replaces levels by a size, segments and indices (None: dense).
    """

    def __init__(self, model, index, order, blocks=(), compressed=(), kind="int32", damage=None):
        super().__init__(model)
        self.sparse, self.order, self.blocks, self.kind = index, order, blocks, kind
        self.compressed, self.damage = compressed, damage or {}
        self.sparsity = None
        self.kept = []  # buffers are keyed by id(), which must not be reused

    def _vector(self, values):
        code, dtype = {"int32": (1, "<i4"), "uint16": (2, "<u2"), "uint8": (3, "<u1")}[self.kind]
        return code, self._table([(0, None, self._array(values, dtype))])

    def _level(self, size, segments, indices):
        if segments is None:
            return self._table([(0, "Int8", 0), (1, "Int32", size)])
        (code, at), (_, listed) = self._vector(segments), self._vector(indices)
        return self._table([(0, "Int8", 1), (2, "Uint8", code), (3, None, at), (4, "Uint8", code), (5, None, listed)])

    def _levels(self, whole):
        """Return one level for each axis of an array, and the elements that are stored."""
        levels, nodes = [], [()]
        for level, size in enumerate(whole.shape):
            kept = [[n for n in range(size) if level not in self.compressed or np.any(whole[(*node, n)])]
                    for node in nodes]
            nodes = [(*node, n) for node, each in zip(nodes, kept, strict=True) for n in each]
            lists = (np.cumsum([0, *map(len, kept)]).tolist(), [n for each in kept for n in each])
            levels.append((size, *(lists if level in self.compressed else (None, None))))
        return levels, np.array([whole[node] for node in nodes], np.int8)

    def _table(self, fields):
        sparsity = self.sparsity if any(slot == 8 for slot, _, _ in fields) else None
        return super()._table(fields if sparsity is None else [*fields, (6, None, sparsity)])

    def _tensor(self, tensor):
        if tensor.index != self.sparse:
            return super()._tensor(tensor)
        assert tensor.data is not None
        blocks, rank = dict(self.blocks), tensor.data.ndim
        split = [part for axis, size in enumerate(tensor.shape)
                 for part in (size // blocks.get(axis, 1), blocks.get(axis, 1))]
        axes = [2 * axis for axis in range(rank)] + [2 * axis + 1 for axis in blocks]
        rest = [axis for axis in range(2 * rank) if axis not in axes]
        whole = tensor.data.reshape(split).transpose(*(axes[each] for each in self.order), *rest)
        levels, stored = self._levels(whole.reshape(whole.shape[:len(axes)]))
        levels = [self._level(*self.damage.get(number, level)) for number, level in enumerate(levels)]
        self.sparsity = self._table([(0, None, self._array(self.order, "<i4")),
                                     (1, None, self._array(blocks, "<i4")), (2, None, self._offsets(levels))])
        self.kept.append(stored)
        result = super()._tensor(dataclasses.replace(tensor, data=stored))
        self.sparsity = None
        return result


def mostly_zero(model, index, share=0.7):
    tensors = list(model.main.tensors)
    data = np.where(RNG.random(tensors[index].shape) < share, 0, tensors[index].data).astype(np.int8)
    tensors[index] = dataclasses.replace(tensors[index], data=data)
    return Model(model.name, (dataclasses.replace(model.main, tensors=tuple(tensors)),)), data


def densified():
    """CONV_2D whose weights come from a DENSIFY, as the converter writes them."""
    model, data = mostly_zero(weighted("CONV_2D"), 1)
    weights = model.main.tensors[1]
    end = len(model.main.tensors)
    conv = model.main.operators[0]
    return Model("densify", (dataclasses.replace(
        model.main, tensors=(*model.main.tensors, dataclasses.replace(weights, index=end, data=None)),
        operators=(Operator(0, "DENSIFY", (1,), (end,)),
                   dataclasses.replace(conv, index=1, inputs=(0, end, conv.inputs[2])))),)), data


def test_sparse_weights_of_fully_connected_are_densified(oracles):
    """LiteRT has kernels for blocks of 1x16."""
    model = weighted("FULLY_CONNECTED", columns=32)
    weights = model.main.tensors[1].data
    assert weights is not None
    weights[::2, :16] = 0
    data = SparseWriter(model, 1, (0, 1, 2), ((1, 16),), (1,)).write()
    found = check_equal(data, oracles).main.tensors[1].data
    np.testing.assert_array_equal(found, model.main.tensors[1].data)


@pytest.mark.parametrize("options", [
    {"order": (0, 1, 2, 3), "compressed": (3,)}, {"order": (0, 1, 2, 3), "compressed": (1, 2)},
    {"order": (0, 1, 2, 3), "compressed": (0, 3), "kind": "uint8"},
    {"order": (3, 0, 2, 1), "compressed": (0, 1, 3), "kind": "uint16"},
    {"order": (0, 1, 2, 3, 5, 4), "blocks": ((0, 2), (3, 5)), "compressed": (2,)},
], ids=str)
def test_densify_of_constants_folds(options, oracles):
    model, data = densified()
    found = check_equal(SparseWriter(model, 1, **options).write(), oracles)
    assert [op.op for op in found.main.operators] == ["CONV_2D"]
    np.testing.assert_array_equal(found.main.tensors[found.main.operators[0].inputs[1]].data, data)


@pytest.mark.parametrize("options, message", [
    ({"order": (0, 1, 2, 3), "damage": {3: (4, None, None)}}, ", dim_metadata 3, dense_size: is 4, expected 5"),
    ({"order": (0, 1, 2, 3), "compressed": (3,), "damage": {3: (5, [0, 1], [2])}},
     ", dim_metadata 3, array_segments: do not rise from 0 to the number of indices, 1, in 36 steps"),
    ({"order": (0, 1, 2, 3), "compressed": (0,), "damage": {0: (6, [0, 2], [1, 6])}},
     ", dim_metadata 0, array_indices: are not all in 0 to 5"),
    ({"order": (0, 1, 2, 3), "compressed": (0,), "damage": {0: (6, [0, 1], [1])}},
     ": 30 elements of int8 are listed, the buffer has 180 bytes"),
    ({"order": (0, 1, 2, 3, 4), "blocks": ((0, 2),), "damage": {4: (4, None, None)}},
     ", dim_metadata 4: is not a dense block that divides dimension 0 of size 6"),
])
def test_rejects_bad_sparsity(options, message):
    with pytest.raises(ModelError) as caught:
        parse_model(SparseWriter(weighted("CONV_2D"), 1, **options).write(), "m.tflite")
    assert str(caught.value) == f"m.tflite: subgraph 0, tensor 1 't1', sparsity{message}"


def test_rejects_an_order_that_repeats():
    writer = SparseWriter(weighted("CONV_2D"), 1, (0, 1, 2, 3))
    plain = writer._array
    writer._array = lambda values, dtype: plain((0, 1, 2, 2) if values == (0, 1, 2, 3) else values, dtype)
    with pytest.raises(ModelError) as caught:
        parse_model(writer.write(), "m.tflite")
    assert str(caught.value) == ("m.tflite: subgraph 0, tensor 1 't1', sparsity, traversal_order: is [0, 1, 2, 2], "
                                 "expected each of 0 to 3 once")


def test_rejects_sparse_contents_of_other_types():
    model = weighted("CONV_2D")
    tensors = list(model.main.tensors)
    tensors[1] = dataclasses.replace(tensors[1], dtype="uint8")
    model = Model("m", (dataclasses.replace(model.main, tensors=tuple(tensors)),))
    with pytest.raises(UnsupportedError) as caught:
        parse_model(SparseWriter(model, 1, (0, 1, 2, 3), (), (3,)).write(), "m.tflite")
    assert str(caught.value) == ("m.tflite: subgraph 0, tensor 1 't1': sparse contents of type uint8 are not "
                                 "supported; convert the model with int8 weights, or without sparsity")
