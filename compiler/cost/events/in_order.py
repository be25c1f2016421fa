"""Common part of units that begin an operation when all times that it waits for are known."""

from collections import deque
from collections.abc import Iterable

from tq_hw.compiler.cost.events.control_clock import EventControls
from tq_hw.compiler.stream.stream import Operation

__all__ = ["InOrder"]


class InOrder:
    """A unit with one current operation.

    Members
    -------
    queue : operations that have not begun
    """

    def __init__(self, controls: EventControls, operations: Iterable[Operation]) -> None:
        self._controls = controls
        self.queue = deque(operations)
        self._operation: Operation | None = None

    def __len__(self) -> int:
        """Number of operations that are not done."""
        return len(self.queue) + (self._operation is not None)

    def _under_way(self) -> bool:
        """Whether there is a current operation; begins the next one if possible."""
        if self._operation is None and self.queue and self._controls.known(self.queue[0]):
            self._operation = self.queue.popleft()
            self._begin(self._operation)
        return self._operation is not None

    def _begin(self, operation: Operation) -> None:
        raise NotImplementedError
