"""The vector unit: int32 lanes between accumulators, scratchpad and vector registers, run by micro-programs.

    TileWalker -> ProgramWalker -> SlotWalker -> Issue -> operands -> lanes -> registers, output, reduction

Every stage up to Issue may stall; after it a beat never does. See docs/units/vector.md.
"""

from typing import Any, NamedTuple

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.parts.numbers import NUMBER_BITS
from tq_hw.hdl.signatures import (
    AccReadSignature,
    ReadSignature,
    TableWriteSignature,
    WriteSignature,
    operation_signature,
)
from tq_hw.hdl.vector.control import VectorControl
from tq_hw.hdl.vector.issue import Issue, at_stage
from tq_hw.hdl.vector.lanes import add_lanes, add_operands, load_parameters, load_tables
from tq_hw.hdl.vector.output import OutputWriter
from tq_hw.hdl.vector.params import ParameterBlocks
from tq_hw.hdl.vector.program import ProgramWalker
from tq_hw.hdl.vector.reduce import ReduceUnit
from tq_hw.hdl.vector.results import destinations, send_to_output, send_to_reduction
from tq_hw.hdl.vector.slots import SlotWalker
from tq_hw.hdl.vector.steps import register_word_bits
from tq_hw.hdl.vector.tiles import TileWalker
from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.control import Status
from tq_hw.isa.latency import (
    REGISTER_LATENCY_CYCLES,
    activation_cycles,
    done_cycles,
    output_latency_cycles,
    reduce_latency_cycles,
)
from tq_hw.isa.layout import Unit

__all__ = ["VectorUnit"]

#: More operations than can be in progress: each has at least one beat, and the unit has fewer stages.
_MOST_OPERATIONS = 63


class VectorUnit(wiring.Component):
    """Run vector operations in order, one beat of `requantize_lanes` elements a cycle.

    Timing: operations, tiles, chunks and runs of micro-operations follow each other without a bubble unless they
    wait for a result (see Issue), for a parameter block, an accumulator buffer, or a granted word.

    Members
    -------
    i : In(operations); one is accepted while earlier ones are in progress
    table : In(TableWriteSignature), micro-operations, while idle
    idle : Out(1), no operation is under way
    done : Out(1), strobe per operation, in order: everything that it wrote can be read
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
        """Connect the stages, from operations to results; then report the end of operations, and errors."""
        m = Module()
        config = self._config
        stages = self._stages(m)
        issue, params, control = stages.issue, stages.params, stages.control
        self._ports(m, issue, params)

        step: Any = issue.o
        to = destinations(m, config, issue)
        m.d.comb += [
            params.take.eq(issue.params_take), issue.params_ready.eq(params.ready),
            control.step_number.eq(step.number), control.out_type.eq(step.out_type), control.beat.eq(to.beat),
        ]
        # Low bits of the number of the operation at Issue.
        number = Signal(NUMBER_BITS)
        operands = add_operands(m, config, issue, self.acc.data, self.a.data, self.b.data)
        load_parameters(m, issue, params)
        load_tables(m, issue, control, operands.a.word)
        results = add_lanes(m, config, control, operands, params, platform)

        m.submodules.output = output = OutputWriter(config)
        m.submodules.reduce = reduce = ReduceUnit(config, register_word_bits(config))
        send_to_output(m, config, issue, control, to, results, number, output)
        connect(m, output.port, flipped(self.out))
        send_to_reduction(m, config, issue, control, to, results, reduce, operands.registers)

        self._completion(m, stages, number)
        self._errors(m, stages, number, output)
        return m

    def _stages(self, m: Module) -> "_Stages":
        """Add the stages up to Issue; connect them with each other, with operations and with micro-operations."""
        config = self._config
        # From the start of a beat to the first start of a beat that reads its result: the result is written at its
        # stage, and visible to reads in the next cycle (register file) or granted two cycles later (scratchpad).
        m.submodules.issue = issue = Issue(
            config, register_latency_cycles=REGISTER_LATENCY_CYCLES,
            reduce_latency_cycles=reduce_latency_cycles(config), output_latency_cycles=output_latency_cycles(config),
            activation_cycles=_later(config))
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
        return _Stages(tiles, program, walker, issue, params, control)

    def _ports(self, m: Module, issue: Issue, params: ParameterBlocks) -> None:
        """Give Issue the read ports. Parameter blocks use port B when stream B does not."""
        connect(m, issue.a, flipped(self.a))
        connect(m, issue.acc, flipped(self.acc))
        m.d.comb += [
            self.b.en.eq(issue.b.en | params.port.en),
            self.b.addr.eq(Mux(issue.b_busy, issue.b.addr, params.port.addr)),
            self.b.wants.eq(issue.b.wants | Mux(issue.b_busy, 0, params.port.wants)),
            issue.b.taken.eq(self.b.taken), params.port.taken.eq(self.b.taken | issue.b_busy.replicate(BANKS)),
            issue.b.data.eq(self.b.data), params.port.data.eq(self.b.data),
        ]

    def _completion(self, m: Module, stages: "_Stages", number: Signal) -> None:
        """Count operations; one is done when its last word and the result of a reduction are written."""
        issue = stages.issue
        step: Any = issue.o
        last = issue.o_valid & step.op_last & step.run_last
        m.d.sync += number.eq(number + last)
        done = done_cycles(self._config)
        under_way = Signal(range(_MOST_OPERATIONS + 1))
        m.d.sync += under_way.eq(under_way + stages.tiles.accepted - self.done)
        later = _later(self._config)
        if later:
            late = at_stage(m, last & step.activates, done + later, "last_activation", control=True)
            left = at_stage(m, last & ~step.activates, done, "last", control=True) | late
        else:
            left = at_stage(m, last, done, "last", control=True)
        m.d.comb += [
            self.done.eq(left), self.idle.eq(under_way == 0),
            self.busy.eq(under_way != 0), self.stall_acc.eq(issue.stall_acc),
            self.stall_port.eq(issue.stall_port),
        ]
        m.d.sync += self.moved.eq(stages.walker.moved)

    def _errors(self, m: Module, stages: "_Stages", number: Signal, output: OutputWriter) -> None:
        """Report a broken rule and its operation; of several in one cycle, the last of the list."""
        issue, params, program = stages.issue, stages.params, stages.program
        of_issue = delayed(m, issue.b_busy, 1, "of_issue", control=True)
        m.d.sync += self.error.eq(Status.OK)
        for wrong, status, whose in ((self.b.beyond & ~of_issue, Status.BAD_ADDRESS, params.number),
                                     (self.a.beyond | self.b.beyond & of_issue, Status.BAD_ADDRESS, number),
                                     (self.out.beyond, Status.BAD_ADDRESS, output.number),
                                     (program.broken, Status.BAD_OPERATION, program.broken_number)):
            with m.If(wrong):
                m.d.sync += [self.error.eq(status), self.error_at.eq(whose)]


class _Stages(NamedTuple):
    """The stages that expand operations into steps, in order, and what they wait for."""

    tiles: TileWalker
    program: ProgramWalker
    walker: SlotWalker
    issue: Issue
    params: ParameterBlocks
    control: VectorControl


def _later(config: Config) -> int:
    """Return the additional latency of results through the activation lanes, in cycles; 0 without such lanes."""
    return activation_cycles(config) if config.activation_lanes else 0
