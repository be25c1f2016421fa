"""`run` and `emulate`: a model on the Verilated board on a pseudo-terminal, with faults, resets and wrong files."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sim.mixed.networks import float_middle
from tq_hw.boards.catalog.catalog import BOARDS
from tq_hw.boards.link import uio
from tq_hw.boards.link.protocol import Command, Request
from tq_hw.cli.emulation.emulator import Emulator
from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import OptionError
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.model.tflite.writer import write_model
from tq_hw.sim import golden

run_module: Any = import_module("tq_hw.cli.commands.run")

TINY = load_config("tiny")
MEMORY_BYTES = 1 << 16
Start = Callable[..., Emulator]


def keywords() -> bytes:
    """A small network like DS-CNN: convolution, depthwise and pointwise, average pooling, classifier."""
    rng = np.random.default_rng(11)

    def weights(shape: tuple[int, ...], depthwise: bool = False) -> int:
        channels = shape[-1] if depthwise else shape[0]
        return b.constant(rng.integers(-127, 128, shape).astype(np.int8), scale=[0.01 + 0.001 * k for k in
                                                                                  range(channels)],
                          dimension=3 if depthwise else 0)

    b = ModelBuilder("keywords")
    x = b.input((1, 12, 6, 1), scale=0.5, zero_point=-3, name="sound")
    w = weights((8, 4, 3, 1))
    x = b.add("CONV_2D", [x, w, b.bias(x, w, list(range(8)))], scale=0.6, zero_point=-128, padding="SAME", stride_h=2,
              stride_w=2, fused_activation_function="RELU")
    w = weights((1, 3, 3, 8), True)
    x = b.add("DEPTHWISE_CONV_2D", [x, w, b.bias(x, w, [0] * 8)], scale=0.7, zero_point=-128, padding="SAME",
              depth_multiplier=1, fused_activation_function="RELU")
    w = weights((8, 1, 1, 8))
    x = b.add("CONV_2D", [x, w, b.bias(x, w, [3] * 8)], scale=0.8, zero_point=-128, padding="SAME",
              fused_activation_function="RELU")
    x = b.add("AVERAGE_POOL_2D", [x], scale=0.8, zero_point=-128, filter_height=6, filter_width=3, stride_h=6,
              stride_w=3, padding="VALID")
    w = b.constant(rng.integers(-127, 128, (4, 8)).astype(np.int8), scale=0.02)
    x = b.add("FULLY_CONNECTED", [x, w, b.bias(x, w, [1, 2, 3, 4])], scale=8.0, zero_point=2)
    return b.build(b.add("SOFTMAX", [x], beta=0.01))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """keywords.tflite, in.npz with three input sets, and the golden model's outputs in expected.npy."""
    monkeypatch.setitem(BOARDS, "small", replace(BOARDS["ulx3s_85f"], name="small", config=TINY))
    (tmp_path / "keywords.tflite").write_bytes(keywords())
    sets = np.random.default_rng(5).integers(-128, 128, (3, 1, 12, 6, 1)).astype(np.int8)
    np.savez(tmp_path / "in.npz", sound=sets)
    model = parse_model(keywords(), "keywords")
    np.save(tmp_path / "expected.npy", np.stack([golden.run(model, [one]).outputs[0] for one in sets]))
    return tmp_path


