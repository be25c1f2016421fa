"""The path of the lanes' results through the activation lanes to the output."""

from typing import Any

from amaranth import Cat, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tq_hw.hdl.lane.activation import ActivationLane
from tq_hw.hdl.parts.delay import DelayLine, delayed
from tq_hw.hdl.vector.output import OutputLayout
from tq_hw.isa.config import Config, ConfigError
from tq_hw.isa.latency import activation_cycles

__all__ = ["ActivationUnit"]


class ActivationUnit(wiring.Component):
    """Split a beat into groups of `activation_lanes` elements, one group per cycle, and reassemble the results.

    Timing: at most a beat every `activation_steps` cycles; each leaves `activation_cycles` after it entered.

    Members
    -------
    i_valid : In(1); i_beat : In(OutputLayout), tanh : In(1), with it; x : In(lanes int32), one cycle later
    o_valid : Out(1); o_beat : Out(OutputLayout), with it; y : Out(lanes int32), one cycle later, until the next beat
    """

    i_valid: Signal
    i_beat: Any
    tanh: Signal
    x: Any
    o_valid: Signal
    o_beat: Any
    y: Any

    def __init__(self, config: Config) -> None:
        if config.activation_lanes == 0:
            raise ConfigError(f"configuration {config.name!r} has no activation_lanes")
        self._config = config
        lanes = data.ArrayLayout(signed(32), config.requantize_lanes)
        super().__init__({
            "i_valid": In(1), "i_beat": In(OutputLayout(config)), "tanh": In(1), "x": In(lanes), "o_valid": Out(1),
            "o_beat": Out(OutputLayout(config)), "y": Out(lanes),
        })

    def elaborate(self, platform: object) -> Module:
        """Shift the elements down past the activation lanes, and shift the results back in."""
        m = Module()
        config, cycles = self._config, activation_cycles(self._config)
        count = config.activation_lanes

        comes, early = delayed(m, self.i_valid, 1, "comes", control=True), delayed(m, self.tanh, 1, "tanh")
        waiting = Signal(32 * config.requantize_lanes, reset_less=True)
        tanh = Signal(reset_less=True)
        m.d.sync += waiting.eq(waiting[32 * count:])
        with m.If(comes):
            m.d.sync += [waiting.eq(self.x.as_value()), tanh.eq(early)]
        found = []
        for number in range(count):
            m.submodules[f"lane{number}"] = lane = ActivationLane()
            m.d.comb += [lane.x.eq(waiting.word_select(number, 32).as_signed()), lane.tanh.eq(tanh)]
            found.append(lane.y)

        m.submodules.place = place = DelayLine(len(self.i_beat.as_value()), cycles)
        m.d.comb += [place.i.eq(self.i_beat.as_value()), self.o_beat.as_value().eq(place.o),
                     self.o_valid.eq(delayed(m, self.i_valid, cycles, "valid", control=True))]
        together = Signal(16 * config.requantize_lanes, reset_less=True)
        kept: Any = Signal(data.ArrayLayout(signed(16), config.requantize_lanes), reset_less=True)
        whole = Cat(together[16 * count:], *found)
        m.d.sync += together.eq(whole)
        with m.If(self.o_valid):
            m.d.sync += kept.as_value().eq(whole)
        m.d.comb += [y.eq(x) for y, x in zip(self.y, kept, strict=True)]
        return m
