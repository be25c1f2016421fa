"""Tokens in the microprogram: taken before an operation, posted after it.

A unit has one word of four bytes: the tokens that each of the four units has posted to it.
"""

from tq_hw.hdl.control.tokens import WORKERS
from tq_hw.hdl.serial.assembler import Assembler, Reg
from tq_hw.hdl.serial.encoding import Op, Place, Sink
from tq_hw.hdl.serial.shared import Shared
from tq_hw.isa.control import Status
from tq_hw.isa.layout import Unit

__all__ = ["Tokens"]

_TOKEN_BITS, _MOST_TOKENS = 8, 255


class Tokens:
    """Writes what the scheduler does with tokens, for the unit that is visited.

    Parameters
    ----------
    alive : register, set when a unit has still to do
    """

    def __init__(self, asm: Assembler, shared: Shared, alive: Reg) -> None:
        self.asm, self.shared, self.alive = asm, shared, alive
        self.base, self.shift = asm.local("base"), asm.local("shift")

    def _own_shift(self) -> None:
        """Set `shift` to the unit's byte in a token word."""
        asm, shared = self.asm, self.shared
        asm.sub(self.shift, shared.number, Unit.LOAD)
        asm.op(Op.SLL, self.shift, self.shift, 3)

    def take(self) -> None:
        """End the visit unless all tokens are there; take them, and count the RUN."""
        asm, shared = self.asm, self.shared
        wait, post, tokens, wanted, held = (asm.local(name) for name in ("wait", "post", "tokens", "wanted", "held"))
        asm.move(self.alive, 1)
        asm.load_private(self.base, shared.unit, Place.BASE - Place.CURSOR)
        asm.load_private(wait, self.base, 0)
        asm.load_private(post, self.base, 1)
        # Tokens of a unit to itself do not exist, so it does not wait for them.
        self._own_shift()
        own = asm.local("own")
        asm.op(Op.OR, post, post, wait)
        asm.op(Op.SLL, own, (1 << _TOKEN_BITS) - 1, self.shift)
        asm.op(Op.AND, post, post, own)
        asm.op(Op.XOR, own, own, 0xFFFFFFFF)
        asm.op(Op.AND, wait, wait, own)
        asm.load_private(tokens, shared.unit, Place.TOKENS - Place.CURSOR)
        for giver in range(len(WORKERS)):
            asm.extract(wanted, wait, _TOKEN_BITS * giver, _TOKEN_BITS)
            asm.extract(held, tokens, _TOKEN_BITS * giver, _TOKEN_BITS)
            asm.branch(Op.BLTU, held, wanted, shared.blocked)
        # No byte borrows from the next.
        asm.sub(tokens, tokens, wait)
        asm.store_private(shared.unit, tokens, Place.TOKENS - Place.CURSOR)
        self.count_run()
        asm.branch(Op.BNE, post, 0, shared.error(Status.BAD_OPERATION))
        asm.out(Sink.BEGAN, shared.number)

    def count_run(self) -> None:
        """Count a RUN of the unit: it has begun, or it has caused an error."""
        asm, unit, runs = self.asm, self.shared.unit, self.asm.local("runs")
        asm.load_private(runs, unit, Place.RUNS - Place.CURSOR)
        asm.add(runs, runs, 1)
        asm.store_private(unit, runs, Place.RUNS - Place.CURSOR)

    def give(self) -> None:
        """Give the tokens that the operation posts; more than a counter holds end the run."""
        asm, shared = self.asm, self.shared
        post, given, tokens, held = (asm.local(name) for name in ("post", "wanted", "tokens", "held"))
        asm.out(Sink.DONE, shared.number)
        asm.load_private(self.base, shared.unit, Place.BASE - Place.CURSOR)
        asm.load_private(post, self.base, 1)
        self._own_shift()
        for taker, unit in enumerate(WORKERS):
            asm.extract(given, post, _TOKEN_BITS * taker, _TOKEN_BITS)
            asm.load_private(tokens, Place.TOKENS + unit)
            asm.op(Op.SRL, held, tokens, self.shift)
            asm.extract(held, held, 0, _TOKEN_BITS)
            asm.add(held, held, given)
            asm.branch(Op.BLTU, _MOST_TOKENS, held, shared.error(Status.TOKEN_OVERFLOW))
            asm.op(Op.SLL, given, given, self.shift)
            asm.add(tokens, tokens, given)
            asm.store_private(Place.TOKENS + unit, tokens)
