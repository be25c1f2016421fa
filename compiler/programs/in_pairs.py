"""Order a program's micro-operations so that few wait: a result is best first used two micro-operations later.

The vector unit starts a micro-operation while the newest one before it is still running, unless it reads that one's
result; all earlier ones must be finished (`hdl/vector/issue.py`). With one or two words a register, these waits are
most of a program's time.
"""

from collections.abc import Sequence

from tq_hw.compiler.programs.words import Uop
from tq_hw.isa.latency import RUN_LEAST_CYCLES, UOP_WAIT_CYCLES
from tq_hw.isa.uop import Destination, Source

__all__ = ["in_pairs", "waiting_cycles"]


def _reads(uop: Uop) -> set[int]:
    return {uop.get(f"{name}_register", 0) for name in "ab" if uop.get(f"{name}_source") == Source.REGISTER}


def _written(uop: Uop) -> int | None:
    return uop.get("d_register", 0) if uop.get("destination", 0) in (Destination.REGISTER, Destination.REDUCE) else None


def _needed(uops: Sequence[Uop]) -> list[set[int]]:
    """For each micro-operation, those it must follow: writers of what it reads, readers and writers of its register."""
    found: list[set[int]] = []
    for number, uop in enumerate(uops):
        before = uops[:number]
        reads, written = _reads(uop), _written(uop)
        touches = [at for at, other in enumerate(before) if _written(other) in reads
                   or written is not None and (written in _reads(other) or _written(other) == written)
                   # Outputs and reductions keep their order.
                   or uop.get("destination", 0) and other.get("destination", 0)]
        found.append(set(touches))
    return found


class _Clock:
    """Start times of micro-operations of one beat each."""

    def __init__(self) -> None:
        self._at, self._before, self._newest, self._ready = 0, -UOP_WAIT_CYCLES, -1, 0

    def start(self, uop: Uop) -> int:
        """Return the earliest start of a micro-operation."""
        at, reads = self._at, _reads(uop)
        if reads:
            at = max(at, self._before + UOP_WAIT_CYCLES)
        return max(at, self._ready) if self._newest in reads else at

    def run(self, uop: Uop) -> None:
        """Start a micro-operation at its earliest time."""
        at, written = self.start(uop), _written(uop)
        if written is not None:
            self._before = max(self._before, self._ready - UOP_WAIT_CYCLES)
            self._newest, self._ready = written, at + UOP_WAIT_CYCLES
        self._at = at + RUN_LEAST_CYCLES

    @property
    def end(self) -> int:
        """The earliest start of a micro-operation that reads no register."""
        return self._at


def waiting_cycles(uops: Sequence[Uop]) -> int:
    """Return the cycles of a program whose registers have one beat."""
    clock = _Clock()
    for uop in uops:
        clock.run(uop)
    return clock.end


def in_pairs(uops: Sequence[Uop]) -> list[Uop]:
    """Return the micro-operations in an order that keeps all dependences and takes no longer."""
    needed = _needed(uops)
    heights = [1] * len(uops)
    for number in reversed(range(len(uops))):
        for before in needed[number]:
            heights[before] = max(heights[before], heights[number] + 1)
    clock, order, left = _Clock(), list[int](), set(range(len(uops)))
    while left:
        ready = [number for number in sorted(left) if not needed[number] & left]
        best = min(ready, key=lambda number: (clock.start(uops[number]), -heights[number], number))
        clock.run(uops[best])
        order.append(best)
        left.remove(best)
    made = [uops[number] for number in order]
    return made if waiting_cycles(made) < waiting_cycles(uops) else list(uops)
