"""Waves: FST without the headers of a compressor, as read by another library; scopes, spans, and hidden names."""

import os
import random
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
import pywellen

from tests.sim.rtl.test_bench import start
from tq_hw.isa.config import PRESETS
from tq_hw.model.errors import OptionError
from tq_hw.sim.faults import SimulationError
from tq_hw.sim.rtl import build, waves
from tq_hw.sim.rtl.bench import Bench
from tq_hw.sim.rtl.tools import compiler
from tq_hw.sim.rtl.waves import Waves

VERILOG = r"""
module \accelerator.accelerator (clk, x);
  input clk;
  wire clk;
  wire [31:0] runs;
  wire \$1 ;
endmodule
module \accelerator.accelerator.load (clk);
  reg [2:0] level = 3'h0;
endmodule
module \accelerator.accelerator.load.clamp$76 (\port$59$0 );
  wire [7:0] \port$59$0 ;
endmodule
module other (clk);
  wire [3:0] nothing;
endmodule
"""
#: A program that decompresses LZ4 blocks as the format's description says, and compares.
CHECK = """
#include <cstdio>
#include <lz4.h>
int main() {
    std::vector<char> in;
    for (int c; (c = std::getchar()) != EOF;) in.push_back(char(c));
    std::vector<char> packed(size_t(LZ4_compressBound(int(in.size()))));
    int size = LZ4_compress_default(in.data(), packed.data(), int(in.size()), int(packed.size()));
    if (size > int(packed.size())) return 1;
    std::fwrite(packed.data(), 1, size_t(size), stdout);
}
"""


def unpack(block: bytes) -> bytes:
    """Return the contents of an LZ4 block."""
    out, at = bytearray(), 0

    def length(first: int) -> int:
        nonlocal at
        total = first
        while first == 15 or (total > 15 and block[at - 1] == 255):
            first, total, at = 0, total + block[at], at + 1
        return total
    while True:
        token, at = block[at], at + 1
        literals = length(token >> 4)
        out += block[at:at + literals]
        at += literals
        if at == len(block):
            return bytes(out)
        distance, at = block[at] | block[at + 1] << 8, at + 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-distance])


@pytest.fixture(scope="module")
def compressor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lz4")
    (folder / "check.cpp").write_text(CHECK)
    subprocess.run([compiler()[0], "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{waves.FST_HEADERS[0].parent}",
                    "check.cpp", "-o", "check"], cwd=folder, check=True)
    return folder / "check"


def test_lz4_blocks(compressor: Path) -> None:
    rng = random.Random(1)
    words = [rng.randbytes(rng.randrange(1, 40)) for _ in range(30)]
    for data in (b"", b"a", b"abcd" * 3, bytes(12), bytes(13), bytes(70_000), rng.randbytes(5_000),
                 b"".join(rng.choice(words) for _ in range(9_000)), rng.randbytes(70_000) * 2):
        packed = subprocess.run([compressor], input=data, capture_output=True, check=True).stdout
        assert unpack(packed) == data
    assert len(subprocess.run([compressor], input=bytes(70_000), capture_output=True, check=True).stdout) < 300


def test_fst(copier, tmp_path):
    with Bench(copier(8, "fst")) as bench:
        bench.trace(Waves(tmp_path / "a.fst", first_cycle=20, last_cycle=60))
        start(bench, 1280)
        assert bench.run(5_000)
    found = pywellen.Waveform(str(tmp_path / "a.fst"))
    clock = next(var for var in found.all_vars() if var.full_name == "TOP.clk")
    changes = [(time, value) for time, value in clock.signal]
    # A nanosecond is a cycle, whose number changes at the rising edge.
    assert changes[:3] == [(20_000, 1), (20_500, 0), (21_000, 1)] and changes[-1] == (60_500, 0)


def test_names_and_modules():
    assert waves.signals_of(VERILOG) == {"": {"clk": 1, "runs": 32}, "load": {"level": 3}, "load.clamp": {}}
    hidden = waves.without_made_up_names(VERILOG)
    assert r"\_$1 " in hidden and r"\_port$59$0 " in hidden and r"load.clamp$76 (" in hidden


def test_scopes(tmp_path):
    library = tmp_path / "lib.so"
    (tmp_path / waves.SIGNALS).write_text('{"": {}, "load": {}, "load.clamp": {}}')
    assert waves.full_scopes(["load.clamp"], library) == ["TOP.accelerator.accelerator.load.clamp"]
    assert waves.full_scopes([], tmp_path / "none" / "lib.so") == []
    with pytest.raises(OptionError, match="^the machine has no scope 'lod.clamp'; it has load, and others in them, "
                                          "such as 'load.clamp'$"):
        waves.full_scopes(["lod.clamp"], library)


@pytest.mark.parametrize(("error", "kept"), [
    (None, b"new"), (SimulationError("stopped"), b"new"), (KeyboardInterrupt(), b"old"), (OptionError("no"), b"old")])
def test_waves_take_the_place_of_others_when_they_are_whole(tmp_path, error, kept):
    (tmp_path / "a.fst").write_bytes(b"old")
    with pytest.raises(type(error)) if error else nullcontext(), waves.written_whole(
            Waves(tmp_path / "a.fst", ("load",), 3, 9)) as recorded:
        assert (recorded.kind, recorded.scopes, recorded.first_cycle, recorded.last_cycle) == ("fst", ("load",), 3, 9)
        Path(recorded.path).write_bytes(b"new")
        if error:
            raise error
    assert (os.listdir(tmp_path), (tmp_path / "a.fst").read_bytes()) == (["a.fst"], kept)


def test_waves_where_no_file_can_be_made(tmp_path):
    with (pytest.raises(OptionError, match="^waves cannot be written to .*/no/a.fst: No such file or directory$"),
          waves.written_whole(Waves(tmp_path / "no" / "a.fst"))):
        pass


def test_an_unknown_scope_makes_no_file(copier, tmp_path, monkeypatch):
    monkeypatch.setattr(waves, "read_signals", lambda _library: {"": {}, "load": {}})
    with Bench(copier(8, "fst")) as bench, pytest.raises(OptionError, match="^the machine has no scope 'lod'; it has "):
        bench.trace(Waves(tmp_path / "a.fst", ("lod",)))
    assert os.listdir(tmp_path) == []


def test_an_unknown_scope_is_rejected_before_anything_is_compiled(monkeypatch):
    monkeypatch.setattr(build, "_known", {})
    monkeypatch.setattr(build, "run_tool", lambda *_: pytest.fail("a tool was called"))
    monkeypatch.setattr(build, "intact", lambda _: False)
    with pytest.raises(OptionError, match="^the machine has no scope 'cor'; it has core, port, and others in them, "
                                          "such as 'core'$"):
        build.library(PRESETS["serial"], trace="vcd", scopes=["cor"])


def test_bad_waves():
    with pytest.raises(OptionError, match="must end in .fst or .vcd, not 'a.txt'"):
        Waves("a.txt")
    with pytest.raises(OptionError, match="the waves begin in cycle 7 and cannot end before, in cycle 6"):
        Waves("a.fst", first_cycle=7, last_cycle=6)
