"""Windows of layers with few input channels: a loaded word has the bytes that the array folds into its rows."""

from dataclasses import dataclass

from tq_hw.compiler.emit.emitter import Emitter, Rect
from tq_hw.compiler.ir.fold import FoldPlan
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.meaning import LookUp
from tq_hw.compiler.plan.layout import View, odd, signed_step
from tq_hw.compiler.plan.places import LayerPlan
from tq_hw.compiler.programs.words import LOOK_UP, program_fields
from tq_hw.compiler.stream.stream import Access

__all__ = ["Windows"]


@dataclass(frozen=True)
class Windows:
    """The windows of one layer."""

    emitter: Emitter
    layer: Mac
    plan: LayerPlan
    fold: FoldPlan

    def _pitches(self) -> tuple[int, int]:
        """Piece and row pitch of a window tensor: neighbouring pieces and rows are in different banks.

        Rectangles may differ in width; the pitch of the widest is used for all.
        """
        width = odd(self.fold.words(min(self.plan.cols, self.layer.output.shape[2])))
        return width, self.fold.pieces * width

    def write_table(self) -> None:
        """Write the folding table: the pieces and bytes of a window that each step reads."""
        config = self.emitter.config
        piece_pitch, row_pitch = self._pitches()
        for index, step in enumerate(self.fold.steps):
            feeds = []
            end = 0
            for feed in range(config.feeds):
                if feed < len(step):
                    s = step[feed]
                    end = s.first_row + s.count
                    row = s.kernel_row
                    feeds.append({"address": signed_step(row * row_pitch + s.piece * piece_pitch), "kernel_row": row,
                                  "rotate": (s.first_row - s.first_byte) % config.word_bytes, "lane_end": end})
                else:
                    feeds.append({"lane_end": end})
            self.emitter.stream.fold(index, tuple(feeds))

    def load(self, rect: Rect, rows: tuple[int, int]) -> View:
        """Load the windows of a rectangle: for each input row and output column, the pieces of the window row."""
        value, config = self.layer.inputs[0], self.emitter.config
        _, _, w, c = value.shape
        fold = self.fold
        count = fold.words(rect.cols[1] - rect.cols[0])
        piece_pitch, row_pitch = self._pitches()
        base = self.emitter.strip_base(self.plan, "in", 0)
        words = (rows[1] - rows[0]) * row_pitch
        view = View(self.emitter.new_buffer(value.name), base, words, row_pitch, piece_pitch, rows[0], 0, rect.cols[0])
        region, offset = self.emitter.memory_of(value)
        advance = fold.columns * self.layer.stride[1] * c
        outside = self.layer.pad_value if self.layer.outside is None else self.layer.outside
        window_bytes = (self.layer.kernel[1] + (fold.columns - 1) * self.layer.stride[1]) * c
        memory = Access(f"region{region}", offset + rows[0] * w * c, offset + rows[1] * w * c)
        if advance > config.word_bytes:
            # Windows do not overlap: each is a pixel of several words.
            last = advance - (fold.pieces - 1) * config.word_bytes
            self.emitter.load({
                "memory_offset_bytes": offset + rows[0] * w * c + rect.cols[0] * advance, "region": region,
                "run_bytes": count * advance, "destination": view.address(rows[0], 0, rect.cols[0]),
                "flip": int(value.flip), "emit_bytes": config.word_bytes, "advance_bytes": config.word_bytes,
                "last_emit_bytes": last, "last_advance_bytes": last, "count0": fold.pieces, "step0": piece_pitch,
                "count1": count, "step1": 1, "count2": rows[1] - rows[0], "step2": row_pitch, "stride2_bytes": w * c,
                "count3": 1}, (memory,), (view.access(rows, (0, fold.pieces)),))
            return view
        for piece in range(fold.pieces):
            emit = min(config.word_bytes, window_bytes - piece * config.word_bytes)
            start = (rect.cols[0] * self.layer.stride[1] - self.layer.pad[1]) * c + piece * config.word_bytes
            before, skip = max(0, -start), max(0, start)
            needed = (count - 1) * advance + emit - before
            run = max(0, min(w * c - skip, needed))
            self.emitter.load({
                "memory_offset_bytes": offset + rows[0] * w * c + skip if run else 0, "region": region,
                "run_bytes": run, "fill": outside & 0xFF, "pad_before_bytes": before if run else 0,
                "destination": view.address(rows[0], piece, rect.cols[0]), "flip": int(value.flip),
                "emit_bytes": emit, "advance_bytes": advance, "last_emit_bytes": emit, "last_advance_bytes": advance,
                "count0": 1, "count1": count, "step1": 1, "count2": rows[1] - rows[0], "step2": row_pitch,
                "stride2_bytes": w * c, "count3": 1}, (memory,), (view.access(rows, (piece, piece + 1)),))
        return view

    def look_up(self, view: View, rows: tuple[int, int]) -> None:
        """Look up the bytes of all windows in the layer's table, in place."""
        self.emitter.tables(self.layer.tables)
        code = self.emitter.program([LOOK_UP])
        access = view.access(rows, (0, self.fold.pieces))
        self.emitter.vector({
            "a_base": view.base, "a_col_step": 1, "out_base": view.base, "out_col_step": 1, "cols": view.words,
            "out_blocks": 1, "slots": view.words, "tile_slots": view.words, "chunk_slots": view.words,
            **program_fields(code)}, (access,), (access,), LookUp(code, self.layer))
