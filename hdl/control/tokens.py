"""The token counters between the four working units."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.isa.control import Status
from tq_hw.isa.layout import Unit

__all__ = ["WORKERS", "TokenSignature", "Tokens"]

#: The units that exchange tokens, in the order of the `wait_*` and `post_*` fields.
WORKERS = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)
_TOKEN_BITS = 8
_COUNTS = data.ArrayLayout(_TOKEN_BITS, len(WORKERS))


class TokenSignature(wiring.Signature):
    """A unit's interface to the counters.

    Members
    -------
    wait : Out(ArrayLayout(8, 4)), tokens required from each worker
    enough : In(1), register: one cycle ago all counters had that many (they can only have grown since)
    take : Out(1), strobe: take them; only while `enough`, with `wait` as in the cycle before and nothing taken then
    post : Out(ArrayLayout(8, 4)), tokens for each worker
    give : Out(1), strobe: post them
    """

    def __init__(self) -> None:
        super().__init__({"wait": Out(_COUNTS), "enough": In(1), "take": Out(1), "post": Out(_COUNTS), "give": Out(1)})


class Tokens(wiring.Component):
    """One counter (0..255) for each ordered pair of workers.

    A unit that waits for itself or posts to itself breaks a rule: UnitControl refuses the operation.

    Members
    -------
    load, array, vector, store : In(TokenSignature)
    error_load, ... : Out(4), strobe of TOKEN_OVERFLOW: a counter that this unit posted to exceeded 255
    """

    load: Any
    array: Any
    vector: Any
    store: Any

    def __init__(self) -> None:
        super().__init__({unit.name.lower(): In(TokenSignature()) for unit in WORKERS}
                         | {f"error_{unit.name.lower()}": Out(4) for unit in WORKERS})

    def elaborate(self, platform: object) -> Module:
        """Count. Post and take may coincide."""
        m = Module()
        ports = [getattr(self, unit.name.lower()) for unit in WORKERS]
        enough: list[list[Any]] = [[] for _ in WORKERS]
        for giver, source in enumerate(ports):
            overflows = []
            for taker, target in enumerate(ports):
                if giver == taker:
                    continue
                count = Signal(_TOKEN_BITS, name=f"{WORKERS[giver].name.lower()}_to_{WORKERS[taker].name.lower()}")
                grown = Signal(_TOKEN_BITS + 1, name=f"{count.name}_next")
                # `give` and `take` are late in their cycles: neither waits for two adders.
                given, wanted = source.post[taker], target.wait[giver]
                left = Signal(_TOKEN_BITS, name=f"{count.name}_left")
                m.d.comb += [left.eq(count - wanted),
                             grown.eq(Mux(target.take, left, count) + Mux(source.give, given, 0))]
                over = Signal(name=f"{count.name}_over")
                m.d.sync += [count.eq(grown), over.eq(grown[_TOKEN_BITS])]
                overflows.append(over)
                enough[taker].append(count >= target.wait[giver])
            error = getattr(self, f"error_{WORKERS[giver].name.lower()}")
            m.d.comb += error.eq(Mux(Cat(*overflows).any(), Status.TOKEN_OVERFLOW, Status.OK))
        for port, holds in zip(ports, enough, strict=True):
            m.d.sync += port.enough.eq(Cat(*holds).all())
        return m
