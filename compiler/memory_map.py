"""The memory map for reports: the contents of each memory, and the RUNs that access them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.compile import Compiled
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import REGION_ARENA, REGION_IMAGE, REGION_STATE

__all__ = ["MEMORIES", "Tenant", "memory_map", "peak_words"]

#: Names of the memories; the scratchpad is addressed in words, the others in bytes.
SCRATCHPAD = "scratchpad"
_REGIONS = {REGION_IMAGE: "image", REGION_ARENA: "arena", REGION_STATE: "state"}
MEMORIES = (SCRATCHPAD, *_REGIONS.values())


@dataclass(frozen=True)
class Tenant:
    """An owner of a range of a memory for some time.

    Members
    -------
    memory : one of MEMORIES
    kind : "tensor"; "rolling" (the rows of a tensor that are needed), "strip" (a rectangle of one) or "constants"
        (weights, parameters, tables) in the scratchpad; "commands" in the image
    name : of the tensor, or of the operator that the constants or intermediate values belong to
    low, high : words or bytes [low, high)
    runs : first and last RUN of each unit that access it; empty if none does
    """

    memory: str
    kind: str
    name: str
    low: int
    high: int
    runs: Mapping[Unit, tuple[int, int]]


class _Collector:
    """Tenants, collected from the operations in program order."""

    def __init__(self) -> None:
        self.tenants: list[Tenant] = []
        self._runs: list[dict[Unit, tuple[int, int]]] = []

    def add(self, memory: str, kind: str, name: str, low: int, high: int) -> int:
        """Add a tenant; return its number."""
        self._runs.append({})
        self.tenants.append(Tenant(memory, kind, name, low, high, self._runs[-1]))
        return len(self.tenants) - 1

    def touch(self, number: int, unit: Unit, run: int, low: int, high: int) -> None:
        """Record that a RUN accesses a range of a tenant, and extend the tenant to it."""
        first, _ = self._runs[number].get(unit, (run, run))
        self._runs[number][unit] = (first, run)
        old = self.tenants[number]
        if low < old.low or high > old.high:
            self.tenants[number] = Tenant(old.memory, old.kind, old.name, min(low, old.low), max(high, old.high),
                                          self._runs[number])


def memory_map(compiled: Compiled) -> tuple[Tenant, ...]:
    """Return all tenants in the order of their first access; those of the image come first."""
    collector = _Collector()
    program, emitter = compiled.program, compiled.emitter
    end = program.command_offset + program.command_bytes
    collector.add("image", "commands", "", program.command_offset, end)
    collector.add("image", "constants", "", 0, program.command_offset)
    places: dict[str, list[tuple[int, int, int, tuple[int, int]]]] = {}
    for name, region, offset, size, life in emitter.places():
        memory = _REGIONS[region]
        number = collector.add(memory, "tensor", name, offset, offset + size)
        places.setdefault(f"region{region}", []).append((offset, offset + size, number, life))
    buffers: dict[int, int] = {}
    owners = np.full(program.config.scratchpad_words, -1, np.int64)
    runs = dict.fromkeys(emitter.stream.by_unit, 0)
    for operation in emitter.stream.operations:
        run = runs[operation.unit]
        runs[operation.unit] += 1
        for access, written in [*((a, False) for a in operation.reads), *((a, True) for a in operation.writes)]:
            if access.low >= access.high:
                continue
            if access.space != "pad":
                for low, high, number, (first, last) in places.get(access.space, ()):
                    if first <= operation.layer <= last and low < access.high and access.low < high:
                        collector.touch(number, operation.unit, run, max(low, access.low), min(high, access.high))
                continue
            if access.buffer >= 0:
                if access.buffer not in buffers:
                    name, what = emitter.buffers[access.buffer]
                    buffers[access.buffer] = collector.add(SCRATCHPAD, what, name, access.low, access.high)
                found = [buffers[access.buffer]]
                owners[access.low:access.high] = found[0]
            elif written:
                layer = emitter.graph.layers[operation.layer]
                constant = operation.unit is Unit.LOAD and operation.fields.get("region") == REGION_IMAGE
                found = [collector.add(SCRATCHPAD, "constants" if constant else "strip", f"{layer.index} {layer.op}",
                                       access.low, access.high)]
                owners[access.low:access.high] = found[0]
            else:
                found = [int(number) for number in np.unique(owners[access.low:access.high]) if number >= 0]
            for number in found:
                low, high = access.low, access.high
                if access.buffer < 0 and not written:
                    low, high = collector.tenants[number].low, collector.tenants[number].high
                collector.touch(number, operation.unit, run, low, high)
    return tuple(collector.tenants)


def peak_words(tenants: Sequence[Tenant], timeline: Mapping[Unit, npt.NDArray[Any]]) -> int:
    """Return the most scratchpad words with a tenant at the same time; a tenant stays from its first RUN to its last.

    A word with two tenants at once counts once, such as where one's first RUN waits for the other's last.
    """
    steps: list[tuple[int, int, int, int]] = []
    for tenant in tenants:
        if tenant.memory == SCRATCHPAD and tenant.runs:
            begin = min(int(timeline[unit][first, 0]) for unit, (first, _) in tenant.runs.items())
            end = max(int(timeline[unit][last, 1]) for unit, (_, last) in tenant.runs.items())
            steps += [(begin, 1, tenant.low, tenant.high), (end, -1, tenant.low, tenant.high)]
    tenancies = np.zeros(max((high for *_, high in steps), default=0), np.int32)
    most = now = 0
    # A tenant that ends in a cycle frees its words for one that begins in it.
    for _, change, low, high in sorted(steps):
        words = tenancies[low:high]
        words += change
        now += change * int(np.count_nonzero(words == max(change, 0)))
        most = max(most, now)
    return most
