"""Small permutations of axes in the scratchpad: wide reads exchange digits of the addresses of bytes.

A read of consecutive words as int32 gives each lane the four bytes that lie next to each other:

    words of pixels 0..3, lane = 4 * quad + byte    --int32-->    lane = 4 * pixel + quad, byte

Four programs extract one byte each. Now two digits of the lane's number are pixels and channels, and one digit of the
channel is a digit of the address. A second step does the same with the other digits: all lanes are pixels. Words of 8
bytes need a step with int32 and one with int16. Each step reads all words and writes them again, 4 cycles a word in
all; the array's way takes 3, but needs weights, a table and an operation per few channels.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.ir.staged import Transpose
from tq_hw.compiler.ir.strided import Dim, merged
from tq_hw.compiler.plan.layout import View, block_count, signed_step
from tq_hw.compiler.plan.transposes import lane_digits
from tq_hw.compiler.programs.words import Uop, program_fields
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.latency import UOP_WAIT_CYCLES, VECTOR_START_CYCLES, output_latency_cycles
from tq_hw.isa.uop import Alu, Destination, Rounding, ShiftSource, Source

__all__ = ["DigitTransposer"]

#: Type of the elements of a read that exchanges a digit, by its size.
_TYPES = {4: 2, 2: 1}


@dataclass(frozen=True)
class _Step:
    """A pass over all words.

    Members
    -------
    digit : size of the exchanged digit; 1 only copies words
    source, target : their first words, and what they are part of
    loops : words of the source and of the target from one slot to the next
    bytes_ : for each extracted byte, the first word of its target
    """

    digit: int
    source: tuple[int, Access]
    target: tuple[int, Access]
    loops: tuple[Dim, ...]
    bytes_: tuple[int, ...]


def _operations(loops: tuple[Dim, ...], limit: int) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Yield operations of at most `limit` slots: offsets of the source and of the target, and fields of two loops."""
    left = sorted(merged(loops), key=lambda dim: -dim[0])
    taken: list[Dim] = []
    while left and len(taken) < 2 and math.prod(dim[0] for dim in (*taken, left[0])) <= limit:
        taken.append(left.pop(0))
    (cols, a_col, out_col), (rows, a_row, out_row) = [*taken, (1, 0, 0), (1, 0, 0)][:2]
    slots = cols * rows
    fields = {"cols": cols, "out_blocks": 1, "slots": slots, "tile_slots": slots, "chunk_slots": slots}
    steps = {"a_col_step": a_col, "a_row_step": a_row, "out_col_step": out_col, "out_row_step": out_row}
    for at in itertools.product(*(range(dim[0]) for dim in left)):
        source, target = (sum(n * dim[which] for n, dim in zip(at, left, strict=True)) for which in (1, 2))
        yield source, target, fields | {name: signed_step(step) for name, step in steps.items()}


