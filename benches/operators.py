"""Record what the table of operators says of cycles and of verified cases.

Each operator's typical layer (`model/samples/typical.py`) runs on an engine. Every integer is compared with the golden
model, and the cycles are recorded. `--verified FILE` adds the verdicts of a `tq-hw verify FOLDER --json FILE`.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tq_hw.cli.reference.operators import RECORD
from tq_hw.compiler import compile_model
from tq_hw.compiler.lower.legalize import supported_operators
from tq_hw.isa.config import load_config
from tq_hw.model.samples.typical import typical
from tq_hw.sim.engines import random_inputs, run
from tq_hw.sim.golden.run import run as run_golden

__all__ = ["main", "measure", "verified"]


def measure(op: str, config_name: str, engine: str) -> dict[str, int | None]:
    """Return the number of output elements of the typical layer of `op`, and its cycles (None on the executor).

    Raises AssertionError if a result differs from the golden model's.
    """
    model = typical(op)
    inputs = random_inputs(model, 1)
    found = run(compile_model(model, load_config(config_name)).program, inputs, engine)
    for want, got in zip(run_golden(model, inputs).outputs, found.outputs, strict=True):
        np.testing.assert_array_equal(got, want, strict=True, err_msg=op)
    return {"elements": sum(output.size for output in found.outputs), "cycles": found.cycles}


def verified(report: dict[str, Any], index: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Return, per operator, the passed cases and all cases. Models of several operators count as CHAIN."""
    ops = {case["name"]: case["op"] for case in index}
    total: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for case in report["cases"]:
        op = str(ops.get(case["name"], "NETWORK"))
        op = "CHAIN" if op.startswith(("CHAIN", "IO")) else op
        total[op] += 1
        passed[op] += case["status"] == "passed"
    return {op: [passed[op], count] for op, count in sorted(total.items())}


def main(arguments: list[str] | None = None) -> int:
    """Renew the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="measure these alone")
    parser.add_argument("--config", default="n16")
    parser.add_argument("--engine", choices=("rtl", "executor"), default="rtl")
    parser.add_argument("--no-cycles", action="store_true", help="keep the cycles that are recorded")
    parser.add_argument("--verified", type=Path, nargs="*", default=[],
                        help="ENGINE-CONFIG.json, of tq-hw verify --json")
    parser.add_argument("--cases", type=Path, default=Path("../shared/cases"), help="the folder that was verified")
    parser.add_argument("--record", type=Path, default=RECORD, help="the file to renew")
    options = parser.parse_args(arguments)
    record = json.loads(options.record.read_text(encoding="utf-8")) if options.record.exists() else {
        "cycles": {}, "verified": {}}
    if not options.no_cycles:
        record["config"], record["engine"] = options.config, options.engine
        found = {op: measure(op, options.config, options.engine) for op in options.operators or supported_operators()}
        record["cycles"] = {**record["cycles"], **found} if options.operators else found
    index = json.loads((options.cases / "index.json").read_text(encoding="utf-8"))["cases"] if options.verified else []
    for path in options.verified:
        record["verified"][path.stem] = verified(json.loads(path.read_text(encoding="utf-8")), index)
    options.record.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
