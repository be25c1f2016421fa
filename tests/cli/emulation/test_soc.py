"""`sim --soc`: the firmware on the Verilated soft core prints the golden model's outputs, or the error."""

import importlib.util
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_hw.boards.build.firmware import build_firmware
from tq_hw.boards.build.soc_header import soc_facts
from tq_hw.boards.catalog.arty_a7 import DDR3
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.soc.map import FLASH_OFFSET, RAM_BYTES
from tq_hw.cli.emulation.soc import flash_contents, soc_design
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.memory import Memory
from tq_hw.isa.program import Program
from tq_hw.model.tflite.reader import read_model
from tq_hw.sim import golden
from tq_hw.sim.rtl.bench import SocBench
from tq_hw.sim.rtl.build import library

TINY = load_config("tiny")
BOARD = replace(BOARDS["ulx3s_85f"], name="small", config=TINY)
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.tflite"

Boot = Callable[..., "Machine"]


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board `small`, and `ddr3`, whose only memory is DDR3."""
    monkeypatch.setitem(BOARDS, "small", BOARD)
    monkeypatch.setitem(BOARDS, "ddr3", replace(BOARD, name="ddr3", memories=(DDR3,)))


def soc(tq: Any, *arguments: object) -> Any:
    return tq("sim", "--soc", "--board", "small", *arguments, "--json", "report.json", "--outputs", "out.npz")


def test_what_the_firmware_prints_is_what_the_golden_model_computes(tq: Any, case: Path, board: None) -> None:
    outcome = soc(tq, case.name, "--inputs", "small.npz")
    assert (outcome.code, outcome.err) == (0, "")
    outputs, expected = np.load("out.npz")["output_0"], np.load("small.npz")["expected_0"]
    assert outputs.dtype == expected.dtype
    assert np.array_equal(outputs, expected)
    assert len(np.unique(expected)) > 5, "the outputs say nothing"
    report = json.loads(Path("report.json").read_text())
    assert (report["bit_exact"], report["engine"], report["board"], report["sets"]) == (True, "soc", "small", 2)
    console = report["console"]
    assert console[0] == "tq runtime on small"
    assert console[1].startswith("memory 33554432 bytes ready after ")
    assert re.fullmatch(r"model \d+ bytes opened in \d+ cycles", console[2])
    assert console[-1] == "done"
    for number, array in enumerate(expected):
        assert f"set {number} output 0 {array.tobytes().hex()}" in console
    assert 0 < report["cycles"] < report["set_cycles"][0] < report["total_cycles"]
    assert f"uart         set 1 output 0 {expected[1].tobytes().hex()}\n" in outcome.out


def test_the_demo_model(tq: Any, board: None) -> None:
    outcome = soc(tq, DIGITS)
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(Path("report.json").read_text())["bit_exact"] is True


@pytest.mark.slow
def test_keyword_spotting_on_the_board_itself(tq: Any, shared: Path) -> None:
    model = shared / "models" / "mlperf_tiny_kws_dscnn.tflite"
    outcome = tq("sim", "--soc", "--board", "ulx3s_85f", model, "--json", "report.json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(Path("report.json").read_text())["bit_exact"] is True


@pytest.fixture
def program(model: Path) -> Program:
    return compile_model(read_model(model), TINY).program


@pytest.fixture
def boot() -> Iterator[Boot]:
    """Boot a board; it is closed at the end."""
    booted: list[Machine] = []

    def make(*arguments: Any, **options: Any) -> Machine:
        booted.append(Machine(*arguments, **options))
        return booted[-1]

    yield make
    for machine in booted:
        machine.close()


class Machine:
    """The board, run until it prints nothing more."""

    def __init__(self, image: bytes, code: bytes | None = None, **options: Any) -> None:
        facts = soc_facts(BOARD, BOARD.memories[0])
        self._bench = SocBench(library(TINY, design=soc_design(facts)), **options)
        self._bench.add_memory(0, facts.memory_bytes)
        self._bench.load(build_firmware(facts).image if code is None else code, FLASH_OFFSET, image)
        self._bench.reset(7)

    def listen(self, send: bytes = b"") -> list[str]:
        """Send bytes; return the output until the board waits for more."""
        said = self._bench.exchange(send, 1)
        for _ in range(200):
            said += self._bench.exchange(b"", 20_000)
            lines = said.decode().splitlines()
            if said.endswith(b"\n") and lines[-1].startswith(("done", "error: ")):
                return lines
        raise AssertionError(f"no end: {said.decode()}")

    def close(self) -> None:
        self._bench.close()


def inputs_of(seed: int) -> list[tuple[Any, ...]]:
    return [(np.random.default_rng(seed).integers(-128, 128, (1, 6, 5, 3)).astype(np.int8),)]


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize("stalls", [None, 5], ids=["even", "stalls"])
def test_both_compilers(boot: Boot, program: Program, model: Path, compiler: str, stalls: int | None,
                        monkeypatch: pytest.MonkeyPatch) -> None:
    if compiler == "gcc" and shutil.which("riscv64-unknown-elf-gcc") is None:
        pytest.skip("riscv64-unknown-elf-gcc is not installed; the other compiler, zig, comes with the set-up")
    if compiler == "zig":
        monkeypatch.setattr(shutil, "which", lambda name: None)
    made = build_firmware(soc_facts(BOARD, BOARD.memories[0]))
    monkeypatch.undo()
    assert compiler in made.compiler
    assert made.ram_bytes < RAM_BYTES - 2048, "too little is left for the stack"
    inputs = inputs_of(4)
    lines = boot(flash_contents(program, inputs), made.image, memory=Memory(stalls=stalls)).listen()
    expected = golden.run(read_model(model), list(inputs[0])).outputs[0]
    assert f"set 0 output 0 {expected.tobytes().hex()}" in lines
    stack = int(next(line for line in lines if line.startswith("stack ")).split()[1])
    assert 100 < stack < 1024


def test_a_byte_on_the_uart_runs_the_inputs_again(boot: Boot, program: Program) -> None:
    machine = boot(flash_contents(program, [*inputs_of(4), *inputs_of(5)]))
    first = [line for line in machine.listen() if " output " in line]
    assert len(set(first)) == 2
    assert [line for line in machine.listen(b"x") if " output " in line] == first


@pytest.mark.parametrize(("damage", "text"), [
    (lambda image: b"", "no image in flash"),
    (lambda image: image[:8] + b"\2" + image[9:], "the image in flash has another version"),
    (lambda image: image[:40] + bytes([image[40] ^ 4]) + image[41:], "the image in flash is damaged"),
    (lambda image: image[:-100], "the compiled model is damaged"),
    (lambda image: image[:2000] + bytes([image[2000] ^ 1]) + image[2001:], "the compiled model is damaged"),
])
def test_damage_is_named(boot: Boot, program: Program, damage: Callable[[bytes], bytes], text: str) -> None:
    assert boot(damage(flash_contents(program, inputs_of(1)))).listen()[-1] == f"error: {text}"


def test_a_model_for_another_configuration_is_named(boot: Boot, model: Path) -> None:
    other = compile_model(read_model(model), load_config("n8")).program
    assert boot(flash_contents(other, inputs_of(1))).listen()[-1] == (
        "error: compiled for another configuration of the accelerator")


def test_a_foreign_compiled_file_is_refused_before(tq: Any, model: Path, board: None) -> None:
    assert tq("compile", "small.tflite", "--config", "n8").code == 0
    np.savez("in.npz", image=inputs_of(1)[0][0])
    outcome = soc(tq, "small.tqm", "--inputs", "in.npz")
    assert outcome.code == 2
    assert outcome.err == (
        f"tq-hw: small: is compiled for configuration 'n8' (fingerprint {load_config('n8').fingerprint:08x}), the "
        f"board has {TINY.fingerprint:08x}; compile it for the board's configuration\n")


@pytest.mark.parametrize(("arguments", "message"), [
    (("--soc",), "--soc needs --board"),
    (("--soc", "--board", "small", "--engine", "golden"),
     "--soc runs the firmware of a board: --engine does not go with it"),
    (("--soc", "--board", "small", "--config", "n8"),
     "--soc runs the firmware of a board: --config does not go with it"),
    (("--soc", "--board", "icebreaker"),
     "icebreaker: an iCE40UP5K-SG48 has no room for a soft core; choose another board"),
    (("--soc", "--board", "ddr3"),
     "ddr3: the runtime initializes SDR SDRAM; DDR3 needs read levelling too; choose another board"),
])
def test_wrong_options(tq: Any, model: Path, board: None, arguments: tuple[str, ...], message: str) -> None:
    outcome = tq("sim", "small.tflite", *arguments)
    assert (outcome.code, outcome.err) == (2, f"tq-hw: {message}\n")


@pytest.mark.parametrize(("arguments", "message"), [
    (("arty_a7", "--soc"), "arty_a7: a soft core is built for ulx3s_85f only"),
    (("ulx3s_85f", "--inputs", "in.npz"), "--inputs needs --soc and --model: they go into flash with the model"),
    (("ulx3s_85f", "--soc", "--inputs", "in.npz"), "--inputs needs --soc and --model: they go into flash with the "
                                                   "model"),
])
def test_wrong_options_of_a_build(tq: Any, arguments: tuple[str, ...], message: str) -> None:
    outcome = tq("build", "--board", *arguments)
    assert (outcome.code, outcome.err) == (2, f"tq-hw: {message}\n")


def without(patched: pytest.MonkeyPatch, package: str) -> None:
    """Hide a Python package, as if it were not installed."""
    found = importlib.util.find_spec
    patched.setattr(importlib.util, "find_spec", lambda name, *more: None if name == package else found(name, *more))


def test_a_missing_compiler_is_named(tq: Any, model: Path, board: None, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "ziglang")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    outcome = tq("sim", "small.tflite", "--soc", "--board", "small")
    assert (outcome.code, outcome.err) == (
        3, "tq-hw: no RISC-V compiler is installed: pip install ziglang, or on Debian and Ubuntu: apt install "
           "gcc-riscv64-unknown-elf (program riscv64-unknown-elf-gcc)\n")


def test_a_missing_soft_core_is_named(tq: Any, model: Path, board: None, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "pythondata_cpu_vexriscv")
    outcome = tq("sim", "small.tflite", "--soc", "--board", "small")
    assert (outcome.code, outcome.err) == (
        3, "tq-hw: the Python package pythondata-cpu-vexriscv, the soft core, is not installed: "
           'pip install "tq-hw[soc]"\n')