class ResetEmulator(Emulator):
    """An emulator that is reset after a number of bytes."""

    def __init__(self, *arguments: Any, reset_after: tuple[int, ...], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.reset_after = list(reset_after)
        self.taken = 0

    def _receive(self, wait_seconds: float) -> bytes:
        data = super()._receive(wait_seconds)
        self.taken += len(data)
        if self.reset_after and self.taken > self.reset_after[0]:
            del self.reset_after[0]
            self.reset()
        return data


@pytest.fixture
def start() -> Iterator[Start]:
    """Start an emulator in a thread."""
    running: list[tuple[Emulator, threading.Thread]] = []

    def begin(kind: type[Emulator] = Emulator, **options: Any) -> Emulator:
        emulator = kind(TINY, MEMORY_BYTES, 100_000_000, **options)
        thread = threading.Thread(target=emulator.serve)
        thread.start()
        running.append((emulator, thread))
        return emulator

    yield begin
    for emulator, thread in running:
        emulator.end()
        thread.join()
        emulator.close()


def check_outputs(files: Path) -> None:
    outputs = np.load(files / "out.npz")["output_0"]
    expected = np.load(files / "expected.npy")
    assert outputs.dtype == expected.dtype
    assert np.array_equal(outputs, expected)
    assert len(np.unique(expected)) > 3, "the outputs say nothing"


def run_sets(tq: Any, port: str, *more: object) -> dict[str, Any]:
    outcome = tq("run", "--board", "small", "--port", port, "keywords.tflite", "--inputs", "in.npz", "--outputs",
                 "out.npz", "--json", "report.json", *more)
    assert (outcome.code, outcome.err) == (0, "")
    report: dict[str, Any] = json.loads(Path("report.json").read_text())
    return report


def test_a_network_is_bit_exact_and_every_layer_has_its_cycles(tq: Any, files: Path, start: Start) -> None:
    report = run_sets(tq, start().port, "--bench", 2)
    check_outputs(files)
    assert report["bit_exact"] is True
    assert (report["board"], report["sets"], report["resets"]) == ("small", 3, 0)
    assert sum(row["cycles"] for row in report["layers"]) == report["cycles"] > 500
    assert [row["op"] for row in report["layers"] if row["cycles"] > 0] == [
        "CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D", "AVERAGE_POOL_2D", "FULLY_CONNECTED", "SOFTMAX"]
    assert report["bench"]["cycles"] == {"min": report["cycles"], "median": report["cycles"], "max": report["cycles"]}


@pytest.mark.parametrize("seed", [1, 2])
def test_faults_of_the_line_change_nothing(tq: Any, files: Path, start: Start, seed: int) -> None:
    report = run_sets(tq, start(faults=seed).port, "--no-layers")
    check_outputs(files)
    assert report["repeats"] > 10
    assert report["resets"] == 0


@pytest.mark.parametrize("faults", [None, 3], ids=["good", "faults"])
def test_resets_in_the_middle_change_nothing(tq: Any, files: Path, start: Start, faults: int | None) -> None:
    """Resets during loading and during a run."""
    board = start(ResetEmulator, faults=faults, reset_after=(1000, 8000))
    report = run_sets(tq, board.port, "--no-layers")
    check_outputs(files)
    assert 1 <= report["resets"] <= 2


def test_a_file_for_another_configuration_is_refused(tq: Any, files: Path, start: Start) -> None:
    assert tq("compile", "keywords.tflite", "--config", "n8").code == 0
    outcome = tq("run", "--board", "small", "--port", start().port, "keywords.tqm", "--inputs", "in.npz")
    assert outcome.code == 2
    assert outcome.err == (
        f"tq-hw: keywords: is compiled for configuration 'n8' (fingerprint {load_config('n8').fingerprint:08x}), the "
        f"board has {TINY.fingerprint:08x}; compile it for the board's configuration\n")


def test_a_compiled_file_runs_and_a_truncated_one_is_refused(tq: Any, files: Path, start: Start) -> None:
    port = start().port
    assert tq("compile", "keywords.tflite", "--config", "tiny").code == 0
    outcome = tq("run", "--board", "small", "--port", port, "keywords.tqm", "--inputs", "in.npz", "--outputs",
                 "out.npz")
    assert outcome.code == 0
    check_outputs(files)
    whole = Path("keywords.tqm").read_bytes()
    Path("keywords.tqm").write_bytes(whole[:-100])
    outcome = tq("run", "--board", "small", "--port", port, "keywords.tqm", "--inputs", "in.npz")
    assert outcome.code == 2
    assert outcome.err == (f"tq-hw: keywords.tqm: the file should have {len(whole)} bytes, it has "
                           f"{len(whole) - 100}\n")


def test_a_model_larger_than_memory_is_rejected(tq: Any, files: Path, start: Start) -> None:
    b = ModelBuilder("large")
    x = b.input((1, 256), scale=0.5)
    w = b.constant(np.random.default_rng(1).integers(-127, 128, (256, 256)).astype(np.int8), scale=0.01)
    Path("large.tflite").write_bytes(b.build(b.add("FULLY_CONNECTED", [x, w, b.bias(x, w, [0] * 256)], scale=1.0)))
    outcome = tq("run", "--board", "small", "--port", start().port, "large.tflite")
    assert outcome.code == 2
    assert outcome.err.startswith("tq-hw: large: needs ")
    assert outcome.err.endswith(f", the board has {MEMORY_BYTES}\n")


def test_a_port_that_is_not_there_is_a_device_error(tq: Any, files: Path) -> None:
    outcome = tq("run", "--board", "small", "--port", "./no-port", "keywords.tflite")
    assert outcome.code == 5
    assert outcome.err.startswith("tq-hw: port ./no-port cannot be opened: ")


@pytest.mark.parametrize("command", ["run", "emulate"])
def test_an_unknown_board_is_named(tq: Any, files: Path, command: str) -> None:
    more = ["keywords.tflite", "--port", "x"] if command == "run" else []
    outcome = tq(command, "--board", "ulx3s", *more)
    assert outcome.code == 2
    assert outcome.err.startswith("tq-hw: no board 'ulx3s': expected one of ")


@pytest.mark.parametrize(("options", "memory", "phy"), [
    (("arty_a7",), Memory(30, 7.75), "A7DDRPHY"), (("ecpix5_85f",), Memory(30, 5.14), "ECP5DDRPHY"),
    (("arty_a7", "--memory", "block RAM"), Memory(6, 7.53), ""), (("ulx3s_85f",), Memory(30, 1.61), ""),
    (("ulx3s_85f", "--latency", "9"), Memory(9, 1.61), "")])
def test_emulated_memory_is_the_boards(tq: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...],
                                       memory: Memory, phy: str) -> None:
    seen: dict[str, Any] = {}

    def record(*_arguments: Any, **keywords: Any) -> None:
        seen.update(keywords)
        raise OptionError("enough")

    monkeypatch.setattr("tq_hw.cli.commands.emulate.Emulator", record)
    outcome = tq("emulate", "--board", *options)
    assert (outcome.code, outcome.err) == (2, "tq-hw: enough\n")
    assert (seen["memory"], seen["phy"]) == (memory, phy)


