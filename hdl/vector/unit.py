"""The vector unit: int32 lanes between accumulators, scratchpad and vector registers, run by micro-programs.

    TileWalker -> ProgramWalker -> SlotWalker -> Issue -> operands -> lanes -> registers, output, reduction

Up to Issue everything may wait; after it a beat never does. docs/units/vector.md.
"""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tq_hw.hdl.lane.lane import STAGE_LEFT, STAGE_PRODUCT, STAGE_TABLE, Lane
from tq_hw.hdl.parts.delay import DelayLine, delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import (
    AccReadSignature,
    ReadSignature,
    TableWriteSignature,
    WriteSignature,
    operation_signature,
)
from tq_hw.hdl.vector.activation import ActivationUnit
from tq_hw.hdl.vector.control import STAGE_UOP, VectorControl
from tq_hw.hdl.vector.issue import Issue
from tq_hw.hdl.vector.operand import StreamOperand
from tq_hw.hdl.vector.output import OutputLayout, OutputWriter
from tq_hw.hdl.vector.params import ParameterBlocks
from tq_hw.hdl.vector.program import ProgramWalker
from tq_hw.hdl.vector.reduce import ReduceLayout, ReduceUnit
from tq_hw.hdl.vector.registers import VectorRegisters
from tq_hw.hdl.vector.slots import SlotWalker
from tq_hw.hdl.vector.steps import register_word_bits
from tq_hw.hdl.vector.tiles import TileWalker
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.control import Status
from tq_hw.isa.latency import (
    ACC_READ_LATENCY_CYCLES,
    REGISTER_LATENCY_CYCLES,
    STAGE_OPERANDS,
    STAGE_REGISTERS,
    STAGE_RESULT,
    activation_cycles,
    done_cycles,
    output_latency_cycles,
    reduce_latency_cycles,
)
from tq_hw.isa.layout import Unit
from tq_hw.isa.uop import Activation

__all__ = ["VectorUnit"]

#: A step comes out of Issue, in a register, one cycle after it has started.
_STAGE_ISSUED = 1
#: More operations than ever are under way at once: each has one beat at least, the unit has fewer stages.
_MOST_OPERATIONS = 63


