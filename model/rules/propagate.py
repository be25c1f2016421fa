"""Shapes from the inputs: a model with open dimensions becomes one whose every shape is known.

Exporters leave the batch open: `shape_signature` has -1, and the stored shape has 1. At tensors inside the model that
is only a hint. The sizes of the inputs, stored or requested, are propagated through every operator as by LiteRT's
`AllocateTensors`, and operators that compute with shapes become constants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tq_hw.model.errors import ModelError, TqError, UnmetError, UnsupportedError
from tq_hw.model.graph import Model, Operator, Subgraph, Tensor
from tq_hw.model.rules.check import check_signature
from tq_hw.model.rules.node import Node
from tq_hw.model.rules.shape_values import ELEMENT_LIMIT, ONLY_KNOWN, shape_values
from tq_hw.model.rules.shapes import output_shapes
from tq_hw.model.rules.sizes import MAX_RANK, too_large
from tq_hw.model.rules.stored_shapes import stores_another_shape

__all__ = ["InputShapes", "propagate_shapes"]

#: Elements that arithmetic on shapes reads and writes in all, so that a small file takes neither long nor much memory.
_VALUES_LIMIT = 256 * ELEMENT_LIMIT


@dataclass(frozen=True)
class InputShapes:
    """What a user wants to run of a model: which signature, with which sizes of open dimensions of its inputs.

    Members
    -------
    batch : size of each open dimension 0, or None: as stored
    named : whole shapes by the name of the input's tensor, or by that which the signature gives it
    signature : its name, "" for the first subgraph
    """

    batch: int | None = None
    named: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    signature: str = ""


def propagate_shapes(model: Model, name: str, wanted: InputShapes, *, rules: bool = True) -> Model:
    """Return the model with shapes that follow from its inputs; the model itself if no dimension is open.

    Where none is, operators that are taken only where their results are known become constants all the same, and
    results for which converters store another shape have the one that kernels give them.
    Operators keep their index. Without `rules`, an operator that breaks one leaves the stored shapes of its outputs.
    Raises `UnmetError` for a wish that the inputs cannot meet or that contradicts itself, `ModelError` or
    `UnsupportedError` naming the operator whose shapes contradict each other or depend on data.
    """
    main = model.main
    if not any(-1 in tensor.shape_signature for tensor in main.tensors):
        if wanted.batch is not None or wanted.named:
            raise UnmetError(f"{name}: {_option(wanted)} sizes open dimensions, but all dimensions of the inputs are "
                              f"fixed: {_inputs(main)}; export the model with an open batch")
        other = any(stores_another_shape(op, main.tensors) for op in main.operators)
        if not _only_known(main) and not other:
            return model
        return replace(model, subgraphs=(_Propagation(main, name, wanted, rules).run(), *model.subgraphs[1:]),
                       is_propagated=other)
    wanted = replace(wanted, named=_by_tensor(model, name, wanted))
    try:
        found = _Propagation(main, name, wanted, rules).run()
    except (ModelError, UnsupportedError) as error:
        raise type(error)(error.reason, error.offer + _taken_as_stored(main, wanted)) from error
    return replace(model, subgraphs=(found, *model.subgraphs[1:]), is_propagated=True)


def _by_tensor(model: Model, name: str, wanted: InputShapes) -> dict[str, tuple[int, ...]]:
    """Return the named shapes by the names of tensors; a signature's own names are those of its inputs, too."""
    main = model.main
    tensors = {main.tensors[index].name for index in main.inputs}
    signed = dict[str, str]()
    # A subgraph may have several signatures: the one that was asked for goes first.
    for each in sorted(model.signatures, key=lambda each: each.name != wanted.signature):
        for given, index in each.inputs.items() if each.subgraph == 0 else ():
            signed.setdefault(given, main.tensors[index].name)
    found: dict[str, tuple[int, ...]] = {}
    for given, shape in wanted.named.items():
        tensor = given if given in tensors else signed.get(given, given)
        if tensor in found:
            raise UnmetError(f"{name}: --shape {given}: {tensor[:60]!r} is the same input, which is named twice")
        found[tensor] = shape
    return found


