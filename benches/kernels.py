"""Ask the public engines and the compiler about each operator on each type of integers.

Operators that an engine computes and the compiler refuses are listed with the reason; they are the next ones to
support. Operators that the compiler supports run on the executor and must equal an engine that has the kernel.
Supported or not, no error but a refusal by name may occur.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from kernel_forms import FORMS, TYPES, built

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.errors import TqError
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.oracles import Oracle

__all__ = ["ENGINES", "Answer", "ask", "main"]

ENGINES = ("litert-ref", "tflm")


@dataclass(frozen=True)
class Answer:
    """The result for a form on a data type.

    Members
    -------
    verdict : "equal" to an engine, "refused" though an engine computes it, "neither" computes it, "more" than the
        engines; or wrong: "differs" from all engines that compute it, "crash"
    engines : those that compute it
    message : the reason of a refusal, or what is wrong
    """

    verdict: str
    engines: tuple[str, ...] = ()
    message: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict is an error."""
        return self.verdict in ("differs", "crash")


def ask(name: str, dtype: str, oracles: Mapping[str, Oracle]) -> Answer:
    """Ask the engines, then the compiler and the executor, about a form of `FORMS` with data of a type."""
    data, inputs = built(name, dtype)
    theirs = {}
    for engine, oracle in oracles.items():
        try:
            theirs[engine] = oracle.run(data, inputs)
        except TqError:
            continue
    engines = tuple(theirs)
    try:
        program = compile_model(parse_model(data, name), load_config("n8")).program
        ours = execute(program, inputs).outputs
    except TqError as error:
        return Answer("refused" if theirs else "neither", engines, str(error))
    except Exception as error:
        return Answer("crash", engines, f"{type(error).__name__}: {error}")
    if not theirs:
        return Answer("more")
    # TFLite Micro returns a scalar with shape (1,).
    if any(all(np.array_equal(a, b.reshape(a.shape)) for a, b in zip(ours, outputs, strict=True))
           for outputs in theirs.values()):
        return Answer("equal", engines)
    return Answer("differs", engines, "no engine has these results")


def main(arguments: Sequence[str] | None = None) -> int:
    """List the refusals; exit code 1 if a verdict is an error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operators", nargs="+", choices=FORMS, default=list(FORMS), metavar="OP")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    wrong = 0
    with ExitStack() as stack:
        oracles = {engine: stack.enter_context(Oracle(engine, 60.0)) for engine in ENGINES}
        for name in options.operators:
            for dtype in options.types:
                answer = ask(name, dtype, oracles)
                counts[answer.verdict] += 1
                wrong += answer.is_wrong
                if answer.is_wrong or answer.verdict == "refused":
                    print(f"{answer.verdict} {name} {dtype} ({', '.join(answer.engines)}): {answer.message}")
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
