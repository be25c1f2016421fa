"""All steps of an LSTM in the scratchpad: weights, gates, states and results stay there until the last step.

The products with the input are computed for all steps at once. A step is an array operation on the previous hidden
state and six programs: sums of the gates, their activations, the new cell state (two), its tanh, the new hidden state.

With activation lanes, the sums of three gates pass through the logistic, those of the fourth through tanh. The cell
state passes through tanh lanes, too, unless its scale is smaller than the lanes accept.

Vectors of cells are stored as [block][image of the batch], those of gates as [gate][block][image]; all blocks have the
same number of cells.
"""

from collections.abc import Mapping

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.emit.lstm_rooms import INT16, Rooms
from tq_hw.compiler.emit.lstm_traffic import Traffic
from tq_hw.compiler.ir.lstm import TANH_FRACTION, Lstm
from tq_hw.compiler.ir.meaning import Scratch, Streams, Sums, Terms, Walk
from tq_hw.compiler.plan.layout import even_tiles, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.interpolated import activation_of, product_uops
from tq_hw.compiler.programs.lstm import ActivationProgram, clip_uops, hidden_uops
from tq_hw.compiler.programs.words import (
    OUT,
    STREAM_A,
    Uop,
    activated,
    program_fields,
    reg_a,
    reg_b,
    rescaled_by_channel,
    shifted,
    to,
)
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div
from tq_hw.isa.uop import Activation, Alu, Rounding, Source

__all__ = ["emit_lstm"]

#: Sum of products and bias, rescaled by the parameters.
_SUM: Uop = {"a_source": Source.ACC_OR_BIAS, "b_source": Source.ACC_OR_BIAS, "alu": Alu.ADD,
             "rounding": Rounding.HALF_AWAY}
#: Fraction bits of the gates' sums.
_GATE_FRACTION = 12
_Streams = tuple[Walk | None, Walk | None, Walk | None]
#: Sums, their first block, parameter blocks.
_Sums = tuple[Sums | None, int, tuple[bytes, ...]]
_NO_SUMS: _Sums = (None, 0, ())


def _programs(layer: Lstm, active: ActivationProgram | None, lanes: bool) -> dict[str, tuple[Uop, ...]]:
    """Micro-operations of a step, by name; `active` computes the activations that lanes do not compute."""
    log2 = layer.cell_scale_log2
    gate: Uop = {**STREAM_A, **reg_b(0), "alu": Alu.ADD}
    tanh = activated(Activation.TANH)
    left = any(one.recurrent_scale[1] > 0 for one in layer.gates)
    scaled = tuple(rescaled_by_channel(to(0, _SUM, clamp=int(layer.interpolated and not lanes)), 0, left=left))
    first: dict[str, tuple[Uop, ...]] = {}
    if lanes:
        # Saturating the argument of a tanh to int16 changes nothing: the result is already 1 or -1 there.
        first |= {"logistic": (*scaled, {**gate, "clamp": 1, **activated(Activation.LOGISTIC)}),
                  "tanh": (*scaled, {**gate, **shifted(TANH_FRACTION - _GATE_FRACTION), **tanh})}
    else:
        first["sums"] = (*scaled, {**gate, "clamp": 1, **OUT})
    first |= {"cell tanh": ({**STREAM_A, **shifted(TANH_FRACTION + log2), **tanh},)} if active is None else {
        "active": active.uops}
    *new, added = product_uops(layer, 30 + log2)
    *old, kept = product_uops(layer, 15)
    return first | {
        "new": (*new, to(1, added)),
        "cell": (*old, to(0, kept), *clip_uops({**reg_a(0), **reg_b(1), "alu": Alu.ADD}, layer.cell_clip)),
        "hidden": hidden_uops(*layer.hidden)}


