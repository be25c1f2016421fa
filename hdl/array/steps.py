"""Records passed between the parts of the array unit: operation constants, steps, slots."""

from amaranth import signed, unsigned
from amaranth.lib import data
from amaranth.utils import ceil_log2

from tq_hw.hdl.array.accumulate import SlotTag
from tq_hw.isa.config import Config

__all__ = ["COLUMN", "COUNT", "ROW", "SLOT_FEEDS", "Constants", "Feed", "Place", "Slot", "Step"]

SLOT_FEEDS = 3

#: Input row and column numbers: 16 bits of image size, plus padding and the dilated kernel on both sides.
ROW = signed(18)
COLUMN = signed(18)
#: Counters of n things start at n - 2 and count down; the sign marks the last.
COUNT = signed(17)


class Feed(data.StructLayout):
    """One feed of a step.

    offset: words from the slot's address; row: rows from the slot's row; used: whether it reads at all;
    rotate: byte lanes by which the word is rotated up; lane_end: the first array row that it does not drive.
    """

    def __init__(self, config: Config) -> None:
        super().__init__({
            "offset": unsigned(16), "row": unsigned(16), "used": 1,
            "rotate": ceil_log2(config.word_bytes), "lane_end": range(config.rows + 1)})


class Place:
    """Where a tile starts: at the operation's first slot, at the last step's end, or where the tile started."""

    FIRST = 0
    ON = 1
    AGAIN = 2


class Step(data.StructLayout):
    """One step of one tile.

    operation_first, operation_last: first and last step of an operation; tile_first, tile_last: of a tile;
    place: Place; slots: slots of the tile, less 2; col: columns from the slot's column;
    lag: cycles, less 1, by which reading is behind the slots (depthwise, left padding), -1 for none;
    follows: may come directly after the previous step, even while that one still reads because of its own lag.
    """

    def __init__(self, config: Config) -> None:
        super().__init__({
            "operation_first": 1, "operation_last": 1, "tile_first": 1, "tile_last": 1,
            "place": range(3), "slots": signed(ceil_log2(config.acc_words) + 1),
            "feeds": data.ArrayLayout(Feed(config), SLOT_FEEDS),
            "col": unsigned(16), "lag": COUNT, "follows": 1})


#: Constants of all steps of an operation. Counts are less 2.
#: next_row_base: address of the second output row; col_advance: columns from one slot to the next.
Constants = data.StructLayout({
    "depthwise": 1, "folded": 1, "acc_first": 1, "acc_last": 1, "zero_point": signed(8),
    "in_base": 16, "next_row_base": 16, "in_col_step": 16, "in_row_step": 16,
    "row_first": signed(16), "col_first": signed(16), "row_stride": 8, "col_advance": 8,
    "stride": signed(9), "out_cols": COUNT, "period": COUNT, "in_rows": 16, "in_cols": 16})


class Slot(data.StructLayout):
    """One slot, in the cycle in which its words are requested.

    depthwise: mode; zero_point; swap: first slot of a step; row_valid: by feed, its row lies in the image
    (GEMM: its column too); col_valid: by tap of a depthwise group, its column lies in the image;
    rotate: for the words requested; lane_end: as in Feed; tag: for the accumulators.
    """

    def __init__(self, config: Config) -> None:
        feed = Feed(config).members
        super().__init__({
            "depthwise": 1, "zero_point": signed(8), "swap": 1, "row_valid": SLOT_FEEDS, "col_valid": 3,
            "rotate": data.ArrayLayout(feed["rotate"], SLOT_FEEDS),
            "lane_end": data.ArrayLayout(feed["lane_end"], SLOT_FEEDS), "tag": SlotTag})
