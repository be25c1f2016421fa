"""Timing of the vector unit."""

from collections.abc import Callable, Mapping

from tq_hw.compiler.cost.array_clock import ArrayClock
from tq_hw.compiler.cost.array_cycles import tile_sizes
from tq_hw.compiler.cost.banks import BankLog, walk_banks, write_masks
from tq_hw.compiler.cost.control_clock import Controls
from tq_hw.compiler.cost.operation_cycles import (
    activation_delay,
    awaits_outputs,
    has_outputs,
    param_block_cycles,
    program_cycles,
    read_beside,
    stream_words,
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

_A_LOOPS, _OUT_LOOPS = ((("cols", f"{name}_col_step"), ("slots", f"{name}_row_step")) for name in ("a", "out"))
_ALL_BANKS = (0, 1, 2, 3)


class VectorClock:
    """Runs operations in order; `waits` has the bank delays of each."""

    def __init__(self, config: Config, controls: Controls, array: ArrayClock, log: BankLog,
                 waits: Mapping[int, int]) -> None:
        self._config, self._controls, self._array, self._log, self._waits = config, controls, array, log, waits
        self._free = 0
        #: Cycle from which a stream can read all outputs.
        self._drained = 0

    def run(self, operation: Operation, wait_for_sums: Callable[[], None]) -> None:
        """Compute the times of an operation; `wait_for_sums` returns when its next tile's sums are known."""
        f, config = operation.fields, self._config
        taken = self._controls.offered(operation)
        at = taken + VECTOR_START_CYCLES
        if f.get("use_params"):
            at = max(at, taken + PARAMS_START_CYCLES + param_block_cycles(config))
        at = max(at, self._free)
        later = activation_delay(operation, config)
        table = f.get("kind") == VectorKind.LOAD_TABLE
        if f.get("use_acc") and not table:
            at = self._tiles(operation, at, wait_for_sums)
        else:
            at = self._streams(operation, max(at, self._drained) if awaits_outputs(operation) else at, table)
        self._free = at
        if has_outputs(operation):
            self._drained = at - 1 + later + output_latency_cycles(config)
        self._controls.take(operation, taken)
        self._controls.end(operation, at - 1 + later + done_cycles(config))

    def _streams(self, operation: Operation, at: int, table: bool) -> int:
        """Return when the last words of a program over streams, or of a table, have been read."""
        f, config = operation.fields, self._config
        cycles = f["slots"] if table else program_cycles(operation, config)
        banks = _ALL_BANKS if table else walk_banks(f, _A_LOOPS, f.get("a_base", 0))
        words = ceil_div(f["slots"] * 4, config.word_bytes) if table else stream_words(operation, config)
        self._log.walk(self._log.streams, id(operation), at, cycles, words, banks)
        end = at + cycles + self._waits.get(id(operation), 0)
        if words:
            self._log.vector_reads.append((at, end, write_masks(banks, max(1, (end - at) // words))))
        if not table:
            self._writes(_out_banks(f), at, end, f["slots"] * f["out_blocks"])
        return end

    def _tiles(self, operation: Operation, at: int, wait_for_sums: Callable[[], None]) -> int:
        """Return when the last tile's sums have been read."""
        config, sizes, banks = self._config, tile_sizes(operation.fields), _out_banks(operation.fields)
        cycles = {size: max(VECTOR_TILE_CYCLES, tile_program_cycles(operation, size, config.beats_per_acc_word, config))
                  for size in set(sizes)}
        for size in sizes:
            wait_for_sums()
            begin = at = max(at, self._array.sums.popleft())
            # A buffer cannot be read while the array adds to another buffer in the same memory.
            at = read_beside(at, cycles[size], *self._array.added())
            self._array.release(at)
            self._writes(banks, begin, at, size)
        return at

    def _writes(self, banks: tuple[int, ...], begin: int, end: int, words: int) -> None:
        """Record the written words, which have priority over those of loads."""
        self._log.vector_writes.append((begin + STAGE_RESULT, end + STAGE_RESULT,
                                        write_masks(banks, max(1, (end - begin) // words))))


def _out_banks(f: Mapping[str, int]) -> tuple[int, ...]:
    """Return the banks of the first words that an operation writes."""
    return walk_banks(f, _OUT_LOOPS, f.get("out_base", 0))
