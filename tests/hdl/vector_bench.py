"""The vector unit and the memories around it; a scenario on it, held against the reference."""

import random
from collections import deque
from dataclasses import dataclass

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


class Bench:
    """One elaborated VectorUnit that runs scenario after scenario."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.unit = VectorUnit(config)
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
        scenario, unit, config = self.scenario, self.unit, self.config
        assert scenario is not None
        rng = random.Random(scenario.seed + 1)
        memory = [bytearray(word) for word in scenario.memory]
        out = Outcome(memory, 0, [], [], 0, 0, 0)
        self.outcome = out

        for number, uop in enumerate(scenario.uops):
            for word, register in enumerate(UOP):
                ctx.set(unit.table.en, 1)
                ctx.set(unit.table.index, 4 * number + word)
                ctx.set(unit.table.data, pack(register, uop))
                await ctx.tick()
        ctx.set(unit.table.en, 0)

        ports = {"a": unit.a, "b": unit.b}
        pending: dict[str, deque[tuple[int, int]]] = {"a": deque(), "b": deque(), "acc": deque()}
        written: deque[tuple[int, int, bytes, int]] = deque()
        accs, acc_ready = deque(scenario.accs), scenario.acc_cycles
        todo, wait = deque(scenario.operations), 0
        cycle = 0
        taken = 1
        grant_probability = 1 - scenario.refuse
        while len(out.done) < len(scenario.operations):
            # Writes of two cycles ago are in the memory; those of the last cycle are not, and not the old bytes either.
            while written and written[0][0] <= cycle - 2:
                _, address, data, mask = written.popleft()
                for byte in range(config.word_bytes):
                    if mask >> byte & 1:
                        memory[address][byte] = data[byte]
            for name, queue in pending.items():
                while queue and queue[0][0] == cycle:
                    ctx.set(ports[name].data if name != "acc" else unit.acc.data, queue.popleft()[1])

            if taken or not ctx.get(unit.i.valid):
                offered = bool(todo and wait <= 0)
                if offered:
                    ctx.set(unit.i.payload, todo[0])
                ctx.set(unit.i.valid, offered)
            ctx.set(unit.acc.full, bool(accs) and cycle >= acc_ready)

            for name, port in ports.items():
                granted = ctx.get(port.en) and rng.random() < grant_probability
                ctx.set(port.taken, 0 if granted else 15)
                address = ctx.get(port.addr)
                assert ctx.get(port.wants) == (1 << address % 4 if ctx.get(port.en) else 0)
                if granted:
                    assert address < config.scratchpad_words, f"read of word {address}"
                    word = int.from_bytes(memory[address], "little")
                    if any(entry[1] == address for entry in written):
                        word = rng.getrandbits(8 * config.word_bytes)
                    pending[name].append((cycle + READ_LATENCY_CYCLES, word))
            granted = ctx.get(unit.acc.en) and rng.random() < grant_probability
            ctx.set(unit.acc.grant, granted)
            if granted:
                assert ctx.get(unit.acc.full), "accumulators are read before they are full"
                values = accs[0][ctx.get(unit.acc.word)]
                word = sum((v % (1 << 32)) << 32 * i for i, v in enumerate(values))
                pending["acc"].append((cycle + ACC_READ_LATENCY_CYCLES, word))
            ctx.set(unit.out.grant, 1)
            if ctx.get(unit.out.en):
                address = ctx.get(unit.out.addr)
                assert address < config.scratchpad_words, f"write of word {address}"
                out.writes.append(cycle)
                written.append((cycle, address, ctx.get(unit.out.data).to_bytes(config.word_bytes, "little"),
                                ctx.get(unit.out.mask)))
            if ctx.get(unit.acc.release):
                accs.popleft()
                acc_ready = cycle + 1 + scenario.acc_cycles
            taken = ctx.get(unit.i.valid) and ctx.get(unit.i.ready)
            if taken:
                todo.popleft()
                wait = scenario.gap_cycles
            else:
                wait -= 1
            if ctx.get(unit.done):
                out.done.append(cycle)
            out.stall_acc += ctx.get(unit.stall_acc)
            out.stall_port += ctx.get(unit.stall_port)
            out.error = ctx.get(unit.error)
            if out.error:
                break
            assert cycle < self.limit, f"no end after {cycle} cycles, {len(out.done)} operations done"
            await ctx.tick()
            cycle += 1
        for _, address, data, mask in written:
            for byte in range(config.word_bytes):
                if mask >> byte & 1:
                    memory[address][byte] = data[byte]
        out.cycles = cycle
        if not out.error:
            assert not accs, "accumulator buffers are left"
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
