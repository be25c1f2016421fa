"""Execute one micro-operation on a group of chunks, with its parameter blocks."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tq_hw.isa.promises import broken_clamp
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import OUTPUTS, Activation, Destination, Multiply, Reduce, ShiftSource, Source
from tq_hw.sim.executor.machine import Bytes, Index, Ints, Machine
from tq_hw.sim.executor.unknown import Flags
from tq_hw.sim.executor.uop import activate, entry_of, evaluate, look_up, reduce_all, result_unknown, shift_of

__all__ = ["ELEMENT_TYPES", "ParameterBlock", "Pass", "note_blocks"]

#: By type code in a register: bytes of a stream's element, and its numpy type.
ELEMENT_TYPES = ((1, np.dtype("i1")), (2, np.dtype("<i2")), (4, np.dtype("<i4")), (1, np.dtype("u1")))
_NONE: Flags = np.zeros((1, 1, 1), np.bool_)


def note_blocks(machine: Machine, fields: Mapping[str, int]) -> None:
    """Record for the race check that an operation reads all of its parameter blocks."""
    if fields["use_params"] and machine.races is not None and machine.config.design == "parallel":
        for block in range(fields["out_blocks"]):
            ParameterBlock(machine, fields, block)


class ParameterBlock:
    """Parameters of one output block: int32 biases and multipliers, shifts.

    The parallel design reads a whole block; the serial one, whose words have four bytes, reads only what is used.
    """

    def __init__(self, machine: Machine, fields: Mapping[str, int], block: int) -> None:
        config = self.config = machine.config
        self.machine = machine
        self.words = fields["param_base"] + block * fields["param_block_step"] + np.arange(config.param_words)
        wide = ceil_div(4 * config.cols, config.word_bytes)
        self._parts = {"bias": (0, 4), "multiplier": (wide, 4), "shift": (2 * wide, 1)}
        if config.design == "parallel":
            machine.note_read(machine.address(self.words))
        self._places = (self.words & 0xFFFF) % config.scratchpad_words

    def get(self, name: str, channels: int) -> tuple[Ints, Flags]:
        """Return one kind of parameter of the first channels, and its unknown flags."""
        machine, (first, size) = self.machine, self._parts[name]
        words = slice(first, first - (-size * channels // self.config.word_bytes))
        if self.config.design == "serial":
            machine.note_read(machine.address(self.words[words]))
        data = machine.scratchpad[self._places[words]].reshape(-1)[:size * channels]
        unknown: Flags = np.zeros(channels, np.bool_)
        if machine.unknown is not None:
            unknown = np.logical_or.reduce(machine.unknown.scratchpad[self._places[words]].reshape(-1)[
                :size * channels].reshape(channels, size), axis=1)
        if name == "shift":
            return shift_of(data.view(np.int8).astype(np.int32)), unknown
        return data.view("<i4").copy(), unknown


class Program(Protocol):
    """The part of `MicroProgram` that a pass uses."""

    machine: Machine
    fields: Mapping[str, int]
    channels: int
    lanes: int
    beats: int

    def sub(self, block: int) -> int:
        """Return the sub-block of the word that an output block fills."""
        ...

    def addresses(self, stream: str, blocks: Index, slots: Index, i1: int = 0, i2: int = 0) -> Index:
        """Return the first word addresses of elements."""
        ...

    def span(self, stream: str, block: int, channels: int) -> tuple[int, int, int, int]:
        """Return size, first element, count and end of a block's elements."""
        ...

    def register(self, number: int, beats: int) -> slice:
        """Return the words of a vector register."""
        ...

    def parameters(self, block: int) -> ParameterBlock:
        """Return a block's parameters."""
        ...


