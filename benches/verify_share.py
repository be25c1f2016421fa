"""Which part of the time of compiling the compiler's check of its own commands takes, measured in one run."""

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config, ConfigError, load_config
from tq_hw.model.errors import TqError, UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.tflite.reader import read_model

__all__ = ["GOAL_PERCENT", "main", "share"]

#: Limit of the check's share of compile time, in percent.
GOAL_PERCENT = 20
_compile: Any = importlib.import_module("tq_hw.compiler.compile")


class _Clock:
    """CPU time that this process spends in some functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            begin = time.process_time()
            try:
                function(*arguments)
            finally:
                self.seconds += time.process_time() - begin
        return call


def share(model: Model, config: Config) -> tuple[float, float]:
    """Return the CPU seconds of a whole compile, and those of the check in it."""
    clock = _Clock()
    with (mock.patch.object(_compile, "verify", clock.timed(_compile.verify)),
          mock.patch.object(_compile, "verify_places", clock.timed(_compile.verify_places))):
        begin = time.process_time()
        compile_model(model, config)
        return time.process_time() - begin, clock.seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile models and print the shares; 1 if the total share exceeds the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL.tflite")
    parser.add_argument("--config", default="n16", help="a preset, or a TOML file")
    options = parser.parse_args(arguments)
    whole = checks = 0.0
    compiled = 0
    try:
        config = load_config(options.config)
        for path in options.models:
            try:
                seconds, check = share(read_model(path), config)
            except UnsupportedError as error:
                print(f"{path.name}: not compiled: {error}")
                continue
            print(f"{path.name}: {seconds:.2f} s, the check {100 * check / seconds:.1f} % of it", flush=True)
            whole, checks, compiled = whole + seconds, checks + check, compiled + 1
    except (TqError, ConfigError) as error:
        print(f"verify_share: {error}", file=sys.stderr)
        return 2
    percent = 100 * checks / whole if whole else 0.0
    print(f"{config.name}: {compiled} of {len(options.models)} models, {whole:.1f} s, the check {percent:.1f} % of it; "
          f"at most {GOAL_PERCENT} %")
    return int(percent > GOAL_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
