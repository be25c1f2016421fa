"""A vector program on groups of equally long chunks: addresses, streams, registers, results."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tq_hw.isa.control import Status
from tq_hw.isa.refusals import broken_uops
from tq_hw.isa.uop import OUTPUTS, Destination, Source
from tq_hw.sim.executor.machine import Index, Ints, Machine
from tq_hw.sim.executor.micropass import ELEMENT_TYPES, ParameterBlock, Pass
from tq_hw.sim.executor.unknown import Flags

__all__ = ["MicroProgram", "Uops"]

Uops = Sequence[Mapping[str, int]]

class MicroProgram:
    """One operation's program, ready to run on groups of equally long chunks.

    Members
    -------
    before, body, after : indices of the micro-operations; in a survey without those that break a rule
    param_words : scratchpad words of the parameter blocks that were read
    """

    def __init__(self, machine: Machine, fields: Mapping[str, int], uops: Uops) -> None:
        self.machine, self.fields, self.uops = machine, fields, uops
        config = machine.config
        broken = dict(broken_uops(config, fields, uops))
        for number, rule in broken.items():
            machine.fault(Status.BAD_OPERATION, f"micro-operation {number}: {rule}")

        def numbers(first: int, end: int) -> list[int]:
            return [u for u in range(first, end) if u not in broken]
        self.before = numbers(fields["first"], fields["body_first"])
        self.body = numbers(fields["body_first"], fields["body_last"] + 1)
        self.after = numbers(fields["body_last"] + 1, fields["last"] + 1)
        self.channels = config.cols if fields["use_acc"] else config.block
        self.lanes = config.requantize_lanes
        self.beats = self.channels // self.lanes
        self.param_words: list[Index] = []
        self._params: dict[int, ParameterBlock] = {}

    def steps(self) -> Iterator[tuple[int, int, int]]:
        """Yield (micro-operation, i1, i2) in execution order."""
        yield from ((u, 0, 0) for u in self.before)
        for i2 in range(self.fields["repeat2"]):
            for i1 in range(self.fields["repeat1"]):
                yield from ((u, i1, i2) for u in self.body)
        yield from ((u, 0, 0) for u in self.after)

    def sub(self, block: int) -> int:
        """Return the sub-block of the word that output block `block` fills."""
        if not self.fields["use_acc"]:
            return 0
        return (self.fields["sub_first"] + block) % self.machine.config.sub_blocks

    def addresses(self, stream: str, blocks: Index, slots: Index, i1: int = 0, i2: int = 0) -> Index:
        """Return the word address of stream "a", "b" or "out" for slots[chunk, word]."""
        f = self.fields
        ob = (f["sub_first"] + blocks) // self.machine.config.sub_blocks if f["use_acc"] else blocks
        row, col = np.divmod(slots, f["cols"])
        words = (f[f"{stream}_base"] + (ob * f[f"{stream}_block_step"])[:, None] + row * f[f"{stream}_row_step"]
                 + col * f[f"{stream}_col_step"])
        if stream == "a":
            words = words + i1 * f["a_repeat1_step"] + i2 * f["a_repeat2_step"]
        return np.asarray(words)

    def touched(self, stream: str, blocks: Index, slots: Index, i1: int = 0, i2: int = 0) -> Index:
        """Return the words of a stream, [chunk, slot, word of the slot], modulo 2^16."""
        words = self.machine.config.word_bytes
        _, low, _, end = self.span(stream, int(blocks[0]), self.channels)
        found = self.addresses(stream, blocks, slots, i1, i2)[..., None] + np.arange(low // words, end)
        return np.asarray(found & 0xFFFF)

    def uses(self, number: int, stream: str) -> bool:
        """Whether a micro-operation reads stream "a" or "b", or writes "out"."""
        uop = self.uops[number]
        return bool(uop["destination"] in OUTPUTS if stream == "out" else uop[f"{stream}_source"] == Source.STREAM)

    def independent(self, blocks: Index, slots: Index) -> bool:
        """Whether chunks run together give the same results as chunks run one after the other."""
        if not self._registers_are_written_first(slots.shape[1] * self.beats):
            return False
        outside = [*self.before, *self.after]
        owner = np.full(1 << 16, -1, np.int64)
        if any(self.uses(u, "out") for u in (*outside, *self.body)):
            out = self.touched("out", blocks, slots)
            number = np.broadcast_to(np.arange(len(blocks))[:, None, None], out.shape)
            owner[out] = number
            if not np.array_equal(owner[out], number):
                return False
        for stream in ("a", "b"):
            repeats = {(0, 0)} if any(self.uses(u, stream) for u in outside) else set()
            if any(self.uses(u, stream) for u in self.body):
                repeats |= {(i1, i2) for i2 in range(self.fields["repeat2"]) for i1 in range(self.fields["repeat1"])}
            for i1, i2 in repeats:
                found = owner[self.touched(stream, blocks, slots, i1, i2)]
                mine = np.arange(len(blocks))[:, None, None]
                if not np.all((found == -1) | (found == mine)):
                    return False
        return True

    def span(self, stream: str, block: int, channels: int) -> tuple[int, int, int, int]:
        """Return element bytes, first byte, number of bytes, and number of words of a slot's channels."""
        size = ELEMENT_TYPES[self.fields[f"{stream}_type"]][0]
        low = self.sub(block) * self.channels * size
        return size, low, channels * size, (low + channels * size - 1) // self.machine.config.word_bytes + 1

    def _registers_are_written_first(self, beats: int) -> bool:
        """Whether each vector register word that a chunk reads was written earlier in the same chunk."""
        written: npt.NDArray[np.bool_] = np.zeros(len(self.machine.registers), bool)
        for u in (*self.before, *self.body, *self.after):
            uop = self.uops[u]
            for operand in ("a", "b"):
                if uop[f"{operand}_source"] == Source.REGISTER:
                    single = uop["once"] or uop[f"{operand}_hold"]
                    if not written[self.register(uop[f"{operand}_register"], 1 if single else beats)].all():
                        return False
            if uop["destination"] not in OUTPUTS:
                single = uop["once"] or uop["destination"] == Destination.REDUCE
                written[self.register(uop["d_register"], 1 if single else beats)] = True
        return True

    def register(self, number: int, beats: int) -> slice:
        """Return the words for this many beats from a vector register on."""
        first = number * self.machine.config.vector_register_words
        return slice(first, first + beats)

    def run(self, blocks: Index, slots: Index, acc: Ints | None, acc_unknown: Flags | None) -> None:
        """Run chunks `slots[chunk, word]` of output blocks `blocks[chunk]` together."""
        machine = self.machine
        if self.fields["use_params"] and machine.config.design == "parallel":
            self.parameters(int(blocks[0]))
        registers = np.repeat(machine.registers[None], len(blocks), axis=0)
        flags = None if machine.unknown is None else np.repeat(machine.unknown.registers[None], len(blocks), axis=0)
        for u, i1, i2 in self.steps():
            Pass(self, self.uops[u], blocks, slots, (i1, i2), registers, flags).run(acc, acc_unknown)
        machine.registers[:] = registers[-1]
        if machine.unknown is not None and flags is not None:
            machine.unknown.registers[:] = flags[-1]

    def parameters(self, block: int) -> ParameterBlock:
        """Return a parameter block, which is read at its first use."""
        if block not in self._params:
            self._params[block] = ParameterBlock(self.machine, self.fields, block)
            self.param_words.append(self._params[block].words)
        return self._params[block]
