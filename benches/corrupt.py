"""Command streams with words changed, on the RTL and in the executor: `python benches/corrupt.py --help`.

The streams are compiled samples of all kinds and random streams. One or two words of a stream's commands are changed at
a time. RTL and executor must end in the same status of the same unit and RUN, or with the same memory. Exit code 1 if
any differs.
"""

import argparse
import itertools
import sys
import time
from collections import Counter
from functools import cache

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.program import Program
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.samples.layers import KINDS, sample
from tq_hw.sim.corruption import check, corrupted
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.random_streams import random_program

__all__ = ["main", "program_of"]

#: Longer streams take too long for thousands of runs.
_MOST_BYTES = 8_000
_SAMPLES = 3
_RANDOM = 12


@cache
def program_of(config_name: str, number: int) -> Program | None:
    """Return a program to change, by number; None if it is not supported by the configuration, or too long."""
    config = load_config(config_name)
    if number >= _SAMPLES * len(KINDS):
        return random_program(config, number)
    try:
        program = compile_model(sample(list(KINDS)[number % len(KINDS)], number // len(KINDS)), config).program
    except UnsupportedError:
        return None
    return program if program.command_bytes <= _MOST_BYTES else None


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; exit code 1 if there is a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="streams that are compared")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--config", default="tiny")
    options = parser.parse_args(arguments)
    found: Counter[str] = Counter()
    seed, compared, began = options.first, 0, time.monotonic()
    for seed in itertools.count(options.first):
        if compared == options.count:
            break
        program = program_of(options.config, seed % (_SAMPLES * len(KINDS) + _RANDOM))
        if program is None:
            continue
        verdict = check(corrupted(program, seed, 1 + seed % 2), random_inputs(program, 1), seed)
        found[f"{verdict.kind}: {verdict.end}" + f", {verdict.about}" * (verdict.kind == "same")] += 1
        compared += verdict.kind in ("same", "different")
        if verdict.kind == "different":
            print(f"seed {seed}, {program.name}: {verdict.end}; {verdict.about}", flush=True)
        if seed % 500 == 0:
            print(f"{compared} compared, {time.monotonic() - began:.0f} s", flush=True)
    for text, count in sorted(found.items()):
        print(f"{count:7} {text}")
    different, undefined = (sum(count for text, count in found.items() if text.startswith(kind))
                            for kind in ("different", "undefined"))
    print(f"{options.config}, seeds {options.first} to {seed - 1}: {compared} streams compared, {different} "
          f"disagreements; {undefined} more are undefined")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
