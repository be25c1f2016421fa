"""A generated folder of the smallest machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from tq_hw.cli.main import run


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "core"
    assert run(["generate", "--config", "serial", "--name", "npu", "-o", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def facts(core: Path) -> Any:
    return json.loads((core / "npu.json").read_text(encoding="utf-8"))
