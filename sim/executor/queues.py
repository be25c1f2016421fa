"""State between the units: the queue of each with its current operation, and the tokens from one unit to another."""

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from tq_hw.isa.layout import Unit
from tq_hw.isa.operations import Operation

__all__ = ["MAX_TOKENS", "Progress", "Queue", "Tokens"]

#: What an operation under way waits for, or None if it made progress.
Progress = Generator[str | None]

#: Largest count of tokens.
MAX_TOKENS = 255


@dataclass
class Queue:
    """One unit: the commands in its queue, and its current operation.

    `words` counts the command words in the queue beyond those of the next operation.
    """

    unit: Unit
    waiting: deque[Operation] = field(default_factory=deque)
    words: int = 0
    active: Operation | None = None
    progress: Progress | None = None
    blocked_by: str | None = None


@dataclass
class Tokens:
    """Tokens from one unit to another: their count, and the giver's clock for each gift that is not yet taken."""

    count: int = 0
    gifts: deque[tuple[int, tuple[int, ...]]] = field(default_factory=deque)

    def take(self, count: int) -> Iterator[tuple[int, ...]]:
        """Take tokens, at most `self.count`; yield the giver's clocks of their gifts."""
        self.count -= count
        while count:
            given, clock = self.gifts.popleft()
            yield clock
            if given > count:
                self.gifts.appendleft((given - count, clock))
            count -= min(given, count)
