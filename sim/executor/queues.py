"""What stands between the units: the queue of each with its present operation, and the tokens from one to another."""

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from tq_hw.isa.layout import Unit
from tq_hw.isa.operations import Operation

__all__ = ["MAX_TOKENS", "Progress", "Queue", "Tokens"]

#: What an operation under way waits for, or None when it went on.
Progress = Generator[str | None]

#: Tokens that a counter holds.
MAX_TOKENS = 255


@dataclass
class Queue:
    """One unit: the commands that were dealt to it, and what it is doing.

    `words` counts the command words that wait after those of the next operation.
    """

    unit: Unit
    waiting: deque[Operation] = field(default_factory=deque)
    words: int = 0
    active: Operation | None = None
    progress: Progress | None = None
    blocked_by: str | None = None


@dataclass
class Tokens:
    """Tokens from one unit to another: how many, and the giver's clock at each gift still to be taken."""

    count: int = 0
    gifts: deque[tuple[int, tuple[int, ...]]] = field(default_factory=deque)

    def take(self, count: int) -> Iterator[tuple[int, ...]]:
        """Take tokens, of which there are as many; yield the giver's clocks at their gifts."""
        self.count -= count
        while count:
            given, clock = self.gifts.popleft()
            yield clock
            if given > count:
                self.gifts.appendleft((given - count, clock))
            count -= min(given, count)
