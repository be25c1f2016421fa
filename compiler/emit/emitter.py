"""The state of an emission: that of `Tables`, and loads and stores of rectangles of tensors."""

from collections import Counter
from dataclasses import dataclass, field

from tq_hw.compiler.emit.tables import Tables
from tq_hw.compiler.ir.layers import Layer, Mac
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.plan.cascade import Rolling
from tq_hw.compiler.plan.hosts import part_view
from tq_hw.compiler.plan.layout import View, block_count, row_words
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.words import program_fields
from tq_hw.isa.layout import Unit
from tq_hw.isa.uop import Alu, Destination, Source

__all__ = ["Emitter", "Rect"]


@dataclass(frozen=True)
class Rect:
    """Output rows, columns and channel blocks of one image of the batch."""

    image: int
    rows: tuple[int, int]
    cols: tuple[int, int]
    blocks: tuple[int, int]

    @property
    def slots(self) -> int:
        """Pixels."""
        return (self.rows[1] - self.rows[0]) * (self.cols[1] - self.cols[0])


@dataclass
class Emitter(Tables):
    """The state of an emission, by rectangles of tensors."""

    _views: dict[int, View] = field(default_factory=dict)
    _slots: dict[tuple[int, str, int], int] = field(default_factory=dict)
    #: Number of layers with the same weights.
    _weights: Counter[tuple[tuple[int, ...], bytes]] = field(default_factory=Counter)

    def resident(self, value: Value) -> View | None:
        """Return the view of a resident value, loaded at its first use if it is from memory; None if not resident."""
        if id(value) in self.plan.parts:
            host, box = self.plan.parts[id(value)]
            view = self.resident(host)
            assert view is not None
            return part_view(view, box)
        if id(value) not in self.plan.resident:
            return None
        if id(value) not in self._views:
            n, h, w, c = value.shape
            blocks = block_count(c, self.config)
            pitch = row_words(w, blocks)
            rolling = self._rolling(value)
            words = n * h * pitch if rolling is None else rolling.rows * pitch
            kind = "tensor" if rolling is None else "rolling"
            view = View(self.new_buffer(value.name, kind), self.plan.resident[id(value)], words, pitch, w)
            self._views[id(value)] = view
            hosts = any(host is value for host, _ in self.plan.parts.values())
            if not hosts and not any(layer.output is value for layer in self.graph.layers):
                self.load_rect(value, view, (0, n * h), (0, w), (0, blocks))
        return self._views[id(value)]

    def is_resident(self, value: Value) -> bool:
        """Whether a value is resident."""
        return id(value) in self.plan.resident

    def comes_back(self, value: Value) -> bool:
        """Whether a value is loaded after an earlier layer stored it."""
        return id(value) not in self.plan.resident and id(value) not in self.plan.parts and any(
            layer.output.root is value.root for layer in self.graph.layers[:self.layer_index])

    def _slot(self, kind: str, position: int, count: int) -> int:
        key = (self.layer_index, kind, position)
        self._slots[key] = (self._slots.get(key, -1) + 1) % count
        return self._slots[key]

    def weights_again(self, layer: Mac) -> bool:
        """Whether another layer has the same weights."""
        if not self._weights:
            self._weights.update((other.weights.shape, other.weights.tobytes()) for other in self.graph.layers
                                 if isinstance(other, Mac))
        return self._weights[layer.weights.shape, layer.weights.tobytes()] > 1

    def strip_base(self, plan: LayerPlan, kind: str, position: int = 0) -> int:
        """Return the next strip buffer of an input ("in") or the output ("out")."""
        slot = self._slot(kind, position, plan.slots)
        return plan.in_bases[position][slot] if kind == "in" else plan.out_bases[slot]

    def source(self, layer: Layer, plan: LayerPlan, position: int, rows: tuple[int, int], cols: tuple[int, int],
               blocks: tuple[int, int]) -> View:
        """Return the view of an input's rectangle (rows over all images), loaded if the input is not resident."""
        value = layer.inputs[position]
        view = self.resident(value)
        if view is None:
            view = self.strip(layer, plan, position, rows, cols, blocks)
            self.load_rect(value, view, rows, cols, blocks)
        return view

    def strip(self, layer: Layer, plan: LayerPlan, position: int, rows: tuple[int, int], cols: tuple[int, int],
              blocks: tuple[int, int]) -> View:
        """Return the view of an input's next strip buffer for a rectangle, without loading."""
        base = self.strip_base(plan, "in", position)
        width, depth = cols[1] - cols[0], blocks[1] - blocks[0]
        pitch = row_words(width, depth)
        words = (rows[1] - rows[0]) * pitch
        assert words <= plan.in_words[position], (layer.op, words, plan.in_words)
        name = layer.inputs[position].name
        return View(self.new_buffer(name), base, words, pitch, width, rows[0], blocks[0], cols[0])

    def target(self, layer: Layer, plan: LayerPlan, rect: Rect) -> View:
        """Return the view that a rectangle of the output is written to."""
        view = self.resident(layer.output)
        if view is not None:
            return self._rolled(layer.output, view, rect)
        base = self.strip_base(plan, "out")
        height = layer.output.shape[1]
        width, depth = rect.cols[1] - rect.cols[0], rect.blocks[1] - rect.blocks[0]
        pitch = row_words(width, depth)
        words = (rect.rows[1] - rect.rows[0]) * pitch
        assert words <= plan.out_words, (layer.op, words, plan.out_words)
        return View(self.new_buffer(layer.output.name), base, words, pitch, width, rect.image * height + rect.rows[0],
                    rect.blocks[0], rect.cols[0])

    def _rolling(self, value: Value) -> Rolling | None:
        group = self.plan.group_of(self.layer_index)
        return group.rolling.get(id(value)) if group is not None else None

    def _rolled(self, value: Value, view: View, rect: Rect) -> View:
        """Move the rows that are still needed to the front of a rolling buffer if a strip does not fit after them."""
        rolling = self._rolling(value)
        if rolling is None or rolling.origins[rect.rows[0]] == view.row0:
            return view
        first, last = rolling.origins[rect.rows[0]], rect.rows[0]
        moved = View(self.new_buffer(value.name, "rolling"), view.base, view.words, view.row_pitch, view.block_pitch,
                     first)
        self._views[id(value)] = moved
        if first < last:
            blocks = (0, block_count(value.shape[3], self.config))
            code = self.program([{"a_source": Source.STREAM, "alu": Alu.PASS, "destination": Destination.OUTPUT}])
            words = (last - first) * view.row_pitch
            self.vector({"a_base": view.address(first, 0, 0), "a_col_step": 1, "out_base": moved.base,
                         "out_col_step": 1, "cols": words, "out_blocks": 1, "slots": words, "tile_slots": words,
                         "chunk_slots": words, **program_fields(code)},
                        (view.access((first, last), blocks),), (moved.access((first, last), blocks),))
        return moved

    def finish(self, layer: Layer, view: View, rect: Rect) -> None:
        """Store a finished rectangle if system memory needs it."""
        if rect.blocks[0] < rect.blocks[1] and id(layer.output) in self.plan.stored:
            first = rect.image * layer.output.shape[1]
            self.store_rect(layer.output, view, (first + rect.rows[0], first + rect.rows[1]), rect.cols, rect.blocks)

    def _dense(self, value: Value, rows: tuple[int, int], cols: tuple[int, int], blocks: tuple[int, int],
               col_pitch: int) -> tuple[dict[str, int], int, bool]:
        """Loop fields that loads and stores of a rectangle share, a pixel's channels, and whether a row is one run."""
        c, place = value.shape[3], value.place
        block = self.config.block
        channels = min(c, blocks[1] * block) - blocks[0] * block
        region, offset = self.memory_of(value)
        offset += rows[0] * place.row_bytes + cols[0] * place.pixel_bytes + blocks[0] * block
        fields = {"memory_offset_bytes": offset, "region": region, "count0": blocks[1] - blocks[0]}
        width, height = cols[1] - cols[0], rows[1] - rows[0]
        whole = channels == place.pixel_bytes
        if whole:
            fields |= {"count1": width, "step1": col_pitch, "count2": height, "stride2_bytes": place.row_bytes,
                       "count3": 1}
        else:
            fields |= {"count1": 1, "count2": width, "step2": col_pitch, "stride2_bytes": place.pixel_bytes,
                       "count3": height, "stride3_bytes": place.row_bytes}
        return fields, channels, whole

    def load_rect(self, value: Value, view: View, rows: tuple[int, int], cols: tuple[int, int],
                  blocks: tuple[int, int], pad_cols: tuple[int, int] = (0, 0), fill: int = 0,
                  at: tuple[int, int] | None = None) -> None:
        """Load dense rows and columns into a blocked view, at row and column `at` of it (default: the same)."""
        row, col = (rows[0], cols[0]) if at is None else at
        fields, channels, whole = self._dense(value, rows, cols, blocks, view.col_pitch)
        last = channels - (blocks[1] - blocks[0] - 1) * self.config.block
        fields |= {"run_bytes": (cols[1] - cols[0] if whole else 1) * channels, "flip": int(value.flip),
                   "destination": view.address(row, blocks[0], col),
                   "emit_bytes": self.config.block, "advance_bytes": self.config.block, "last_emit_bytes": last,
                   "last_advance_bytes": last, "step0": view.block_pitch, "fill": fill & 0xFF}
        fields["step2" if whole else "step3"] = view.row_pitch
        if any(pad_cols):
            assert whole
            fields |= {"count1": cols[1] - cols[0] + sum(pad_cols), "pad_before_bytes": pad_cols[0] * channels,
                       "pad_after_bytes": pad_cols[1] * channels}
        self.load(fields, (self._memory_access(value, rows),),
                  (view.access((row, row + rows[1] - rows[0]), blocks),))

    def store_rect(self, value: Value, view: View, rows: tuple[int, int], cols: tuple[int, int],
                   blocks: tuple[int, int]) -> None:
        """Store a rectangle of a blocked view to dense memory."""
        fields, channels, whole = self._dense(value, rows, cols, blocks, view.col_pitch)
        fields |= {"source": view.address(rows[0], blocks[0], cols[0]), "take_bytes": self.config.block,
                   "last_take_bytes": channels - (blocks[1] - blocks[0] - 1) * self.config.block,
                   "step0": view.block_pitch}
        fields["step2" if whole else "step3"] = view.row_pitch
        self.stream.add(Unit.STORE, fields, (view.access(rows, blocks),), (self._memory_access(value, rows),),
                        self.layer_index)
