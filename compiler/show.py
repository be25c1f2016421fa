"""The result of a pass as readable text: `tq-hw compile --dump-after PASS`."""

from collections.abc import Iterator
from dataclasses import fields

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.ir.layers import Graph, Layer
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.places import LayerPlan, Plan
from tq_hw.compiler.stream.stream import Access, Operation
from tq_hw.isa.program import Program

__all__ = ["show"]

#: The scratchpad's name in accesses, in words; memory regions have their own names, and are in bytes.
_PAD = "pad"


def show(graph: Graph, result: object) -> Iterator[str]:
    """Yield the lines of one pass's result; `graph` has the latest layers.

    - Graph: a line for each layer with its input and output shapes, and the places of tensors within others
    - Plan: the address of each value, the rectangles of each layer
    - Emitter: a line for each operation
    - Program: sizes
    """
    match result:
        case Graph():
            yield from _graph(result)
        case Plan():
            yield from _plan(graph, result)
        case Emitter():
            yield from _operations(result)
        case Program():
            yield from _program(result)
        case _:
            raise TypeError(f"no text for {type(result).__name__}")


def _value(value: Value) -> str:
    text = f"{value.name}[{'x'.join(map(str, value.shape))}]"
    if value.data is not None:
        text += " constant"
    if value.alias_of is not None:
        place = value.place
        text += (f" in {value.root.name} at {place.offset_bytes}, rows of {place.row_bytes}, pixels of "
                 f"{place.pixel_bytes} bytes")
    return text


def _layer(number: int, layer: Layer) -> str:
    reads = ", ".join(_value(value) for value in layer.inputs)
    return f"{number:4} {type(layer).__name__:12} {layer.op}:{layer.index} ({reads}) -> {_value(layer.output)}"


def _graph(graph: Graph) -> Iterator[str]:
    for value in graph.inputs:
        yield f"in   {_value(value)}"
    for number, layer in enumerate(graph.layers):
        yield _layer(number, layer)
    for value in graph.outputs:
        yield f"out  {_value(value)}"


def _plan(graph: Graph, plan: Plan) -> Iterator[str]:
    names = {id(value): value.name for layer in graph.layers for value in (*layer.inputs, layer.output)}
    for number, (layer, cut) in enumerate(zip(graph.layers, plan.layers, strict=True)):
        group = plan.group_of(number)
        yield (f"{_layer(number, layer)}: {_cut(cut)}; ring from word {plan.ring_bases[number]}"
               + (f"; cascades with layers {group.first} to {group.last}" if group else ""))
    for key, base in plan.resident.items():
        yield f"resident {names.get(key, '-')} at word {base}"
    for key, (host, box) in plan.parts.items():
        yield f"part {names.get(key, '-')} of {host.name}: {box}"
    for name in sorted(names[key] for key in plan.stored if key in names):
        yield f"stored {name}"


def _cut(cut: LayerPlan) -> str:
    shown = ("rows", "cols", "blocks", "slots", "in_words", "out_words", "lead_rows")
    text = ", ".join(f"{name} {getattr(cut, name)}" for name in shown if getattr(cut, name))
    return text + (f", folded into {len(cut.fold.steps)} steps" if cut.fold else "")


def _access(access: Access) -> str:
    unit = "words" if access.space == _PAD else "bytes"
    return f"{access.space} {unit} {access.low}..{access.high - 1}"


def _operations(emitter: Emitter) -> Iterator[str]:
    numbers = dict.fromkeys(emitter.stream.by_unit, 0)
    for item in emitter.stream.items:
        if not isinstance(item, Operation):
            yield f"     {type(item).__name__} " + ", ".join(
                f"{field.name} {getattr(item, field.name)}" for field in fields(item))
            continue
        number = numbers[item.unit]
        numbers[item.unit] += 1
        tokens = "".join(f" wait {unit.name.lower()}:{count}" for unit, count in item.wait.items() if count)
        tokens += "".join(f" post {unit.name.lower()}:{count}" for unit, count in item.post.items() if count)
        reads, writes = (", ".join(map(_access, part)) or "nothing" for part in (item.reads, item.writes))
        yield f"{item.unit.name.lower():6} {number:5} layer {item.layer}: reads {reads}; writes {writes};{tokens}"


def _program(program: Program) -> Iterator[str]:
    yield f"image {len(program.image)} bytes, commands {program.command_bytes} from {program.command_offset}"
    yield f"arena {program.arena_bytes} bytes, state {len(program.state)} bytes"
    for side, ports in (("in", program.inputs), ("out", program.outputs)):
        for port in ports:
            yield (f"{side:4} {port.name} {port.dtype}[{'x'.join(map(str, port.shape))}] region {port.region} at "
                   f"{port.region_offset_bytes}")
