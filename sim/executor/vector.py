"""Vector operations: the micro-program on chunks of words, many chunks at once where they are independent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.uop import OUTPUTS, Activation, Destination, Multiply, Reduce, ShiftSource, Source
from tq_hw.sim.executor.machine import Bytes, Index, Ints, Machine, require
from tq_hw.sim.executor.uop import Parameters, activate, evaluate, look_up, reduce_all

__all__ = ["VectorTile", "load_table", "run_tiles", "vector_tiles"]

Uops = Sequence[Mapping[str, int]]

#: Bytes of an element of a stream and its numpy type, by the code in a register.
_TYPES = ((1, np.dtype("i1")), (2, np.dtype("<i2")), (4, np.dtype("<i4")), (1, np.dtype("u1")))
#: Register file entries of all chunks that run together.
_GROUP_ENTRIES = 1 << 21


@dataclass(frozen=True)
class VectorTile:
    """One (output block, tile): `block` o and the slots first..last-1."""

    block: int
    first: int
    last: int


def vector_tiles(machine: Machine, fields: Mapping[str, int]) -> Iterator[VectorTile]:
    """Check the operation and yield its tiles in order."""
    config = machine.config
    for name in ("slots", "cols", "out_blocks", "tile_slots", "chunk_slots", "repeat1", "repeat2"):
        require(fields[name] >= 1, f"{name} must be at least 1")
    require(fields["out_type"] != 3, "out_type must be int8, int16 or int32")
    require(fields["first"] <= fields["body_first"] <= fields["body_last"] + 1
            and fields["body_last"] <= fields["last"] < config.uops, "micro-operation numbers must be in order")
    if fields["body_first"] > fields["body_last"]:
        require(fields["repeat1"] == fields["repeat2"] == 1, "without a body the repeats must be 1")
    if not fields["use_acc"]:
        require(fields["sub_first"] == 0, "sub_first must be 0 without use_acc")
        require(not fields["use_params"] or config.block == config.cols,
                "use_params without use_acc needs as many channels in a word as parameters in a block")
    slots, size = fields["slots"], fields["tile_slots"]
    tiles = range(-(-slots // size))
    blocks = range(fields["out_blocks"])
    pairs = [(o, t) for t in tiles for o in blocks]
    if not fields["blocks_inner"]:
        pairs.sort()
    for o, t in pairs:
        yield VectorTile(o, t * size, min(slots, (t + 1) * size))


def load_table(machine: Machine, fields: Mapping[str, int]) -> None:
    """Run one load-table operation."""
    first, count, per_word = fields["table_first"], fields["slots"], machine.config.word_bytes // 4
    require(count >= 1 and first + count <= machine.table.size, "a table has 512 entries")
    words = machine.read(fields["a_base"] + np.arange(-(-count // per_word)))
    machine.table[first:first + count] = words.reshape(-1).view("<i4")[:count]


def run_tiles(machine: Machine, fields: Mapping[str, int], uops: Uops, tiles: Sequence[VectorTile],
              acc: Ints | None) -> None:
    """Run the program on tiles; with accumulators (`acc[slot, col]`) on exactly one."""
    chunks = [(tile.block, low, min(tile.last, low + fields["chunk_slots"]))
              for tile in tiles for low in range(tile.first, tile.last, fields["chunk_slots"])]
    program = _Program(machine, fields, uops)
    size_limit = max(1, _GROUP_ENTRIES // machine.registers.size)
    at = 0
    while at < len(chunks):
        size = chunks[at][2] - chunks[at][1]
        end = at + 1
        while (end < len(chunks) and end - at < size_limit and chunks[end][2] - chunks[end][1] == size
               and (chunks[end][0] == chunks[at][0] or not fields["use_params"])):
            end += 1
        group = chunks[at:end]
        at = end
        blocks = np.array([c[0] for c in group])
        slots = np.array([c[1] for c in group])[:, None] + np.arange(size)
        sums = None if acc is None else acc[slots - tiles[0].first]
        if len(group) > 1 and not program.independent(blocks, slots):
            for i in range(len(group)):
                program.run(blocks[i:i + 1], slots[i:i + 1], None if sums is None else sums[i:i + 1])
        else:
            program.run(blocks, slots, sums)


class _Program:
    """One operation's program, ready to run on groups of equally long chunks."""

    def __init__(self, machine: Machine, fields: Mapping[str, int], uops: Uops) -> None:
        self.machine, self.fields, self.uops = machine, fields, uops
        config = machine.config
        body = range(fields["body_first"], fields["body_last"] + 1)
        self.before = range(fields["first"], fields["body_first"])
        self.body, self.after = body, range(fields["body_last"] + 1, fields["last"] + 1)
        self.channels = config.cols if fields["use_acc"] else config.block
        self.lanes = config.requantize_lanes
        self.beats = self.channels // self.lanes
        self.params: dict[int, Parameters] = {}

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

    def _span(self, stream: str, block: int, channels: int) -> tuple[int, int, int, int]:
        """Return element bytes, first byte, bytes and the number of words that a slot's channels reach."""
        size = _TYPES[self.fields[f"{stream}_type"]][0]
        low = self.sub(block) * self.channels * size
        return size, low, channels * size, (low + channels * size - 1) // self.machine.config.word_bytes + 1

    def _touched(self, stream: str, blocks: Index, slots: Index, i1: int = 0, i2: int = 0) -> Index:
        words = self.machine.config.word_bytes
        _, low, _, end = self._span(stream, int(blocks[0]), self.channels)
        return self.addresses(stream, blocks, slots, i1, i2)[..., None] + np.arange(low // words, end)

    def _uses(self, part: Sequence[int], stream: str) -> bool:
        for u in part:
            uop = self.uops[u]
            if stream == "out" and uop["destination"] in OUTPUTS:
                return True
            if stream != "out" and uop[f"{stream}_source"] == Source.STREAM:
                return True
        return False

    def independent(self, blocks: Index, slots: Index) -> bool:
        """Whether running the chunks together gives what running them in turn gives."""
        if not self._registers_are_written_first(slots.shape[1] * self.beats):
            return False
        outside = [*self.before, *self.after]
        owner = np.full(1 << 16, -1, np.int64)
        if self._uses([*outside, *self.body], "out"):
            out = self._touched("out", blocks, slots) & 0xFFFF
            number = np.broadcast_to(np.arange(len(blocks))[:, None, None], out.shape)
            owner[out] = number
            if not np.array_equal(owner[out], number):
                return False
        for stream in ("a", "b"):
            repeats = {(0, 0)} if self._uses(outside, stream) else set()
            if self._uses(self.body, stream):
                repeats |= {(i1, i2) for i2 in range(self.fields["repeat2"]) for i1 in range(self.fields["repeat1"])}
            for i1, i2 in repeats:
                found = owner[self._touched(stream, blocks, slots, i1, i2) & 0xFFFF]
                mine = np.arange(len(blocks))[:, None, None]
                if not np.all((found == -1) | (found == mine)):
                    return False
        return True

    def _registers_are_written_first(self, beats: int) -> bool:
        """Whether every vector register word that a chunk reads was written for the same chunk."""
        written: npt.NDArray[np.bool_] = np.zeros(len(self.machine.registers), bool)
        for u in (*self.before, *self.body, *self.after):
            uop = self.uops[u]
            for operand in ("a", "b"):
                if uop[f"{operand}_source"] == Source.REGISTER:
                    single = uop["once"] or uop[f"{operand}_hold"]
                    if not written[self._register(uop[f"{operand}_register"], 1 if single else beats)].all():
                        return False
            if uop["destination"] not in OUTPUTS:
                single = uop["once"] or uop["destination"] == Destination.REDUCE
                written[self._register(uop["d_register"], 1 if single else beats)] = True
        return True

    def _register(self, number: int, beats: int) -> slice:
        first = number * self.machine.config.vector_register_words
        require(first + beats <= len(self.machine.registers),
                f"{beats} beats from vector register {number} on run over the end of the register file")
        return slice(first, first + beats)

    def run(self, blocks: Index, slots: Index, acc: Ints | None) -> None:
        """Run chunks `slots[chunk, word]` of output blocks `blocks[chunk]` together."""
        registers = np.repeat(self.machine.registers[None], len(blocks), axis=0)
        for u, i1, i2 in self.steps():
            self._step(self.uops[u], i1, i2, blocks, slots, acc, registers)
        self.machine.registers[:] = registers[-1]

    def _step(self, uop: Mapping[str, int], i1: int, i2: int, blocks: Index, slots: Index, acc: Ints | None,
              registers: Ints) -> None:
        sees_last_word = not uop["once"] or slots.shape[1] == 1
        if uop["once"]:
            slots = slots[:, :1]
            acc = None if acc is None else acc[:, :1]
        chunks, words = slots.shape
        beats = 1 if uop["once"] else words * self.beats
        channels = self.lanes if uop["once"] else self.channels

        def by_channel(values: Ints) -> Ints:
            """Spread a value per channel over the beats of a chunk."""
            return np.tile(values[:channels], words).reshape(1, beats, self.lanes)

        def operand(name: str) -> Ints:
            source = Source(uop[f"{name}_source"])
            if source is Source.IMMEDIATE:
                value: Ints = np.full((1, 1, self.lanes), uop["immediate"], np.int32)
            elif source is Source.REGISTER:
                single = uop["once"] or uop[f"{name}_hold"]
                value = registers[:, self._register(uop[f"{name}_register"], 1 if single else beats)]
            elif source is Source.STREAM:
                value = self._read(name, blocks, self.addresses(name, blocks, slots, i1, i2), channels)
                value = value.reshape(chunks, beats, self.lanes)
            elif name == "b":
                value = by_channel(self._parameters(int(blocks[0])).bias)
            else:
                require(acc is not None, "an accumulator is read without use_acc")
                value = acc[..., :channels].reshape(chunks, beats, self.lanes)  # type: ignore[index]
            which = uop[f"{name}_table"]
            require(name == "a" or which != 3, "operand b knows tables 1 and 2 alone")
            return look_up(self.machine.table, which, value)

        multiplier: Ints | int = uop["immediate"]
        if uop["multiply"] == Multiply.HIGH_PARAM:
            multiplier = by_channel(self._parameters(int(blocks[0])).multiplier)
        shift: Ints | int = uop["shift"]
        if uop["shift_source"] == ShiftSource.PARAM:
            shift = by_channel(self._parameters(int(blocks[0])).shift)
        x = evaluate(uop, operand("a"), operand("b"), multiplier, shift, self.fields["out_type"] == 1)
        x = np.broadcast_to(x, (chunks, beats, self.lanes))
        destination = uop["destination"]
        if destination == Destination.REGISTER:
            registers[:, self._register(uop["d_register"], beats)] = x
        elif destination in OUTPUTS:
            if destination == Destination.ACTIVATION:
                require(self.machine.config.activation_lanes > 0, "an activation needs activation_lanes")
                require(uop["reduce"] in list(Activation), "a micro-operation's activation does not exist")
                x = activate(Activation(uop["reduce"]), x)
            self._write(blocks, self.addresses("out", blocks, slots), x.reshape(chunks, words, channels))
        else:
            require(destination == Destination.REDUCE, "a micro-operation's destination does not exist")
            require(uop["reduce"] in list(Reduce), "a micro-operation's reduction does not exist")
            first = self.sub(int(blocks[0])) * self.channels
            valid = self.fields["valid_lanes"] if sees_last_word else 0
            takes_part = np.arange(first, first + channels) < (valid or 1 << 16)
            reduced = reduce_all(Reduce(uop["reduce"]), x.reshape(chunks, words, channels), takes_part)
            registers[:, self._register(uop["d_register"], 1)] = reduced[:, None, None]

    def _parameters(self, block: int) -> Parameters:
        require(bool(self.fields["use_params"]), "a parameter is read without use_params")
        if block not in self.params:
            config = self.machine.config
            base = self.fields["param_base"] + block * self.fields["param_block_step"]
            data = self.machine.read(base + np.arange(config.param_words)).reshape(-1)
            wide = -(-4 * config.cols // config.word_bytes) * config.word_bytes
            self.params[block] = Parameters(
                data[:4 * config.cols].view("<i4").copy(), data[wide:wide + 4 * config.cols].view("<i4").copy(),
                data[2 * wide:2 * wide + config.cols].view(np.int8).astype(np.int32))
        return self.params[block]

    def _read(self, stream: str, blocks: Index, words: Index, channels: int) -> Ints:
        """Return elements [chunk, word, channel] of stream a or b."""
        size, low, count, end = self._span(stream, int(blocks[0]), channels)
        width = self.machine.config.word_bytes
        first = low // width
        data = self.machine.read(words[..., None] + np.arange(first, end))
        low -= first * width
        flat = np.ascontiguousarray(data.reshape(*words.shape, -1)[..., low:low + count])
        assert size == _TYPES[self.fields[f"{stream}_type"]][1].itemsize
        return flat.view(_TYPES[self.fields[f"{stream}_type"]][1]).astype(np.int32)

    def _write(self, blocks: Index, words: Index, values: npt.NDArray[Any]) -> None:
        """Write elements [chunk, word, channel] to the output stream; the rest of each word is undefined."""
        _, low, count, end = self._span("out", int(blocks[0]), values.shape[-1])
        machine = self.machine
        width = machine.config.word_bytes
        data: Bytes = np.ascontiguousarray(values.astype(_TYPES[self.fields["out_type"]][1])).view(np.uint8)
        data = data.reshape(-1, count)
        flat = words.reshape(-1)
        kept = bool(self.fields["use_acc"]) and machine.config.sub_blocks > 1
        for word in range(low // width, end):
            first, last = max(low, word * width), min(low + count, (word + 1) * width)
            part, lane = data[:, first - low:last - low], first - word * width
            if part.shape[1] < width and not kept:
                full = machine.noise(len(part), width).copy()
                full[:, lane:lane + part.shape[1]] = part
                part, lane = full, 0
            machine.write(flat + word, lane, part)
