"""Checks an engine against stored expectations, the golden model or a public engine."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tq_hw.cli.cases import Case, read_stored
from tq_hw.cli.mixed import open_mixed
from tq_hw.cli.shared.arrays import draw_inputs
from tq_hw.cli.shared.infer import infer_all
from tq_hw.cli.shared.options import check_resident
from tq_hw.cli.subject import check_engine, compile_all
from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.rewrite import Pattern
from tq_hw.compiler.warm import warm_program
from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.model.errors import (
    DataflowError,
    InputError,
    ModelError,
    OptionError,
    TqError,
    UnmetError,
    UnsupportedError,
)
from tq_hw.model.graph import Model
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.tflite.reader import read_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim.diagnose.compare import divergences
from tq_hw.sim.diagnose.locate import locate
from tq_hw.sim.engines import ORACLES, Array, InputSet, golden_engine, make_engine
from tq_hw.sim.faults import SimulationError
from tq_hw.sim.golden.profiles import check_profile
from tq_hw.sim.mixed import MixedEngine
from tq_hw.sim.oracles import Oracle

__all__ = ["DEFECT", "FAILED", "PASSED", "UNSUPPORTED", "PartitionVerifier", "Verdict", "Verifier"]

#: A defect is one of tq-hw: commands that the compiler itself refuses. Nothing was run, so nothing differs.
PASSED, FAILED, UNSUPPORTED, DEFECT = "passed", "failed", "unsupported", "defect"


@dataclass(frozen=True)
class Verdict:
    """Outcome of one case.

    `cycles` are those of its first input set, if the engine counts them; `resident_cycles` with resident weights.
    """

    name: str
    status: str
    cycles: int | None
    message: str
    resident_cycles: int | None = None

    @property
    def report(self) -> dict[str, object]:
        """The verdict for --json."""
        return {name: value for name, value in vars(self).items() if name != "resident_cycles" or value is not None}

    def __bool__(self) -> bool:
        """Whether every integer was equal."""
        return self.status == PASSED


class OracleRefusal(TqError):
    """A public engine cannot run the model."""


class Verifier:
    """Checks one engine against one reference, case by case.

    Parameters
    ----------
    engine : "rtl", "executor" or "golden"
    oracle : "golden", "tflm", "litert", or None: the arrays stored next to a case, else golden
    sets, seed : drawn inputs of a case that has none stored
    profile : whose arithmetic the models have
    resident : run each input set again, with the weights that stayed in the scratchpad
    shapes : sizes of open dimensions of the models' inputs
    patterns : the user's, tried before the library's

    Raises OptionError if engine and oracle are the same, or the profile belongs to another engine than the oracle;
    MissingToolError if the oracle is not installed.
    """

    def __init__(self, engine: str, oracle: str | None, config: Config, memory: Memory, sets: int, seed: int,
                 resident: bool = False, profile: str = "canon", shapes: InputShapes | None = None,
                 patterns: Sequence[Pattern] = ()):
        check_resident(resident, engine)
        check_engine(engine, config)
        if engine == "golden" and oracle == "golden":
            raise OptionError("--engine golden cannot be compared with --oracle golden: an engine is never compared "
                              "with itself; name --oracle tflm or litert")
        if profile in ORACLES and oracle in ORACLES and oracle != profile:
            raise OptionError(f"--profile {profile} is the arithmetic of {ORACLES[profile][1]}: it cannot be compared "
                              f"with --oracle {oracle}; name --oracle {profile} or golden")
        self.engine, self.oracle, self.config, self.memory = engine, oracle, config, memory
        self.sets, self.seed, self.resident, self.profile = sets, seed, resident, profile
        self.shapes, self.patterns = shapes, patterns
        self._open = ExitStack()
        self._public = self._open.enter_context(Oracle(ORACLES[oracle][0])) if oracle in ORACLES else None

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(self, *details: object) -> None:
        self._open.close()

    def check(self, case: Case) -> Verdict:
        """Run one case. Errors of the model, its commands or the machine become a verdict; other errors are raised."""
        try:
            return self._check(case)
        except (ModelError, UnmetError, UnsupportedError, OracleRefusal) as error:
            return Verdict(case.name, UNSUPPORTED, None, str(error))
        except InputError as error:
            return Verdict(case.name, UNSUPPORTED, None, f"{case.model}: no result for these inputs: {error}")
        except SimulationError as error:
            return Verdict(case.name, FAILED, None, str(error))
        except DataflowError as error:
            return Verdict(case.name, DEFECT, None, str(error))

    def _check(self, case: Case) -> Verdict:
        model = read_model(case.model, shapes=self.shapes).under(self.profile)
        check_profile(model)
        stored = read_stored(case, model)
        inputs = stored.inputs if stored is not None else draw_inputs(model, self.sets, self.seed)
        compiled = None if self.engine == "golden" else compile_all(
            model, self.config, str(case.model), self.patterns, self.memory)
        program, warm = None if compiled is None else compiled.program, None
        if compiled is not None and self.resident:
            warm = warm_program(compiled)
        if self.oracle is None and stored is not None:
            expected, source = stored.expected, "the stored expectations"
        elif self._public is not None:
            expected, source = self._ask_oracle(case, model, inputs)
        elif self.engine == "golden":
            raise OptionError(f"{case.model}: --engine golden needs stored expectations or --oracle tflm|litert: an "
                              "engine is never compared with itself")
        else:
            golden = infer_all(golden_engine(model), inputs, f"golden model {case.name}")
            expected, source = [one.outputs for one in golden], "the golden model"
        engine = make_engine(self.engine, model, program, self.memory, warm=warm)
        found = infer_all(engine, inputs, f"{self.engine} {case.name}")
        cycles = found[0].cycles if found else None
        warm_cycles = found[0].warm.cycles if found and found[0].warm else None
        for number, (one, wanted) in enumerate(zip(found, expected, strict=True)):
            for how, inference in one.runs:
                if different := divergences(inference.outputs, wanted):
                    reason = "" if how else self._explain(model, inputs[number], one.outputs)
                    return Verdict(case.name, FAILED, cycles, f"input set {number},{how} {different[0]} by "
                                   f"{source}{reason}", warm_cycles)
        return Verdict(case.name, PASSED, cycles, f"{_sets(inputs)} equal {source}", warm_cycles)

    def _ask_oracle(self, case: Case, model: Model,
                    inputs: Sequence[InputSet]) -> tuple[list[tuple[Array, ...]], str]:
        assert self._public is not None and self.oracle is not None
        name = ORACLES[self.oracle][1]
        # LiteRT propagates the inputs' shapes through the model itself, TFLite Micro trusts the file.
        changed = (self.oracle == "tflm" and model.is_propagated) or (self.shapes and self.shapes.signature)
        source = write_model(model) if changed else case.model
        try:
            return self._public.run_sets(source, inputs), name
        except TqError as error:
            raise OracleRefusal(f"{case.model}: {name} cannot run the model: {error}") from error

    def _explain(self, model: Model, inputs: InputSet, found: Sequence[Array]) -> str:
        """Return a text about the operator that causes the difference in the outputs `found`."""
        if self.engine == "golden":
            return ""
        if not divergences(found, golden_engine(model).infer(inputs).outputs):
            return f"; the golden model agrees with the {self.engine}"

        def run_program(program: Program, inputs: InputSet) -> Sequence[Array]:
            return make_engine(self.engine, None, program, self.memory).infer(inputs).outputs

        def compile_part(other: Model) -> Program:
            return compile_model(other, self.config, patterns=self.patterns).program

        return f"; {locate(model, inputs, compile_part, run_program)}"


class PartitionVerifier(Verifier):
    """Leaves operators that the accelerator does not support to the host, and compares the result with LiteRT's."""

    def _check(self, case: Case) -> Verdict:
        subject = open_mixed(str(case.model), self.config, self.memory, self.shapes)
        stored = read_stored(case, subject.source)
        inputs = stored.inputs if stored is not None else draw_inputs(subject.source, self.sets, self.seed)
        expected, source = self._ask_oracle(case, subject.source, inputs)
        found = infer_all(MixedEngine(subject.model, self.engine, self.memory), inputs, f"{self.engine} {case.name}")
        cycles = found[0].cycles if found else None
        for number, (one, wanted) in enumerate(zip(found, expected, strict=True)):
            if different := divergences(one.outputs, wanted):
                return Verdict(case.name, FAILED, cycles, f"input set {number}, {different[0]} by {source}")
        return Verdict(case.name, PASSED, cycles, f"{_sets(inputs)} equal {source}, {subject.summary}")


def _sets(inputs: Sequence[InputSet]) -> str:
    return f"{len(inputs)} input set{'s' if len(inputs) != 1 else ''}"
