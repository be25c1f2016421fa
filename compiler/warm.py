"""The program of warm inferences, which follow another inference and find constants in the scratchpad.

Constants that nothing else overwrites are not loaded again. The first program is unchanged: it leaves in the scratchpad
what had room there anyway.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.cost.events.timing import program_times
from tq_hw.compiler.cost.report import report
from tq_hw.compiler.emit.image import Image
from tq_hw.compiler.stream.stream import FoldWrite, Operation, Stream, UopWrite
from tq_hw.compiler.verify import verify_warm
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import Program

__all__ = ["kept_loads", "warm_program"]

#: Writers of a scratchpad word: none, or several that differ.
_NOBODY, _SEVERAL = -1, -2


def kept_loads(stream: Stream, scratchpad_words: int) -> set[int]:
    """Return the ids of loads of constants into words that only loads of the same constants write."""
    writers: npt.NDArray[np.int64] = np.full(scratchpad_words, _NOBODY, np.int64)
    numbers: dict[object, int] = {}
    constants: list[tuple[Operation, int]] = []
    for operation in stream.operations:
        key: object = id(operation)
        constant = operation.unit is Unit.LOAD and all(access.space == "region0" for access in operation.reads)
        if constant:
            key = tuple(sorted(operation.fields.items()))
        number = numbers.setdefault(key, len(numbers))
        if constant:
            constants.append((operation, number))
        for access in operation.writes:
            if access.space == "pad":
                words = writers[access.low:access.high]
                words[:] = np.where((words == _NOBODY) | (words == number), number, _SEVERAL)
    return {id(operation) for operation, number in constants
            if all((writers[access.low:access.high] == number).all() for access in operation.writes)}


def _without(stream: Stream, left_out: set[int]) -> Stream:
    """Return a stream without some operations, with its tokens recomputed."""
    rest = Stream(stream.config, stream.names)
    for item in stream.items:
        match item:
            case Operation():
                if id(item) not in left_out:
                    rest.add(item.unit, item.fields, item.reads, item.writes, item.layer, item.meaning)
            case FoldWrite():
                rest.fold(item.step, item.feeds)
            case UopWrite():
                rest.uop(item.index, item.values)
    return rest


def warm_program(compiled: Compiled) -> Program:
    """Return the program for inferences right after one of `compiled.program`, or of itself, in the same hardware.

    Its image begins with that of the first program, so both can run from one memory.
    """
    emitter, first = compiled.emitter, compiled.program
    stream = _without(emitter.stream, kept_loads(emitter.stream, emitter.config.scratchpad_words))
    verify_warm(emitter, stream)
    commands = stream.assemble()
    image = Image(bytearray(first.image))
    offset = image.add(commands.data)
    times = program_times(stream, emitter.config, commands, emitter.memory, offset)
    rows = report(emitter.graph, stream, emitter.config, times)
    return replace(first, image=bytes(image.data), command_offset=offset, command_bytes=len(commands.data),
                   layers=tuple(row.layer for row in rows))
