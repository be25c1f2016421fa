"""Run programs of the vector unit on arrays, without a machine around them."""

from collections.abc import Sequence

import numpy as np

from tq_hw.isa.uop import UOP, Destination, Source
from tq_hw.sim.executor.uop import evaluate, look_up


def evaluated(uops: list[dict[str, int]], *streams: np.ndarray, tables: np.ndarray | None = None,
              int16: bool = False) -> np.ndarray:
    """Run a program on one or two streams of int32; `tables` has up to 512 entries; `int16` is what comes out."""
    count = len(streams[0])
    registers, entries = [np.zeros(count, np.int32)] * 8, np.zeros(512, np.int32)
    if tables is not None:
        entries[:len(tables)] = tables
    for uop in uops:
        fields = {field.name: 0 for register in UOP for field in register.fields} | uop
        a_operand, b_operand = (look_up(entries, fields[f"{name}_table"], {
            Source.IMMEDIATE: np.full(count, fields["immediate"], np.int32), Source.STREAM: streams[at % len(streams)],
            Source.REGISTER: registers[fields[f"{name}_register"]]}[Source(fields[f"{name}_source"])])
            for at, name in enumerate("ab"))
        result = evaluate(fields, a_operand, b_operand, fields["immediate"], fields["shift"], int16_output=int16)
        if fields["destination"] == Destination.OUTPUT:
            return result
        registers[fields["d_register"]] = result
    raise AssertionError("the program has no output")


def in_steps(steps: Sequence[tuple[list[dict[str, int]], tuple[int, ...]]], stream: np.ndarray,
             tables: np.ndarray) -> np.ndarray:
    """Run programs one after the other, on `stream` and what those before gave, and return what the last one gives."""
    made = [stream]
    for uops, sources in steps:
        made.append(evaluated(uops, *(made[source] for source in sources), tables=tables))
    return made[-1]
