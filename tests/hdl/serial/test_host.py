"""The serial machine's registers: what a reset at any time leaves, to the host and to the engine."""

import random
from typing import Any

import pytest
from amaranth import ResetInserter, Signal
from amaranth.sim import Simulator
from registers_bench import KEPT

from tq_hw.hdl.serial.encoding import WRITTEN_WORDS, Halt
from tq_hw.hdl.serial.host import WORD_OF, Host
from tq_hw.isa.config import PRESETS
from tq_hw.isa.control import MAGIC

_ERRORS = tuple(WORD_OF[f"error_{name}"] for name in ("code", "unit", "index"))
_KEPT = {WORD_OF[name]: mask for name, mask in KEPT.items()}
_CONTROL, _START, _STOP = WORD_OF["control"], 1, 2


class Engine:
    """Its copy of the registers, errors that it writes some cycles after it begins, and its end."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.copy = rng, [rng.getrandbits(32) for _ in range(WRITTEN_WORDS)]
        self.writes: list[tuple[int, int]] = []
        self.stands = True
        self.saw: list[int] = []

    def cycle(self, ctx: Any, host: Host) -> None:
        """Take what the host gives in this cycle, and set what it gives itself in the next one."""
        if ctx.get(host.write_en):
            self.copy[ctx.get(host.write_index)] = ctx.get(host.write_data)
        if ctx.get(host.restart):
            self.saw, self.stands = list(self.copy), False
            self.writes = [(word, self.rng.getrandbits(32)) for word in _ERRORS]

    def drive(self, ctx: Any, host: Host) -> dict[int, int]:
        """Return the registers that it writes in this cycle."""
        ctx.set(host.halted, not self.stands and not self.writes)
        ctx.set(host.out_en, bool(self.writes))
        if not self.writes:
            self.stands = True
            return {}
        word, value = self.writes.pop(0)
        ctx.set(host.out_index, word)
        ctx.set(host.out_data, value)
        return {word: value}


@pytest.mark.parametrize("seed", range(8))
def test_a_reset_at_any_time_clears_what_was_written(seed: int) -> None:
    """Accesses begin in the cycle after a reset, at any rate; an engine begins with the same registers as the host."""
    host, reset, rng = Host(PRESETS["serial"]), Signal(), random.Random(seed)

    async def bench(ctx: Any) -> None:
        engine, expected, starts = Engine(rng), dict.fromkeys((*_KEPT, *_ERRORS), 0), 0
        busy, goes, asked, rate = False, False, None, 1.0
        ctx.set(host.halt, Halt.DONE)
        for _ in range(3000):
            word = rng.choice((*_KEPT, *_KEPT, *_ERRORS, WORD_OF["magic"]))
            begins = rng.random() < 0.03
            word = _CONTROL if begins else word
            value = rng.choice((_START, _START, _STOP)) if begins else rng.getrandbits(32)
            writes = begins or rng.random() < 0.5 * rate
            resets = rng.random() < 0.02
            ctx.set(reset, resets)
            ctx.set(host.reg_addr, word * 4)
            ctx.set(host.reg_write_en, writes)
            ctx.set(host.reg_write_data, value)
            written = engine.drive(ctx, host)
            halts = ctx.get(host.halted)
            if asked is not None:
                assert ctx.get(host.reg_read_data) == asked
            asked = None if resets or word == _CONTROL else expected.get(word, MAGIC)
            restarts = ctx.get(host.restart)
            engine.cycle(ctx, host)
            if restarts and not resets:
                starts += 1
                assert [engine.saw[word] for word in _KEPT] == [expected[word] for word in _KEPT]
            expected |= written
            if writes and word in _KEPT and not busy:
                expected[word] = value & _KEPT[word]
            # A start while the machine works is ignored, even in its last cycle.
            counts = writes and word == _CONTROL and not (value == _START and busy and goes)
            busy, goes = (busy and not halts) or counts, value == _START if counts else goes
            await ctx.tick()
            if resets:
                expected, busy, goes, rate = dict.fromkeys(expected, 0), False, False, rng.random()
                engine.stands, engine.writes = True, []
        assert starts > 20

    simulator = Simulator(ResetInserter(reset)(host))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
