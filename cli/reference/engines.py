"""Which public engines each operator was held against: a record that the tests of the golden model write.

`pytest tests/sim/golden --record-engines` renews `engines.json`: by operator and engine, the models whose outputs all
come of that operator and whose every integer was the same in the golden model, under profile `canon`. Those of int16
activations are counted by themselves, as `ADD int16`. An operator that no test holds against an engine has no entry.
"""

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["ENGINE_NAMES", "RECORD", "WIDE_SUFFIX", "engines_of", "renew"]

RECORD = Path(__file__).parent / "engines.json"
#: What follows an operator's name in the record where its activations are int16.
WIDE_SUFFIX = " int16"
#: What people call the engines of `sim/oracles.py`; LiteRT's other kernels count where the reference resolver has none.
ENGINE_NAMES = {"litert-ref": "LiteRT BUILTIN_REF", "tflm": "TFLite Micro", "litert-opt": "LiteRT"}


def engines_of(op: str) -> str:
    """Return the names of the engines whose integers an operator gave, "" where it was held against none.

    Those of int16 activations are named where they are others.
    """
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    plain, wide = (", ".join(name for engine, name in ENGINE_NAMES.items() if record.get(key, {}).get(engine))
                   for key in (op, f"{op}{WIDE_SUFFIX}"))
    return plain if wide in ("", plain) else f"{plain}; of int16: {wide}"


def renew(counts: Mapping[str, Mapping[str, int]], record: Path = RECORD) -> None:
    """Replace the counts of the operators that were compared, and keep those of the others."""
    found = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    found |= {op: dict(by_engine) for op, by_engine in counts.items()}
    record.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