class Pass:
    """One micro-operation on a group of chunks; `flags` are the registers' unknown flags."""

    def __init__(self, program: Program, uop: Mapping[str, int], blocks: Index, slots: Index,
                 repeats: tuple[int, int], registers: Ints, flags: Flags | None) -> None:
        self.program, self.uop, self.blocks = program, uop, blocks
        self.machine, self.fields = program.machine, program.fields
        self.sees_last_word = not uop["once"] or slots.shape[1] == 1
        self.slots = slots[:, :1] if uop["once"] else slots
        self.chunks, self.words = self.slots.shape
        self.beats = 1 if uop["once"] else self.words * program.beats
        self.channels = program.lanes if uop["once"] else program.channels
        self.shape = (self.chunks, self.beats, program.lanes)
        self.repeats, self.registers, self.flags = repeats, registers, flags

    def run(self, acc: Ints | None, acc_unknown: Flags | None) -> None:
        """Fetch operands, compute, and write the results to their destination."""
        uop = self.uop
        broken = broken_clamp(uop, self.fields)
        self.machine.promise(not broken, broken)
        multiplier: tuple[Ints | int, Flags] = (uop["immediate"], _NONE)
        if uop["multiply"] == Multiply.HIGH_PARAM:
            multiplier = self._by_channel("multiplier")
        shift: tuple[Ints | int, Flags] = (uop["shift"], _NONE)
        if uop["shift_source"] == ShiftSource.PARAM:
            shift = self._by_channel("shift")
        a, a_unknown = self._operand("a", acc, acc_unknown)
        b, b_unknown = self._operand("b", acc, acc_unknown)
        x = np.broadcast_to(evaluate(uop, a, b, multiplier[0], shift[0], self.fields["out_type"] == 1), self.shape)
        unknown = None
        if self.flags is not None:
            undefined = result_unknown(uop, np.broadcast_to(a_unknown, self.shape), b_unknown, multiplier[1], shift[1])
            unknown = np.broadcast_to(undefined | bool(broken), self.shape)
        self._send(x, unknown)

    def _by_channel(self, name: str) -> tuple[Ints, Flags]:
        """Broadcast a parameter per channel over the beats of a chunk."""
        shape = (1, self.beats, self.program.lanes)
        values, unknown = self.program.parameters(int(self.blocks[0])).get(name, self.channels)
        return np.tile(values, self.words).reshape(shape), np.tile(unknown, self.words).reshape(shape)

    def _operand(self, name: str, acc: Ints | None, acc_unknown: Flags | None) -> tuple[Ints, Flags]:
        uop, machine = self.uop, self.machine
        source = Source(uop[f"{name}_source"])
        unknown = _NONE
        if source is Source.IMMEDIATE:
            value: Ints = np.full((1, 1, self.program.lanes), uop["immediate"], np.int32)
        elif source is Source.REGISTER:
            single = uop["once"] or uop[f"{name}_hold"]
            place = self.program.register(uop[f"{name}_register"], 1 if single else self.beats)
            value = self.registers[:, place]
            unknown = unknown if self.flags is None else self.flags[:, place]
        elif source is Source.STREAM:
            value, unknown = self._read(name)
        elif name == "b":
            value, unknown = self._by_channel("bias")
        else:
            assert acc is not None
            acc = acc[:, :self.words, :self.channels]
            value = acc.reshape(self.shape)
            if acc_unknown is not None:
                unknown = acc_unknown[:, :self.words, :self.channels].reshape(self.shape)
        which = uop[f"{name}_table"]
        if which and machine.unknown is not None:
            unknown = np.asarray(unknown | machine.unknown.table[entry_of(which, value)])
        return look_up(machine.table, which, value), unknown

    def _read(self, stream: str) -> tuple[Ints, Flags]:
        """Return elements [chunk, beat, lane] of stream a or b, and their unknown flags."""
        program, machine, width = self.program, self.machine, self.machine.config.word_bytes
        size, low, count, end = program.span(stream, int(self.blocks[0]), self.channels)
        kind = ELEMENT_TYPES[self.fields[f"{stream}_type"]][1]
        first = low // width
        low -= first * width
        places = program.addresses(stream, self.blocks, self.slots, *self.repeats)[..., None] + np.arange(first, end)
        data = machine.read(places).reshape(self.chunks, self.words, -1)
        flat = np.ascontiguousarray(data[..., low:low + count])
        unknown = _NONE
        if machine.unknown is not None:
            flags = machine.read_unknown(places).reshape(self.chunks, self.words, -1)[..., low:low + count]
            unknown = np.asarray(flags.reshape(*self.shape, size).any(axis=-1))
        return flat.view(kind).astype(np.int32).reshape(self.shape), unknown

    def _send(self, x: Ints, unknown: Flags | None) -> None:
        uop, program = self.uop, self.program
        destination = uop["destination"]
        if destination == Destination.REGISTER:
            place = program.register(uop["d_register"], self.beats)
            self.registers[:, place] = x
            if self.flags is not None:
                self.flags[:, place] = unknown
        elif destination in OUTPUTS:
            if destination == Destination.ACTIVATION:
                x = activate(Activation(uop["reduce"]), x)
            self._write(x, unknown)
        else:
            first = program.sub(int(self.blocks[0])) * program.channels
            valid = self.fields["valid_lanes"] if self.sees_last_word else 0
            takes_part = np.arange(first, first + self.channels) < (valid or 1 << 16)
            shape = (self.chunks, self.words, self.channels)
            place = program.register(uop["d_register"], 1)
            self.registers[:, place] = reduce_all(Reduce(uop["reduce"]), x.reshape(shape), takes_part)[:, None, None]
            if self.flags is not None and unknown is not None:
                seen = unknown.reshape(shape).copy()
                seen[:, -1] &= takes_part
                self.flags[:, place] = np.asarray(seen.any(axis=(1, 2)))[:, None, None]

    def _write(self, x: npt.NDArray[Any], x_unknown: Flags | None) -> None:
        """Write elements [chunk, beat, lane] to the output stream; the rest of each word is undefined."""
        machine, program, width = self.machine, self.program, self.machine.config.word_bytes
        size, low, count, end = program.span("out", int(self.blocks[0]), self.channels)
        data: Bytes = np.ascontiguousarray(x.astype(ELEMENT_TYPES[self.fields["out_type"]][1])).view(np.uint8)
        data = data.reshape(-1, count)
        flags = None if x_unknown is None else np.repeat(x_unknown.reshape(-1), size).reshape(-1, count)
        flat = program.addresses("out", self.blocks, self.slots).reshape(-1)
        kept = bool(self.fields["use_acc"]) and machine.config.sub_blocks > 1
        for word in range(low // width, end):
            first, last = max(low, word * width), min(low + count, (word + 1) * width)
            part, lane = data[:, first - low:last - low], first - word * width
            unknown = None if flags is None else flags[:, first - low:last - low]
            if part.shape[1] < width and not kept:
                full = machine.noise(len(part), width).copy()
                full[:, lane:lane + part.shape[1]] = part
                if unknown is not None:
                    marked = np.ones(full.shape, bool)
                    marked[:, lane:lane + part.shape[1]] = unknown
                    unknown = marked
                part, lane = full, 0
            machine.write(flat + word, lane, part, unknown)
