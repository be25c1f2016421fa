"""Seeded random graphs in which every operator may precede, follow or join every other.

`random_graph(seed)` gives a valid int8 model of up to a dozen operators with branches, joins of joins, parts of parts,
residual sums, shared weights, several inputs and outputs, and states. Most images are 1x1 to 9x9, so that everything
stays in the scratchpad; some are large enough for strips and cascades. An operator joins with one entry of `RECIPES`.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from tq_hw.model.graph import Model, Operator, Subgraph, Tensor
from tq_hw.model.random.chains import halves, permuted
from tq_hw.model.random.compute import (
    batch_matmul,
    computed_weights,
    conv,
    depthwise,
    dilated,
    fully_connected,
    pool,
    residual,
    squeeze_excite,
    transpose_conv,
)
from tq_hw.model.random.elementwise import (
    arg,
    binary,
    compare,
    dequantize,
    float_sums,
    floats,
    integers,
    largest,
    quantize,
    reduce,
    rows,
    types,
    unary,
)
from tq_hw.model.random.islands import float_arg, float_channels, float_given, float_resize
from tq_hw.model.random.layers import cells, normalized, patches
from tq_hw.model.random.movement import (
    blocks,
    concatenation,
    gather,
    inception,
    pack,
    pad,
    part,
    reshape,
    resize,
    shapes_only,
    shuffle,
    space,
    split,
    transpose,
    unpack,
)
from tq_hw.model.random.odd import both_sides, masked, peeked, picked, rescaled, twice
from tq_hw.model.random.rearrange import (
    among,
    choice,
    divided,
    float_choices,
    hot,
    logical,
    mirrored,
    moving,
    places,
    repeated,
    reversed_axes,
    top,
)
from tq_hw.model.random.sketch import Sketch
from tq_hw.model.random.states import cached, lstm, reassigned, svdf, variable, with_initial_values
from tq_hw.model.random.tokens import attention, biased, centered, tensordot
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model

__all__ = ["GROUPS", "RECIPES", "Recipe", "pruned", "random_graph"]


@dataclass(frozen=True)
class Recipe:
    """How to add operators.

    Members
    -------
    group : of `GROUPS`
    weight : how often it is drawn, against the others
    add : given the sketch and one of its tensors, returns the new tensors for others; undone by Unfit or ModelError
    any_type : takes tensors of any type, else activations of int8
    """

    group: str
    weight: int
    add: Callable[[Sketch, int], list[int]]
    any_type: bool = False


#: All recipes by name.
RECIPES: dict[str, Recipe] = {
    "conv": Recipe("mac", 10, conv), "depthwise": Recipe("mac", 5, depthwise), "residual": Recipe("mac", 3, residual),
    "transpose_conv": Recipe("mac", 2, transpose_conv), "dilated": Recipe("mac", 2, dilated),
    "squeeze_excite": Recipe("mac", 1, squeeze_excite), "fully_connected": Recipe("mac", 3, fully_connected),
    "batch_matmul": Recipe("mac", 2, batch_matmul), "computed_weights": Recipe("mac", 1, computed_weights),
    "tensordot": Recipe("mac", 3, tensordot), "attention": Recipe("mac", 2, attention),
    "biased": Recipe("mac", 4, biased), "centered": Recipe("mac", 1, centered),
    "patches": Recipe("mac", 1, patches), "cells": Recipe("mac", 1, cells),
    "normalized": Recipe("element", 2, normalized),
    "pool": Recipe("pool", 4, pool), "resize": Recipe("pool", 3, resize), "reduce": Recipe("pool", 3, reduce),
    "unary": Recipe("element", 4, unary), "quantize": Recipe("element", 2, quantize),
    "binary": Recipe("element", 6, binary), "largest": Recipe("element", 2, largest),
    "rows": Recipe("element", 4, rows), "floats": Recipe("element", 2, floats),
    "float_sums": Recipe("element", 2, float_sums), "float_choices": Recipe("element", 2, float_choices),
    "float_arg": Recipe("element", 1, float_arg), "float_resize": Recipe("element", 1, float_resize),
    "float_channels": Recipe("element", 1, float_channels), "float_given": Recipe("element", 1, float_given),
    "concatenation": Recipe("join", 10, concatenation, True), "pack": Recipe("join", 3, pack, True),
    "inception": Recipe("join", 4, inception),
    "split": Recipe("part", 4, split, True), "part": Recipe("part", 6, part, True),
    "unpack": Recipe("part", 2, unpack, True), "gather": Recipe("part", 3, gather),
    "reshape": Recipe("move", 4, reshape, True), "shapes_only": Recipe("move", 2, shapes_only, True),
    "transpose": Recipe("move", 3, transpose, True), "shuffle": Recipe("move", 2, shuffle),
    "permuted": Recipe("move", 2, permuted, True), "halves": Recipe("move", 1, halves),
    "pad": Recipe("move", 4, pad, True),
    "space": Recipe("move", 3, space, True), "blocks": Recipe("move", 3, blocks, True),
    "repeated": Recipe("move", 3, repeated, True), "reversed_axes": Recipe("move", 2, reversed_axes, True),
    "mirrored": Recipe("move", 2, mirrored, True), "among": Recipe("move", 4, among, True),
    "places": Recipe("part", 2, places, True), "moving": Recipe("part", 1, moving, True),
    "choice": Recipe("other", 3, choice, True), "logical": Recipe("other", 2, logical),
    "divided": Recipe("element", 2, divided), "hot": Recipe("other", 2, hot), "top": Recipe("other", 1, top),
    "compare": Recipe("other", 2, compare), "arg": Recipe("other", 2, arg), "integers": Recipe("other", 6, integers),
    "dequantize": Recipe("other", 1, dequantize), "types": Recipe("other", 3, types, True),
    "svdf": Recipe("state", 2, svdf), "lstm": Recipe("state", 2, lstm), "variable": Recipe("state", 1, variable),
    "cached": Recipe("state", 1, cached), "peeked": Recipe("odd", 1, peeked),
    "reassigned": Recipe("odd", 1, reassigned),
    "both_sides": Recipe("odd", 1, both_sides), "twice": Recipe("odd", 2, twice), "picked": Recipe("odd", 1, picked),
    "rescaled": Recipe("odd", 1, rescaled), "masked": Recipe("odd", 1, masked, True),
}
GROUPS = tuple(dict.fromkeys(recipe.group for recipe in RECIPES.values()))

#: Rows and columns of images, and the largest tensor; repetition gives the probability.
_STYLES = (*((range(1, 2), 400),) * 3, *((range(1, 3), 400),) * 6, *((range(1, 6), 600),) * 8,
           *((range(1, 10), 1500),) * 8, (range(3, 20), 10_000))


def random_graph(seed: int, group: str | None = None) -> Model:
    """Return a random graph, the same for the same seed; about half of its operators of `group` if one is given."""
    rng = np.random.default_rng([41, seed, 0 if group is None else 1 + GROUPS.index(group)])
    sizes, most_elements = _STYLES[int(rng.integers(len(_STYLES)))]
    s = Sketch(f"graph_{seed}", rng, sizes, most_elements)
    for _ in range(s.pick(1, 1, 1, 2, 3)):
        s.image()
    # Some groups come often in a graph, others hardly ever, so that operators of a group meet.
    often = {name: 4.0 ** rng.uniform(-1, 1) for name in GROUPS}
    weights = np.array([recipe.weight * often[recipe.group] for recipe in RECIPES.values()])
    wanted = np.array([recipe.group == group for recipe in RECIPES.values()])
    if group is not None:
        weights[wanted] *= weights.sum() / weights[wanted].sum()
    weights /= weights.sum()
    names, count = list(RECIPES), s.pick(1, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 7, 8, 10)
    for _ in range(4 * count):
        if len(s.b.operators) >= count:
            break
        _step(s, RECIPES[names[int(rng.choice(len(names), p=weights))]])
    if not s.b.operators:
        s.live.append(s.b.add("RELU", [s.live[0]], **s.out()))
    return _finished(s, seed)


def _step(s: Sketch, recipe: Recipe) -> None:
    """Apply a recipe to a tensor, mostly one of the latest."""
    known = s.live + s.others if recipe.any_type and s.others and s.chance(0.3) else s.live
    x = known[-s.between(1, min(4, len(known)))] if s.chance(0.7) else s.pick(*known)
    with s.attempt():
        made = recipe.add(s, x)
        s.check(*made)
        for y in made:
            tensor = s.b.tensors[y]
            if tensor.dtype == "float32" or y in s.live or y in s.others:
                continue
            # Comparisons need scales below 1, which all drawn scales are.
            (s.live if tensor.dtype == "int8" else s.others).append(y)


def _finished(s: Sketch, seed: int) -> Model:
    """Choose the outputs: most unread tensors, and sometimes an inner tensor or an input."""
    made = [y for op in s.b.operators for y in op.outputs if s.b.tensors[y].dtype != "resource"]
    read = {x for op in s.b.operators for x in op.inputs}
    ends = [y for y in made if y not in read]
    outputs = [y for y in ends if s.b.tensors[y].dtype == "float32" or s.chance(0.75)]
    outputs = outputs or [ends[-1] if ends else made[-1]]
    outputs += [y for y in made if y not in outputs and s.b.tensors[y].dtype != "float32" and s.chance(0.07)]
    if s.chance(0.02):
        outputs += [x for x in read if x >= 0 and s.b.tensors[x].data is not None][:1]
    if s.chance(0.02):
        outputs.append(s.pick(*outputs))
    if s.chance(0.04):
        outputs += [x for x in s.b.inputs if s.b.tensors[x].dtype == "int8"][:1]
    if s.chance(0.15):
        # Another name for bytes that others read.
        seen = s.pick(*made)
        if s.b.tensors[seen].dtype == "int8":
            outputs.append(s.b.add("RESHAPE", [seen, s.indices([-1])], shape=(math.prod(s.shape(seen)),)))
    outputs = [outputs[at] for at in s.rng.permutation(len(outputs))]
    main = s.b.model(*outputs).main
    if s.chance(0.9):
        main = pruned(main, s.chance(0.9))
    return parse_model(write_model(with_initial_values(s, main, s.b.name)), f"graph_{seed}")


def pruned(subgraph: Subgraph, drop_inputs: bool = True) -> Subgraph:
    """Return the subgraph without operators that no output and no variable depends on, and without their tensors."""
    wanted = set(subgraph.outputs)
    kept: list[Operator] = []
    for op in reversed(subgraph.operators):
        if not op.outputs or wanted & set(op.outputs):
            kept.append(op)
            wanted |= {x for x in op.inputs if x >= 0}
    # A float32 input that nothing reads is refused.
    inputs = [x for x in subgraph.inputs if x in wanted or not drop_inputs and subgraph.tensors[x].dtype == "int8"]
    inputs = inputs or list(subgraph.inputs[:1])
    used = wanted | set(inputs) | {y for op in kept for y in (*op.outputs, *op.intermediates)}
    return _renumbered(subgraph, kept[::-1], [t for t in subgraph.tensors if t.index in used], inputs)


def _renumbered(subgraph: Subgraph, operators: Iterable[Operator], tensors: list[Tensor],
                inputs: list[int]) -> Subgraph:
    new = {tensor.index: at for at, tensor in enumerate(tensors)} | {-1: -1}

    def moved(indices: Iterable[int]) -> tuple[int, ...]:
        return tuple(new[index] for index in indices)
    return replace(subgraph, tensors=tuple(replace(t, index=at) for at, t in enumerate(tensors)),
                   operators=tuple(replace(op, index=at, inputs=moved(op.inputs), outputs=moved(op.outputs),
                                           intermediates=moved(op.intermediates)) for at, op in enumerate(operators)),
                   inputs=moved(inputs), outputs=moved(subgraph.outputs))
