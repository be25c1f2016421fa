"""Rules for the records of a compiled program, whoever made it: one function each, whose docstring is the rule.

They are checked when a `Program` is made; command_rules.py has the rules for its commands. Together they refuse every
program that would make an engine run forever or take unlimited memory. docs/reference/compiled-file.md lists them.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from tq_hw.isa.record import REGION_ARENA, REGION_IMAGE, REGION_STATE, Layer, Port, Record

__all__ = ["BOUNDS", "DTYPES", "EDGES", "LAYER_UNITS", "MOST_JSON_BYTES", "MOST_MEMORY_BYTES", "MOST_PORTS",
           "MOST_TENSOR_BYTES", "PROFILES", "PROGRAM_RULES", "ProgramError", "check_program", "check_tensor_bytes",
           "quoted", "require", "run_ranges"]

#: Bytes of an element; the position is the code in a port record.
DTYPES = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8, "float32": 4, "bool": 1}
#: What the host does at a port whose model tensor is float32; the position is the code in a port record.
EDGES = ("none", "quantize", "dequantize")
#: Element types of a port that has an edge.
_EDGE_DTYPES = ("int8", "uint8", "int16")
#: The unit that computes a layer, and what limits the layer.
LAYER_UNITS = ("load", "array", "vector", "store", "none", "host")
BOUNDS = ("", "compute", "weights", "activations", "vector")
#: Whose arithmetic a program computes: those of `model.graph`, which this package cannot import.
PROFILES = ("canon", "tflm", "litert")

#: Image, arena and state together: the largest memory of a board.
MOST_MEMORY_BYTES = 1 << 28
#: All inputs together, or all outputs.
MOST_TENSOR_BYTES = 1 << 25
MOST_PORTS = 1024
MOST_NAME_BYTES = 1 << 16
MOST_JSON_BYTES = 1 << 23
_MOST_RANK = 8
_FLOAT32 = (2.0 ** -149, (2 - 2.0 ** -23) * 2.0 ** 127)
_SHOWN = 80


class ProgramError(ValueError):
    """A compiled file or a `Program` breaks the format; the message says what was expected and found."""


def require(holds: bool, message: str) -> None:
    """Raise ProgramError unless `holds`."""
    if not holds:
        raise ProgramError(message)


def quoted(text: str) -> str:
    """Return a name as messages show it: in quotes, on one line, shortened if long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _rule_commands(program: Record) -> None:
    """The commands are one or more whole words, start at a multiple of 16, and are in the image."""
    require(program.command_offset % 16 == 0 and program.command_bytes % 4 == 0,
            f"commands must start at a multiple of 16 and have whole words, not offset {program.command_offset}, "
            f"{program.command_bytes} bytes")
    require(program.command_offset >= 0 and program.command_bytes > 0
            and program.command_offset + program.command_bytes <= len(program.image),
            f"commands at {program.command_offset}, {program.command_bytes} bytes, must lie in the image of "
            f"{len(program.image)} bytes")


def _rule_memory(program: Record) -> None:
    """Image, arena and state have at most 268,435,456 bytes together, the size of the largest memory of a board."""
    sizes = (len(program.image), program.arena_bytes, len(program.state))
    require(min(sizes) >= 0 and sum(sizes) <= MOST_MEMORY_BYTES,
            f"image, arena and state must have at most {MOST_MEMORY_BYTES:,} bytes together, not {sizes[0]:,}, "
            f"{sizes[1]:,} and {sizes[2]:,}")


def _rule_name(program: Record) -> None:
    """The model's name is printable text of at most 65,536 bytes."""
    require(program.name.isprintable() and len(program.name.encode()) <= MOST_NAME_BYTES,
            f"the model's name must be printable text of at most {MOST_NAME_BYTES:,} bytes, not {quoted(program.name)}")


def _rule_profile(program: Record) -> None:
    """The profile is canon, tflm or litert."""
    require(program.profile in PROFILES,
            f"profile must be one of {', '.join(PROFILES)}, not {quoted(program.profile)}")


def _rule_ports(program: Record) -> None:
    """Inputs and outputs are at most 1,024; all inputs together, and all outputs, have at most 33,554,432 bytes."""
    count = len(program.inputs) + len(program.outputs)
    require(count <= MOST_PORTS, f"there may be {MOST_PORTS:,} inputs and outputs, not {count:,}")
    for what, ports in (("inputs", program.inputs), ("outputs", program.outputs)):
        for port in ports:
            _check_port(port, program)
        check_tensor_bytes(what, sum(port.size_bytes for port in ports))


def check_tensor_bytes(what: str, size: int) -> None:
    """Refuse more bytes than all inputs, or all outputs, may have (ProgramError)."""
    require(size <= MOST_TENSOR_BYTES,
            f"the {what} must have at most {MOST_TENSOR_BYTES:,} bytes together, not {size:,}")


