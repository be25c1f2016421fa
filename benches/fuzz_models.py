"""Feed broken models to the reader, the rules and the compiler: each must end in a program or in one clear message.

There are two kinds of seeded mutation. One changes bytes at the offsets that the reader reads (offsets, vtables,
lengths, scalars). The other changes records of the graph (shapes, types, quantization, options, operators), which are
written as a new file. An exception other than `TqError`, too much time or memory, or an unclear message is a finding;
its file is kept.
"""

import argparse
import sys
import time
from pathlib import Path

from findings import Rng, hunt, limited_memory, unclean, watched
from model_mutations import Sites, mutate_bytes, mutate_graph, sites_of

from tq_hw.compiler import compile_model
from tq_hw.compiler.stream.stream import MOST_COMMANDS
from tq_hw.isa.config import Config, load_config
from tq_hw.model.errors import TqError
from tq_hw.model.samples.layers import KINDS, sample
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model

__all__ = ["check_one", "main"]

_MESSAGE_LIMIT = 2000
#: Compile time allowed per command, in seconds.
_COMMAND_SECONDS = 0.002


def check_one(data: bytes, config: Config, seconds: float = 2.0) -> str:
    """Return "compiled" or the class of a clean refusal; raise AssertionError in all other cases.

    `seconds` is the time limit of a model. Each of its commands adds to it.
    """
    began = time.process_time()
    with watched(seconds + MOST_COMMANDS * _COMMAND_SECONDS), unclean():
        try:
            compiled = compile_model(parse_model(data, "fuzz.tflite"), config)
        except TqError as error:
            said = str(error)
            assert said.strip() and "\n" not in said and len(said) <= _MESSAGE_LIMIT, f"message {said[:200]!r}"
            return type(error).__name__
    seconds += len(compiled.emitter.stream.operations) * _COMMAND_SECONDS
    if time.process_time() - began > seconds:
        raise AssertionError(f"more than {seconds:g} s of CPU time")
    return "compiled"


def _seeds(folders: list[Path], most_bytes: int) -> list[bytes]:
    seeds = [write_model(sample(kind, seed)) for kind in KINDS for seed in range(4)]
    for folder in folders:
        seeds += [path.read_bytes() for path in sorted(folder.rglob("*.tflite"))
                  if path.is_file() and path.stat().st_size <= most_bytes and "malformed" not in path.parts]
    return seeds


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer; exit code 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first input (the seed of its mutation)")
    parser.add_argument("--config", default="n16")
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU time of one input, plus 2 ms a command")
    parser.add_argument("--megabytes", type=int, default=4000, help="memory allowed above what is used at the start")
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="folders of models besides the samples")
    parser.add_argument("--most-bytes", type=int, default=32 << 10, help="larger models are left out")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for what is found")
    options = parser.parse_args(arguments)
    config, seeds = load_config(options.config), _seeds(options.models, options.most_bytes)
    models = [parse_model(data, "seed") for data in seeds]
    sites: list[Sites | None] = [None] * len(seeds)

    def make(rng: Rng) -> bytes:
        which = int(rng.integers(len(seeds)))
        if rng.random() < 0.5:
            sites[which] = places = sites[which] or sites_of(seeds[which])
            return mutate_bytes(rng, seeds[which], places)
        return mutate_graph(rng, models[which])

    def check(data: bytes, _: Rng) -> str:
        return check_one(data, config, options.seconds) if data else "not written"

    with limited_memory(options.megabytes << 20):
        return int(hunt(options.first, options.inputs, make, check, options.keep, ".tflite") > 0)


if __name__ == "__main__":
    sys.exit(main())