def _only_known(subgraph: Subgraph) -> bool:
    """Whether there are operators on integers whose results are constants where they are known."""
    return any(op.op in ONLY_KNOWN and not any(index >= 0 and subgraph.tensors[index].dtype == "float32"
                                               for index in op.inputs if op.op != "ZEROS_LIKE")
               for op in subgraph.operators)


def _option(wanted: InputShapes) -> str:
    if wanted.named:
        return f"--shape {next(iter(wanted.named))}"
    return f"--batch {wanted.batch}"


def _taken_as_stored(main: Subgraph, wanted: InputShapes) -> str:
    """Return what helps where stored sizes, mostly 1, are too small for a model; "" where only batches are open."""
    for tensor in map(main.tensors.__getitem__, main.inputs):
        if -1 in tensor.shape_signature[1:] and tensor.name not in wanted.named:
            return (f"; the model leaves sizes of input {tensor.name[:60]!r} open, which are taken as stored: "
                    f"{list(tensor.shape_signature)} as {list(tensor.shape)}; give others with --shape")
    return ""


def _open_shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape_signature or tensor.shape)


def _hints(tensor: Tensor) -> list[int]:
    """Sizes that a tensor inside the model must have, -1 for any.

    ai-edge-quantizer adds tensors with the stored shapes of others, in which open dimensions are 1, and no signature.
    """
    return list(tensor.shape_signature) or [-1 if size == 1 else size for size in tensor.shape]


def _fits(shape: Sequence[int], signature: Sequence[int]) -> bool:
    """Whether a shape has the sizes of a signature where that is not open."""
    return len(shape) == len(signature) and all(
        size in (-1, new) for size, new in zip(signature, shape, strict=True))


def _inputs(subgraph: Subgraph) -> str:
    return ", ".join(f"{tensor.name[:60]!r} {_open_shape(tensor)}" for tensor in map(
        subgraph.tensors.__getitem__, subgraph.inputs))


