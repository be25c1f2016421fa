"""The lanes of the vector unit and their inputs: operands, registers, parameters, table entries.

The functions add to the unit's module. Each input is delayed to the stage of `hdl.lane.lane` that takes it. Stages
are counted from the cycle in which a beat starts.
"""

from typing import Any, NamedTuple

from amaranth import Cat, Module, Signal, Value, signed
from amaranth.lib import data

from tq_hw.hdl.lane.lane import STAGE_PRODUCT, STAGE_SHIFT, STAGE_TABLE, Lane
from tq_hw.hdl.outside import Outside, lanes_instance
from tq_hw.hdl.parts.choose import part_at
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.vector.control import VectorControl
from tq_hw.hdl.vector.issue import Issue, at_stage
from tq_hw.hdl.vector.operand import StreamOperand
from tq_hw.hdl.vector.params import ParameterBlocks
from tq_hw.hdl.vector.registers import VectorRegisters
from tq_hw.isa.config import Config
from tq_hw.isa.latency import ACC_READ_LATENCY_CYCLES, STAGE_OPERANDS, STAGE_REGISTERS
from tq_hw.isa.uop import Source

__all__ = ["Operands", "add_lanes", "add_operands", "load_parameters", "load_tables"]


class Operands(NamedTuple):
    """The sources of a lane's operands, at the stage of the choice."""

    #: Elements of stream A and of stream B, and the word of A from which they are extracted.
    a: StreamOperand
    b: StreamOperand
    #: signed(32) per lane, the beat's share of the accumulator word.
    acc: Any
    registers: VectorRegisters


def add_operands(m: Module, config: Config, issue: Issue, acc_data: Value, a_data: Value, b_data: Value) -> Operands:
    """Add the extraction of elements from granted words and accumulators, and the register file without its writes.

    `acc_data`, `a_data` and `b_data` are those of the unit's read ports.
    """
    step: Any = issue.o
    operands = {}
    for name, read in (("a", a_data), ("b", b_data)):
        m.submodules[f"stream_{name}"] = operands[name] = operand = StreamOperand(config)
        m.d.comb += [operand.step.eq(step[name]), operand.granted.eq(getattr(issue, f"{name}_granted")),
                     operand.data.eq(read)]

    # The accumulator's data is valid before its stage: select the beat's lanes.
    beat = at_stage(m, step.beat, ACC_READ_LATENCY_CYCLES, "beat")
    chosen: Any = Signal(data.ArrayLayout(signed(32), config.requantize_lanes), reset_less=True)
    m.d.sync += chosen.as_value().eq(part_at(acc_data, beat, 32 * config.requantize_lanes))
    acc = delayed(m, chosen, STAGE_OPERANDS - ACC_READ_LATENCY_CYCLES - 1, "acc")

    m.submodules.registers = registers = VectorRegisters(config)
    m.d.comb += [registers.a_word.eq(at_stage(m, step.a_word, STAGE_REGISTERS, "a_word")),
                 registers.b_word.eq(at_stage(m, step.b_word, STAGE_REGISTERS, "b_word"))]
    return Operands(operands["a"], operands["b"], acc, registers)


def load_parameters(m: Module, issue: Issue, params: ParameterBlocks) -> None:
    """Read parameters at the stage of their use; release the block after the last of them."""
    step: Any = issue.o
    at = at_stage(m, Cat(step.beat, issue.params_buffer), STAGE_OPERANDS - 1, "param_operand")
    late = delayed(m, at, STAGE_SHIFT - STAGE_OPERANDS, "param_shift")
    latest = delayed(m, late, STAGE_PRODUCT - 1 - STAGE_SHIFT, "param_multiplier")
    leaves = issue.o_valid & step.run_last & step.param_last
    m.d.comb += [
        params.bias_at.eq(at), params.shift_at.eq(late), params.multiplier_at.eq(latest),
        params.release.eq(at_stage(m, leaves, STAGE_PRODUCT - 1, "param_leaves", control=True)),
    ]


def load_tables(m: Module, issue: Issue, control: VectorControl, word: Value) -> None:
    """Load table: extract the entry from stream A's `word`, and write it in the stage of the look-ups, so in order."""
    step: Any = issue.o
    writes = issue.o_valid & step.table
    element = at_stage(m, step.element, STAGE_OPERANDS, "element")
    entry = Signal(32, reset_less=True)
    m.d.sync += entry.eq(word.word_select(element, 32))
    m.d.comb += [
        control.table_write.eq(at_stage(m, writes, STAGE_TABLE, "table_write", control=True)),
        control.table_index.eq(at_stage(m, step.d_word[:9], STAGE_TABLE, "table_index")),
        control.table_entry.eq(delayed(m, entry, STAGE_TABLE - STAGE_OPERANDS - 1, "table_entry")),
    ]


def add_lanes(m: Module, config: Config, control: VectorControl, operands: Operands, params: ParameterBlocks,
              platform: object) -> Any:
    """Add the lanes; return their results, signed(32) each, at STAGE_RESULT."""
    count = config.requantize_lanes
    results = Signal(data.ArrayLayout(signed(32), count))
    registers = operands.registers
    m.d.comb += [operand.used.eq(source == Source.STREAM) for operand, source in (
        (operands.a, control.control.a_source), (operands.b, control.control.b_source))]
    if isinstance(platform, Outside) and platform.lanes:
        m.submodules.lanes = lanes_instance({name: Value.cast(value) for name, value in {
            "control": control.control, "acc": operands.acc, "register_a": registers.a, "register_b": registers.b,
            "bias": params.bias, "stream_a": operands.a.elements, "stream_b": operands.b.elements,
            "shift": params.shift, "multiplier": params.multiplier}.items()}, results.as_value())
        return results
    lanes = [Lane(odd=number % 2 == 1, wide_luts=config.few_luts != 0) for number in range(count)]
    for number, lane in enumerate(lanes):
        m.submodules[f"lane{number}"] = lane
        # If the number of lanes is odd, the last has no partner, and a difference of 0.
        partner = lanes[number ^ 1].operand if number ^ 1 < count else ~lane.operand
        m.d.comb += [
            lane.control.eq(control.control), lane.acc.eq(operands.acc[number]),
            lane.register_a.eq(registers.a[number]), lane.register_b.eq(registers.b[number]),
            lane.bias.eq(params.bias[number]),
            lane.stream_a.eq(operands.a.elements[number]), lane.stream_b.eq(operands.b.elements[number]),
            lane.partner.eq(partner), lane.shift.eq(params.shift[number]),
            lane.multiplier.eq(params.multiplier[number]), results[number].eq(lane.result),
        ]
    return results
