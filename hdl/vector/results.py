"""The destinations of the lanes' results: registers, output, reduction, activation lanes.

The functions add to the unit's module. A result is valid at STAGE_RESULT; its flags and addresses are due one stage
earlier.
"""

from typing import Any, NamedTuple

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from tq_hw.hdl.parts.delay import DelayLine, delayed
from tq_hw.hdl.vector.activation import ActivationUnit
from tq_hw.hdl.vector.control import STAGE_UOP, VectorControl
from tq_hw.hdl.vector.issue import STAGE_ISSUED, Issue, at_stage
from tq_hw.hdl.vector.output import OutputLayout, OutputWriter
from tq_hw.hdl.vector.reduce import ReduceLayout, ReduceUnit
from tq_hw.hdl.vector.registers import VectorRegisters
from tq_hw.hdl.vector.steps import register_word_bits
from tq_hw.isa.config import Config
from tq_hw.isa.latency import STAGE_RESULT
from tq_hw.isa.uop import Activation

__all__ = ["Destinations", "destinations", "send_to_output", "send_to_reduction"]


class Destinations(NamedTuple):
    """The destination of the beat at STAGE_RESULT - 1: at most one flag is 1. Of a beat, only these flags are reset."""

    register: Value
    output: Value
    reduce: Value
    #: None in a machine without activation lanes.
    activation: Value | None
    #: There is a beat, one stage earlier.
    beat: Value


def destinations(m: Module, config: Config, issue: Issue) -> Destinations:
    """Delay the step's flags to the stage before the result."""
    step: Any = issue.o
    names = {"to_register": step.writes, "to_output": step.outputs, "to_reduce": step.reduces}
    if config.activation_lanes:
        names["to_activation"] = step.activates
    flags = [at_stage(m, issue.o_valid & flag, STAGE_RESULT - 1, name, control=True) for name, flag in names.items()]
    beat = at_stage(m, issue.o_valid & Cat(names.values()).any(), STAGE_RESULT - 2, "beat", control=True)
    return Destinations(flags[0], flags[1], flags[2], flags[3] if config.activation_lanes else None, beat)


def send_to_output(m: Module, config: Config, issue: Issue, control: VectorControl, to: Destinations, results: Any,
                   number: Value, output: OutputWriter) -> None:
    """Pass results and their addresses to `output`; `number` is that of the operation at Issue."""
    step: Any = issue.o
    m.submodules.place = place = DelayLine(len(output.beat.as_value()), STAGE_RESULT - 1 - STAGE_ISSUED)
    where: Any = Signal(OutputLayout(config))
    valid: Value = to.output
    at: Value = place.o
    x: Any = results
    if to.activation is not None:
        valid, at, x = _activated(m, config, control, to.output, to.activation, at, x)
    m.d.comb += [
        where.type.eq(step.out_type), where.address.eq(step.out_address), where.position.eq(step.position),
        where.first.eq(step.slot_first), where.last.eq(step.slot_last), where.number.eq(number),
        place.i.eq(where.as_value()),
        output.valid.eq(valid), output.beat.as_value().eq(at), output.x.eq(x),
    ]


def _activated(m: Module, config: Config, control: VectorControl, to_output: Value, to_activation: Value, place: Value,
               results: Any) -> tuple[Value, Value, Value]:
    """Return when, where and what to output, including beats from the activation lanes."""
    m.submodules.activation = activation = ActivationUnit(config)
    m.submodules.activation_line = line = DelayLine(1, STAGE_RESULT - 1 - STAGE_UOP)
    comes_from = Signal()
    m.d.comb += [
        line.i.eq(control.reduce == Activation.TANH), activation.tanh.eq(line.o),
        activation.i_valid.eq(to_activation), activation.i_beat.as_value().eq(place), activation.x.eq(results),
    ]
    with m.If(activation.o_valid):
        m.d.sync += comes_from.eq(1)
    with m.Elif(to_output):
        m.d.sync += comes_from.eq(0)
    return (to_output | activation.o_valid, Mux(activation.o_valid, activation.o_beat.as_value(), place),
            Mux(comes_from, activation.y.as_value(), results.as_value()))


def send_to_reduction(m: Module, config: Config, issue: Issue, control: VectorControl, to: Destinations, results: Any,
                      reduce: ReduceUnit, registers: VectorRegisters) -> None:
    """Pass results to `reduce`, and its result through all lanes; write the lanes' results to the register file.

    No beat is in the lanes when a reduction ends, because every run waits for that.
    """
    step: Any = issue.o
    # The micro-operation's kind of reduction arrives later than the step.
    layout = ReduceLayout(config, register_word_bits(config))
    early: Any = Signal(layout)
    first = Signal(init=1)
    with m.If(issue.o_valid & step.reduces):
        m.d.sync += first.eq(step.run_last)
    m.d.comb += [
        early.first.eq(first), early.last.eq(step.run_last), early.position.eq(step.position),
        early.word.eq(step.d_word), early.lanes.eq(Mux(step.last_word, step.lanes, config.block)),
    ]
    held: Any = Signal(layout)
    m.d.comb += [held.eq(at_stage(m, early, STAGE_UOP, "reduce_early")), held.kind.eq(control.reduce)]
    m.submodules.reduce_line = line = DelayLine(len(held.as_value()), STAGE_RESULT - 1 - STAGE_UOP)
    beat: Any = data.View(layout, line.o)
    m.d.comb += [
        line.i.eq(held.as_value()), reduce.beat.eq(delayed(m, beat, 1, "reduce_beat")), reduce.x.eq(results),
        reduce.valid.eq(delayed(m, to.reduce, 1, "reduce_valid", control=True)),
        # The register's address leads the data by one cycle.
        registers.write.eq(reduce.done | to.register),
        registers.d_word.eq(Mux(reduce.done, reduce.word, beat.word)), registers.d.eq(results),
        control.reduced.eq(reduce.done), control.reduction.eq(reduce.result),
    ]
