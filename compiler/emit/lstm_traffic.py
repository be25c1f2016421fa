"""Loads and stores of an LSTM: weights, parameters, the sequence, both states."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.image import gemm_weights, parameter_blocks
from tq_hw.compiler.emit.lstm_rooms import Rooms
from tq_hw.compiler.emit.ring import Constants
from tq_hw.compiler.ir.lstm import Gate, Lstm
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import Unit
from tq_hw.isa.sizes import ceil_div

__all__ = ["Traffic"]


class Traffic:
    """Transfers of a layer's constants and tensors between memory and its `Rooms`."""

    def __init__(self, emitter: Emitter, layer: Lstm, rooms: Rooms) -> None:
        self.emitter, self.layer, self.rooms, self.config = emitter, layer, rooms, emitter.config

    def weights(self, of: Callable[[Gate], npt.NDArray[np.int8]], rows: int) -> bytes:
        """Weights of all gates, each gate starting with a new output block; the first `rows` of each step."""
        return b"".join(gemm_weights(self.spread(of(gate))[:, None, None, :], self.config)[..., :rows, :].tobytes()
                        for gate in self.layer.gates)

    def spread(self, rows: IntArray) -> IntArray:
        """Pad the cells of each block with zeros."""
        more = [(0, 0)] * (rows.ndim - 1)
        full = np.pad(rows, [(0, self.rooms.blocks * self.rooms.width - len(rows)), *more])
        parts = full.reshape(self.rooms.blocks, self.rooms.width, *rows.shape[1:])
        wide = np.pad(parts, [(0, 0), (0, self.config.block - self.rooms.width), *more])
        return wide.reshape(self.rooms.blocks * self.config.block, *rows.shape[1:])

    def parameters(self, gates: list[tuple[IntArray, tuple[int, int]]]) -> bytes:
        """Parameters of all gates, by bias and scale."""
        one = np.ones(self.layer.cells, np.int64)
        return b"".join(parameter_blocks(self.spread(bias), self.spread(one * scale[0]), self.spread(one * scale[1]),
                                         self.config) for bias, scale in gates)

    def place(self, name: str, data: bytes, row_bytes: int) -> None:
        """Load constants, `row_bytes` to a word, into their buffer."""
        words = len(data) // row_bytes
        assert Access("pad", self.rooms.base[name], self.rooms.base[name] + words) == self.rooms.whole[name], name
        self.emitter.bring(Constants(self.rooms.base[name], words, data, row_bytes), 0, words)

    def _move(self, value: Value, fields: Mapping[str, int], access: Access, load: bool) -> None:
        """Load or store; `fields` has addresses as for a load, counts, and bytes of words."""
        region, offset = self.emitter.memory_of(value)
        memory = (Access(f"region{region}", offset, offset + value.size_bytes),)
        shared = {key: n for key, n in fields.items() if key not in ("base", "at", "bytes", "last_bytes", "run_bytes")}
        shared |= {"region": region, "memory_offset_bytes": offset + fields.get("at", 0), "flip": int(value.flip)}
        if load:
            self.emitter.load(shared | {
                "run_bytes": fields["run_bytes"], "destination": fields["base"], "emit_bytes": fields["bytes"],
                "advance_bytes": fields["bytes"], "last_emit_bytes": fields["last_bytes"],
                "last_advance_bytes": fields["last_bytes"]}, memory, (access,))
        else:
            self.emitter.stream.add(Unit.STORE, shared | {
                "source": fields["base"], "take_bytes": fields["bytes"], "last_take_bytes": fields["last_bytes"]},
                (access,), memory, self.emitter.layer_index)

    def load_sequence(self, x: Value) -> None:
        """Load the input as [block][row of memory]."""
        count = self.layer.steps * self.layer.batch
        depth = self.layer.gates[0].input_weights.shape[1]
        blocks, block = ceil_div(depth, self.config.block), self.config.block
        self._move(x, {"base": self.rooms.base["sequence"], "run_bytes": count * depth, "bytes": block,
                       "last_bytes": depth - (blocks - 1) * block, "count0": blocks, "step0": count, "count1": count,
                       "step1": 1, "count2": 1, "count3": 1}, self.rooms.whole["sequence"], True)

    def bytes(self, value: Value, base: int, access: Access, *, steps: int, load: bool) -> None:
        """Load or store the hidden states of some steps."""
        batch, cells, width = self.layer.batch, self.layer.cells, self.rooms.width
        fields = {"base": base, "bytes": width, "last_bytes": cells - (self.rooms.blocks - 1) * width,
                  "count0": self.rooms.blocks, "step0": batch, "count3": 1}
        if self.layer.time_major or steps == 1:
            fields |= {"run_bytes": batch * cells, "count1": batch, "step1": 1, "count2": steps,
                       "step2": self.rooms.blocks * batch, "stride2_bytes": batch * cells}
        else:
            fields |= {"run_bytes": steps * cells, "count1": steps, "step1": self.rooms.blocks * batch, "count2": batch,
                       "step2": 1, "stride2_bytes": steps * cells}
        self._move(value, fields, access, load)

    def cell(self, value: Value, *, load: bool) -> None:
        """Load or store the cell state: whole blocks, then the remaining cells."""
        batch, cells, word = self.layer.batch, self.layer.cells, self.config.word_bytes
        whole, left = divmod(cells, self.rooms.width)
        parts = ([(0, whole, self.rooms.width)] if whole else []) + ([(whole, 1, left)] if left else [])
        for first, blocks, elements in parts:
            words = ceil_div(2 * elements, word)
            self._move(value, {
                "base": self.rooms.base["cell"] + first * batch * self.rooms.wide, "at": 2 * first * self.rooms.width,
                "run_bytes": 2 * blocks * elements, "bytes": word, "last_bytes": 2 * elements - (words - 1) * word,
                "count0": words, "step0": 1, "count1": blocks, "step1": batch * self.rooms.wide, "count2": batch,
                "step2": self.rooms.wide, "stride2_bytes": 2 * cells, "count3": 1}, self.rooms.whole["cell"], load)
