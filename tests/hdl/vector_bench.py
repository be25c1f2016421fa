"""The vector unit and the memories around it; a scenario on it, held against the reference."""

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

from amaranth.sim import Simulator, SimulatorContext
from vector_reference import Scenario

from tq_hw.hdl.vector.unit import VectorUnit
from tq_hw.isa.config import Config
from tq_hw.isa.encode import pack
from tq_hw.isa.latency import ACC_READ_LATENCY_CYCLES, READ_LATENCY_CYCLES
from tq_hw.isa.uop import UOP


@dataclass
class Outcome:
    """What the RTL did."""

    memory: list[bytearray]
    cycles: int
    #: cycle of each `done`, cycle of each write, and all strobes counted
    done: list[int]
    writes: list[int]
    stall_acc: int
    stall_port: int
    error: int


class Run:
    """One scenario on the unit, cycle by cycle."""

    def __init__(self, unit: Any, scenario: Scenario) -> None:
        self.unit, self.scenario, self.config = unit, scenario, scenario.config
        self.rng = random.Random(scenario.seed + 1)
        self.memory = [bytearray(word) for word in scenario.memory]
        self.outcome = Outcome(self.memory, 0, [], [], 0, 0, 0)
        self.cycle = 0
        #: by port, the cycle in which a word is there, and the word
        self.pending: dict[str, deque[tuple[int, int]]] = {"a": deque(), "b": deque(), "acc": deque()}
        #: cycle, address, data and mask of what is written, but not in the memory yet
        self.written: deque[tuple[int, int, bytes, int]] = deque()
        self.accs, self.acc_ready = deque(scenario.accs), scenario.acc_cycles
        self.todo, self.wait, self.taken = deque(scenario.operations), 0, True

    def give(self, ctx: SimulatorContext) -> None:
        """Set what the unit sees at the begin of a cycle: words that it read, an operation, a full buffer."""
        unit = self.unit
        # Writes of two cycles ago are in the memory; those of the last cycle are not, and not the old bytes either.
        while self.written and self.written[0][0] <= self.cycle - 2:
            self.keep(*self.written.popleft()[1:])
        for name, queue in self.pending.items():
            while queue and queue[0][0] == self.cycle:
                ctx.set(getattr(unit, name).data, queue.popleft()[1])
        if self.taken or not ctx.get(unit.i.valid):
            offered = bool(self.todo and self.wait <= 0)
            if offered:
                ctx.set(unit.i.payload, self.todo[0])
            ctx.set(unit.i.valid, offered)
        ctx.set(unit.acc.full, bool(self.accs) and self.cycle >= self.acc_ready)

    def keep(self, address: int, data: bytes, mask: int) -> None:
        for byte in range(self.config.word_bytes):
            if mask >> byte & 1:
                self.memory[address][byte] = data[byte]

    def read(self, ctx: SimulatorContext) -> None:
        """Grant reads, or refuse them by chance, and note when their words are there."""
        unit, config, rng, probability = self.unit, self.config, self.rng, 1 - self.scenario.refuse
        for name, port in (("a", unit.a), ("b", unit.b)):
            granted = ctx.get(port.en) and rng.random() < probability
            ctx.set(port.taken, 0 if granted else 15)
            address = ctx.get(port.addr)
            assert ctx.get(port.wants) == (1 << address % 4 if ctx.get(port.en) else 0)
            if granted:
                assert address < config.scratchpad_words, f"read of word {address}"
                word = int.from_bytes(self.memory[address], "little")
                if any(entry[1] == address for entry in self.written):
                    word = rng.getrandbits(8 * config.word_bytes)
                self.pending[name].append((self.cycle + READ_LATENCY_CYCLES, word))
        granted = ctx.get(unit.acc.en) and rng.random() < probability
        ctx.set(unit.acc.grant, granted)
        if granted:
            assert ctx.get(unit.acc.full), "accumulators are read before they are full"
            values = self.accs[0][ctx.get(unit.acc.word)]
            word = sum((v % (1 << 32)) << 32 * i for i, v in enumerate(values))
            self.pending["acc"].append((self.cycle + ACC_READ_LATENCY_CYCLES, word))

    def write(self, ctx: SimulatorContext) -> None:
        unit, config = self.unit, self.config
        ctx.set(unit.out.grant, 1)
        if ctx.get(unit.out.en):
            address = ctx.get(unit.out.addr)
            assert address < config.scratchpad_words, f"write of word {address}"
            self.outcome.writes.append(self.cycle)
            self.written.append((self.cycle, address, ctx.get(unit.out.data).to_bytes(config.word_bytes, "little"),
                                 ctx.get(unit.out.mask)))

    def note(self, ctx: SimulatorContext) -> None:
        """Note this cycle's released buffer, accepted and ended operations, stall counters and error."""
        unit, out = self.unit, self.outcome
        if ctx.get(unit.acc.release):
            self.accs.popleft()
            self.acc_ready = self.cycle + 1 + self.scenario.acc_cycles
        self.taken = bool(ctx.get(unit.i.valid) and ctx.get(unit.i.ready))
        if self.taken:
            self.todo.popleft()
            self.wait = self.scenario.gap_cycles
        else:
            self.wait -= 1
        if ctx.get(unit.done):
            out.done.append(self.cycle)
        out.stall_acc += ctx.get(unit.stall_acc)
        out.stall_port += ctx.get(unit.stall_port)
        out.error = ctx.get(unit.error)