class _Propagation:
    """One pass over the main subgraph.

    Members
    -------
    stored : tensors as the file has them
    tensors : tensors as far as they are known by now
    """

    def __init__(self, subgraph: Subgraph, name: str, wanted: InputShapes, rules: bool):
        self.subgraph, self.name, self.rules = subgraph, name, rules
        self.stored = subgraph.tensors
        self.tensors = list(subgraph.tensors)
        self.value_count = 0
        self._set_inputs(wanted)

    def run(self) -> Subgraph:
        """Return the subgraph with all shapes, without the operators that became constants."""
        kept = [op for op in self.subgraph.operators if not self._visit_or_keep(op)]
        tensors = tuple(replace(tensor, shape_signature=()) for tensor in self.tensors)
        return replace(self.subgraph, tensors=tensors, operators=tuple(kept))

    def _set_inputs(self, wanted: InputShapes) -> None:
        names = {self.stored[index].name for index in self.subgraph.inputs}
        for name in wanted.named:
            if name not in names:
                raise UnmetError(f"{self.name}: --shape {name}: there is no such input; inputs are "
                                  f"{_inputs(self.subgraph)}")
        met = wanted.batch is None
        for index in self.subgraph.inputs:
            tensor = self.stored[index]
            signature = _open_shape(tensor)
            shape = list(tensor.shape)
            met |= signature[:1] == [-1]
            if (named := wanted.named.get(tensor.name)) is not None:
                if min(named, default=1) < 1 or not _fits(named, signature):
                    raise UnmetError(f"{self.name}: --shape {tensor.name}={','.join(map(str, named))} does not fit "
                                      f"the input's {signature}; -1 is open")
                if wanted.batch not in (None, named[0] if signature[:1] == [-1] else wanted.batch):
                    raise UnmetError(f"{self.name}: --batch {wanted.batch} and --shape {tensor.name}="
                                      f"{','.join(map(str, named))} contradict each other in the first dimension; "
                                      "leave one of them out, or give both the same size")
                shape = list(named)
            elif wanted.batch is not None and signature[:1] == [-1]:
                shape[0] = wanted.batch
            if (found := too_large(shape, tensor.dtype)) is not None:
                raise UnmetError(f"{self.name}: input {tensor.name[:60]!r}: {found}")
            self.tensors[index] = replace(tensor, shape=tuple(shape))
        if not met:
            raise UnmetError(f"{self.name}: --batch {wanted.batch}: the first dimension of no input is open; inputs "
                              f"are {_inputs(self.subgraph)}")

    def _visit_or_keep(self, op: Operator) -> bool:
        """Visit an operator; where rules are not held, one that breaks them keeps the stored shapes."""
        try:
            return self._visit(op)
        except TqError:
            if self.rules:
                raise
            self._keep_stored(Node(op, self.tensors, f"{self.name}: subgraph 0, operator {op.index} {op.op}"))
            return False

    def _visit(self, op: Operator) -> bool:
        """Set the outputs of one operator; return whether they are constants now."""
        node = Node(op, self.tensors, f"{self.name}: subgraph 0, operator {op.index} {op.op}")
        known = self._has_known_types(node) and self.value_count < _VALUES_LIMIT
        if known and (values := shape_values(node)) is not None:
            self.value_count += sum(tensor.data.size for tensor in node.inputs() if tensor.data is not None)
            for index, value in zip(op.outputs, values, strict=True):
                self._set_output(node, index, value.shape)
                self.tensors[index] = replace(self.tensors[index], data=value)
                self.value_count += value.size if 0 not in value.strides else 1
            return True
        shapes = output_shapes(node)
        if shapes is None:
            self._keep_stored(node)
            return False
        if len(shapes) != len(op.outputs):
            raise node.error(f"has {len(op.outputs)} outputs, expected {len(shapes)}")
        for index, shape in zip(op.outputs, shapes, strict=True):
            self._set_output(node, index, shape)
        return False

    def _has_known_types(self, node: Node) -> bool:
        """Whether an operator has types that the specification has; others, as complex64, have shapes all the same."""
        try:
            check_signature(node)
        except TqError:
            if self.rules:
                raise
            return False
        return True

    def _set_output(self, node: Node, index: int, shape: tuple[int, ...]) -> None:
        """Give an output its shape, which must be the file's where that is not open."""
        signature = _open_shape(self.stored[index])
        # Where the converter did not know the rank, it stores that of a scalar.
        hinted = signature and not stores_another_shape(node.operator, self.stored)
        if hinted and not _fits(shape, _hints(self.stored[index])):
            raise node.error(f"output tensor {index} {self.stored[index].name[:60]!r} has shape {signature}, where -1 "
                             f"is open, expected {list(shape)}")
        if len(shape) > MAX_RANK:
            raise node.error(f"output tensor {index}: rank is {len(shape)}, at most {MAX_RANK} dimensions are "
                             "supported")
        if (found := too_large(shape, self.stored[index].dtype)) is not None:
            raise node.error(f"output tensor {index}: {found}")
        self.tensors[index] = replace(self.tensors[index], shape=shape)

    def _keep_stored(self, node: Node) -> None:
        """Leave the stored shapes of an operator without a rule, or whose shapes depend on data, if nothing moved."""
        moved = any(self.tensors[index].shape != self.stored[index].shape for index in node.operator.inputs
                    if index >= 0)
        for index in node.operator.outputs:
            if moved and -1 in self.stored[index].shape_signature:
                raise node.unsupported(f"output tensor {index} {self.stored[index].name[:60]!r} has an open shape "
                                       f"{_open_shape(self.stored[index])} that does not follow from the inputs' "
                                       "shapes; export the model with fixed shapes")
