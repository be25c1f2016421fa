"""The public engines that each operator was compared with: a record that the tests of the golden model write.

`pytest tests/sim/golden --record-engines` renews `engines.json`. It counts models by operator and engine. A model
counts if all its outputs come from that operator, and if every integer equals the golden model's under profile `canon`.
Models with int16 activations are counted separately, as `ADD int16`. An operator that no test compares has no entry.
"""

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["ENGINE_NAMES", "RECORD", "WIDE_SUFFIX", "engines_of", "renew"]

RECORD = Path(__file__).parent / "engines.json"
#: Suffix of an operator's name in the record for int16 activations.
WIDE_SUFFIX = " int16"
#: Names of the engines of `sim/oracles.py`. LiteRT's other kernels count if the reference resolver lacks the operator.
ENGINE_NAMES = {"litert-ref": "LiteRT BUILTIN_REF", "tflm": "TFLite Micro", "litert-opt": "LiteRT"}


def engines_of(op: str) -> str:
    """Return the names of the engines that an operator agrees with, "" if it was compared with none.

    The engines for int16 are named only if they differ.
    """
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    plain, wide = (", ".join(name for engine, name in ENGINE_NAMES.items() if record.get(key, {}).get(engine))
                   for key in (op, f"{op}{WIDE_SUFFIX}"))
    return plain if wide in ("", plain) else f"{plain}; of int16: {wide}"


def renew(counts: Mapping[str, Mapping[str, int]], record: Path = RECORD) -> None:
    """Replace the counts of the operators that were compared, and keep the others."""
    found = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    found |= {op: dict(by_engine) for op, by_engine in counts.items()}
    record.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
