"""From scratchpad words to int32 lanes."""

from typing import Any

from amaranth import Cat, Const, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.vector.beats import Beats, element_bytes
from tq_hw.hdl.vector.steps import OperandLayout
from tq_hw.isa.config import Config
from tq_hw.isa.latency import READ_LATENCY_CYCLES

__all__ = ["StreamOperand"]


class StreamOperand(wiring.Component):
    """Collect the elements of a beat from the words of its steps.

    Each lane takes its element from the step whose word holds it, and keeps it until the next beat. A word is kept
    until the next granted one, so that it can serve several beats and the port other readers.

    Timing: LATENCY_CYCLES from the cycle in which a step starts to its elements at the output.

    Members
    -------
    step : In(OperandLayout), the step that started in the cycle before; nothing depends on whether one really did
    granted : In(1), a word of this stream was granted in this cycle
    data : In(word), the read port's data
    word : Out(word), the word READ_LATENCY_CYCLES + 1 cycles after its grant
    elements : Out(lanes int32)
    """

    LATENCY_CYCLES = READ_LATENCY_CYCLES + 2

    step: Any
    granted: Signal
    data: Signal
    word: Signal
    elements: Any

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "step": In(OperandLayout(config)), "granted": In(1), "data": In(8 * config.word_bytes),
            "word": Out(8 * config.word_bytes),
            "elements": Out(data.ArrayLayout(signed(32), config.requantize_lanes)),
        })

    def elaborate(self, platform: object) -> Module:
        """Keep the word, then let each lane choose its bytes."""
        m = Module()
        config = self._config
        word = Signal(8 * config.word_bytes, name="kept", reset_less=True)
        elements = [Signal(32, name=f"element{lane}", reset_less=True) for lane in range(config.requantize_lanes)]
        m.d.comb += [self.word.eq(word), *(out.eq(x) for out, x in zip(self.elements, elements, strict=True))]
        with m.If(delayed(m, self.granted, READ_LATENCY_CYCLES, "granted", control=True)):
            m.d.sync += word.eq(self.data)

        # Which bytes each lane takes is decoded one cycle ahead, for it is the same for 32 bits.
        code: Any = delayed(m, self.step.type, READ_LATENCY_CYCLES - 1, "type")
        where = Cat(code, *(delayed(m, self.step[name], READ_LATENCY_CYCLES - 1, name)
                            for name in ("position", "step")))
        signs = delayed(m, ~code.all(), 1, "signs")
        beats = Beats(config)
        position_bits = ceil_log2(beats.positions)
        for lane in range(config.requantize_lanes):
            choices: dict[tuple[int, int], list[int]] = {}
            for kind in range(4):
                for position, step, of_lane, byte in beats.places(kind):
                    if of_lane == lane:
                        pattern = kind | position << 2 | step << 2 + position_bits
                        choices.setdefault((element_bytes(kind), byte), []).append(pattern)
            element: Any = Const(0, 32)
            takes: Any = Const(0, 1)
            for (size, byte), patterns in choices.items():
                chosen = Signal(name=f"takes{lane}_{size}_{byte}", reset_less=True)
                m.d.sync += chosen.eq(Cat(where == pattern for pattern in patterns).any())
                part = word[8 * byte:8 * (byte + size)]
                sign = part[-1] & (signs if size == 1 else 1)
                element = element | Cat(part, sign.replicate(32 - 8 * size)) & chosen.replicate(32)
                takes = takes | chosen
            with m.If(takes):
                m.d.sync += elements[lane].eq(element)
        return m
