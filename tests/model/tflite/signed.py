"""A model with three signatures, each of a subgraph of its own; the third one calls a fourth subgraph."""

import numpy as np

from tq_hw.model.graph import Model, Signature
from tq_hw.model.samples.build import ModelBuilder


def act(op, scale=0.1, dtype="int8"):
    b = ModelBuilder("m")
    image = b.input((1, 6), scale=scale, dtype=dtype)
    return b.model(b.add(op, [image], scale=scale)).main


def stateful():
    """Adds to a variable that a second subgraph, its own, initializes."""
    b = ModelBuilder("m")
    image = b.input((1, 6), scale=0.1)
    options = {"container": "", "shared_name": "v"}
    b.operator("CALL_ONCE", [], [], {"init_subgraph_index": 3})
    handle = b.add("VAR_HANDLE", [], shape=(), options=options)
    read = b.add("READ_VARIABLE", [handle], shape=(1, 6), dtype="int8", scale=0.1)
    total = b.add("ADD", [image, read], scale=0.1)
    b.operator("ASSIGN_VARIABLE", [handle, total], [])
    first = ModelBuilder("m")
    handle = first.add("VAR_HANDLE", [], shape=(), options=options)
    first.operator("ASSIGN_VARIABLE", [handle, first.constant(np.full((1, 6), 7, np.int8), scale=[0.1])], [])
    return b.model(total).main, first.model().main


def signed_model():
    subgraphs = (act("RELU"), act("RELU6"), *stateful())
    signatures = tuple(
        Signature(name, number, {f"x{each}": index for each, index in enumerate(subgraphs[number].inputs)},
                  {f"y{each}": index for each, index in enumerate(subgraphs[number].outputs)})
        for number, name in enumerate(("plain", "six", "sum")))
    return Model("m", subgraphs, signatures=signatures)
