"""Cycles of attention by tokens, heads and width, and what it takes where scores do not lie across; by the estimate."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any
from unittest import mock

from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config, load_config
from tq_hw.model.samples.attention import attention
from tq_hw.model.tflite.reader import parse_model

__all__ = ["SHAPES", "cycles", "main"]

#: Tokens, heads, width of a head: a text of words, images of 32, 96 and 224 pixels.
SHAPES = ((24, 2, 16), (64, 4, 16), (144, 3, 64), (196, 3, 64))
_compile: Any = importlib.import_module("tq_hw.compiler.compile")


def cycles(shape: tuple[int, int, int], config: Config, transposed: bool) -> int:
    """Return the estimated cycles of one attention with a scale; `transposed`: scores may lie across."""
    tokens, heads, width = shape
    model = parse_model(attention(tokens, tokens, heads, width, between="scale"), "attention")
    real = _compile.transpose_scores
    with mock.patch.object(_compile, "transpose_scores", real if transposed else lambda graph, _: graph):
        compiled = compile_model(model, config)
    return max(int(end) for times in compiled.timeline.values() for _, end in times)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each shape and configuration; 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", action="append", help="configurations (default: n16, n8)")
    args = parser.parse_args(argv)
    print(f"{'config':8}{'tokens':>7}{'heads':>7}{'width':>7}{'cycles':>11}{'upright':>11}{'ratio':>7}{'use':>8}")
    for config in map(load_config, args.config or ("n16", "n8")):
        for shape in SHAPES:
            now, upright = (cycles(shape, config, transposed) for transposed in (True, False))
            tokens, heads, width = shape
            used = 2 * heads * tokens * tokens * width / (config.rows * config.cols * now)
            print(f"{config.name:8}{tokens:7}{heads:7}{width:7}{now:11,}{upright:11,}{now / upright:7.2f}{used:8.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
