"""Change single operations of compiled streams: the compiler's check refuses each, or nothing else comes out.

A mutant that is accepted runs on the executor, with the race checker and random undefined bytes, and must give what the
stream gave before; a machine that stops with an error status has not computed anything wrong.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.emit.image import Image
from tq_hw.compiler.stream.stream import FoldWrite, Operation, Stream, UopWrite
from tq_hw.compiler.verify import DataflowError
from tq_hw.compiler.verify.replay import Replay
from tq_hw.isa.config import load_config
from tq_hw.isa.encode import EncodeError
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import ProgramError
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.samples.layers import KINDS, sample
from tq_hw.sim.executor import SimulationError, execute

__all__ = ["CHANGES", "Tally", "check_mutants", "main"]

Rng = np.random.Generator
Item = Operation | FoldWrite | UopWrite
Outputs = Sequence[npt.NDArray[Any]]
_ADDRESSES = {Unit.LOAD: ("destination", "memory_offset_bytes"), Unit.ARRAY: ("in_base", "weight_base"),
              Unit.VECTOR: ("a_base", "b_base", "out_base", "param_base"),
              Unit.STORE: ("source", "memory_offset_bytes")}
_LENGTHS = {Unit.LOAD: ("count0", "count1", "count2", "count3", "run_bytes"),
            Unit.ARRAY: ("slots", "out_blocks", "kernel_blocks", "kernel_rows", "kernel_cols", "weight_rows"),
            Unit.VECTOR: ("slots", "out_blocks", "repeat1", "repeat2", "valid_lanes"),
            Unit.STORE: ("count0", "count1", "count2", "count3", "take_bytes", "last_take_bytes")}
_STARTS = ("acc_first", "acc_last", "use_acc", "sub_first", "blocks_inner", "zero_point", "fill", "pad_before_bytes",
           "first")
_FARTHEST = 40
_OUTCOMES = ("refused", "unencodable", "stopped", "same")


class _Nothing(Exception):
    """A stream has no operation that the change applies to."""


@dataclass
class Tally:
    """Counts of mutants by change: refused by the check, unencodable, stopped with an error, same outputs.

    Members
    -------
    wrong : accepted mutants whose outputs differ
    """

    refused: Counter[str] = field(default_factory=Counter)
    unencodable: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    same: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def _again(stream: Stream, items: Sequence[Item]) -> Stream:
    """Return a stream of these items in this order, with newly derived tokens."""
    made: dict[int, Operation] = {}
    other = Stream(stream.config, stream.names)
    for item in items:
        match item:
            case Operation():
                made[id(item)] = other.add(item.unit, item.fields, item.reads, item.writes, item.layer, item.meaning)
                # The register values that it relies on were noted when the operation was emitted.
                made[id(item)].takes = {register: made.get(id(owner), owner) for register, owner in item.takes.items()}
            case FoldWrite():
                other.fold(item.step, item.feeds)
            case UopWrite():
                other.uop(item.index, item.values)
    return other


@contextmanager
def _with_fields(operation: Operation, values: dict[str, int]) -> Iterator[None]:
    before = dict(operation.fields)
    operation.fields.update(values)
    try:
        yield
    finally:
        operation.fields.clear()
        operation.fields.update(before)


@contextmanager
def _drop(stream: Stream, rng: Rng) -> Iterator[tuple[str, Stream]]:
    """Drop an operation."""
    gone = _any(stream, rng)
    yield _title(stream, gone), _again(stream, [item for item in stream.items if item is not gone])


@contextmanager
def _early(stream: Stream, rng: Rng) -> Iterator[tuple[str, Stream]]:
    """Move a load before operations that still need what it overwrites. Tokens are derived for the new order."""
    moved = _any(stream, rng, Unit.LOAD)
    at = next(number for number, item in enumerate(stream.items) if item is moved)
    to = max(0, at - 1 - int(rng.integers(_FARTHEST)))
    items = [item for item in stream.items if item is not moved]
    yield f"{_title(stream, moved)}, {at - to} earlier", _again(stream, [*items[:to], moved, *items[to:]])


@contextmanager
def _token(stream: Stream, rng: Rng) -> Iterator[tuple[str, Stream]]:
    """Remove one token from an operation and from the operation that posts it."""
    taker = _any(stream, rng, waits=True)
    giver = taker.after[int(rng.integers(len(taker.after)))]
    taker.wait[giver.unit] -= 1
    giver.post[taker.unit] -= 1
    try:
        yield f"{_title(stream, taker)}, a token of {giver.unit.name.lower()}", stream
    finally:
        taker.wait[giver.unit] += 1
        giver.post[taker.unit] += 1


@contextmanager
def _swap(stream: Stream, rng: Rng) -> Iterator[tuple[str, Stream]]:
    """Exchange the wait counts of two neighbours in a queue."""
    taker = _any(stream, rng, waits=True)
    queue = stream.by_unit[taker.unit]
    at = next(number for number, operation in enumerate(queue) if operation is taker)
    other = queue[at - 1 if at else min(1, len(queue) - 1)]
    taker.wait, other.wait = other.wait, taker.wait
    try:
        yield f"{_title(stream, taker)} and its neighbour", stream
    finally:
        taker.wait, other.wait = other.wait, taker.wait


def _field(names: Callable[[Operation], Sequence[str]], steps: Sequence[int]) -> Any:
    @contextmanager
    def change(stream: Stream, rng: Rng) -> Iterator[tuple[str, Stream]]:
        operation = _any(stream, rng, having=names)
        chosen = [name for name in names(operation) if name in operation.fields]
        name = chosen[int(rng.integers(len(chosen)))]
        old = operation.fields[name]
        new = 1 - old if not steps else old + int(rng.choice(np.asarray(steps)))
        with _with_fields(operation, {name: int(new)}):
            yield f"{_title(stream, operation)}, {name} {old} -> {new}", stream
    return change


#: The changes. Each is a context manager that applies it to a stream.
CHANGES: dict[str, Any] = {
    "drop": _drop, "early": _early, "token": _token, "swap": _swap,
    "address": _field(lambda op: _ADDRESSES[op.unit], (-16, -3, -1, 1, 2, 16)),
    "length": _field(lambda op: _LENGTHS[op.unit], (-1,)),
    "longer": _field(lambda op: _LENGTHS[op.unit], (1,)),
    "start": _field(lambda op: _STARTS, ()),
    "step": _field(lambda op: [name for name in op.fields if "step" in name or "stride" in name], (-2, -1, 1, 3)),
    "any": _field(lambda op: list(op.fields), (-1, 1))}


def _any(stream: Stream, rng: Rng, unit: Unit | None = None, *, waits: bool = False,
         having: Callable[[Operation], Sequence[str]] | None = None) -> Operation:
    chosen = [operation for operation in stream.operations if unit in (None, operation.unit)
              and (operation.after or not waits)
              and (having is None or any(name in operation.fields for name in having(operation)))]
    if not chosen:
        raise _Nothing
    return chosen[int(rng.integers(len(chosen)))]


def _title(stream: Stream, operation: Operation) -> str:
    at = next(n for n, other in enumerate(stream.by_unit[operation.unit]) if other is operation)
    return f"RUN {at} of {operation.unit.name.lower()}"


def _run(compiled: Compiled, data: bytes, model: Model, seed: int) -> Outputs:
    """Run other commands with a compiled model's constants."""
    image = Image(bytearray(compiled.program.image))
    offset = image.add(data)
    program = replace(compiled.program, image=bytes(image.data), command_offset=offset, command_bytes=len(data))
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-128, 128, model.main.tensors[index].shape).astype(np.int8) for index in model.main.inputs]
    return execute(program, inputs, seed=seed, check_races=True).outputs


