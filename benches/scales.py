"""Hold every operator at scales of 1e-30 to 1e30 against a public engine: golden model and compiled program.

Each profile is compared with its engine. Either every result is equal, or the model is refused because the engine's
result is undefined, for a reason of `UNDEFINED`. `canon` is compared with the engine that it follows for the operator.
Models are those of `model/samples/scales.py`; they are seeded, so that one can be repeated.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import TqError
from tq_hw.model.graph import PROFILES, Model
from tq_hw.model.samples.scales import SCALE_KINDS, SCALE_OPERATORS, sample_scales
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import KINDS, random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

__all__ = ["UNDEFINED", "Outcome", "Sweep", "check_sample", "main"]

#: Reasons to refuse a model that the engine runs: its behaviour is undefined in C, or reads uninitialized memory.
UNDEFINED = (
    "result is undefined", "where the engines refuse it or are undefined",
    r"is undefined( there)?; use a larger output scale",
    # A left shift of an int32 by 31 or more.
    "the kernels shift left by at most 30 bits", "the kernels are undefined", r"must be below 2\^3[01], found",
    # A shift by a negative count.
    "where the kernels shift by a negative count",
    # Conversion of a float to an integer that cannot represent it.
    "a float input must be finite and below", "must be finite, found inf")
#: Documented limits: models that the engine runs and the compiler refuses.
_LIMITS = ("no multipliers of 60 bits give LiteRT's result",
           # TFLite Micro shifts left for such scales.
           r"Keep the square of the larger input scale below 2\^12 output scales")
_CONFIGS = ("tiny", "n8", "n16")
_ENGINES = {"tflm": "tflm", "litert": "litert-ref"}


@dataclass(frozen=True)
class Outcome:
    """The result for one model.

    Members
    -------
    verdict : "equal", "refused" by the engine, too, "undefined", "limit" of the compiler, "more" than the engine
        supports (profile canon); or wrong: "differs", "refuses" a model that the engine runs, "accepts" one that it
        does not
    message : first difference, or reason of the refusal
    """

    verdict: str
    message: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict is an error."""
        return self.verdict in ("differs", "refuses", "accepts")


@dataclass
class Sweep:
    """Engines that stay open between models, and counts of the verdicts."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    oracles: dict[str, Oracle] = field(default_factory=dict)

    def __enter__(self) -> "Sweep":
        return self

    def __exit__(self, *details: object) -> None:
        for oracle in self.oracles.values():
            oracle.close()

    def check(self, op: str, kind: str, seed: int, profile: str, compiled: bool = True) -> Outcome:
        """Check a sample under a profile and count its verdict."""
        engine = _ENGINES[profile] if profile in _ENGINES else _ENGINES[
            "tflm" if op.partition(":")[0] in ("FULLY_CONNECTED", "SUM") else "litert"]
        if engine not in self.oracles:
            self.oracles[engine] = Oracle(engine, 60.0)
        found = check_sample(op, kind, seed, profile, self.oracles[engine], compiled)
        self.counts[profile, found.verdict] += 1
        return found


def input_sets(model: Model, seed: int) -> list[list[np.ndarray]]:
    """Return an input set of each kind; in the first, an input of 256 bytes has every value once, in order."""
    sets = []
    for number, kind in enumerate(KINDS):
        arrays = list(random_inputs(model, seed * 7 + number, kind))
        for position, array in enumerate(arrays):
            if number == 0 and array.dtype.itemsize == 1 and array.size == 256:
                arrays[position] = np.arange(256).astype(np.uint8).view(array.dtype).reshape(array.shape)
            if array.dtype == np.float32:
                magnitude = np.float32(10.0 ** np.random.default_rng(seed).uniform(-20, 20))
                arrays[position] = (array * magnitude).astype(np.float32)
        sets.append(arrays)
    return sets


def check_sample(op: str, kind: str, seed: int, profile: str, oracle: Oracle, compiled: bool = True) -> Outcome:
    """Compare the golden model's results for a sample, and the executor's if `compiled`, with the engine's."""
    data = sample_scales(op, kind, seed)
    sets = input_sets(parse_model(data, op, check=False), seed)
    try:
        theirs, reason = oracle.run_sets(data, sets), ""
    except TqError as error:
        theirs, reason = [], str(error)
    try:
        ours = list(_ours(data, op, seed, profile, sets, compiled))
    except TqError as error:
        if reason:
            return Outcome("refused", str(error))
        for verdict, whys in (("undefined", UNDEFINED), ("limit", _LIMITS)):
            if any(re.search(why, str(error)) for why in whys):
                return Outcome(verdict, str(error))
        return Outcome("refuses", str(error))
    if reason:
        return Outcome("more" if profile == "canon" else "accepts", reason)
    for name, number, outputs in ours:
        for got, want in zip(outputs, theirs[number], strict=True):
            # TFLite Micro returns a scalar with shape (1,).
            if got.tobytes() != want.reshape(got.shape).tobytes():
                wrong = np.argwhere(got != want.reshape(got.shape))
                return Outcome("differs", f"{name}, inputs {number} ({KINDS[number]}): {len(wrong)} of {got.size} "
                               f"elements, first at {wrong[:1].tolist()}")
    return Outcome("equal")


def _ours(data: bytes, op: str, seed: int, profile: str, sets: Sequence[Sequence[np.ndarray]],
          compiled: bool) -> Iterator[tuple[str, int, Sequence[np.ndarray]]]:
    """Yield the name of the engine, the number of the input set, and the outputs."""
    model = parse_model(data, op).under(profile)
    for number, inputs in enumerate(sets):
        yield "golden", number, run(model, inputs).outputs
    if compiled:
        config = load_config(_CONFIGS[seed % len(_CONFIGS)])
        program = compile_model(model, config).program
        # The other kinds of input add nothing to the first two.
        for number, inputs in enumerate(sets[:2]):
            yield f"executor at {config.name}", number, execute(program, inputs).outputs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sweep; exit code 1 if a verdict is an error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operators", nargs="+", choices=SCALE_OPERATORS, default=list(SCALE_OPERATORS), metavar="OP")
    parser.add_argument("--profiles", nargs="+", choices=PROFILES, default=list(PROFILES))
    parser.add_argument("--kinds", nargs="+", choices=SCALE_KINDS, default=list(SCALE_KINDS))
    parser.add_argument("--seed", type=int, default=0, help="number of the first model")
    parser.add_argument("--models", type=int, default=20, help="models by operator, kind and profile")
    parser.add_argument("--golden", action="store_true", help="the golden model alone")
    options = parser.parse_args(arguments)
    wrong, start = 0, time.monotonic()
    with Sweep() as sweep:
        for profile in options.profiles:
            for op in options.operators:
                here: Counter[str] = Counter()
                for kind in options.kinds:
                    for seed in range(options.seed, options.seed + options.models):
                        found = sweep.check(op, kind, seed, profile, not options.golden)
                        here[found.verdict] += 1
                        if found.is_wrong:
                            wrong += 1
                            print(f"{profile} {op} {kind} {seed}: {found.verdict}: {found.message}", flush=True)
                print(f"{profile} {op}: " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(here.items())),
                      flush=True)
        print(f"{sweep.counts.total()} models: {wrong} wrong, {time.monotonic() - start:.0f} s; "
              + ", ".join(f"{profile} {count} {verdict}" for (profile, verdict), count in sorted(sweep.counts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
