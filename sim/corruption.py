"""Corrupted programs: change command words, and compare the RTL with the outcomes that a survey allows.

`check` compares how a run ends: status, unit and RUN of an error, or all known memory contents after a run without
one. Programs that would run too long, and those that the survey calls unclear, are not compared. Of programs with
races and the like, only the end is compared. If results are undefined, the verdict is "undefined", not agreement.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.control import STATUS_DONE, STATUS_ERROR, Status
from tq_hw.isa.encode import WORD_BYTES
from tq_hw.isa.layout import Unit
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.isa.sizes import ceil_div
from tq_hw.sim import edges
from tq_hw.sim.executor.survey import End, Outcome, survey
from tq_hw.sim.rtl.bench import Bench
from tq_hw.sim.rtl.bound import cycle_bound
from tq_hw.sim.rtl.build import library

__all__ = ["Verdict", "check", "corrupted"]

Array = npt.NDArray[Any]
#: Byte addresses of image, arena and state: their distances are not sums of a few powers of two.
_BASES = (0x13579BD0, 0x5CA1AB10, 0x9BADBEE0)
#: Longest run that is compared, in cycles; the serial machine takes a hundred times as many.
_LONGEST_CYCLES = {"parallel": 300_000, "serial": 15_000_000}
_MEMORY = Memory(latency_cycles=20)
#: Cycles without progress after which the machine stops. Far longer than any wait of these memories, and than a
#: corrupted operation's walk over columns far outside its image, during which nothing is read.
_WATCHDOG_CYCLES = {"parallel": 100_000, "serial": 100_000}
_BOUNDARIES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF,
               0x80000000, 0xFFFFFFFF)


@dataclass(frozen=True)
class Verdict:
    """Result for one program.

    Members
    -------
    kind : "same", "different", "not compared", or "undefined": it ended as expected, but its results are undefined
    end : how the RTL's run ended, or why nothing was compared
    about : what was compared, what differs, or what makes results undefined
    """

    kind: str
    end: str
    about: str = ""


def corrupted(program: Program, seed: int, words: int = 1) -> Program:
    """Return the program with `words` words of its commands changed."""
    rng = random.Random(seed)
    commands = bytearray(program.commands)
    for place in rng.sample(range(len(commands) // WORD_BYTES), words):
        at = WORD_BYTES * place
        old = int.from_bytes(commands[at:at + WORD_BYTES], "little")
        new = old
        while new == old:
            new = _changed(old, rng)
        commands[at:at + WORD_BYTES] = new.to_bytes(WORD_BYTES, "little")
    image = bytearray(program.image)
    image[program.command_offset:program.command_offset + program.command_bytes] = commands
    return replace(program, image=bytes(image))


def _changed(word: int, rng: random.Random) -> int:
    """Flip a bit, or change a half, a byte or the whole word."""
    choice = rng.random()
    if choice < 0.4:
        return word ^ 1 << rng.randrange(32)
    if choice < 0.5:
        return rng.getrandbits(32)
    bits = rng.choice((8, 16, 32))
    shift = rng.randrange(0, 32, bits)
    mask = (1 << bits) - 1
    part = word >> shift & mask
    part = rng.choice(_BOUNDARIES) if rng.random() < 0.6 else part + rng.choice((-2, -1, 1, 2))
    return word & ~(mask << shift) | (part & mask) << shift


def check(program: Program, inputs: Sequence[Array], seed: int) -> Verdict:
    """Survey a program, run it on the RTL, and compare; `seed` draws the initial contents of the arena."""
    program = _whole_beats(program)
    design = program.config.design
    if cycle_bound(program, _MEMORY) > _LONGEST_CYCLES[design]:
        return Verdict("not compared", "it would take too long")
    arena = random.Random(seed).randbytes(program.arena_bytes)
    outcome = survey(program, inputs, arena)
    if outcome.unclear:
        return Verdict("not compared", outcome.unclear)
    with Bench(library(program.config), _MEMORY) as bench:
        ended = _run(program, inputs, arena, bench)
        if not isinstance(ended, str):
            same = ended in outcome.ends or ended in outcome.possible
            about = "one of several possible ends" if len(outcome.ends | outcome.possible) > 1 else "the end"
            return Verdict("same", ended.status.name, about) if same else _different(str(ended), outcome)
        if ended != "done" or outcome.ends:
            return _different(ended, outcome)
        verdict = _compare_memory(bench, outcome)
        if verdict.kind == "same" and outcome.undefined:
            return Verdict("undefined", "done", outcome.undefined)
        return verdict


def _whole_beats(program: Program) -> Program:
    """Return the program with regions of whole beats: memory checks its bounds by beat, the executor by byte."""
    def whole(size: int) -> int:
        return ceil_div(size, 16) * 16
    return replace(program, image=program.image.ljust(whole(len(program.image)), b"\0"),
                   arena_bytes=whole(program.arena_bytes), state=program.state.ljust(whole(len(program.state)), b"\0"))


def _run(program: Program, inputs: Sequence[Array], arena: bytes, bench: Bench) -> End | str:
    """Run; return the error, "done", or another outcome."""
    for number, (base, contents) in enumerate(zip(_BASES, (program.image, arena, program.state), strict=True)):
        bench.map(base, contents)
        bench.write_register(f"base{number}", base)
    for port, array in zip(program.inputs, inputs, strict=True):
        bench.write(_BASES[port.region] + port.region_offset_bytes, edges.to_port(port, array))
    for name, value in (("command_offset", program.command_offset), ("command_bytes", program.command_bytes),
                        ("watchdog", _WATCHDOG_CYCLES[program.config.design]), ("control", 1)):
        bench.write_register(name, value)
    if not bench.run(2 * _LONGEST_CYCLES[program.config.design]):
        return "no end"
    status = bench.read_register("status")
    if status == STATUS_DONE:
        return "done"
    if status != STATUS_ERROR:
        return f"status {status:#x}"
    code, unit, run = (bench.read_register(name) for name in ("error_code", "error_unit", "error_index"))
    if code not in list(Status) or unit not in list(Unit):
        return f"error code {code} of unit {unit}"
    return End(Status(code), Unit(unit), run)


def _compare_memory(bench: Bench, outcome: Outcome) -> Verdict:
    if outcome.why:
        return Verdict("same", "done", f"the end only: {outcome.why.partition(':')[0]}")
    for region, base in enumerate(_BASES):
        expected, unknown = outcome.memory[region], outcome.unknown[region]
        found = np.frombuffer(bench.read(base, expected.size), np.uint8)
        wrong = np.flatnonzero((found != expected) & ~unknown)
        if len(wrong):
            return Verdict("different", "done", f"byte {wrong[0]} of region {region} and {len(wrong) - 1} others")
    return Verdict("same", "done", "memory")


def _different(found: str, outcome: Outcome) -> Verdict:
    expected = " or ".join(map(str, sorted(outcome.ends))) or "done"
    return Verdict("different", found, f"expected {expected}" + "".join(f", possibly {end}" for end in sorted(
        outcome.possible)))