def _outcome(compiled: Compiled, stream: Stream, model: Model, wanted: Sequence[Outputs]) -> str:
    """Return the outcome of a changed stream: the name of a counter, or what is wrong."""
    try:
        Replay(compiled.emitter, stream).run()
    except DataflowError:
        return "refused"
    try:
        data = stream.assemble().data
        found = [_run(compiled, data, model, number) for number in range(len(wanted))]
    except (EncodeError, UnsupportedError, ProgramError):
        return "unencodable"
    except SimulationError as error:
        return str(error) if "race" in str(error) else "stopped"
    same = all(np.array_equal(a, b) for one, other in zip(found, wanted, strict=True)
               for a, b in zip(one, other, strict=True))
    return "same" if same else "other outputs"


def check_mutants(model: Model, config_name: str, count: int, seed: int, tally: Tally) -> None:
    """Check `count` mutants of each change of one model's stream."""
    compiled = compile_model(model, load_config(config_name))
    stream, rng = compiled.emitter.stream, np.random.default_rng([seed, count])
    wanted = [_run(compiled, stream.assemble().data, model, number) for number in range(2)]
    for kind, change in CHANGES.items():
        for _ in range(count):
            try:
                with change(stream, rng) as (text, mutant):
                    outcome = _outcome(compiled, mutant, model, wanted)
            except _Nothing:
                break
            if outcome in _OUTCOMES:
                getattr(tally, outcome)[kind] += 1
            else:
                tally.wrong.append(f"{model.name} at {config_name}: {kind}, {text}: {outcome}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Check mutants of samples of every kind of layer; 1 if one is accepted and its outputs differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="mutants of each change and sample")
    parser.add_argument("--samples", type=int, default=2, help="samples of each kind of layer")
    parser.add_argument("--config", default="tiny", help="a preset, or a TOML file")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), help="kinds of layers")
    options = parser.parse_args(arguments)
    tally = Tally()
    for kind in options.kinds:
        for seed in range(options.samples):
            check_mutants(sample(kind, seed), options.config, options.count, seed, tally)
    for kind in CHANGES:
        print(f"{kind:8} refused {tally.refused[kind]}, by the encoder {tally.unencodable[kind]}, stopped "
              f"{tally.stopped[kind]}, nothing else came out {tally.same[kind]}")
    for text in tally.wrong:
        print(f"ACCEPTED: {text}")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
