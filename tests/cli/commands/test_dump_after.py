"""`tq-hw compile --dump-after`: the result of a pass, even if a later pass refuses the model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tq_hw.compiler.passes import PASSES
from tq_hw.model.samples.build import ModelBuilder

Tq = Callable[..., Any]


def deep(rows: int, channels: int) -> bytes:
    b = ModelBuilder("deep")
    x = b.input((1, 4, 4, channels), scale=0.1, zero_point=3)
    w = b.constant(np.ones((8, rows, rows, channels), np.int8), scale=[0.1] * 8)
    return b.build(b.add("CONV_2D", [x, w, -1], scale=0.1, padding="SAME"))


def test_what_passes_made(tq: Tq) -> None:
    Path("deep.tflite").write_bytes(deep(3, 8))
    result = tq("compile", "deep.tflite", "--config", "tiny", "--dump-after", "plan", "--dump-after", "legalize")
    heads = [line for line in result.out.splitlines() if line.startswith("after ")]
    assert heads == [f"after {name}: {PASSES[name]}" for name in ("legalize", "plan")]
    assert (result.code, result.err) == (0, "") and Path("deep.tqm").exists()


def test_a_later_pass_refuses(tq: Tq) -> None:
    Path("deep.tflite").write_bytes(deep(9, 2000))
    result = tq("compile", "deep.tflite", "--config", "tiny", "--dump-after", "legalize", "--dump-after", "plan")
    assert result.code == 2 and not Path("deep.tqm").exists()
    assert result.out == (f"after legalize: {PASSES['legalize']}\nin   t0[1x4x4x2000]\n"
                          "   0 Mac          CONV_2D:0 (t0[1x4x4x2000]) -> t2[1x4x4x8]\nout  t2[1x4x4x8]\n")
    assert result.err == ("tq-hw: deep.tflite: operator 0 (CONV_2D) needs at least 8517 scratchpad words, "
                          "configuration 'tiny' has 2048; a larger scratchpad_bytes helps\n")
