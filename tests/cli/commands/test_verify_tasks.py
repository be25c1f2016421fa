"""`tq-hw verify` in several processes and on a cluster: the verdicts of a single process, in the cases' order."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pytest

from tq_hw.model.samples.layers import sample
from tq_hw.model.tflite.writer import write_model

Tq = Callable[..., Any]
#: Dask accepts None, which its type signature omits.
NO_DASHBOARD: dict[str, Any] = {"dashboard_address": None}


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """Three models, one of them with wrong expectations."""
    folder = tmp_path / "cases"
    folder.mkdir()
    for number in range(3):
        (folder / f"add{number}.tflite").write_bytes(write_model(sample("add", number)))
    model = sample("add", 1).main
    arrays = {f"input_{place}": np.zeros((1, *model.tensors[index].shape), np.int8)
              for place, index in enumerate(model.inputs)}
    arrays |= {f"expected_{place}": np.full((1, *model.tensors[index].shape), 99, np.int8)
               for place, index in enumerate(model.outputs)}
    np.savez(folder / "add1.npz", allow_pickle=False, **arrays)
    return folder


def verified(tq: Tq, cases: Path, *options: str) -> dict[str, Any]:
    result = tq("verify", cases, "--engine", "executor", "--config", "tiny", "--sets", "1", "--json", "r.json",
                *options)
    assert result.code == 1
    assert "1 of 3 cases differ; first add1" in result.err
    report: dict[str, Any] = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert [case["name"] for case in report["cases"]] == ["add0", "add1", "add2"]
    return report


def test_processes_find_what_one_finds(tq: Tq, cases: Path) -> None:
    assert verified(tq, cases, "--jobs", "2") == verified(tq, cases)


@pytest.mark.slow
def test_a_cluster_finds_what_one_process_finds(tq: Tq, cases: Path) -> None:
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, **NO_DASHBOARD) as found:
        assert verified(tq, cases, "--scheduler", found.scheduler_address) == verified(tq, cases)