@pytest.mark.parametrize(("board", "memory"), [("arty_a7", Memory(30, 7.75)), ("ulx3s_85f", Memory(30, 1.61))])
def test_a_schedule_is_for_the_boards_memory(tq: Any, files: Path, monkeypatch: pytest.MonkeyPatch, board: str,
                                             memory: Memory) -> None:
    seen: list[Any] = []
    compiled = run_module.open_for_board

    def record(*arguments: Any, **keywords: Any) -> Any:
        seen.extend(arguments[1:])
        return compiled(*arguments, **keywords)

    monkeypatch.setattr(run_module, "open_for_board", record)
    assert tq("run", "--board", board, "--port", "./no-port", "keywords.tflite").code == 5
    assert seen == [BOARDS[board].config, memory]


def test_emulate_offers_a_port_and_survives_its_button(tq: Any, files: Path) -> None:
    """The real command in its own process, on the smallest board."""
    with subprocess.Popen([sys.executable, "-m", "tq_hw.cli", "emulate", "--board", "icebreaker", "--port", "board"],
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().split()[1]
            about = process.stdout.readline()
            assert about == f"icebreaker: configuration serial, 64 KiB of memory, process {process.pid}\n"
            assert os.readlink("board") == port
            for _ in range(2):
                outcome = tq("run", "--board", "icebreaker", "--port", "board", "keywords.tflite", "--inputs", "in.npz",
                             "--outputs", "out.npz")
                assert outcome.code == 0
                check_outputs(files)
                process.send_signal(signal.SIGUSR1)
                time.sleep(0.3)
        finally:
            process.terminate()
    assert process.returncode == 0
    assert not os.path.lexists("board")


@contextmanager
def emulation(*options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`tq-hw emulate` of the smallest board in its own process, and its port; killed if it does not end."""
    with subprocess.Popen([sys.executable, "-m", "tq_hw.cli", "emulate", "--board", "icebreaker", *options],
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().split()[1]
            assert process.stdout.readline().startswith("icebreaker: ")
            yield process, port
        finally:
            process.kill()


def ask_without_reading(port: str, count: int) -> int:
    """Send several identity requests to a board without reading an answer; return the handle."""
    handle = os.open(port, os.O_RDWR | os.O_NOCTTY)
    frames = Request(Command.OPEN, 1, 77, 24).to_bytes() * count
    while frames:
        assert select.select([], [handle], [], 20)[1], f"the board has not taken {len(frames)} bytes of requests"
        frames = frames[os.write(handle, frames[:100]):]
    return handle


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_peer_that_does_not_read_keeps_nobody(tq: Any, files: Path, number: signal.Signals) -> None:
    with emulation("--port", "board") as (process, port):
        # More answers than the buffers of the terminal and the emulator can hold.
        handle = ask_without_reading(port, 5000)
        process.send_signal(number)
        assert process.wait(10) == (0 if number is signal.SIGTERM else 130)
        os.close(handle)
    assert not os.path.lexists("board")


def test_a_peer_that_did_not_read_leaves_a_board_for_the_next(tq: Any, files: Path) -> None:
    with emulation() as (process, port):
        os.close(ask_without_reading(port, 5000))
        outcome = tq("run", "--board", "icebreaker", "--port", port, "keywords.tflite", "--inputs", "in.npz",
                     "--outputs", "out.npz")
        assert (outcome.code, outcome.err) == (0, "")
        check_outputs(files)
        process.terminate()
        assert process.wait(10) == 0


def test_a_second_client_of_a_port_is_refused(tq: Any, files: Path) -> None:
    hold = ("import sys; from tq_hw.boards.link.port import SerialPort; port = SerialPort(sys.argv[1], 115200)\n"
            "print('open', flush=True); sys.stdin.read()")
    arguments = ["run", "--board", "icebreaker", "keywords.tflite", "--inputs", "in.npz", "--port"]
    with emulation("--port", "board") as (_, port):
        with subprocess.Popen([sys.executable, "-c", hold, port], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as first:
            assert first.stdout is not None and first.stdout.readline() == "open\n"
            for name in (port, "board"):
                outcome = tq(*arguments, name)
                assert (outcome.code, outcome.err) == (
                    5, f"tq-hw: port {name} is in use by another program; close that first\n")
            first.communicate()
        assert tq(*arguments, port).code == 0


def test_an_emulation_leaves_the_name_of_another_one(tq: Any, files: Path) -> None:
    with emulation("--port", "board") as (first, _), emulation("--port", "board") as (second, port):
        first.terminate()
        assert first.wait(10) == 0
        assert os.readlink("board") == port
        second.terminate()
        assert second.wait(10) == 0
    assert not os.path.lexists("board")


@pytest.mark.parametrize(("arguments", "message"), [
    ((), "run needs --board and --port, for a board at the end of a cable, or --uio, for an accelerator in this "
         "processor's address space"),
    (("--port", "x", "--udmabuf", "/dev/udmabuf0"), "--udmabuf goes with --uio: a board has its own"),
    (("--uio", "x", "--port", "x"), "--port does not go with --uio: the accelerator is in this processor's address "
                                    "space"),
])
def test_places_that_do_not_go_together(tq: Any, files: Path, arguments: tuple[str, ...], message: str) -> None:
    outcome = tq("run", "keywords.tflite", *arguments)
    assert (outcome.code, outcome.err) == (2, f"tq-hw: {message}\n")


def test_an_accelerator_in_the_address_space(tq: Any, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2] / "boards"), *sys.path])
    from fake_uio import FakeUio

    program = compile_model(parse_model(keywords(), "keywords"), TINY).program
    fake = FakeUio(files, program)
    monkeypatch.setattr(uio, "_SYSFS", fake.sysfs)
    with fake:
        outcome = tq("run", "--uio", "uio0", "--udmabuf", "./udmabuf0", "--config", "tiny", "--clock-mhz", 150,
                     "keywords.tflite", "--inputs", "in.npz", "--outputs", "out.npz", "--no-layers", "--json", "r.json")
    assert (outcome.code, outcome.err) == (0, "")
    check_outputs(files)
    report = json.loads(Path("r.json").read_text())
    assert [report[key] for key in ("board", "port", "clock_hz", "bit_exact")] == ["uio", "uio0", 150_000_000, True]
    outcome = tq("run", "--uio", "uio1", "keywords.tflite")
    assert (outcome.code, outcome.err) == (
        5, "tq-hw: UIO device uio1 cannot be mapped: No such file or directory\n")


def test_a_model_of_which_a_part_stays_with_the_host(tq: Any, files: Path, start: Start) -> None:
    """Two parts with a host operator between them; also from the file of `compile --partition`."""
    pytest.importorskip("ai_edge_litert")
    (files / "middle.tflite").write_bytes(write_model(float_middle()))
    board = start()
    outcome = tq("run", "--partition", "--board", "small", "--port", board.port, "middle.tflite", "--sets", 2,
                 "--bench", 1, "--json", "report.json", "--outputs", "one.npz")
    assert (outcome.code, outcome.err) == (0, "")
    assert "host         1 operator, " in outcome.out
    report = json.loads(Path("report.json").read_text())
    assert (report["bit_exact"], report["board"], report["sets"], len(report["parts"])) == (True, "small", 2, 2)
    assert sum(row["cycles"] or 0 for row in report["layers"]) == report["cycles"] > 100
    assert [row["cycles"] for row in report["layers"] if row["unit"] == "host"] == [None]
    assert report["upload_bytes"] == sum(part["image_bytes"] for part in report["parts"])
    assert report["bench"]["cycles"]["median"] == report["cycles"]
    assert tq("compile", "--partition", "middle.tflite", "--config", "tiny", "-o", "tq.tflite").code == 0
    outcome = tq("run", "--board", "small", "--port", board.port, "tq.tflite", "--sets", 2, "--no-layers", "--outputs",
                 "two.npz", "--json", "report.json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(Path("report.json").read_text())["bit_exact"] is None
    one, two = np.load("one.npz")["output_0"], np.load("two.npz")["output_0"]
    assert np.array_equal(one, two)
    assert len(np.unique(one)) > 3, "the outputs say nothing"
    assert tq("compile", "--partition", "middle.tflite", "--config", "n8", "-o", "n8.tflite").code == 0
    outcome = tq("run", "--board", "small", "--port", board.port, "n8.tflite")
    assert outcome.code == 2
    assert "is compiled for configuration 'n8' (fingerprint " in outcome.err
    assert "compile it for the board's configuration" in outcome.err
