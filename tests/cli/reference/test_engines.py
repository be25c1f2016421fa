"""The record of engines is of the operators that there are, and grows by what was compared."""

import json
from pathlib import Path

from tq_hw.cli.reference.engines import ENGINE_NAMES, RECORD, WIDE_SUFFIX, engines_of, renew
from tq_hw.compiler.lower.legalize import supported_operators

#: They give nothing that could be compared.
STATE = {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"}


def test_every_operator_was_held_against_an_engine() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert set(supported_operators()) - STATE == {key for key in record if not key.endswith(WIDE_SUFFIX)}
    assert {key.removesuffix(WIDE_SUFFIX) for key in record} <= set(record)
    assert all(set(counts) <= set(ENGINE_NAMES) and all(counts.values()) for counts in record.values())


def test_names_come_of_the_record_alone() -> None:
    assert engines_of("FULLY_CONNECTED") == "TFLite Micro"
    assert engines_of("ELU") == "LiteRT"
    assert engines_of("ADD") == "LiteRT BUILTIN_REF, TFLite Micro"
    assert engines_of("REDUCE_MAX") == "LiteRT BUILTIN_REF, TFLite Micro; of int16: LiteRT BUILTIN_REF"
    assert not engines_of("AN_OPERATOR_OF_THE_GUIDE")


def test_what_was_not_compared_stays(tmp_path: Path) -> None:
    path = tmp_path / "engines.json"
    renew({"ADD": {"tflm": 3}, "SUB": {"tflm": 2}}, path)
    renew({"ADD": {"litert-ref": 1}}, path)
    assert json.loads(path.read_text(encoding="utf-8")) == {"ADD": {"litert-ref": 1}, "SUB": {"tflm": 2}}
