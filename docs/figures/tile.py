"""The waveform of one tile, from the first slot to the last requantized word, recorded in a simulation."""

from collections.abc import Sequence

from svg import ARRAY, INK, LINE, MOVE, MUTED, PAD, VECTOR, Drawing
from tile_run import SLOTS, STEPS, TileRun, run_tile

from tq_hw.isa.latency import TAG_LEAD_CYCLES

__all__ = ["tile"]

_LEFT, _TOP, _CELL, _HIGH, _ROW = 166, 104, 10.4, 24, 58
_BEFORE = 1
_STEP_FILLS = (MOVE, ARRAY)


def tile() -> str:
    """Run the simulation and draw it."""
    run = run_tile()
    first = run.signals["begin"].index(1) + 1
    return _Waves(run, first).text()


class _Waves:
    """Rows of cells, one cycle each; cycle 0 is the first slot."""

    def __init__(self, run: TileRun, first: int) -> None:
        signals = run.signals
        self._first = first
        counted = [cycle + 1 + slot for cycle in _cycles(signals["begin"]) for slot in range(SLOTS)]
        asked = _cycles(signals["read"])
        summed = [cycle + TAG_LEAD_CYCLES for cycle in _cycles(signals["keep"])]
        full, taken, written = (_cycles(signals[name]) for name in ("full", "take", "out"))
        self._end = end = written[-1] - first + 2
        self._d = d = Drawing(
            960, _TOP + 6 * _ROW + 70, "Waveform of one tile: eight slots under two sets of weights, their sums, "
                                       "and the eight requantized words")
        d.words(24, 34, "One tile of a 1x1 convolution at tiny", size=15, bold=True, anchor="start")
        d.words(24, 54, f"{SLOTS} pixels, {STEPS} steps: each set of weights is applied to every pixel once", size=12,
                color=MUTED, anchor="start")
        for cycle in range(0, end + 1, 10):
            x = self._x(cycle + first)
            d.line((x, _TOP - 14), (x, _TOP + 6 * _ROW - 26), color="#e4e8ec", line=1)
            d.words(x, _TOP - 20, f"{cycle}", size=11, color=MUTED)
        d.words(24, _TOP - 20, "cycle", size=11, color=MUTED, anchor="start")

        steps = [number // SLOTS for number in range(SLOTS * STEPS)]
        self._cells(0, "slot", "counted in hdl/array/slots.py", counted, [_STEP_FILLS[s] for s in steps])
        self._cells(1, "word", "requested by feed0", asked, [_STEP_FILLS[s] for s in steps])
        self._cells(2, "psum", "leaves the array", summed, [_STEP_FILLS[s] for s in steps])
        self._level(3, "full", "the buffer is complete", full)
        self._cells(4, "sums", "one read for two beats", taken, [PAD] * SLOTS)
        self._cells(5, "output", "requantized word written", written, [VECTOR] * SLOTS)
        self._way(0, counted[0], asked[0])
        self._way(1, asked[0], summed[0])
        self._way(2, summed[-1], full[0])
        self._way(3, full[0], taken[0])
        self._way(4, taken[0], written[0])
        self._values(run)

    def text(self) -> str:
        return self._d.text()

    def _x(self, cycle: int) -> float:
        return _LEFT + _CELL * (cycle - self._first + _BEFORE)

    def _label(self, row: int, name: str, what: str) -> float:
        y = _TOP + _ROW * row
        self._d.words(24, y + 11, name, size=13, bold=True, anchor="start")
        self._d.words(24, y + 25, what, size=10, color=MUTED, anchor="start")
        return y

    def _cells(self, row: int, name: str, what: str, cycles: Sequence[int], fills: Sequence[str]) -> None:
        y = self._label(row, name, what)
        for number, (cycle, fill) in enumerate(zip(cycles, fills, strict=True)):
            self._d.rect(self._x(cycle), y, _CELL, _HIGH, fill=fill, radius=2, line=0.8)
            self._d.words(self._x(cycle) + _CELL / 2, y + 16, f"{number % SLOTS}", size=10)

    def _level(self, row: int, name: str, what: str, cycles: Sequence[int]) -> None:
        y = self._label(row, name, what)
        low, high = y + _HIGH - 4, y + 3
        start, end = self._x(cycles[0]), self._x(cycles[-1] + 1)
        self._d.line((self._x(self._first - 1), low), (start, low), (start, high), (end, high), (end, low),
                     (self._x(self._first + self._end), low), color=INK)

    def _way(self, row: int, start: int, end: int) -> None:
        """Draw an arrow from a cell down to its result in the next row."""
        top, bottom = _TOP + _ROW * row + _HIGH, _TOP + _ROW * (row + 1)
        if row == 3:
            top -= 21
        x0, x1 = self._x(start) + _CELL / 2, self._x(end) + _CELL / 2
        middle = bottom - 17
        if start == end:
            self._d.arrow((x0, top), (x0, bottom), color=INK, line=1.2)
            return
        self._d.arrow((x0, top), (x0, middle), (x1, middle), (x1, bottom), color=INK, line=1.2)
        self._d.words(x1 + 8, bottom - 8, f"{end - start} cycles", size=11, color=INK, anchor="start")

    def _values(self, run: TileRun) -> None:
        y = _TOP + 6 * _ROW + 8
        first, psum = run.sums[0, 0], run.sums[1, 0] - run.sums[0, 0]
        self._d.line((24, y - 14), (936, y - 14), color=LINE, line=0.8)
        self._d.words(24, y + 10, "Pixel 0, output channel 0:", size=12, bold=True, anchor="start")
        self._d.words(190, y + 10, f"sum of step 0  {first};  sum of step 1  {psum};  accumulator  {run.sums[1, 0]};  "
                                   f"requantized  {run.outputs[0, 0]}", size=12, anchor="start")
        for number, fill in enumerate(_STEP_FILLS):
            self._d.rect(24 + 80 * number, y + 26, 16, 16, fill=fill, radius=2, line=0.8)
            self._d.words(46 + 80 * number, y + 38, f"step {number}", size=12, anchor="start")
        self._d.words(936, y + 38, "every output byte was compared with the golden model", size=12, color=MUTED,
                      anchor="end")


def _cycles(signal: Sequence[int]) -> list[int]:
    """Return the cycles in which a signal is 1."""
    return [cycle for cycle, value in enumerate(signal) if value]
