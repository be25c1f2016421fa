"""Hold the Verilog and the compiled samples of this tree against a record of them: nothing may change across a move.

    scripts/same_bytes.py                    compare `tiny` and `n8` with tests/same_bytes.json
    scripts/same_bytes.py --all              compare every preset
    scripts/same_bytes.py --all --record     renew the record, after an intended change

The record has a SHA-256 for the Verilog of each preset, and one for the compiled files of each kind of sample, all
seeds together. A difference is reported by preset and kind. Exit codes: 0 the same, 1 something differs.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from tq_hw.compiler import compile_model
from tq_hw.hdl.machine import machine
from tq_hw.hdl.verilog import to_verilog
from tq_hw.isa.config import PRESETS, Config, load_config
from tq_hw.isa.program_file import to_bytes
from tq_hw.model.errors import UnsupportedError
from tq_hw.model.graph import Model
from tq_hw.model.samples.graphs import graph
from tq_hw.model.samples.layers import KINDS, sample
from tq_hw.model.samples.networks import NETWORKS, network
from tq_hw.model.samples.typical import TYPICAL, typical

__all__ = ["RECORD", "differences", "digests"]

RECORD = Path(__file__).resolve().parents[1] / "tests" / "same_bytes.json"
#: The presets that the tests compare. The others take minutes.
QUICK = ("tiny", "n8")
_SEEDS = range(1)
_GRAPHS = range(8)


def digests(config: Config) -> dict[str, str]:
    """SHA-256 of the Verilog and of each kind's compiled files, by "verilog" and the kind's name."""
    found = {"verilog": _digest([to_verilog(machine(config), "accelerator").encode()])}
    for kind in KINDS:
        found[kind] = _compiled(config, partial(sample, kind), _SEEDS)
    for kind in NETWORKS:
        found[f"network {kind}"] = _compiled(config, partial(network, kind), _SEEDS)
    for op in TYPICAL:
        found[f"typical {op}"] = _digest([_file(typical(op), config)])
    found["graph"] = _compiled(config, graph, _GRAPHS)
    return found


def _compiled(config: Config, make: Callable[[int], Model], seeds: Iterable[int]) -> str:
    return _digest(_file(make(seed), config) for seed in seeds)


def _file(model: Model, config: Config) -> bytes:
    try:
        return to_bytes(compile_model(model, config).program)
    except UnsupportedError as error:  # a refusal is a result, too
        return str(error).encode()


def _digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()


def differences(record: dict[str, dict[str, str]], config: Config) -> list[str]:
    """Differences from the record, as "preset: kind", including kinds that only one of the two has."""
    want, got = record.get(config.name, {}), digests(config)
    return [f"{config.name}: {kind}" for kind in sorted(want.keys() | got.keys()) if want.get(kind) != got.get(kind)]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--all", action="store_true", help="every preset, not tiny and n8 alone")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name} instead of comparing with it")
    options = parser.parse_args(arguments)
    record: dict[str, dict[str, str]] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    wrong: list[str] = []
    for name in PRESETS if options.all else QUICK:
        if options.record:
            record[name] = digests(load_config(name))
        else:
            wrong += differences(record, load_config(name))
    if options.record:
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print("\n".join(wrong) or "the same")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
