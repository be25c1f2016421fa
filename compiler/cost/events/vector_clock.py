"""Timing of the vector unit, tile by tile and step by step."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from tq_hw.compiler.cost.array_clock import ArrayClock
from tq_hw.compiler.cost.array_cycles import tile_sizes
from tq_hw.compiler.cost.events.banks import BankLog
from tq_hw.compiler.cost.events.control_clock import EventControls
from tq_hw.compiler.cost.events.in_order import InOrder
from tq_hw.compiler.cost.events.vector_reads import Reads, program_reads, table_reads
from tq_hw.compiler.cost.events.walks import bank_masks
from tq_hw.compiler.cost.operation_cycles import (
    activation_delay,
    awaits_outputs,
    has_outputs,
    param_block_cycles,
    program_cycles,
    read_beside,
    tile_program_cycles,
)
from tq_hw.compiler.stream.stream import Operation
from tq_hw.isa.config import Config
from tq_hw.isa.latency import (
    PARAMS_START_CYCLES,
    STAGE_RESULT,
    VECTOR_START_CYCLES,
    VECTOR_TILE_CYCLES,
    done_cycles,
    output_latency_cycles,
)
from tq_hw.isa.layout import VectorKind
from tq_hw.isa.sizes import ceil_div

__all__ = ["VectorClock"]


class VectorClock(InOrder):
    """Runs operations in order, a tile or a stretch of a stream at a time."""

    def __init__(self, config: Config, controls: EventControls, array: ArrayClock, log: BankLog,
                 operations: Iterable[Operation]) -> None:
        super().__init__(controls, operations)
        self._config, self._array, self._log = config, array, log
        #: For the current operation: the sizes of its remaining tiles, its remaining steps.
        self._tiles: deque[int] = deque()
        self._cycles: Mapping[int, int] = {}
        self._reads: Iterator[tuple[int, int, int]] = iter(())
        self._step: tuple[int, int, int] | None = None
        self._free = 0
        #: Cycle from which a stream can read all outputs.
        self._drained = 0
        self._at = 0
        #: Banks of the words that the operation writes, and the number of written words.
        self._out, self._written = b"", 0

    def time(self) -> int | None:
        """Return the time of the unit's next event; None: not before another unit advances."""
        if not self._under_way():
            return None
        if self._step is not None:
            return self._at + self._step[0]
        return max(self._at, self._array.sums[0]) if self._array.sums else None

    def go(self, horizon: int) -> None:
        """Advance; a stream only up to the cycle to which the banks are known."""
        assert self._operation is not None
        if self._tiles:
            self._tile(self._tiles.popleft())
            if not self._tiles:
                self._end(self._operation)
        elif self._stream(horizon):
            self._end(self._operation)

    def _begin(self, operation: Operation) -> None:
        f, config = operation.fields, self._config
        taken = self._controls.offered(operation)
        self._controls.take(operation, taken)
        cols, blocks = max(1, f.get("cols", 0)), f.get("out_blocks", 1)
        self._written, self._out = 0, bank_masks(
            f.get("out_base", 0), (cols, f.get("out_col_step", 0)),
            (ceil_div(f["slots"], cols), f.get("out_row_step", 0)), (blocks, f.get("out_block_step", 0)))
        at = taken + VECTOR_START_CYCLES
        if f.get("use_params"):
            at = max(at, taken + PARAMS_START_CYCLES + param_block_cycles(config))
        at = max(at, self._free)
        table = f.get("kind") == VectorKind.LOAD_TABLE
        if f.get("use_acc") and not table:
            sizes = tile_sizes(f)
            self._tiles.extend(sizes)
            self._cycles = {size: max(VECTOR_TILE_CYCLES, tile_program_cycles(
                operation, size, config.beats_per_acc_word, config)) for size in set(sizes)}
        else:
            at = max(at, self._drained) if awaits_outputs(operation) else at
            chunks: Iterable[Reads] = [table_reads(operation, config)] if table else program_reads(operation, config)
            self._reads = iter(chain.from_iterable(chunks))
            self._step = next(self._reads)
            if not table:
                self._writes(at, at + program_cycles(operation, config), f["slots"] * f["out_blocks"])
        self._at = at

    def _end(self, operation: Operation) -> None:
        later = activation_delay(operation, self._config)
        self._free = self._at
        if has_outputs(operation):
            self._drained = self._at - 1 + later + output_latency_cycles(self._config)
        self._controls.end(operation, self._at - 1 + later + done_cycles(self._config))
        self._operation = None

    def _tile(self, size: int) -> None:
        begin = at = max(self._at, self._array.sums.popleft())
        # A buffer cannot be read while the array adds to another buffer in the same memory.
        at = read_beside(at, self._cycles[size], *self._array.added(), self._config.beats_per_acc_word)
        self._array.release(at)
        self._writes(begin, at, size)
        self._at = at

    def _stream(self, horizon: int) -> bool:
        """Advance the steps of a stream; return whether all are done.

        A step requests its words until it has them; a word of stream B waits for one of stream A in the same bank.
        """
        step, at = self._step, self._at
        self._step = None
        array, reads = self._log.array, self._log.reads
        asked, noted = array.banks, reads.banks
        while step is not None:
            wait, a, b = step
            if at + wait > horizon:
                self._step, self._at = step, at
                return False
            at += wait
            if a or b:
                begin = at
                if at < len(asked):
                    got = array.free(at, a) if a else at
                    other = array.free(at, b) if b else at
                    if a & b and got == other:
                        other = array.free(at + 1, b)
                    at = max(got, other)
                elif a & b:
                    at += 1
                # The common case of millions of steps: the step is not delayed, and its cycle is the next entry.
                if begin == len(noted) and begin == at:
                    noted.append(a | b)
                else:
                    reads.put(begin, bytes((a | b,)) * (at - begin + 1))
            step = next(self._reads, None)
        self._at = at
        return True

    def _writes(self, begin: int, end: int, words: int) -> None:
        """Record the written words, which have priority over those of loads."""
        pace = max(1, (end - begin) // words)
        taken = bytearray(pace * words)
        banks = self._out[self._written:self._written + words]
        self._written += words
        taken[pace - 1:pace * len(banks):pace] = banks
        self._log.writes.put(begin + STAGE_RESULT, taken)
