"""A compiled network: save it, simulate it, verify it, inspect it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tq_hw.cli.cases import Case
from tq_hw.cli.commands.report import make_page
from tq_hw.cli.report.layers import estimate_config, layer_rows, sim_report
from tq_hw.cli.shared.arrays import find_inputs, input_kinds, output_arrays
from tq_hw.cli.shared.files import write
from tq_hw.cli.shared.infer import infer_all
from tq_hw.cli.subject import Subject, check_against_golden
from tq_hw.cli.verifier import Verdict, Verifier
from tq_hw.compiler import Compiled
from tq_hw.compiler.rewrite.rewrite import Pattern
from tq_hw.isa.config import Config
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.errors import MismatchError, OptionError
from tq_hw.model.graph import Model
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.results import Result
from tq_hw.sim.engines import ENGINES, InputSet, make_engine
from tq_hw.tensors import named_arrays

__all__ = ["CompiledNetwork"]


@dataclass(frozen=True, repr=False, eq=False)
class CompiledNetwork:
    """A network compiled for one configuration.

    Members
    -------
    path, model, shapes : of the network
    compiled : program, report and timeline, see `tq_hw.compiler.compile`
    memory : for which the schedule was searched, and which is simulated
    patterns : the user's own
    """

    path: Path
    model: Model
    shapes: InputShapes
    compiled: Compiled
    memory: Memory
    patterns: tuple[Pattern, ...] = ()

    @property
    def program(self) -> Program:
        """The program: image, commands, ports."""
        return self.compiled.program

    @property
    def config(self) -> Config:
        """The configuration that the network was compiled for."""
        return self.program.config

    @property
    def cycles(self) -> int:
        """Estimated cycles of one inference from a cold start."""
        return sum(layer.estimated_cycles for layer in self.program.layers)

    @property
    def layers(self) -> tuple[Mapping[str, Any], ...]:
        """One record per operator, with estimated cycles: `pandas.DataFrame(compiled.layers)`.

        Keys: index, op, name, unit, cycles, array_cycles, macs, utilization (0..1 or None), bytes, bound, group,
        tensor.
        """
        estimates = {layer.index: layer.estimated_cycles for layer in self.program.layers}
        return tuple(layer_rows(self.program, estimate_config(self.config), estimates, self.compiled.timeline,
                                self.model))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the compiled file, the input of `tq-hw sim` and `tq-hw run`."""
        write(os.fspath(path), to_bytes(self.program))

    def simulate(self, inputs: object = None, *, engine: str = "rtl", check: bool = True, seed: int = 0) -> Result:
        """Run one or several input sets, each from the initial state.

        Parameters
        ----------
        inputs : an array, a list of one array per input, or a mapping by name, in the model's types (see
            `TensorInfo.quantize`); an extra leading axis holds several sets. Or the path of a picture or an .npz. None:
            drawn from `seed`
        engine : "rtl" (the first run of a configuration builds a simulator, which takes minutes), "executor" (seconds,
            but without cycles), or "golden"
        check : compare every integer with the golden model

        Raises OptionError for inputs that do not fit, MismatchError when outputs differ.
        """
        if engine not in ENGINES:
            raise OptionError(f"the engine must be one of {', '.join(ENGINES)}, not {engine!r}")
        subject = Subject(str(self.path), self.config, self.model, self.program)
        sets, stacked = self._input_sets(subject, inputs, seed)
        found = infer_all(make_engine(engine, self.model, self.program, self.memory), sets,
                          f"{engine} {self.model.name}")
        exact = None
        if check and engine != "golden":
            difference = check_against_golden(subject, sets, found)
            if difference is not None:
                raise MismatchError(difference)
            exact = True
        report = sim_report(str(self.path), self.config, self.model, self.program, engine, found, exact)
        outputs = output_arrays([one.outputs for one in found], stacked)
        return Result(self.model.name, tuple(outputs.values()), engine, found[0].cycles, tuple(report["layers"]), exact)

    def _input_sets(self, subject: Subject, inputs: object, seed: int) -> tuple[list[InputSet], bool]:
        if inputs is None or isinstance(inputs, str | os.PathLike):
            return subject.input_sets(None if inputs is None else os.fspath(inputs), 1, seed)
        kinds = input_kinds(self.model)
        return find_inputs(named_arrays(inputs, len(kinds)), kinds, self.model.name)

    def verify(self, *, engine: str = "rtl", oracle: str | None = "golden", sets: int = 3, seed: int = 0) -> Verdict:
        """Check an engine on drawn input sets against the golden model or a public engine ("tflm", "litert").

        The verdict is true if every integer is equal. Otherwise its message names the difference and the operator.
        """
        with Verifier(engine, oracle, self.config, self.memory, sets, seed, profile=self.model.profile,
                      shapes=self.shapes, patterns=self.patterns) as verifier:
            return verifier.check(Case(self.model.name, self.path, None))

    def report(self, path: str | os.PathLike[str], *, engine: str = "rtl", seed: int = 0) -> Path:
        """Write the page of `tq-hw report` and return its path; MismatchError if the outputs differ."""
        if engine not in ENGINES[1:]:
            raise OptionError(f"the engine of a report must be one of {', '.join(ENGINES[1:])}, not {engine!r}")
        page = make_page(str(self.path), self.model, self.compiled, engine, self.memory, seed)
        write(os.fspath(path), page.html)
        if page.difference is not None:
            raise MismatchError(page.difference)
        return Path(path)

    def __repr__(self) -> str:
        return f"<CompiledNetwork {self.model.name} on {self.config.name}: {len(self.program.layers)} layers, " \
               f"{self.cycles:,} cycles (estimated)>"
