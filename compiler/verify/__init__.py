"""Whether a program does what the graph says: all of it, before it leaves the compiler.

    graph --contents--> what every layer finds: a number for each byte, by whom it was made
    stream --replay--> what every operation finds: the same numbers, moved by loads and stores as their fields say

What an operation is for stands with its fields in words of the graph (`compiler/ir/meaning.py`); nothing of what the
plan, the ring or the emitters know of addresses is used. An operation that reads a byte which the graph does not put
there, or which is not certainly there in time, is refused with a DataflowError.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tq_hw.compiler.emit.emitter import Emitter
from tq_hw.compiler.ir.layers import Graph
from tq_hw.compiler.stream.stream import Stream
from tq_hw.compiler.verify.makers import check_makers
from tq_hw.compiler.verify.numbers import Bytes
from tq_hw.compiler.verify.places import check_places
from tq_hw.compiler.verify.replay import Replay
from tq_hw.model.errors import DataflowError

__all__ = ["DataflowError", "verify", "verify_makers", "verify_places", "verify_warm"]


@contextmanager
def _reported() -> Iterator[None]:
    """Say what a refusal means, and what to do about it."""
    try:
        yield
    except DataflowError as error:
        raise DataflowError(f"internal error: the compiler's check refuses its own commands: {error}; this is a defect "
                            "of tq-hw, please report it with the model and the configuration") from None


def verify_makers(before: Graph, after: Graph) -> None:
    """Check that what each layer reads is made before it, states between the same writes as before; DataflowError."""
    with _reported():
        check_makers(before, after)


def verify_places(before: Graph, after: Graph) -> None:
    """Check that all layers find in a graph without some copies what they find in the one with them; DataflowError."""
    with _reported():
        check_places(before, after)


def verify(emitter: Emitter) -> None:
    """Check the stream of a model; DataflowError names the first operation that is wrong."""
    with _reported():
        Replay(emitter, emitter.stream).run()


def verify_warm(emitter: Emitter, warm: Stream) -> None:
    """Check a stream that runs after the one of `emitter`, or after itself, with the scratchpad as that left it."""
    with _reported():
        replay = Replay(emitter, emitter.stream)
        replay.run()
        left: Bytes | None = None
        while left is None or not np.array_equal(left, replay.machine.left()):
            left = replay.machine.left()
            replay = Replay(emitter, warm, replay.machine)
            replay.run()
