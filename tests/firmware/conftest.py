"""Fixtures; the helper modules of tests/boards are imported here, too."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "boards")]
from native import BenchBus, build, machine


@pytest.fixture(scope="module")
def tq(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The driver as a library that traps undefined behaviour and has short timeouts."""
    return build(tmp_path_factory.mktemp("driver"), "-DTQ_STUCK_POLLS=50", "-fsanitize=undefined",
                 "-fno-sanitize-recover=all")


@pytest.fixture
def rtl() -> Iterator[BenchBus]:
    """The Verilated accelerator."""
    with machine() as bench:
        yield BenchBus(bench)
