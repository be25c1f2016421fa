"""Resolves what a model decides before it runs: WHILE and IF with known conditions, and constant variables.

A loop becomes copies of its body, one per iteration; a choice becomes the operators of its branch. Composites,
windows, assignments and paddings, which PyTorch's exports have, become the operators that compute them. A variable that
only CALL_ONCE sets is a constant.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tq_hw.model.errors import TqError
from tq_hw.model.graph import Model, Operator, Subgraph, Tensor
from tq_hw.model.rules.node import Node
from tq_hw.model.rules.scatters import SCATTER, of_scatter
from tq_hw.model.rules.shape_values import shape_values
from tq_hw.model.rules.stable_pads import STABLE_PAD, of_pad
from tq_hw.model.rules.variables import variable_names
from tq_hw.model.rules.windows import REDUCE_WINDOW, of_windows

__all__ = ["REPLACED", "decided"]

#: Longer loops, and more operators in total, stay as they are, so that a small file cannot grow without bound.
_ROUND_LIMIT, _OPERATOR_LIMIT = 1024, 1 << 14
_COMPOSITE = "STABLEHLO_COMPOSITE"
#: Operators that others take the place of, and where; each completes "it is supported ...".
REPLACED = {"IF": "where its condition follows from shapes and constants",
            "WHILE": f"where its conditions follow from shapes and constants, for up to {_ROUND_LIMIT:,} rounds",
            _COMPOSITE: "where the operators of its subgraph are",
            REDUCE_WINDOW: "for the maximum or minimum of dequantized codes, and for float32 sums",
            SCATTER: "where it assigns at indices that follow from shapes and constants",
            STABLE_PAD: "with paddings of 0 or more"}
#: Types of codes, which mean a number by scale and zero point.
_CODES = ("int8", "uint8", "int16")


def decided(model: Model) -> Model:
    """Return the model with copies of loop bodies and branches, and constants for variables that never change.

    What is unknown before the run stays as it is. Operators from a loop or a choice get its index.
    """
    constants = _constant_variables(model)
    if constants:
        model = replace(model, subgraphs=(_read(model.main, constants), *model.subgraphs[1:]))
    if not any(op.op in REPLACED for op in model.main.operators):
        return model
    return replace(model, subgraphs=(_Unrolled(model).run(), *model.subgraphs[1:]))


def _constant_variables(model: Model) -> dict[str, Tensor]:
    """Return what variables hold that only CALL_ONCE of the main subgraph sets, to a constant."""
    first = {op.options.get("init_subgraph_index") for op in model.main.operators if op.op == "CALL_ONCE"}
    found: dict[str, Tensor] = {}
    written: set[str] = set()
    for number, subgraph in enumerate(model.subgraphs):
        names = variable_names(subgraph)
        for op in subgraph.operators:
            if op.op != "ASSIGN_VARIABLE" or len(op.inputs) != 2 or op.inputs[0] not in names:
                continue
            name, value = names[op.inputs[0]], subgraph.tensors[op.inputs[1]]
            if number in first and value.data is not None and name not in written:
                found[name] = value
            else:
                found.pop(name, None)
            written.add(name)
    return found


def _read(main: Subgraph, constants: dict[str, Tensor]) -> Subgraph:
    """Return the main subgraph with constants for what is read of these variables."""
    names, tensors, kept = variable_names(main), list(main.tensors), []
    for op in main.operators:
        source = constants.get(names.get(op.inputs[0], "")) if op.op == "READ_VARIABLE" and op.inputs else None
        target = tensors[op.outputs[0]] if op.outputs else None
        if (source is not None and target is not None and op.outputs[0] not in main.outputs
                and (source.dtype, source.shape) == (target.dtype, target.shape)):
            tensors[target.index] = replace(target, data=source.data)
        else:
            kept.append(op)
    read = {index for op in kept for index in op.inputs}
    kept = [op for op in kept if op.op != "VAR_HANDLE" or op.outputs[0] in read]
    if not any(op.op == "VAR_HANDLE" for op in kept):
        kept = [op for op in kept if op.op != "CALL_ONCE"]
    return replace(main, tensors=tuple(tensors), operators=tuple(kept))


class _Unrolled:
    """One walk over the main subgraph.

    Members
    -------
    tensors : of the result; what is known of integers before the run is in `known`, place by place
    """

    def __init__(self, model: Model):
        self.model = model
        self.tensors, self.known = list(model.main.tensors), list(model.main.tensors)
        self._operators: list[Operator] = []
        self._same: dict[int, int] = {}

    def run(self) -> Subgraph:
        """Return the main subgraph without composites, and without loops and choices that are known."""
        main = self.model.main
        for op in main.operators:
            self._visit(op)
        outputs = tuple(self._same.get(index, index) for index in main.outputs)
        for old, new in zip(main.outputs, outputs, strict=True):
            # The caller knows its outputs by their names.
            self.tensors[new] = replace(self.tensors[new], name=main.tensors[old].name)
        return replace(main, tensors=tuple(self.tensors), operators=tuple(self._operators), outputs=outputs)

    def _visit(self, op: Operator) -> None:
        op = replace(op, inputs=tuple(self._same.get(index, index) for index in op.inputs))
        if op.op in REPLACED and (outputs := self._chosen(op)) is not None:
            self._same.update(zip(op.outputs, outputs, strict=True))
            return
        self._operators.append(op)
        _evaluate(op, self.known)

    def _chosen(self, op: Operator) -> list[int] | None:
        """Unroll a loop, enter a branch or composite; return the tensors that the outputs are, None if not known."""
        before = len(self.tensors), len(self._operators), dict(self._same)
        outputs = self._called(op)
        if outputs is None or len(self._operators) > _OPERATOR_LIMIT or not self._are_same(
                outputs, [self.tensors[index] for index in op.outputs]):
            del self.tensors[before[0]:], self.known[before[0]:], self._operators[before[1]:]
            self._same = before[2]
            return None
        return outputs

    def _called(self, op: Operator) -> list[int] | None:
        if op.op == _COMPOSITE:
            return self._copy(op, "decomposition_subgraph_index", op.inputs)
        if op.op == REDUCE_WINDOW:
            return self._windows(op)
        if op.op == SCATTER:
            return self._assigned(op)
        if op.op == STABLE_PAD:
            return self._replaced(of_pad(op, self.tensors, self._added) if len(op.inputs) == 2 else None)
        return self._branch(op) if op.op == "IF" else self._loop(op)

    def _branch(self, op: Operator) -> list[int] | None:
        taken = _truth(self.known[op.inputs[0]])
        if taken is None:
            return None
        return self._copy(op, "then_subgraph_index" if taken else "else_subgraph_index", op.inputs[1:])

    def _loop(self, op: Operator) -> list[int] | None:
        current: list[int] | None = list(op.inputs)
        for _ in range(_ROUND_LIMIT):
            goes_on = self._condition(op, current or ())
            if current is None or goes_on is None or len(self._operators) > _OPERATOR_LIMIT:
                return None
            if not goes_on:
                return current
            body = self._callee(op, "body_subgraph_index")
            current = None if body is None or _is_overwritten(body) else self._copy(op, "body_subgraph_index", current)
        return None

    def _callee(self, op: Operator, option: str) -> Subgraph | None:
        """Return a subgraph that keeps no state from one iteration to the next."""
        number = op.options.get(option)
        if not isinstance(number, int) or not 0 < number < len(self.model.subgraphs):
            return None
        callee = self.model.subgraphs[number]
        return None if any(tensor.is_variable for tensor in callee.tensors) else callee

    def _condition(self, op: Operator, inputs: Sequence[int]) -> bool | None:
        callee = self._callee(op, "cond_subgraph_index")
        if callee is None or len(callee.inputs) != len(inputs) or len(callee.outputs) != 1:
            return None
        tensors = list(callee.tensors)
        for inner, outer in zip(callee.inputs, inputs, strict=True):
            tensors[inner] = replace(tensors[inner], shape=self.known[outer].shape, data=self.known[outer].data)
        for each in callee.operators:
            _evaluate(each, tensors)
        return _truth(tensors[callee.outputs[0]])

    def _are_same(self, given: Sequence[int], taken: Sequence[Tensor]) -> bool:
        """Whether codes mean the same to who takes them: the kernels copy bytes, whatever the scales are."""
        return len(given) == len(taken) and all(
            one.dtype == other.dtype and (one.dtype not in _CODES or one.quantization == other.quantization)
            for one, other in zip((self.tensors[index] for index in given), taken, strict=True))

    def _copy(self, op: Operator, option: str, inputs: Sequence[int]) -> list[int] | None:
        """Add the operators of a subgraph; return the tensors of its outputs."""
        callee = self._callee(op, option)
        if callee is None or not self._are_same(inputs, [callee.tensors[index] for index in callee.inputs]):
            return None
        new = {-1: -1, **dict(zip(callee.inputs, inputs, strict=True))}
        for tensor in callee.tensors:
            if tensor.index not in new:
                new[tensor.index] = self._added(tensor)
        for each in callee.operators:
            self._visit(replace(each, index=op.index, inputs=tuple(new[index] for index in each.inputs),
                                outputs=tuple(new[index] for index in each.outputs),
                                intermediates=tuple(new[index] for index in each.intermediates)))
        return [self._same.get(new[index], new[index]) for index in callee.outputs]

    def _added(self, tensor: Tensor) -> int:
        self.tensors.append(replace(tensor, index=len(self.tensors)))
        self.known.append(self.tensors[-1])
        return self.tensors[-1].index

    def _windows(self, op: Operator) -> list[int] | None:
        """Add the operators that reduce windows; return the tensor of their result."""
        body = self._callee(op, "body_subgraph_index")
        return self._replaced(
            None if body is None else of_windows(op, body, self._operators, self.tensors, self._added))

    def _assigned(self, op: Operator) -> list[int] | None:
        """Add the operators that assign at known indices; return the tensor of their result."""
        body = self._callee(op, "update_computation_subgraph_index")
        return self._replaced(None if body is None or len(op.inputs) != 3 else of_scatter(
            op, body, self.known[op.inputs[1]], self.tensors, self._added))

    def _replaced(self, new: Sequence[Operator] | None) -> list[int] | None:
        for each in new or ():
            self._visit(each)
        return list(new[-1].outputs) if new else None


def _is_overwritten(body: Subgraph) -> bool:
    """Whether a body gives on what it was given, to another place after its own, which has got something else by then.

    LiteRT copies results to the places of what was given one after the other; TFLite Micro keeps them apart.
    """
    given = body.inputs
    return any(one == given[before] and body.outputs[before] != given[before]
               for at, one in enumerate(body.outputs) for before in range(min(at, len(given))))


def _evaluate(op: Operator, tensors: list[Tensor]) -> None:
    """Keep the results of an operator that are known."""
    try:
        results = shape_values(Node(op, tensors, f"operator {op.index} {op.op}"))
    except TqError:  # said where the operator's rules are checked
        return
    for index, result in zip(op.outputs, results or (), strict=False):
        tensors[index] = replace(tensors[index], shape=result.shape, data=result)


def _truth(tensor: Tensor) -> bool | None:
    if tensor.data is None or tensor.data.size != 1 or tensor.dtype != "bool":
        return None
    return bool(np.asarray(tensor.data).reshape(()))
