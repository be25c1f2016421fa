"""Run programs of the vector unit on arrays, without a machine."""

from collections.abc import Sequence

import numpy as np

from tq_hw.isa.uop import UOP, Destination, Source
from tq_hw.sim.executor.uop import evaluate, look_up


def evaluated(uops: list[dict[str, int]], *streams: np.ndarray, tables: np.ndarray | None = None,
              int16: bool = False) -> np.ndarray:
    """Run a program on one or two streams of int32; `tables` has up to 512 entries; `int16`: the type of the output."""
    out = registers_after(uops, *streams, tables=tables, int16=int16)[1]
    assert out is not None, "the program has no output"
    return out


def registers_after(uops: Sequence[dict[str, int]], *streams: np.ndarray, tables: np.ndarray | None = None,
                    int16: bool = False,
                    registers: Sequence[np.ndarray] = ()) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Return the eight registers after a program, and its output, if there is one, with which it ends."""
    count = len(streams[0])
    registers, entries = list(registers) or [np.zeros(count, np.int32)] * 8, np.zeros(512, np.int32)
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
            return registers, result
        registers[fields["d_register"]] = result
    return registers, None


def in_steps(steps: Sequence[tuple[list[dict[str, int]], tuple[int, ...]]], stream: np.ndarray,
             tables: np.ndarray) -> np.ndarray:
    """Run programs in sequence, on `stream` and the previous results; return the result of the last one."""
    made = [stream]
    for uops, sources in steps:
        made.append(evaluated(uops, *(made[source] for source in sources), tables=tables))
    return made[-1]
