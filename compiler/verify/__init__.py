"""Verification of every compiled program: its operations must implement the graph.

    graph --contents--> the bytes that every layer reads; a number for each byte identifies its writer
    stream --replay--> the bytes that every operation reads: the same numbers, moved by the fields of loads and stores

Each operation has a meaning in the graph's terms in addition to its fields (`compiler/ir/meaning.py`). The addresses in
the plan, the ring and the emitters are not used. An operation is refused with a DataflowError if it reads a byte that
the graph does not put there, or that is not certain to be there in time.
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
    """Add to an error what it means, and what to do."""
    try:
        yield
    except DataflowError as error:
        raise DataflowError(f"internal error: the check of the compiled commands failed: {error}; this is a bug in "
                            "tq-hw, please report it with the model and the configuration") from None


def verify_makers(before: Graph, after: Graph) -> None:
    """Check that each layer's inputs are written before it, and states read between the same writes; DataflowError."""
    with _reported():
        check_makers(before, after)


def verify_places(before: Graph, after: Graph) -> None:
    """Check that a graph without some copies gives all layers the same inputs as before; DataflowError."""
    with _reported():
        check_places(before, after)


def verify(emitter: Emitter) -> None:
    """Check the stream of a model; DataflowError names the first wrong operation."""
    with _reported():
        Replay(emitter, emitter.stream).run()


def verify_warm(emitter: Emitter, warm: Stream) -> None:
    """Check a stream that runs after that of `emitter`, or after itself, with the scratchpad in the state it left."""
    with _reported():
        replay = Replay(emitter, emitter.stream)
        replay.run()
        left: Bytes | None = None
        while left is None or not np.array_equal(left, replay.machine.left()):
            left = replay.machine.left()
            replay = Replay(emitter, warm, replay.machine)
            replay.run()