@dataclass
class DigitTransposer:
    """Emits a transpose; `fits` and `cycles` say whether, and how well, it can.

    Members
    -------
    base, room : first word, and number of words, for the bytes between the steps
    """

    emitter: Emitter
    layer: Transpose
    source: View
    target: View
    base: int
    room: int

    def __post_init__(self) -> None:
        """Find the axes: channels in blocks, two others, and the one whose pixels share a word of the target."""
        self.config = config = self.emitter.config
        value, output, axes = self.layer.inputs[0], self.layer.output, self.layer.axes
        ins, outs = ((view.row_pitch * shape[1], view.row_pitch, view.col_pitch)
                     for view, shape in ((self.source, value.shape), (self.target, output.shape)))
        places = [axes.index(axis) for axis in range(4)]
        self.channels, self.channel_step = value.shape[3], outs[places[3]]
        self.far, self.far_step = value.shape[axes[3]], ins[axes[3]]
        #: (count, step in the source, step in the target) of the other two axes.
        self.others: list[Dim] = [(value.shape[axis], ins[axis], outs[places[axis]])
                                  for axis in sorted({0, 1, 2} - {axes[3]})]
        #: Pixels of whole words of the target: the last lanes of its last words have no meaning.
        self.padded = block_count(self.far, config) * config.block
        self.words = block_count(self.channels, config) * self.padded * math.prod(dim[0] for dim in self.others)
        self.limit = 8 * config.vector_register_words // config.beats_per_word
        self.steps = list(self._steps()) if self.fits else []

    @property
    def fits(self) -> bool:
        """Whether there is room between the steps, and in the registers."""
        counts = (self.padded, block_count(self.channels, self.config), *(dim[0] for dim in self.others))
        return 2 * self.words <= self.room and max(counts) <= self.limit

    @property
    def cycles(self) -> float:
        """Estimated cycles: each step waits for the outputs of the step before, and each extraction for its words."""
        beats, found = self.config.beats_per_word, 0
        for step in self.steps:
            for _, _, fields in _operations(step.loops, self.limit):
                slots = fields["slots"] * beats
                found += slots if step.digit == 1 else slots * step.digit + UOP_WAIT_CYCLES
                found += len(step.bytes_) * slots if step.digit > 1 else 0
            found += VECTOR_START_CYCLES + output_latency_cycles(self.config)
        return found

    def _steps(self) -> Iterator[_Step]:
        """Yield the passes: copies if pixels of a target word are not consecutive words; then one for each digit."""
        value, output = self.layer.inputs[0], self.layer.output
        blocks = block_count(self.channels, self.config)
        source = self.source.base, self.source.access((0, value.shape[0] * value.shape[1]), (0, blocks))
        target = self.target.base, self.target.access((0, output.shape[0] * output.shape[1]), (
            0, block_count(output.shape[3], self.config)))
        middle = itertools.cycle([(base, Access("pad", base, base + self.words, self.emitter.new_buffer(
            self.layer.output.name), (0, 1), (0, 1))) for base in (
                self.base, self.base + self.words)])
        #: Loops over words: (count, step in the source); digits of channels first, pixels last.
        counts = [blocks, *(dim[0] for dim in self.others)]
        steps = [self.source.block_pitch, *(dim[1] for dim in self.others)]
        if self.far_step != 1 or self.far != self.padded:
            between = next(middle)
            dense = _dense([*counts, self.padded])
            # Words without a pixel are copies of the first pixel, so that nothing undefined is read.
            for first, count, step in ((0, self.far, self.far_step), (self.far, self.padded - self.far, 0)):
                if count:
                    yield _Step(1, source, between, tuple(zip([*counts, count], [*steps, step], dense, strict=True)),
                                (between[0] + first,))
            source, steps = between, dense[:-1]
        far, done, digits = self.padded, list[int](), lane_digits(self.config)
        for digit in digits[:-1]:
            between, far = next(middle), far // digit
            dense = _dense([digit, *reversed(done), *counts, far])
            yield _Step(digit, source, between, tuple(zip(
                [*reversed(done), *counts, far], [*steps, digit], dense[1:], strict=True)), tuple(
                    between[0] + number * dense[0] for number in range(digit)))
            source, steps = between, dense[:-1]
            done.append(digit)
        yield from self._last(source, target, steps, done)

    def _last(self, source: tuple[int, Access], target: tuple[int, Access], steps: list[int], done: list[int]
              ) -> Iterator[_Step]:
        """Yield the step that writes the target: whole blocks of channels, and the rest of the last block."""
        block, digit = self.config.block, lane_digits(self.config)[-1]
        #: Channels from one value of a digit to the next.
        weights = [math.prod(done[:number]) for number in range(len(done) + 1)]
        whole, rest = divmod(self.channels, block)
        far, at = self.padded // block, len(done)
        for first, count, channels in ((0, whole, block), (whole, 1, rest)):
            if count and channels:
                outs = [*(weight * self.channel_step for weight in reversed(weights[:-1])), block * self.channel_step,
                        *(dim[2] for dim in self.others), self.target.block_pitch]
                counts = [*reversed(done), count, *(dim[0] for dim in self.others), far]
                base = target[0] + first * block * self.channel_step
                yield _Step(digit, (source[0] + first * steps[at], source[1]), target, tuple(
                    zip(counts, [*steps, digit], outs, strict=True)), tuple(
                        base + number * weights[-1] * self.channel_step for number in range(channels // weights[-1])))

    def run(self) -> None:
        """Emit all passes; the programs come first, because micro-operations are written when the unit is idle."""
        output: Uop = {"alu": Alu.PASS, "destination": Destination.OUTPUT}
        into: Uop = {"alu": Alu.PASS, "destination": Destination.REGISTER, "d_register": 0}
        program, digits = self.emitter.program, max(step.digit for step in self.steps)
        self.emitter.reserve_program(2 + digits)
        copy, read = (program([{"a_source": Source.STREAM, **to}]) if steps else None for to, steps in (
            (output, [step for step in self.steps if step.digit == 1]), (into, self.steps)))
        byte = [program([{"a_source": Source.REGISTER, "shift_source": ShiftSource.IMMEDIATE, "shift": -8 * number,
                          "rounding": Rounding.FLOOR, **output}]) for number in range(digits)]
        for step in self.steps:
            for source, target, fields in _operations(step.loops, self.limit):
                at = fields | {"a_base": step.source[0] + source & 0xFFFF}
                if step.digit > 1:
                    assert read is not None
                    self.emitter.vector(at | {"a_type": _TYPES[step.digit], **program_fields(read)},
                                        (step.source[1],), ())
                for number, first in enumerate(step.bytes_):
                    code = byte[number] if step.digit > 1 else copy
                    assert code is not None
                    self.emitter.vector(at | {"out_base": first + target & 0xFFFF, **program_fields(code)},
                                        (step.source[1],) if step.digit == 1 else (), (step.target[1],))


def _dense(counts: list[int]) -> list[int]:
    """Return the steps of loops whose words are consecutive, the last loop the innermost."""
    return [math.prod(counts[number + 1:]) for number in range(len(counts))]