class VectorUnit(wiring.Component):
    """Run vector operations in order, one beat of `requantize_lanes` elements a cycle.

    Timing: operations, tiles, chunks and runs of micro-operations follow each other without a bubble unless they
    wait for a result (see Issue), for a parameter block, an accumulator buffer, or a granted word.

    Members
    -------
    i : In(operations); one is taken while earlier ones are worked on
    table : In(TableWriteSignature), micro-operations, while idle
    idle : Out(1), no operation is under way
    done : Out(1), strobe per operation, in order: all that it wrote can be read
    error : Out(4), strobe of Status: BAD_OPERATION, BAD_ADDRESS; error_at : Out, low bits of the operation's number
    acc : accumulators; a, b : stream reads, b also parameters; out : writes
    busy, stall_acc, stall_port : Out(1), for the performance counters
    moved : Out(1), slots go on
    """

    i: stream.Interface
    table: Any
    idle: Signal
    done: Signal
    error: Signal
    error_at: Signal
    acc: Any
    a: Any
    b: Any
    out: Any
    busy: Signal
    stall_acc: Signal
    stall_port: Signal
    moved: Signal

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "i": In(operation_signature(Unit.VECTOR)), "table": In(TableWriteSignature()), "idle": Out(1),
            "done": Out(1), "error": Out(4), "error_at": Out(NUMBER_BITS), "acc": Out(AccReadSignature(config)),
            "a": Out(ReadSignature(config)), "b": Out(ReadSignature(config)), "out": Out(WriteSignature(config)),
            "busy": Out(1), "stall_acc": Out(1), "stall_port": Out(1), "moved": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        """Wire the stages."""
        m = Module()
        config = self._config
        later = activation_cycles(config) if config.activation_lanes else 0
        # A beat may start this many cycles after another one whose result it reads: the result is written at its
        # stage, and visible to reads in the next cycle (register file) or granted two cycles later (scratchpad).
        m.submodules.issue = issue = Issue(
            config, register_latency_cycles=REGISTER_LATENCY_CYCLES,
            reduce_latency_cycles=reduce_latency_cycles(config), output_latency_cycles=output_latency_cycles(config),
            activation_cycles=later)
        m.submodules.tiles = tiles = TileWalker(config)
        m.submodules.program = program = ProgramWalker(config)
        m.submodules.walker = walker = SlotWalker(config)
        m.submodules.params = params = ParameterBlocks(config)
        m.submodules.control = control = VectorControl(config)

        connect(m, flipped(self.i), tiles.i)
        connect(m, tiles.o, program.i)
        connect(m, tiles.params, params.i)
        connect(m, program.o, walker.i)
        connect(m, walker.o, issue.i)
        connect(m, flipped(self.table), control.table)
        m.d.comb += [
            program.tile_operation.eq(tiles.operation), walker.operation.eq(program.operation),
            program.operation_taken.eq(walker.operation_taken),
            control.number.eq(program.number), control.fetch.eq(program.fetch), program.uop.eq(control.uop),
            program.uop_broken.eq(control.broken),
        ]

        # Ports. Stream B goes before parameter blocks.
        connect(m, issue.a, flipped(self.a))
        connect(m, issue.acc, flipped(self.acc))
        m.d.comb += [
            self.b.en.eq(issue.b.en | params.port.en),
            self.b.addr.eq(Mux(issue.b_busy, issue.b.addr, params.port.addr)),
            self.b.wants.eq(issue.b.wants | Mux(issue.b_busy, 0, params.port.wants)),
            issue.b.taken.eq(self.b.taken), params.port.taken.eq(self.b.taken | issue.b_busy.replicate(BANKS)),
            issue.b.data.eq(self.b.data), params.port.data.eq(self.b.data),
        ]

        # Beats by where their results go; these flags alone are reset.
        step: Any = issue.o
        to_register, to_output, to_reduce = (
            _at(m, issue.o_valid & flag, STAGE_RESULT - 1, name, control=True)
            for flag, name in ((step.writes, "to_register"), (step.outputs, "to_output"),
                               (step.reduces, "to_reduce")))
        taken = to_register | to_output | to_reduce
        to_activation: Any = None
        if config.activation_lanes:
            to_activation = _at(m, issue.o_valid & step.activates, STAGE_RESULT - 1, "to_activation", control=True)
            taken = taken | to_activation
        m.d.comb += [
            params.take.eq(issue.params_take), issue.params_ready.eq(params.ready),
            control.step_number.eq(step.number), control.out_type.eq(step.out_type),
            control.take.eq(taken),
        ]

        # Low bits of the number of the operation at Issue.
        number = Signal(NUMBER_BITS)
        lanes, results = self._lanes(m, issue, params, control)
        output = self._results(m, issue, control, lanes, results, number, to_register, to_output, to_reduce,
                               to_activation)

        # The last beat of an operation has left when its last word and the result of a reduction are written.
        last = issue.o_valid & step.op_last & step.run_last
        m.d.sync += number.eq(number + last)
        done = done_cycles(config)
        under_way = Signal(range(_MOST_OPERATIONS + 1))
        m.d.sync += under_way.eq(under_way + tiles.accepted - self.done)
        if config.activation_lanes:
            late = _at(m, last & step.activates, done + later, "last_activation", control=True)
            left = _at(m, last & ~step.activates, done, "last", control=True) | late
        else:
            left = _at(m, last, done, "last", control=True)
        m.d.comb += [
            self.done.eq(left), self.idle.eq(under_way == 0),
            self.busy.eq(under_way != 0), self.stall_acc.eq(issue.stall_acc),
            self.stall_port.eq(issue.stall_port),
        ]
        m.d.sync += self.moved.eq(walker.moved)
        of_issue = delayed(m, issue.b_busy, 1, "of_issue", control=True)
        m.d.sync += self.error.eq(Status.OK)
        for wrong, status, whose in ((self.b.beyond & ~of_issue, Status.BAD_ADDRESS, params.number),
                                     (self.a.beyond | self.b.beyond & of_issue, Status.BAD_ADDRESS, number),
                                     (self.out.beyond, Status.BAD_ADDRESS, output.number),
                                     (program.broken, Status.BAD_OPERATION, program.broken_number)):
            with m.If(wrong):
                m.d.sync += [self.error.eq(status), self.error_at.eq(whose)]
        return m

    def _lanes(self, m: Module, issue: Any, params: Any, control: Any) -> tuple[Any, Any]:
        """Build operands and lanes; return the register file and the results."""
        config = self._config
        step: Any = issue.o
        count = config.requantize_lanes

        operands = {}
        for name, port in (("a", self.a), ("b", self.b)):
            m.submodules[f"stream_{name}"] = operands[name] = operand = StreamOperand(config)
            m.d.comb += [operand.step.eq(step[name]), operand.granted.eq(getattr(issue, f"{name}_granted")),
                         operand.data.eq(port.data)]

        # The accumulator's data stands before its stage: choose the beat's lanes.
        beat = _at(m, step.beat, ACC_READ_LATENCY_CYCLES, "beat")
        chosen: Any = Signal(data.ArrayLayout(signed(32), count), reset_less=True)
        m.d.sync += chosen.as_value().eq(self.acc.data.word_select(beat, 32 * count))
        acc = delayed(m, chosen, STAGE_OPERANDS - ACC_READ_LATENCY_CYCLES - 1, "acc")

        m.submodules.registers = registers = VectorRegisters(config)
        m.d.comb += [registers.a_word.eq(_at(m, step.a_word, STAGE_REGISTERS, "a_word")),
                     registers.b_word.eq(_at(m, step.b_word, STAGE_REGISTERS, "b_word"))]

        # Parameters are read where they are used; the block is free again after the last of them.
        at = _at(m, Cat(step.beat, issue.params_buffer), STAGE_OPERANDS - 1, "param_operand")
        late = delayed(m, at, STAGE_LEFT - 1 - STAGE_OPERANDS, "param_shift")
        latest = delayed(m, late, STAGE_PRODUCT - STAGE_LEFT, "param_multiplier")
        leaves = issue.o_valid & step.run_last & step.param_last
        m.d.comb += [
            params.bias_at.eq(at), params.shift_at.eq(late), params.multiplier_at.eq(latest),
            params.release.eq(_at(m, leaves, STAGE_PRODUCT - 1, "param_leaves", control=True)),
        ]

        # Load table: the entry is cut out of the word, and written at the stage of the look-ups, so in order.
        writes = issue.o_valid & step.table
        element = _at(m, step.element, STAGE_OPERANDS, "element")
        entry = Signal(32, reset_less=True)
        m.d.sync += entry.eq(operands["a"].word.word_select(element, 32))
        m.d.comb += [
            control.table_write.eq(_at(m, writes, STAGE_TABLE, "table_write", control=True)),
            control.table_index.eq(_at(m, step.d_word[:9], STAGE_TABLE, "table_index")),
            control.table_entry.eq(delayed(m, entry, STAGE_TABLE - STAGE_OPERANDS - 1, "table_entry")),
        ]

        results = Signal(data.ArrayLayout(signed(32), count))
        lanes = [Lane() for _ in range(count)]
        for number, lane in enumerate(lanes):
            m.submodules[f"lane{number}"] = lane
            # The last of an odd number of lanes has no partner: its difference is 0.
            partner = lanes[number ^ 1] if number ^ 1 < count else lane
            m.d.comb += [
                lane.control.eq(control.control), lane.acc.eq(acc[number]), lane.register_a.eq(registers.a[number]),
                lane.register_b.eq(registers.b[number]), lane.bias.eq(params.bias[number]),
                lane.stream_a.eq(operands["a"].elements[number]), lane.stream_b.eq(operands["b"].elements[number]),
                lane.partner.eq(partner.operand), lane.shift.eq(params.shift[number]),
                lane.multiplier.eq(params.multiplier[number]), results[number].eq(lane.result),
            ]
        return registers, results

    def _results(self, m: Module, issue: Any, control: Any, registers: Any, results: Any, number: Any,
                 to_register: Any, to_output: Any, to_reduce: Any, to_activation: Any) -> OutputWriter:
        """Send results to the output, which is returned, the reduction, the registers and the activation lanes."""
        config = self._config
        step: Any = issue.o
        word_bits = register_word_bits(config)
        m.submodules.output = output = OutputWriter(config)
        m.submodules.reduce = reduce = ReduceUnit(config, word_bits)

        m.submodules.place = place = DelayLine(len(output.beat.as_value()),
                                               STAGE_RESULT - 1 - _STAGE_ISSUED)
        where: Any = Signal(OutputLayout(config))
        valid, at, x = to_output, place.o, results
        if config.activation_lanes:
            valid, at, x = self._activated(m, control, to_output, to_activation, at, x)
        m.d.comb += [
            where.type.eq(step.out_type), where.address.eq(step.out_address), where.position.eq(step.position),
            where.first.eq(step.slot_first), where.last.eq(step.slot_last), where.number.eq(number),
            place.i.eq(where.as_value()),
            output.valid.eq(valid), output.beat.as_value().eq(at), output.x.eq(x),
        ]
        connect(m, output.port, flipped(self.out))

        # The micro-operation's kind of reduction comes later than the step.
        layout = ReduceLayout(config, word_bits)
        early: Any = Signal(layout)
        first = Signal(init=1)
        with m.If(issue.o_valid & step.reduces):
            m.d.sync += first.eq(step.run_last)
        m.d.comb += [
            early.first.eq(first), early.last.eq(step.run_last), early.position.eq(step.position),
            early.word.eq(step.d_word), early.lanes.eq(Mux(step.last_word, step.lanes, config.block)),
        ]
        held: Any = Signal(layout)
        m.d.comb += [held.eq(_at(m, early, STAGE_UOP, "reduce_early")), held.kind.eq(control.reduce)]
        m.submodules.reduce_line = line = DelayLine(len(held.as_value()), STAGE_RESULT - 1 - STAGE_UOP)
        beat: Any = data.View(layout, line.o)
        m.d.comb += [
            line.i.eq(held.as_value()), reduce.beat.eq(delayed(m, beat, 1, "reduce_beat")), reduce.x.eq(results),
            reduce.valid.eq(delayed(m, to_reduce, 1, "reduce_valid", control=True)),
            # The register's word goes one cycle ahead of what is written.
            registers.write.eq(reduce.ends | to_register),
            registers.d_word.eq(Mux(reduce.ends, reduce.word, beat.word)),
        ]
        for lane in range(config.requantize_lanes):
            m.d.comb += registers.d[lane].eq(Mux(reduce.done, reduce.result, results[lane]))
        return output

    def _activated(self, m: Module, control: Any, to_output: Any, to_activation: Any, place: Any,
                   results: Any) -> tuple[Any, Any, Any]:
        """Return when, where and what to output, with the beats that come through the activation lanes."""
        m.submodules.activation = activation = ActivationUnit(self._config)
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


def _at(m: Module, value: Any, stage: int, name: str, *, control: bool = False) -> Any:
    """Return what is known of the step that Issue gives out, as it stands at a stage of the lanes."""
    return delayed(m, value, stage - _STAGE_ISSUED, name, control=control)