class _Emission:
    """The operations of a layer: products with the input, then step by step."""

    def __init__(self, emitter: Emitter, layer: Lstm, plan: LayerPlan) -> None:
        self.emitter, self.layer, self.config = emitter, layer, emitter.config
        self.rooms = Rooms(self.config, layer, plan.out_bases[0])
        self.traffic = Traffic(emitter, layer, self.rooms)
        #: Words of a vector that fit in a register.
        self.at_once = max(1, self.config.vector_register_words // self.config.beats_per_word)
        self.lanes = layer.gates_activate(self.config)
        self.active = None if layer.cells_activate(self.config) else activation_of(layer)
        self.programs = _programs(layer, self.active, self.lanes)

    def run(self) -> None:
        """Emit everything."""
        rooms = self.rooms
        emitter, layer = self.emitter, self.layer
        x, hidden, cell = layer.inputs
        # Tables and micro-operations are written while the weights load.
        if self.active is not None:
            emitter.tables(self.active.tables)
        self.traffic.load_sequence(x)
        self.products = self._products()
        emitter.reserve_program(sum(map(len, self.programs.values())))
        for uops in self.programs.values():
            emitter.program(list(uops))
        self.weights = self.traffic.weights(
            lambda gate: self.traffic.spread(gate.recurrent_weights.T).T, layer.weight_rows(self.config))
        self.traffic.place("weights", self.weights, self.config.cols)
        parameters = self.traffic.parameters([(gate.recurrent_bias, gate.recurrent_scale) for gate in layer.gates])
        self.traffic.place("parameters", parameters, self.config.word_bytes)
        size = self.config.param_words * self.config.word_bytes
        self.parameters = tuple(parameters[at:at + size] for at in range(0, len(parameters), size))
        if self.active is not None:
            gates = [] if self.lanes else [self.active.logistic] * 3 + [self.active.tanh]
            codes = [code for code in gates for _ in range(rooms.blocks)] + [self.active.cell]
            self.codes = b"".join(bytes([code & 255]) * self.config.word_bytes for code in codes)
            self.traffic.place("codes", self.codes, self.config.word_bytes)
        self.traffic.bytes(hidden, rooms.base["hidden"], rooms.whole["hidden"], steps=1, load=True)
        self.traffic.cell(cell, load=True)
        flat = rooms.blocks * layer.batch
        self.cells = [Scratch("cell states", flat * rooms.size, INT16) for _ in range(layer.steps - 1)]
        for step in range(layer.steps):
            self._step(step)
        after = rooms.base["hidden"] + rooms.blocks * layer.batch
        self.traffic.bytes(layer.output, after, rooms.whole["hidden"], steps=layer.steps, load=False)
        last = rooms.base["hidden"] + layer.steps * rooms.blocks * layer.batch
        self.traffic.bytes(hidden, last, rooms.whole["hidden"], steps=1, load=False)
        self.traffic.cell(cell, load=False)

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
        """Emit the products of the whole sequence with the input weights, as int16 [step][gate][block][image]."""
        rooms = self.rooms
        emitter, config, layer = self.emitter, self.config, self.layer
        count, sub = layer.steps * layer.batch, config.sub_blocks
        depth = layer.gates[0].input_weights.shape[1]
        depth_blocks = ceil_div(depth, config.block)
        tile = even_tiles(count, config.acc_words)["tile_slots"]
        by_image, by_step = rooms.wide, 4 * rooms.vector
        cols, row_step, col_step = (layer.batch, by_step, by_image) if layer.time_major else (
            layer.steps, by_image, by_step)
        rows = config.gemm_rows
        weights = self.traffic.weights(lambda gate: gate.input_weights, rows)
        parameters = self.traffic.parameters([(gate.input_bias, gate.input_scale) for gate in layer.gates])
        size, params = depth_blocks * config.slices * rows * config.cols, config.param_words * config.word_bytes
        left = any(gate.input_scale[1] > 0 for gate in layer.gates)
        code = emitter.program(rescaled_by_channel({**_SUM, "clamp": 1, **OUT}, 0, left=left))
        chunk = min(tile, max(1, config.vector_register_words // config.beats_per_acc_word)) if left else tile
        sequence = Walk(layer.inputs[0], depth, block=config.block, col=depth)
        products = Scratch("products with the input", count * 4 * rooms.blocks * rooms.size, INT16)
        for o in range(rooms.out_blocks):
            with emitter.scope():
                data, block = weights[o * size:(o + 1) * size], parameters[o * params:(o + 1) * params]
                base, read = emitter.constant(data, config.cols)
                param_base, access = emitter.constant(block, config.word_bytes)
                sums = self._gemm(rooms.base["sequence"], count, depth_blocks, base, 1, tile,
                                  (rooms.whole["sequence"], read), rows, sequence, data)
                emitter.vector({
                    "use_acc": 1, "use_params": 1, "blocks_inner": 0, "sub_first": o % sub, "param_base": param_base,
                    "out_type": INT16,
                    "out_base": rooms.base["products"] + o // sub * layer.batch * rooms.wide, "cols": cols,
                    "out_row_step": signed_step(row_step), "out_col_step": signed_step(col_step), "out_blocks": 1,
                    "slots": count, "tile_slots": tile, "chunk_slots": chunk, **program_fields(code)}, (access,),
                    (rooms.whole["products"],), Streams(
                        code, out=rooms.gates(products, o // sub), sums=sums, parameters=(block,)))
        return products

    def _program(self, name: str, fields: Mapping[str, int], reads: tuple[str, ...],
                 writes: tuple[Access, ...], streams: _Streams, sums: _Sums = _NO_SUMS) -> None:
        """Emit a program over streams."""
        code, slots = self.emitter.program(self.programs[name]), fields["slots"]
        a, b, out = streams
        tables = (None, None) if self.active is None else self.active.tables
        self.emitter.vector({
            "cols": slots, "tile_slots": slots, "chunk_slots": min(slots, self.at_once), "out_blocks": 1,
            **program_fields(code), **fields},
            tuple(self.rooms.whole[read] for read in reads), writes, Streams(code, a, b, out, *sums, tables=tables))

    def _stream(self, which: str, base: int, *, code: int = INT16) -> dict[str, int]:
        return {f"{which}_base": base, f"{which}_type": code, f"{which}_col_step": self.rooms.wide if code else 1}

    def _sums(self, name: str, step: int, gates: range, into: str, made: Scratch, sums: Sums) -> None:
        """Add the products with the input to those with the hidden state, for some of the gates."""
        rooms = self.rooms
        config, base, batch = self.config, rooms.base, self.layer.batch
        tile = even_tiles(batch, config.acc_words)["tile_slots"]
        by_block = batch * rooms.wide
        limit = max(1, config.vector_register_words // config.beats_per_acc_word)
        blocks = rooms.blocks * config.sub_blocks
        self._program(name, {
            "use_acc": 1, "use_params": 1, "blocks_inner": 0,
            "param_base": base["parameters"] + gates.start * blocks * config.param_words,
            "param_block_step": config.param_words,
            **self._stream("a", base["products"] + (4 * step + gates.start) * rooms.vector), "a_block_step": by_block,
            **self._stream("out", base[into] + gates.start * rooms.vector), "out_block_step": by_block, "cols": batch,
            "out_blocks": len(gates) * blocks, "slots": batch, "tile_slots": tile, "chunk_slots": min(tile, limit)},
            ("parameters", "products"), (rooms.whole[into],),
            (rooms.gates(self.products, gates.start * rooms.blocks, step), None,
             rooms.vector_walk(made, gates.start * rooms.blocks * batch)),
            (sums, gates.start * blocks, self.parameters[gates.start * blocks:gates.stop * blocks]))

    def _step(self, step: int) -> None:
        rooms = self.rooms
        layer, config, base = self.layer, self.config, rooms.base
        batch, flat = layer.batch, rooms.blocks * layer.batch
        before = base["hidden"] + step * flat
        tile = even_tiles(batch, config.acc_words)["tile_slots"]
        found = rooms.states(layer.inputs[1], made=False) if step == 0 else rooms.results(step - 1)
        total = self._gemm(before, batch, rooms.blocks, base["weights"], rooms.out_blocks, tile,
                           (Access("pad", before, before + flat), rooms.whole["weights"]), layer.weight_rows(config),
                           found, self.weights)
        active = Scratch("activations of gates", 4 * flat * rooms.size, INT16)
        squashed = Scratch("tanh of cells", flat * rooms.size, INT16)
        if self.lanes:
            self._sums("logistic", step, range(3), "active", active, total)
            self._sums("tanh", step, range(3, 4), "active", active, total)
        else:
            sums = Scratch("sums of gates", 4 * flat * rooms.size, INT16)
            self._sums("sums", step, range(4), "sums", sums, total)
            by_block = batch * rooms.wide
            self._program("active", {
                "slots": 4 * flat, "cols": batch, **self._stream("a", base["sums"]), "a_row_step": by_block,
                "b_base": base["codes"], "b_row_step": 1, **self._stream("out", base["active"]),
                "out_row_step": by_block}, ("sums", "codes"), (rooms.whole["active"],),
                (rooms.vector_walk(sums), self._codes(0), rooms.vector_walk(active)))
        entry, forget, out, cell = (base["active"] + number * rooms.vector for number in range(4))
        # The addend of the cell state stays in a register between the two programs.
        for at in range(0, flat, self.at_once):
            cells = {"slots": min(self.at_once, flat - at)}
            self._program("new", {**cells, **self._stream("a", entry + at * rooms.wide),
                                  **self._stream("b", cell + at * rooms.wide), "out_type": INT16}, ("active",), (),
                          (rooms.vector_walk(active, at), rooms.vector_walk(active, 3 * flat + at), None))
            self._program("cell", {**cells, **self._stream("a", forget + at * rooms.wide),
                                   **self._stream("b", base["cell"] + at * rooms.wide),
                                   **self._stream("out", base["cell"] + at * rooms.wide)}, ("active", "cell"),
                          (rooms.whole["cell"],), (rooms.vector_walk(active, flat + at), self._cells(step, at),
                                                  self._cells(step + 1, at)))
        cells = {"slots": flat}
        tanh = {**cells, **self._stream("a", base["cell"]), **self._stream("out", base["squashed"])}
        if self.active is None:
            self._program("cell tanh", tanh, ("cell",), (rooms.whole["squashed"],),
                          (self._cells(step + 1), None, rooms.vector_walk(squashed)))
        else:
            code = 0 if self.lanes else 4 * rooms.blocks
            self._program("active", {**tanh, "b_base": base["codes"] + code}, ("cell", "codes"),
                          (rooms.whole["squashed"],),
                          (self._cells(step + 1), self._codes(code), rooms.vector_walk(squashed)))
        self._program("hidden", {**cells, **self._stream("a", out), **self._stream("b", base["squashed"]),
                                 **self._stream("out", before + flat, code=0)}, ("active", "squashed"),
                      (Access("pad", before + flat, before + 2 * flat),),
                      (rooms.vector_walk(active, 2 * flat), rooms.vector_walk(squashed), rooms.results(step)))

    def _codes(self, first: int) -> Walk:
        """Codes of the activations, one word for all images of a block, from word `first` on."""
        word = self.config.word_bytes
        return Walk(self.codes, len(self.codes), at=first * word, row=word, cols=self.layer.batch)

    def _cells(self, step: int, first: int = 0) -> Walk:
        """Cell states before a step from word `first` of [block][image] on."""
        rooms = self.rooms
        value = self.layer.inputs[2]
        if step in (0, self.layer.steps):
            return rooms.states(value, first, made=step > 0)
        return rooms.vector_walk(self.cells[step - 1], first)


def emit_lstm(emitter: Emitter, layer: Lstm, plan: LayerPlan) -> None:
    """Emit all operations of the layer."""
    _Emission(emitter, layer, plan).run()
