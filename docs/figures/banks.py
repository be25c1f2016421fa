"""The scratchpad's banks under a 3x3 window, with an even and with an odd row pitch."""

from svg import INK, MUTED, Drawing

from tq_hw.compiler.plan.layout import row_words
from tq_hw.isa.config import BANKS

__all__ = ["banks"]

_FILLS = ("#dcebfa", "#fde3cf", "#d9f0e0", "#ece6f6")
_ROWS, _COLS, _KERNEL = 5, 8, 3
_CELL, _HIGH = 40, 30
#: The window's first row and column.
_ROW, _COL = 1, 2


def banks() -> str:
    """Return two panels: addresses, and the banks that each column of the window reads."""
    odd = row_words(_COLS, 1)
    d = Drawing(960, 450, f"Row pitch {_COLS} puts the three rows of a window in one bank; row pitch {odd} puts them "
                          "in three banks and leaves one to the other clients")
    for bank, fill in enumerate(_FILLS[:BANKS]):
        d.rect(300 + 96 * bank, 18, 16, 16, fill=fill, radius=3)
        d.words(322 + 96 * bank, 31, f"bank {bank}", size=12, anchor="start")
    d.words(40, 31, "bank = address mod 4", size=13, anchor="start", bold=True)
    _panel(d, 40, _COLS, f"Pitch {_COLS} words: three rows, one bank", "each slot: BANK_CONFLICT")
    _panel(d, 520, odd, f"Pitch {odd} words: three rows, three banks", "each slot: three words, one bank left")
    return d.text()


def _panel(d: Drawing, left: int, pitch: int, title: str, result: str) -> None:
    d.words(left, 70, title, size=15, anchor="start", bold=True)
    top = 104
    for col in range(_COLS):
        d.words(left + 34 + _CELL * (col + 0.5), top - 8, f"{col}", size=11, color=MUTED)
    for row in range(_ROWS):
        d.words(left + 26, top + _HIGH * row + 20, f"row {row}", size=11, color=MUTED, anchor="end")
        for col in range(pitch):
            address = row * pitch + col
            x = left + 34 + _CELL * col
            unused = col >= _COLS
            d.rect(x, top + _HIGH * row, _CELL, _HIGH, fill="#ffffff" if unused else _FILLS[address % BANKS],
                   stroke="#ffffff" if not unused else "#c3cbd3", radius=2, dash="3 3" if unused else "")
            d.words(x + _CELL / 2, top + _HIGH * row + 20, f"{address}", size=12, color=MUTED if unused else INK)
    d.rect(left + 34 + _CELL * _COL, top + _HIGH * _ROW, _CELL * _KERNEL, _HIGH * _KERNEL, stroke=INK, line=2.5,
           radius=4)
    if pitch > _COLS:
        d.words(left + 34 + _CELL * pitch, top + _HIGH * _ROWS + 16, "one word a row unused", size=11, color=MUTED,
                anchor="end")
    _slots(d, left, pitch, result)


def _slots(d: Drawing, left: int, pitch: int, result: str) -> None:
    """Show which bank each feed reads, one column of the window per slot."""
    top, size = 318, 24
    d.words(left, top - 28, "words read together, one column of the window a slot", size=12, anchor="start")
    for slot in range(_COLS):
        x = left + 60 + 42 * slot
        d.words(x + size / 2 + 3, top - 8, f"{slot}", size=11, color=MUTED)
        used = []
        for feed in range(_KERNEL):
            bank = ((_ROW + feed) * pitch + slot) % BANKS
            clash = bank in used
            used.append(bank)
            d.rect(x, top + 28 * feed, size + 6, size, fill=_FILLS[bank], stroke="#c81e1e" if clash else "#c3cbd3",
                   line=2.2 if clash else 1, radius=3)
            d.words(x + size / 2 + 3, top + 28 * feed + 17, f"{bank}", size=12)
    for feed in range(_KERNEL):
        d.words(left + 52, top + 28 * feed + 17, f"feed{feed}", size=11, color=MUTED, anchor="end", code=True)
    d.words(left + 60, top + 28 * _KERNEL + 20, result, size=13, anchor="start", bold=True)
