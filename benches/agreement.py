"""Compare a compiled model with the golden model: all outputs of cold and warm inferences, with states."""

import importlib
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.warm import warm_program
from tq_hw.isa.config import Config, ConfigError
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import ToolError, UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import SimulationError, execute
from tq_hw.sim.golden.profiles import check_profile
from tq_hw.sim.golden.run import run
from tq_hw.sim.golden.state import State
from tq_hw.sim.oracles import Oracle
from tq_hw.sim.rtl.simulate import simulate_in_turn

__all__ = ["Difference", "Refused", "check_model", "check_oracle", "input_sets", "random_config"]

_KINDS = ("mix", "min", "mix", "max", "mix", "zero_point")
#: Longer command streams run only one inference, which takes as long as many small graphs.
_LONG_BYTES = 12_000
_search: Any = importlib.import_module("tq_hw.compiler.search")


class Difference(Exception):
    """A model's outputs on an engine differ from the golden model's. The message says what differs, where and when."""


class Refused(Exception):
    """The compiler refuses the model. The message is its reason."""


def random_config(seed: int) -> Config:
    """Return a legal configuration with unusual sizes and small memories. A seed always gives the same one."""
    rng = np.random.default_rng([17, seed])
    while True:
        cols = int(rng.choice((2, 3, 4, 5, 6, 7, 8, 9, 12, 16)))
        lanes = int(rng.choice([n for n in range(1, cols + 1) if cols % n == 0]))
        buffers = int(rng.choice((2, 4)))
        fields = {
            "rows": int(rng.choice((3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 18))), "cols": cols, "requantize_lanes": lanes,
            "acc_words": int(rng.choice((16, 16, 32, 64, 128))), "acc_buffers": buffers,
            "acc_open": int(rng.choice((0, buffers))), "bus_bytes": int(rng.choice((4, 8, 16))),
            "fold_steps": int(rng.choice((1, 2, 4, 8, 16))), "vector_words": int(rng.choice((128, 256, 512, 1024))),
            "activation_lanes": int(rng.choice([0, *(n for n in range(1, lanes + 1) if lanes % n == 0)])),
            "compressed_weights": seed // 2 % 2}
        words = int(rng.choice((512, 1024, 2048, 4096)))
        try:
            size = Config.from_mapping({**fields, "scratchpad_bytes": 64 << 10}, "probe").word_bytes
            return Config.from_mapping({**fields, "scratchpad_bytes": words * size}, f"random{seed}")
        except ConfigError:
            continue


def input_sets(model: Model, seed: int, sets: int) -> list[tuple[np.ndarray, ...]]:
    """Return seeded inputs: a random set first, then sets of extremes, of zero points, and of both."""
    kinds = ["random", *(_KINDS[(seed + number) % len(_KINDS)] for number in range(sets - 1))]
    return [random_inputs(model, seed * 10 + number, kind) for number, kind in enumerate(kinds)]


def _compiled(model: Model, config: Config, trials: bool) -> Compiled:
    # Without trials a schedule is just as legal, and takes a third of the time.
    with nullcontext() if trials else mock.patch.object(_search, "_OPERATIONS", 0):
        try:
            return compile_model(model, config)
        except UnsupportedError as error:
            raise Refused(str(error)) from None


def check_model(model: Model, config: Config, seed: int = 0, sets: int = 2, engine: str = "executor",
                trials: bool = True) -> None:
    """Compare every output of consecutive inferences, from the initial state, with the golden model.

    The first inference is cold; the later ones are warm and continue its state. On the executor, `seed` draws undefined
    bytes and the order of the units, races are detected, and a long program runs once. On the RTL a cold and a warm
    inference run with the same inputs; odd seeds add random memory stalls. Without `trials` the compiler takes its
    first schedule.

    Raises Difference, or Refused if the compiler refuses the model.
    """
    compiled = _compiled(model, config, trials)
    try:
        if engine == "rtl":
            _check_rtl(compiled, model, seed)
        else:
            _check_executor(compiled, model, seed, sets)
    except SimulationError as error:
        raise Difference(str(error)) from error


def _check_executor(compiled: Compiled, model: Model, seed: int, sets: int) -> None:
    program = compiled.program
    golden: State | None = None
    state: bytes | None = None
    scratchpad: np.ndarray | None = None
    if program.command_bytes > _LONG_BYTES:
        sets = 1
    for number, inputs in enumerate(input_sets(model, seed, sets)):
        want = run(model, inputs, golden)
        found = execute(program, inputs, seed=(seed + number) % 16, check_races=True, keep=True, state=state,
                        scratchpad=scratchpad)
        _compare(found.outputs, want.outputs, f"inference {number}")
        golden, state, scratchpad = want.state, found.state, found.scratchpad
        if number == 0 and sets > 1:
            program = warm_program(compiled)


def _check_rtl(compiled: Compiled, model: Model, seed: int) -> None:
    inputs = input_sets(model, seed, 1)[0]
    want = run(model, inputs).outputs
    memory = Memory((1, 30, 7)[seed % 3], (8, 3)[seed % 2], stalls=seed if seed % 2 else None)
    programs = [compiled.program, warm_program(compiled)]
    for name, found in zip(("cold", "warm"), simulate_in_turn(programs, inputs, memory), strict=True):
        _compare(found.outputs, want, name)


def _compare(found: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...], name: str) -> None:
    for position, (got, want) in enumerate(zip(found, wanted, strict=True)):
        if got.dtype != want.dtype or got.shape != want.shape:
            raise Difference(f"{name}: output {position} is {got.dtype}{list(got.shape)}, expected "
                             f"{want.dtype}{list(want.shape)}")
        if got.tobytes() != want.tobytes():
            wrong = np.argwhere(got != want)
            at = tuple(int(i) for i in wrong[0]) if len(wrong) else ()
            raise Difference(f"{name}: output {position} differs in {len(wrong)} of {got.size} elements, first at "
                             f"{list(at)}: {got[at]}, expected {want[at]}")


def check_oracle(model: Model, seed: int, oracle: Oracle, sets: int = 2) -> None:
    """Compare the golden model with a public engine, LiteRT's reference kernels or TFLite Micro, in its profile.

    Raises Difference, or Refused if the engine or the profile refuses the model.
    """
    model = model.under(oracle.engine.partition("-")[0])
    try:
        check_profile(model)
    except UnsupportedError as error:
        raise Refused(str(error)) from None
    inputs = input_sets(model, seed, sets)
    try:
        expected = oracle.run_sets(write_model(model), inputs, False)
    except ToolError as error:
        raise Refused(str(error)) from None
    state: State | None = None
    for number, (arrays, outputs) in enumerate(zip(inputs, expected, strict=True)):
        result = run(model, arrays, state)
        state = result.state
        # TFLite Micro returns a scalar with shape (1,).
        shaped = tuple(theirs.reshape(ours.shape) for ours, theirs in zip(result.outputs, outputs, strict=True))
        _compare(result.outputs, shaped, f"inference {number} of golden")
