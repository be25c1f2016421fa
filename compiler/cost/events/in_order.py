"""What units have in common that begin an operation when all that it waits for is known."""

from collections import deque
from collections.abc import Iterable

from tq_hw.compiler.cost.events.control_clock import EventControls
from tq_hw.compiler.stream.stream import Operation

__all__ = ["InOrder"]


class InOrder:
    """A unit with one operation under way.

    Members
    -------
    queue : operations that are not begun
    """

    def __init__(self, controls: EventControls, operations: Iterable[Operation]) -> None:
        self._controls = controls
        self.queue = deque(operations)
        self._operation: Operation | None = None

    def __len__(self) -> int:
        """Operations that are not done."""
        return len(self.queue) + (self._operation is not None)

    def _under_way(self) -> bool:
        """Whether an operation is under way; the next one is begun if none is, and what it waits for is known."""
        if self._operation is None and self.queue and self._controls.known(self.queue[0]):
            self._operation = self.queue.popleft()
            self._begin(self._operation)
        return self._operation is not None

    def _begin(self, operation: Operation) -> None:
        raise NotImplementedError