class Bench:
    """One elaborated VectorUnit that runs scenario after scenario."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.unit: Any = VectorUnit(config)
        self.scenario: Scenario | None = None
        self.ran = False
        self.sim = Simulator(self.unit)
        self.sim.add_clock(1e-8)
        self.sim.add_testbench(self._bench)

    def run(self, scenario: Scenario, limit_cycles: int = 20000) -> Outcome:
        self.scenario, self.limit = scenario, limit_cycles
        if self.ran:
            self.sim.reset()
        self.ran = True
        self.sim.run()
        return self.outcome

    async def _bench(self, ctx: SimulatorContext) -> None:
        scenario, unit = self.scenario, self.unit
        assert scenario is not None
        for number, uop in enumerate(scenario.uops):
            for word, register in enumerate(UOP):
                ctx.set(unit.table.en, 1)
                ctx.set(unit.table.index, 4 * number + word)
                ctx.set(unit.table.data, pack(register, uop))
                await ctx.tick()
        ctx.set(unit.table.en, 0)

        run = Run(unit, scenario)
        self.outcome = out = run.outcome
        while len(out.done) < len(scenario.operations):
            run.give(ctx)
            run.read(ctx)
            run.write(ctx)
            run.note(ctx)
            if out.error:
                break
            assert run.cycle < self.limit, f"no end after {run.cycle} cycles, {len(out.done)} operations done"
            await ctx.tick()
            run.cycle += 1
        for _, address, data, mask in run.written:
            run.keep(address, data, mask)
        out.cycles = run.cycle
        if not out.error:
            assert not run.accs, "accumulator buffers are left"
            await ctx.tick()
            assert ctx.get(unit.idle), "all operations are done, the unit is not idle"


_BENCHES: dict[str, Bench] = {}


def run(scenario: Scenario, limit_cycles: int = 20000) -> Outcome:
    """Run a scenario on the RTL."""
    if scenario.config.name not in _BENCHES:
        _BENCHES[scenario.config.name] = Bench(scenario.config)
    return _BENCHES[scenario.config.name].run(scenario, limit_cycles)


def check(scenario: Scenario) -> Outcome:
    """Run a scenario and compare every byte of the scratchpad."""
    outcome = run(scenario)
    assert outcome.error == 0
    expected = scenario.expected()
    wrong = [i for i, (found, wanted) in enumerate(zip(outcome.memory, expected, strict=True)) if found != wanted]
    if wrong:
        at = wrong[0]
        raise AssertionError(f"{len(wrong)} words differ, first word {at}: {outcome.memory[at].hex()}, "
                             f"expected {expected[at].hex()}; all: {wrong[:20]}")
    return outcome
