"""Extracts int32 elements from scratchpad words."""

from typing import Any

from amaranth import Cat, Const, Module, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tq_hw.hdl.parts.choose import choose_later, is_one_of
from tq_hw.hdl.parts.delay import delayed
from tq_hw.hdl.vector.beats import Beats, element_bytes
from tq_hw.hdl.vector.steps import OperandLayout
from tq_hw.isa.config import Config
from tq_hw.isa.latency import READ_LATENCY_CYCLES

__all__ = ["StreamOperand"]


class StreamOperand(wiring.Component):
    """Collect the elements of a beat from the words of its steps.

    Each lane takes its element in the step whose word contains it, and holds it until the next beat. A word is held
    until the next granted one, so that it can serve several beats while the port serves other clients.

    Timing: LATENCY_CYCLES from the cycle in which a step starts to its elements at the output.

    Members
    -------
    step : In(OperandLayout), the step that started in the cycle before; it need not be valid
    used : In(1), at the last stage but one: the beat there has this operand; otherwise its elements are 0
    granted : In(1), a word of this stream was granted in this cycle
    data : In(word), the read port's data
    word : Out(word), the word READ_LATENCY_CYCLES + 1 cycles after its grant
    elements : Out(lanes int32)
    """

    LATENCY_CYCLES = READ_LATENCY_CYCLES + 2

    step: Any
    used: Signal
    granted: Signal
    data: Signal
    word: Signal
    elements: Any

    def __init__(self, config: Config) -> None:
        self._config = config
        super().__init__({
            "step": In(OperandLayout(config)), "used": In(1), "granted": In(1), "data": In(8 * config.word_bytes),
            "word": Out(8 * config.word_bytes),
            "elements": Out(data.ArrayLayout(signed(32), config.requantize_lanes)),
        })

    def elaborate(self, platform: object) -> Module:
        """Hold the word, then let each lane select its bytes."""
        m = Module()
        config = self._config
        word = Signal(8 * config.word_bytes, name="kept", reset_less=True)
        elements = [Signal(32, name=f"element{lane}", reset_less=True) for lane in range(config.requantize_lanes)]
        m.d.comb += [self.word.eq(word), *(out.eq(x) for out, x in zip(self.elements, elements, strict=True))]
        with m.If(delayed(m, self.granted, READ_LATENCY_CYCLES, "granted", control=True)):
            m.d.sync += word.eq(self.data)

        # The byte selection of each lane is decoded one cycle ahead, because its 32 bits share it.
        code: Any = delayed(m, self.step.type, READ_LATENCY_CYCLES - 1, "type")
        where = Cat(code, *(delayed(m, self.step[name], READ_LATENCY_CYCLES - 1, name)
                            for name in ("position", "step")))
        signed_bytes = delayed(m, ~code.all(), 1, "signs")
        for lane, element in enumerate(elements):
            places = self._places(lane)
            takes = Signal(name=f"takes{lane}", reset_less=True)
            m.d.sync += takes.eq(is_one_of(where, list(places)))
            found = self._element(m, f"place{lane}", where, places, word, signed_bytes)
            with m.If(takes):
                m.d.sync += element.eq(found)
            with m.If(~self.used):
                m.d.sync += element.eq(0)
        return m

    def _places(self, lane: int) -> dict[int, tuple[int, int]]:
        """Return the size and the first byte of a lane's element, by pattern of type, position and step."""
        beats = Beats(self._config)
        position_bits = ceil_log2(beats.positions)
        return {kind | position << 2 | step << 2 + position_bits: (element_bytes(kind), byte)
                for kind in range(4) for position, step, of_lane, byte in beats.places(kind) if of_lane == lane}

    @staticmethod
    def _element(m: Module, name: str, where: Value, places: dict[int, tuple[int, int]], word: Value,
                 signed_bytes: Value) -> Value:
        """Return the element byte by byte: from the word, or the sign of the bytes below."""
        width = len(word) // 8
        in_word = dict(enumerate(word[8 * byte:8 * byte + 8] for byte in range(width)))
        parts = []
        for part in range(4):
            # Above the element's own bytes is its sign, which counts as another byte after those of the word.
            tops = {pattern: byte + size - 1 for pattern, (size, byte) in places.items() if size <= part}
            sign = choose_later(m, where, tops, {byte: of_word[7] for byte, of_word in in_word.items()},
                                f"{name}_sign{part}") & signed_bytes if tops else Const(0)
            parts.append(choose_later(
                m, where, {pattern: byte + part if part < size else width for pattern, (size, byte) in places.items()},
                {**in_word, width: sign.replicate(8)}, f"{name}_{part}"))
        return Cat(parts)
