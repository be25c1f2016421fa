"""The folding of a kernel's rows into steps of the array."""

from dataclasses import dataclass

from tq_hw.isa.sizes import ceil_div

__all__ = ["FoldPlan", "Segment"]


@dataclass(frozen=True)
class Segment:
    """Bytes of one piece in one step: array rows [first_row, first_row + count)."""

    kernel_row: int
    piece: int
    first_byte: int
    first_row: int
    count: int


@dataclass(frozen=True)
class FoldPlan:
    """Steps of at most three segments each.

    Members
    -------
    pieces : words per window row
    columns : neighbouring output columns that share a window; each has its own weights
    """

    pieces: int
    steps: tuple[tuple[Segment, ...], ...]
    columns: int = 1

    def words(self, cols: int) -> int:
        """Words of one piece of a row of `cols` output columns."""
        return ceil_div(cols, self.columns)

    def rows(self) -> int:
        """Array rows that the steps use."""
        return max(s.first_row + s.count for step in self.steps for s in step)
