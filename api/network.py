"""`load`: a model file, and its properties before compilation."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tq_hw.boards.catalog.catalog import find_board, find_memory
from tq_hw.boards.catalog.rates import memory_rate
from tq_hw.cli.subject import DEFAULT_CONFIG, compile_all, is_compiled
from tq_hw.compiled import CompiledNetwork
from tq_hw.compiler.rewrite.own import load_patterns
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.memory import YARDSTICK, Memory
from tq_hw.model.errors import OptionError
from tq_hw.model.graph import Model
from tq_hw.model.rules.propagate import InputShapes
from tq_hw.model.tflite.reader import read_model
from tq_hw.tensors import TensorInfo, describe

__all__ = ["Network", "load"]

FilePath = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class Network:
    """A model that was read and checked.

    Members
    -------
    path : the file
    model : its graph, see `tq_hw.model.graph`
    shapes : the requested sizes of open dimensions
    """

    path: Path
    model: Model
    shapes: InputShapes

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.model.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """One record per input."""
        return tuple(describe(self.model.main.tensors[index]) for index in self.model.main.inputs)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """One record per output."""
        return tuple(describe(self.model.main.tensors[index]) for index in self.model.main.outputs)

    def compile(self, config: str | Config | None = None, *, board: str | None = None,
                memory: Memory | None = None, patterns: Sequence[FilePath] = ()) -> CompiledNetwork:
        """Compile for a configuration, or for a board's.

        Parameters
        ----------
        config : a preset's name ("n16" by default), a path that ends in .toml, or a Config
        board : a board's name, instead of `config`
        memory : the memory that the schedule is searched for and that cycles are counted with; default: the board's.
            Results do not depend on it
        patterns : files with the user's own patterns, as for `--patterns`

        Raises UnsupportedError (operator, index, reason), OptionError, or ConfigError.
        """
        if config is not None and board is not None:
            raise OptionError("compile takes config or board, not both: a board has its own configuration")
        rate = memory or YARDSTICK
        if board is not None:
            found_board = find_board(board)
            chosen, rate = found_board.config, memory or memory_rate(found_board, find_memory(found_board, None))
        else:
            chosen = load_config(config or DEFAULT_CONFIG)
        found = [each for path in patterns for each in load_patterns(os.fspath(path))]
        compiled = compile_all(self.model, chosen, str(self.path), found, rate)
        return CompiledNetwork(self.path, self.model, self.shapes, compiled, rate, tuple(found))

    def __repr__(self) -> str:
        return f"<Network {self.name}: {len(self.model.main.operators)} operators, {_shapes(self.inputs)} to " \
               f"{_shapes(self.outputs)}>"


def _shapes(tensors: Sequence[TensorInfo]) -> str:
    return ", ".join(f"{tensor.dtype}{list(tensor.shape)}" for tensor in tensors) or "nothing"


def load(path: FilePath, *, profile: str = "canon", batch: int | None = None,
         shapes: Mapping[str, Sequence[int]] | None = None) -> Network:
    """Read a `.tflite` model and check it.

    Parameters
    ----------
    profile : the arithmetic: "canon", "tflm" or "litert"
    batch : size of the first dimension of each input that leaves it open
    shapes : shapes of inputs with open dimensions, by name

    Raises ModelError, UnsupportedError or OptionError; each message says what to do.
    """
    name = os.fspath(path)
    if is_compiled(name):
        raise OptionError(f"{name}: expected a .tflite model, found a compiled file; `tq-hw sim` runs it")
    wanted = InputShapes(batch, {key: tuple(sizes) for key, sizes in (shapes or {}).items()})
    return Network(Path(name), read_model(name, shapes=wanted).under(profile), wanted)
