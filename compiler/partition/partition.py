"""`partition`: the largest parts of a model that the accelerator takes, compiled, and the rest for the host.

Contract: the mixed model computes every integer, and every float, of the whole model in LiteRT's arithmetic (profile
`litert`). A part is a connected convex set of units (`units.py`), so it runs as one step between others; no two parts
with a tensor between them could be one. Within a part the program is what `compile_model` makes of a model of its
operators alone. Operators of the host keep options, versions and contents. What shares a state stays on one side.
"""

import re
from dataclasses import dataclass, replace

from tq_hw.compiler.compile import Compiled, compile_model
from tq_hw.compiler.partition.clusters import clusters, schedule
from tq_hw.compiler.partition.macs import macs_of
from tq_hw.compiler.partition.units import Unit, find_units, order_of, used_outputs
from tq_hw.compiler.rewrite.fold_constants import fold_constants
from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.cut import cut
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model, Operator
from tq_hw.model.mixed import ACCELERATED
from tq_hw.sim.golden.profiles import check_profile

__all__ = ["Partition", "partition"]

#: Other views of the same bytes, and conversions of single elements: alone they are not worth the way.
_TRIFLES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "QUANTIZE", "DEQUANTIZE", "CAST")
_NO_WORK = "it computes nothing by itself, next to operators of the host"


@dataclass(frozen=True)
class Partition:
    """A model in parts.

    Members
    -------
    model : the mixed model; tensors and operators have the index that they have in the file, an accelerated part that
        of its first operator
    parts : of each accelerated part what was compiled, in the order of the mixed model
    units : all of the model's units, with why the host keeps one
    """

    model: Model
    parts: tuple[Compiled, ...]
    units: tuple[Unit, ...]

    @property
    def refused(self) -> list[tuple[Operator, str]]:
        """Operators of the host, and why the accelerator does not take them."""
        return [(op, unit.refusal) for unit in self.units if unit.refusal for op in unit.operators]

    @property
    def macs(self) -> tuple[int, int]:
        """Multiplications on the accelerator, and all of them."""
        tensors = self.model.main.tensors
        counts = [(not unit.refusal, macs_of(op, tensors)) for unit in self.units for op in unit.operators]
        return sum(count for taken, count in counts if taken), sum(count for _, count in counts)


def partition(model: Model, config: Config, memory: Memory | None = None) -> Partition:
    """Split `model` (read without rules) and compile the accelerated parts for `config` and `memory`.

    Raises `UnsupportedError` when the accelerator takes none of it, or LiteRT has no defined result for what is left,
    `ModelError` for an operator of int8 that breaks its rules.
    """
    model = model.under("litert")
    model = replace(model, subgraphs=(fold_constants(model, integers=True), *model.subgraphs[1:]))
    units = _settle(model, find_units(model))
    # An engine that computes anything there may as well end the process.
    check_profile(model, {op.index for unit in units if unit.refusal for op in unit.operators}, refused=False)
    done: dict[tuple[int, ...], Compiled] = {}
    while True:
        after = order_of(model.main, [unit.operators for unit in units])
        sets = clusters(after, [not unit.refusal for unit in units])
        if not sets:
            raise UnsupportedError(f"{model.name}: the accelerator takes no operator of the model: {_first(units)}")
        worse = _compile(model, config, memory, units, sets, done)
        if worse is None:
            steps = schedule(after, sets)
            return _assemble(model, units, [tuple(nodes) for nodes in sets], steps, done)
        units = _settle(model, worse)


def _settle(model: Model, units: list[Unit]) -> list[Unit]:
    """Leave sets of trifles with the host."""
    sets = clusters(order_of(model.main, [unit.operators for unit in units]), [not unit.refusal for unit in units])
    left = {node for nodes in sets for node in nodes
            if all(op.op in _TRIFLES for each in nodes for op in units[each].operators)}
    return [replace(unit, refusal=_NO_WORK) if number in left else unit for number, unit in enumerate(units)]


def _first(units: list[Unit]) -> str:
    op, why = next(((unit.operators[0], unit.refusal) for unit in units if unit.refusal != _NO_WORK),
                   (units[0].operators[0], units[0].refusal)) if units else (None, "it has none")
    return why if op is None else f"operator {op.index} ({op.op}): {why}"


def _compile(model: Model, config: Config, memory: Memory | None, units: list[Unit], sets: list[list[int]],
             done: dict[tuple[int, ...], Compiled]) -> list[Unit] | None:
    """Compile what is not in `done` by its operators; return the units anew when one is refused after all."""
    for nodes in sets:
        operators = _operators(units, nodes)
        key = tuple(op.index for op in operators)
        if key in done:
            continue
        part = cut(model, operators, used_outputs(model.main, operators))
        try:
            done[key] = compile_model(part, config, memory=memory)
        except UnsupportedError as error:
            named = re.match(r"operator (\d+) \([\w:]+\): ", str(error))
            refused = {number for number in nodes for op in units[number].operators
                       if named is None or op.index == int(named[1])}
            why = str(error).removeprefix(named[0]) if named else str(error)
            return [replace(unit, refusal=why) if number in (refused or nodes) else unit
                    for number, unit in enumerate(units)]
    return None


def _operators(units: list[Unit], nodes: "list[int] | tuple[int, ...]") -> list[Operator]:
    """Return the operators of some units in the order of the units, which is one in which they can run."""
    return [op for number in sorted(nodes) for op in units[number].operators]


def _assemble(model: Model, units: list[Unit], sets: list[tuple[int, ...]], steps: list[list[int]],
              done: dict[tuple[int, ...], Compiled]) -> Partition:
    operators: list[Operator] = []
    parts = []
    for nodes in steps:
        inner = _operators(units, nodes)
        if tuple(nodes) not in sets:
            operators += inner
            continue
        compiled = done[tuple(op.index for op in inner)]
        part = cut(model, inner, used_outputs(model.main, inner)).main
        parts.append(compiled)
        operators.append(Operator(inner[0].index, ACCELERATED, part.inputs, part.outputs,
                                  custom_options=to_bytes(compiled.program)))
    main = replace(model.main, operators=tuple(operators))
    read = {index for op in operators for index in op.inputs} | set(main.outputs)
    tensors = tuple(tensor if tensor.data is None or tensor.index in read else replace(tensor, data=None)
                    for tensor in main.tensors)
    kept = replace(main, tensors=tensors)
    return Partition(replace(model, subgraphs=(kept, *model.subgraphs[1:])), tuple(parts), tuple(units))
