"""All steps of an LSTM in the scratchpad: weights, gates, states and results stay there until the last one.

The products with the input are made for all steps at once. A step is an array operation over the hidden state before
it and six programs: sums of the gates, their activations, the new cell state (two), its tanh, the new hidden state.
With activation lanes the sums of three gates go through the logistic, and those of the fourth through the tanh.
Vectors of cells lie as [block][image of the batch], those of gates as [gate][block][image]; blocks are equally full.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.image import gemm_weights, parameter_blocks
from tq_hw.compiler.ir.lstm import TANH_FRACTION, Gate, Lstm
from tq_hw.compiler.ir.meaning import Scratch, Streams, Sums, Terms, Walk
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.plan.layout import even_tiles, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.interpolated import activation_of, product_uops
from tq_hw.compiler.programs.lstm import clip_uops, hidden_uops
from tq_hw.compiler.programs.words import OUT, STREAM_A, Uop, activated, program_fields, reg_a, reg_b, shifted, to
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import ArrayMode, Unit
from tq_hw.isa.program import REGION_IMAGE
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Activation, Alu, Multiply, Rounding, ShiftSource, Source

__all__ = ["emit_lstm"]

#: Sum of products and bias, rescaled by the parameters.
_SCALED: Uop = {"a_source": Source.ACC_OR_BIAS, "b_source": Source.ACC_OR_BIAS, "alu": Alu.ADD,
                "multiply": Multiply.HIGH_PARAM, "rounding": Rounding.HALF_AWAY, "shift_source": ShiftSource.PARAM}
_INT16 = 1
#: Fraction bits of the gates' sums.
_GATE_FRACTION = 12
#: Slots that are one row.
_ALL = 1 << 30
_Streams = tuple[Walk | None, Walk | None, Walk | None]
#: Sums, their first block, parameter blocks.
_Sums = tuple[Sums | None, int, tuple[bytes, ...]]
_NO_SUMS: _Sums = (None, 0, ())


@dataclass
class _Emission:
    emitter: Emitter
    layer: Lstm
    plan: LayerPlan

    def __post_init__(self) -> None:
        """Divide the words."""
        config, layer = self.emitter.config, self.layer
        self.config = config
        self.base: dict[str, int] = {}
        self.whole: dict[str, Access] = {}
        at = self.plan.out_bases[0]
        for name, words in layer.buffers(config).items():
            self.base[name], self.whole[name] = at, Access("pad", at, at + words)
            at += words
        self.blocks = ceil_div(layer.cells, config.block)
        self.wide = ceil_div(2 * config.block, config.word_bytes)
        #: Bytes of a word of cells of int16.
        self.size = 2 * config.block
        self.width = layer.width(config)
        #: Words of one vector of cells of int16, output blocks of all gates.
        self.vector = self.blocks * layer.batch * self.wide
        self.out_blocks = 4 * self.blocks * config.sub_blocks
        log2 = layer.cell_scale_log2
        #: Words of a vector that a register holds.
        self.at_once = max(1, config.vector_register_words // config.beats_per_word)
        self.active = None if layer.activates(config) else activation_of(layer)
        gate: Uop = {**STREAM_A, **reg_b(0), "alu": Alu.ADD}
        if self.active is None:
            # Arguments of a tanh beyond those of int16 change nothing: it is 1 or -1 there already.
            tanh = activated(Activation.TANH)
            first: dict[str, tuple[Uop, ...]] = {
                "logistic": (to(0, _SCALED), {**gate, "clamp": 1, **activated(Activation.LOGISTIC)}),
                "tanh": (to(0, _SCALED), {**gate, **shifted(TANH_FRACTION - _GATE_FRACTION), **tanh}),
                "cell tanh": ({**STREAM_A, **shifted(TANH_FRACTION + log2), **tanh},)}
        else:
            scaled = to(0, _SCALED, clamp=int(layer.interpolated))
            first = {"sums": (scaled, {**gate, "clamp": 1, **OUT}), "active": self.active.uops}
        *new, added = product_uops(layer, 30 + log2)
        *old, kept = product_uops(layer, 15)
        self.programs = first | {
            "new": (*new, to(1, added)),
            "cell": (*old, to(0, kept), *clip_uops({**reg_a(0), **reg_b(1), "alu": Alu.ADD}, layer.cell_clip)),
            "hidden": hidden_uops(*layer.hidden)}

    def run(self) -> None:
        """Emit everything."""
        emitter, layer = self.emitter, self.layer
        x, hidden, cell = layer.inputs
        # Tables and micro-operations are written while weights are on their way.
        if self.active is not None:
            emitter.tables(self.active.tables)
        self._load_sequence(x)
        self.products = self._products()
        emitter.reserve_program(sum(map(len, self.programs.values())))
        for uops in self.programs.values():
            emitter.program(list(uops))
        self.weights = self._weights(
            lambda gate: self._spread(gate.recurrent_weights.T).T, layer.weight_rows(self.config))
        self._place("weights", self.weights, self.config.cols)
        parameters = self._parameters([(gate.recurrent_bias, gate.recurrent_scale) for gate in layer.gates])
        self._place("parameters", parameters, self.config.word_bytes)
        size = self.config.param_words * self.config.word_bytes
        self.parameters = tuple(parameters[at:at + size] for at in range(0, len(parameters), size))
        if self.active is not None:
            gates = [self.active.logistic] * 3 + [self.active.tanh]
            codes = [code for code in gates for _ in range(self.blocks)] + [self.active.cell]
            self.codes = b"".join(bytes([code & 255]) * self.config.word_bytes for code in codes)
            self._place("codes", self.codes, self.config.word_bytes)
        self._bytes(hidden, self.base["hidden"], self.whole["hidden"], steps=1, load=True)
        self._cell(cell, load=True)
        flat = self.blocks * layer.batch
        self.cells = [Scratch("cell states", flat * self.size, _INT16) for _ in range(layer.steps - 1)]
        for step in range(layer.steps):
            self._step(step)
        after = self.base["hidden"] + self.blocks * layer.batch
        self._bytes(layer.output, after, self.whole["hidden"], steps=layer.steps, load=False)
        last = self.base["hidden"] + layer.steps * self.blocks * layer.batch
        self._bytes(hidden, last, self.whole["hidden"], steps=1, load=False)
        self._cell(cell, load=False)

    # Constants

    def _weights(self, of: Callable[[Gate], npt.NDArray[np.int8]], rows: int) -> bytes:
        """Weights of all gates, every gate from an output block of its own on; the first `rows` of each step."""
        return b"".join(gemm_weights(self._spread(of(gate))[:, None, None, :], self.config)[..., :rows, :].tobytes()
                        for gate in self.layer.gates)

    def _spread(self, rows: IntArray) -> IntArray:
        """Zeros after the cells of each block."""
        more = [(0, 0)] * (rows.ndim - 1)
        full = np.pad(rows, [(0, self.blocks * self.width - len(rows)), *more])
        parts = full.reshape(self.blocks, self.width, *rows.shape[1:])
        wide = np.pad(parts, [(0, 0), (0, self.config.block - self.width), *more])
        return wide.reshape(self.blocks * self.config.block, *rows.shape[1:])

    def _parameters(self, gates: list[tuple[IntArray, tuple[int, int]]]) -> bytes:
        one = np.ones(self.layer.cells, np.int64)
        return b"".join(parameter_blocks(self._spread(bias), self._spread(one * scale[0]), self._spread(one * scale[1]),
                                         self.config) for bias, scale in gates)

    def _place(self, name: str, data: bytes, row_bytes: int) -> None:
        """Load constants, `row_bytes` to a word, into their buffer."""
        words = len(data) // row_bytes
        assert Access("pad", self.base[name], self.base[name] + words) == self.whole[name], name
        self.emitter.load({
            "memory_offset_bytes": self.emitter.image.add(data), "region": REGION_IMAGE, "run_bytes": len(data),
            "destination": self.base[name], "emit_bytes": row_bytes, "advance_bytes": row_bytes,
            "last_emit_bytes": row_bytes, "last_advance_bytes": row_bytes, "count0": words, "step0": 1, "count1": 1,
            "count2": 1, "count3": 1}, (), (self.whole[name],))

    # Tensors in memory

    def _move(self, value: Value, fields: Mapping[str, int], access: Access, load: bool) -> None:
        """Load or store; `fields` has places as for a load, counts, and the bytes of words."""
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

    def _load_sequence(self, x: Value) -> None:
        """Bring the input in as [block][row of memory]."""
        count = self.layer.steps * self.layer.batch
        depth = self.layer.gates[0].input_weights.shape[1]
        blocks, block = ceil_div(depth, self.config.block), self.config.block
        self._move(x, {"base": self.base["sequence"], "run_bytes": count * depth, "bytes": block,
                       "last_bytes": depth - (blocks - 1) * block, "count0": blocks, "step0": count, "count1": count,
                       "step1": 1, "count2": 1, "count3": 1}, self.whole["sequence"], True)

    def _bytes(self, value: Value, base: int, access: Access, *, steps: int, load: bool) -> None:
        """Move hidden states of some steps."""
        batch, cells, width = self.layer.batch, self.layer.cells, self.width
        fields = {"base": base, "bytes": width, "last_bytes": cells - (self.blocks - 1) * width,
                  "count0": self.blocks, "step0": batch, "count3": 1}
        if self.layer.time_major or steps == 1:
            fields |= {"run_bytes": batch * cells, "count1": batch, "step1": 1, "count2": steps,
                       "step2": self.blocks * batch, "stride2_bytes": batch * cells}
        else:
            fields |= {"run_bytes": steps * cells, "count1": steps, "step1": self.blocks * batch, "count2": batch,
                       "step2": 1, "stride2_bytes": steps * cells}
        self._move(value, fields, access, load)

    def _cell(self, value: Value, *, load: bool) -> None:
        """Move the cell state: whole blocks, then what is left over."""
        batch, cells, word = self.layer.batch, self.layer.cells, self.config.word_bytes
        whole, left = divmod(cells, self.width)
        parts = ([(0, whole, self.width)] if whole else []) + ([(whole, 1, left)] if left else [])
        for first, blocks, elements in parts:
            words = ceil_div(2 * elements, word)
            self._move(value, {
                "base": self.base["cell"] + first * batch * self.wide, "at": 2 * first * self.width,
                "run_bytes": 2 * blocks * elements, "bytes": word, "last_bytes": 2 * elements - (words - 1) * word,
                "count0": words, "step0": 1, "count1": blocks, "step1": batch * self.wide, "count2": batch,
                "step2": self.wide, "stride2_bytes": 2 * cells, "count3": 1}, self.whole["cell"], load)

    # Operations

    def _gemm(self, base: int, count: int, depth_blocks: int, weights: int, out_blocks: int, tile: int,
              reads: tuple[Access, ...], rows: int, x: Walk, data: bytes) -> Sums:
        sums = Sums()
        self.emitter.array({
            "mode": ArrayMode.GEMM, "acc_first": 1, "acc_last": 1, "blocks_inner": 0, "in_base": base, "in_col_step": 1,
            "kernel_block_step": count, "kernel_blocks": depth_blocks, "row_stride": 1, "col_stride": 1,
            "kernel_row_dilation": 1, "kernel_col_dilation": 1, "in_rows": 1, "in_cols": count, "out_cols": count,
            "slots": count, "tile_slots": tile, "out_blocks": out_blocks, "kernel_rows": 1, "kernel_cols": 1,
            "weight_base": weights, "weight_block_step": depth_blocks * self.config.slices * rows,
            "weight_rows": rows, "slices": self.config.slices}, reads, Terms(sums, 0, x, data))
        return sums

    def _products(self) -> Scratch:
        """Products of the whole sequence with the input weights, as int16 [step][gate][block][image]."""
        emitter, config, layer = self.emitter, self.config, self.layer
        count, sub = layer.steps * layer.batch, config.sub_blocks
        depth = layer.gates[0].input_weights.shape[1]
        depth_blocks = ceil_div(depth, config.block)
        tile = even_tiles(count, config.acc_words)["tile_slots"]
        by_image, by_step = self.wide, 4 * self.vector
        cols, row_step, col_step = (layer.batch, by_step, by_image) if layer.time_major else (
            layer.steps, by_image, by_step)
        rows = config.gemm_rows
        weights = self._weights(lambda gate: gate.input_weights, rows)
        parameters = self._parameters([(gate.input_bias, gate.input_scale) for gate in layer.gates])
        size, params = depth_blocks * config.slices * rows * config.cols, config.param_words * config.word_bytes
        code = emitter.program([_SCALED | {"clamp": 1, **OUT}])
        sequence = Walk(layer.inputs[0], depth, block=config.block, col=depth)
        products = Scratch("products with the input", count * 4 * self.blocks * self.size, _INT16)
        for o in range(self.out_blocks):
            with emitter.scope():
                data, block = weights[o * size:(o + 1) * size], parameters[o * params:(o + 1) * params]
                base, read = emitter.constant(data, config.cols)
                param_base, access = emitter.constant(block, config.word_bytes)
                sums = self._gemm(self.base["sequence"], count, depth_blocks, base, 1, tile,
                                  (self.whole["sequence"], read), rows, sequence, data)
                emitter.vector({
                    "use_acc": 1, "use_params": 1, "blocks_inner": 0, "sub_first": o % sub, "param_base": param_base,
                    "out_type": _INT16,
                    "out_base": self.base["products"] + o // sub * layer.batch * self.wide, "cols": cols,
                    "out_row_step": signed_step(row_step), "out_col_step": signed_step(col_step), "out_blocks": 1,
                    "slots": count, "tile_slots": tile, "chunk_slots": tile, **program_fields(code)}, (access,),
                    (self.whole["products"],), Streams(
                        code, out=self._gates(products, o // sub), sums=sums, parameters=(block,)))
        return products

    def _gates(self, products: Scratch, block: int, step: int | None = None) -> Walk:
        """Products with the input of all rows, or of one step, from `block` of all gates on: [row][gate][block]."""
        layer, row = self.layer, 4 * self.blocks * self.size
        first, apart = (0, 1) if step is None else (step * layer.batch, 1) if layer.time_major else (step, layer.steps)
        return Walk(products, products.size_bytes, at=first * row + block * self.size, block=self.size,
                    col=apart * row, cols=_ALL)

    def _vector(self, scratch: Scratch, first: int = 0) -> Walk:
        """Words of cells from word `first` on, one after the other: [gate][block][image]."""
        return Walk(scratch, scratch.size_bytes, at=first * self.size, block=self.layer.batch * self.size,
                    col=self.size, cols=_ALL)

    def _states(self, value: Value, first: int = 0, *, made: bool = True) -> Walk:
        """States of all images from word `first` of [block][image] on."""
        size = value.size_bytes // self.layer.batch
        width = size // self.layer.cells * self.width
        return Walk(value, size, block=width, row=width, col=size, cols=self.layer.batch, first=first, span=width,
                    made=made, type=int(width > self.width))

    def _results(self, step: int) -> Walk:
        """Hidden states after a step."""
        layer = self.layer
        start, image = (step * layer.batch, 1) if layer.time_major else (step, layer.steps)
        return replace(self._states(layer.output), run=layer.cells, start=start * layer.cells, block=self.width,
                       row=self.width, col=image * layer.cells, span=self.width, type=0)

    def _program(self, name: str, fields: Mapping[str, int], reads: tuple[str, ...],
                 writes: tuple[Access, ...], streams: _Streams, sums: _Sums = _NO_SUMS) -> None:
        """Emit a program over streams."""
        code, slots = self.emitter.program(self.programs[name]), fields["slots"]
        a, b, out = streams
        tables = (None, None) if self.active is None else self.active.tables
        self.emitter.vector({
            "cols": slots, "tile_slots": slots, "chunk_slots": min(slots, self.at_once), "out_blocks": 1,
            **program_fields(code), **fields},
            tuple(self.whole[read] for read in reads), writes, Streams(code, a, b, out, *sums, tables=tables))

    def _stream(self, which: str, base: int, *, code: int = _INT16) -> dict[str, int]:
        return {f"{which}_base": base, f"{which}_type": code, f"{which}_col_step": self.wide if code else 1}

    def _sums(self, name: str, step: int, gates: range, into: str, made: Scratch, sums: Sums) -> None:
        """Add the products with the input to those with the hidden state, for some of the gates."""
        config, base, batch = self.config, self.base, self.layer.batch
        tile = even_tiles(batch, config.acc_words)["tile_slots"]
        by_block = batch * self.wide
        limit = max(1, config.vector_register_words // config.beats_per_acc_word)
        blocks = self.blocks * config.sub_blocks
        self._program(name, {
            "use_acc": 1, "use_params": 1, "blocks_inner": 0,
            "param_base": base["parameters"] + gates.start * blocks * config.param_words,
            "param_block_step": config.param_words,
            **self._stream("a", base["products"] + (4 * step + gates.start) * self.vector), "a_block_step": by_block,
            **self._stream("out", base[into] + gates.start * self.vector), "out_block_step": by_block, "cols": batch,
            "out_blocks": len(gates) * blocks, "slots": batch, "tile_slots": tile, "chunk_slots": min(tile, limit)},
            ("parameters", "products"), (self.whole[into],),
            (self._gates(self.products, gates.start * self.blocks, step), None,
             self._vector(made, gates.start * self.blocks * batch)),
            (sums, gates.start * blocks, self.parameters[gates.start * blocks:gates.stop * blocks]))

    def _step(self, step: int) -> None:
        layer, config, base = self.layer, self.config, self.base
        batch, flat = layer.batch, self.blocks * layer.batch
        before = base["hidden"] + step * flat
        tile = even_tiles(batch, config.acc_words)["tile_slots"]
        found = self._states(layer.inputs[1], made=False) if step == 0 else self._results(step - 1)
        total = self._gemm(before, batch, self.blocks, base["weights"], self.out_blocks, tile,
                           (Access("pad", before, before + flat), self.whole["weights"]), layer.weight_rows(config),
                           found, self.weights)
        active = Scratch("activations of gates", 4 * flat * self.size, _INT16)
        squashed = Scratch("tanh of cells", flat * self.size, _INT16)
        if self.active is None:
            self._sums("logistic", step, range(3), "active", active, total)
            self._sums("tanh", step, range(3, 4), "active", active, total)
        else:
            sums = Scratch("sums of gates", 4 * flat * self.size, _INT16)
            self._sums("sums", step, range(4), "sums", sums, total)
            by_block = batch * self.wide
            self._program("active", {
                "slots": 4 * flat, "cols": batch, **self._stream("a", base["sums"]), "a_row_step": by_block,
                "b_base": base["codes"], "b_row_step": 1, **self._stream("out", base["active"]),
                "out_row_step": by_block}, ("sums", "codes"), (self.whole["active"],),
                (self._vector(sums), self._codes(0), self._vector(active)))
        entry, forget, out, cell = (base["active"] + number * self.vector for number in range(4))
        # What is added to the cells stays in a register between the two programs.
        for at in range(0, flat, self.at_once):
            cells = {"slots": min(self.at_once, flat - at)}
            self._program("new", {**cells, **self._stream("a", entry + at * self.wide),
                                  **self._stream("b", cell + at * self.wide), "out_type": _INT16}, ("active",), (),
                          (self._vector(active, at), self._vector(active, 3 * flat + at), None))
            self._program("cell", {**cells, **self._stream("a", forget + at * self.wide),
                                   **self._stream("b", base["cell"] + at * self.wide),
                                   **self._stream("out", base["cell"] + at * self.wide)}, ("active", "cell"),
                          (self.whole["cell"],), (self._vector(active, flat + at), self._cells(step, at),
                                                  self._cells(step + 1, at)))
        cells = {"slots": flat}
        tanh = {**cells, **self._stream("a", base["cell"]), **self._stream("out", base["squashed"])}
        if self.active is None:
            self._program("cell tanh", tanh, ("cell",), (self.whole["squashed"],),
                          (self._cells(step + 1), None, self._vector(squashed)))
        else:
            self._program("active", {**tanh, "b_base": base["codes"] + 4 * self.blocks}, ("cell", "codes"),
                          (self.whole["squashed"],),
                          (self._cells(step + 1), self._codes(4 * self.blocks), self._vector(squashed)))
        self._program("hidden", {**cells, **self._stream("a", out), **self._stream("b", base["squashed"]),
                                 **self._stream("out", before + flat, code=0)}, ("active", "squashed"),
                      (Access("pad", before + flat, before + 2 * flat),),
                      (self._vector(active, 2 * flat), self._vector(squashed), self._results(step)))

    def _codes(self, first: int) -> Walk:
        """Codes of the activations, a word for all images of a block, from word `first` on."""
        word = self.config.word_bytes
        return Walk(self.codes, len(self.codes), at=first * word, row=word, cols=self.layer.batch)

    def _cells(self, step: int, first: int = 0) -> Walk:
        """Cell states before a step from word `first` of [block][image] on."""
        value = self.layer.inputs[2]
        if step in (0, self.layer.steps):
            return self._states(value, first, made=step > 0)
        return self._vector(self.cells[step - 1], first)


def emit_lstm(emitter: Emitter, layer: Lstm, plan: LayerPlan) -> None:
    """Emit all operations of the layer."""
    _Emission(emitter, layer, plan).run()
