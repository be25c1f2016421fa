"""The benches: every mutant has its place and is caught, the harness keeps all ports, the history can be read."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Value
from amaranth.lib.wiring import In, Out

from tq_hw.isa.config import load_config
from tq_hw.model.errors import MismatchError, OptionError

BENCHES = Path(__file__).parents[1] / "benches"
sys.path.insert(0, str(BENCHES))
fpga: Any = importlib.import_module("fpga")
mutation: Any = importlib.import_module("mutation")
run: Any = importlib.import_module("run")
vela: Any = importlib.import_module("vela")
MUTANTS = mutation.MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_has_its_place(mutant: Any) -> None:
    assert mutation.mutated(mutant)


def test_there_are_ten_mutants_and_more() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 10


def test_text_that_is_not_there_once_is_an_error() -> None:
    for old in ("no such text", "self"):
        with pytest.raises(MismatchError, match="expected its text once in hdl/array/grid.py"):
            mutation.mutated(mutation.Mutant("x", "array/grid.py", old, "", ()))


def test_an_unchanged_copy_passes_and_is_the_one_tested() -> None:
    node = "tests/hdl/lane/test_requantize.py::test_rounds_three_halves"
    with mutation.tree(None) as path:
        assert mutation.run_tests(path, [node])[0]
    with pytest.raises(MismatchError, match="the tests would import"):
        mutation.run_tests(Path("/nowhere"), [node])


def test_a_survivor_is_told() -> None:
    harmless = mutation.Mutant("harmless", "array/grid.py", "__all__ =", "__all__  =", ("tests/test_lock.py",))
    assert mutation.run_mutant(harmless).test is None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Any) -> None:
    assert mutation.run_mutant(mutant).test is not None


def test_harness_drives_and_watches_every_bit() -> None:
    harness = fpga.Harness(design := fpga.DESIGNS["scratchpad"](load_config("tiny")))
    bits = {In: 0, Out: 0}
    for _path, member, value in design.signature.flatten(design):
        bits[member.flow] += len(Value.cast(value))
    text = fpga._rtlil.convert(harness, name="top", ports=harness.ports, emit_src=False)
    assert f"wire width {bits[In]} \\chain" in text
    assert f"wire width {bits[Out]} \\captured" in text


def test_networks_are_chosen_by_name() -> None:
    assert [y.name for y in run.chosen([], False)] == ["digits", "KWS", "VWW", "IC", "AD"]
    assert [y.name for y in run.chosen(["AD", "digits"], False)] == ["AD", "digits"]
    with pytest.raises(OptionError, match="no network 'foo'; there are 'digits', 'KWS'"):
        run.chosen(["foo"], False)


def test_history_can_be_compared_with() -> None:
    for path in (BENCHES / "history").glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        assert {"config", "latency", "bytes_per_cycle"} == set(record["settings"]), path
        assert all(row["cycles"] > 0 and row["layers"] for row in record["networks"]), path


def test_vela_summary() -> None:
    assert vela.total_cycles([{"network": "kws", "cycles_npu": "57329.0", "cycles_total": "58340.0"}]) == 58340
    for rows in ([], [{"cycles_total": "1"}] * 2, [{"cycles": "1"}]):
        with pytest.raises(ValueError, match="expected one row with cycles_total in Vela's summary"):
            vela.total_cycles(rows)


def test_vela_is_run_in_a_folder_of_its_own(tmp_path: Path) -> None:
    program, model = tmp_path / "vela", tmp_path / "net.tflite"
    program.write_text('''#!/bin/sh
[ "$1 $2 $3" = "--accelerator-config ethos-u55-256 --output-dir" ] || exit 1
echo "network,cycles_total" > "$4/net_summary_system.csv"
echo "$(basename "$5"),123.0" >> "$4/net_summary_system.csv"
''')
    program.chmod(0o755)
    assert vela.vela_cycles(model, load_config("n16"), str(program)) == 123
    assert vela.vela_cycles(model, load_config("n8"), str(program)) is None  # it fails
    assert vela.vela_cycles(model, load_config("n9x8"), str(program)) is None  # no such accelerator
    assert sorted(path.name for path in tmp_path.iterdir()) == ["vela"]


def test_memories_of_boards() -> None:
    options = run._parser().parse_args(["--memory-of", "ulx3s_85f"])
    assert run.memory_of(options) == run.Memory(30, 1.61)
    assert run.memory_of(run._parser().parse_args(["--latency", "100", "--bytes-per-cycle", "4"])) == run.Memory(100, 4)