def _check_port(port: Port, program: Record) -> None:
    where = f"port {quoted(port.name)}"
    require(len(port.name.encode()) <= MOST_NAME_BYTES,
            f"{where}: the name must have at most {MOST_NAME_BYTES:,} bytes")
    require(port.dtype in DTYPES, f"{where}: dtype must be one of {', '.join(DTYPES)}, not {port.dtype!r}")
    require(port.edge in EDGES, f"{where}: edge must be one of {', '.join(EDGES)}, not {port.edge!r}")
    require(port.region in (REGION_IMAGE, REGION_ARENA, REGION_STATE),
            f"{where}: region must be 0, 1 or 2, not {port.region}")
    require(len(port.shape) <= _MOST_RANK and all(0 <= size < 1 << 31 for size in port.shape)
            and math.prod(max(size, 1) for size in port.shape) < 1 << 31,
            f"{where}: shape must have at most eight dimensions and less than 2^31 elements, not {port.shape}")
    size_bytes = DTYPES[port.dtype] * math.prod(port.shape)
    require(port.size_bytes == size_bytes, f"{where}: size must be {size_bytes} bytes, not {port.size_bytes}")
    require(-1 << 31 <= port.zero_point < 1 << 31, f"{where}: zero point {port.zero_point} is not an int32")
    require(math.isfinite(port.scale) and 0 <= port.scale <= _FLOAT32[1],
            f"{where}: scale must be 0 or a positive float32, not {port.scale}")
    region_bytes = program.region_bytes(port.region)
    require(0 <= port.region_offset_bytes <= region_bytes - size_bytes,
            f"{where}: {size_bytes} bytes at {port.region_offset_bytes} must lie in region {port.region} of "
            f"{region_bytes} bytes")


def _rule_edges(program: Record) -> None:
    """Inputs may be quantized (int8, uint8, int16), outputs dequantized (all but float32); both need a scale."""
    for port in program.inputs:
        require(port.edge != "dequantize", f"input {quoted(port.name)} must not be dequantized")
    for port in program.outputs:
        require(port.edge != "quantize", f"output {quoted(port.name)} must not be quantized")
    for port in (*program.inputs, *program.outputs):
        dtypes = _EDGE_DTYPES if port.edge == "quantize" else tuple(dtype for dtype in DTYPES if dtype != "float32")
        require(port.edge == "none" or (port.dtype in dtypes and port.scale >= _FLOAT32[0]),
                f"port {quoted(port.name)}: only {', '.join(dtypes)} with a scale above 0 can be {port.edge}d, "
                f"not {port.dtype} with scale {port.scale}")


def _rule_inputs(program: Record) -> None:
    """Inputs are in the arena or the state; two of them overlap only if they are one tensor."""
    placed = sorted({(port.region, port.region_offset_bytes, port.size_bytes): port for port in program.inputs
                     if port.size_bytes}.items(), key=lambda item: item[0])
    for (region, _, _), port in placed:
        require(region != 0, f"input {quoted(port.name)} must lie in region 1 or 2, not in the image")
    for ((region, at, size), port), ((other_region, begin, _), other) in zip(placed, placed[1:], strict=False):
        require(region != other_region or at + size <= begin,
                f"inputs {quoted(port.name)} and {quoted(other.name)} overlap in region {region}")


def _rule_layers(program: Record) -> None:
    """A layer's index is unique; index, macs, cycles and bytes are 0 to 2^63-1; the operator is printable text."""
    seen: set[int] = set()
    for layer in program.layers:
        where = f"layer {layer.index}"
        require(min(layer.index, layer.macs, layer.estimated_cycles, layer.bytes_moved) >= 0
                and max(layer.index, layer.macs, layer.estimated_cycles, layer.bytes_moved) < 1 << 63,
                f"{where}: index, macs, estimated_cycles and bytes_moved must be 0 to 2^63-1")
        require(layer.index not in seen, f"two layers have the index {layer.index}")
        seen.add(layer.index)
        require(layer.op.isprintable(), f"{where}: the operator must be printable text, not {quoted(layer.op)}")
        require(layer.unit in LAYER_UNITS, f"{where}: unit must be one of {', '.join(LAYER_UNITS)}, not "
                f"{quoted(layer.unit)}")
        require(layer.bound in BOUNDS, f"{where}: bound must be one of {', '.join(BOUNDS[1:])} or empty, not "
                f"{quoted(layer.bound)}")


def _rule_runs(program: Record) -> None:
    """The ranges of RUNs of a layer name existing units, and no RUN belongs to two layers."""
    for unit, ranges in run_ranges(program.layers).items():
        for (a, b, one), (c, _, other) in zip(ranges, ranges[1:], strict=False):
            require(c > b, f"RUNs {a}..{b} of the {unit} unit belong to both layers {one} and {other}")


def run_ranges(layers: Iterable[Layer]) -> dict[str, list[tuple[int, int, int]]]:
    """Return (first, last, layer) of all ranges by unit, in order."""
    out: dict[str, list[tuple[int, int, int]]] = {}
    for layer in layers:
        for unit, ranges in layer.runs.items():
            require(unit in ("load", "array", "vector", "store"),
                    f"layer {layer.index} names an unknown unit {quoted(unit)}")
            for first, last in ranges:
                require(0 <= first <= last, f"layer {layer.index} has RUNs {first}..{last} of the {unit} unit")
                out.setdefault(unit, []).append((first, last, layer.index))
    return {unit: sorted(ranges) for unit, ranges in out.items()}


#: Rules of the records, in the order in which they are checked.
PROGRAM_RULES: Sequence[Callable[[Record], None]] = (
    _rule_name, _rule_profile, _rule_memory, _rule_commands, _rule_ports, _rule_edges, _rule_inputs, _rule_layers,
    _rule_runs)


def check_program(program: Record) -> None:
    """Raise ProgramError for the first rule of the records that a program breaks."""
    for rule in PROGRAM_RULES:
        rule(program)
