"""The harness and its memory, on a small machine that copies: exact times, stalls, errors, rules of the bus."""

import random
import subprocess

import pytest

from tq_hw.isa.control import REGISTERS, STATUS_DONE, STATUS_ERROR
from tq_hw.isa.memory import Memory
from tq_hw.model.errors import MissingToolError, OptionError, ToolError
from tq_hw.sim.rtl import build
from tq_hw.sim.rtl.bench import Bench

#: Copies `command_bytes` from base0 to base1 with every byte inverted, in bursts of 16 beats, one at a time.
#: command_offset: bit 4 = change ARADDR while it waits, bit 5 = never end.
COPIER = """
module accelerator(
  input clk, input rst,
  output reg m_axi_arvalid, input m_axi_arready, output reg [31:0] m_axi_araddr, output [7:0] m_axi_arlen,
  output m_axi_arid, output [2:0] m_axi_arsize, output [1:0] m_axi_arburst, output [3:0] m_axi_arcache,
  output [2:0] m_axi_arprot,
  input m_axi_rvalid, output m_axi_rready, input [WIDTH-1:0] m_axi_rdata, input [1:0] m_axi_rresp, input m_axi_rlast,
  input m_axi_rid,
  output reg m_axi_awvalid, input m_axi_awready, output reg [31:0] m_axi_awaddr, output [7:0] m_axi_awlen,
  output m_axi_awid, output [2:0] m_axi_awsize, output [1:0] m_axi_awburst, output [3:0] m_axi_awcache,
  output [2:0] m_axi_awprot,
  output m_axi_wvalid, input m_axi_wready, output [WIDTH-1:0] m_axi_wdata, output [WIDTH/8-1:0] m_axi_wstrb,
  output m_axi_wlast,
  input m_axi_bvalid, output m_axi_bready, input [1:0] m_axi_bresp, input m_axi_bid,
  input [7:0] reg_addr, input reg_write_en, input [31:0] reg_write_data, output reg [31:0] reg_read_data,
  output interrupt);
  parameter WIDTH = 64;
  localparam BEATS = 16, BYTES = WIDTH / 8;
  reg [31:0] base0, base1, options, left;
  reg [2:0] status;
  reg [2:0] state;
  reg [4:0] got, put;
  reg [WIDTH-1:0] buffer [0:BEATS-1];
  assign m_axi_arlen = BEATS - 1, m_axi_awlen = BEATS - 1, m_axi_arid = 1, m_axi_awid = 0;
  assign m_axi_arsize = $clog2(BYTES), m_axi_awsize = $clog2(BYTES), m_axi_arburst = 1, m_axi_awburst = 1;
  assign m_axi_arcache = 3, m_axi_awcache = 3, m_axi_arprot = 0, m_axi_awprot = 0;
  assign m_axi_rready = 1, m_axi_bready = 1, m_axi_wstrb = ~0;
  assign m_axi_wvalid = state == 3, m_axi_wdata = ~buffer[put[3:0]], m_axi_wlast = put == BEATS - 1;
  assign interrupt = |status[2:1];
  always @(posedge clk) begin
    reg_read_data <= reg_addr == 8'h0c ? status : reg_addr == 8'h30 ? base0 : 0;
    if (reg_write_en) case (reg_addr)
      8'h1c: options <= reg_write_data;
      8'h20: left <= reg_write_data;
      8'h30: base0 <= reg_write_data;
      8'h34: base1 <= reg_write_data;
      8'h08: begin state <= 1; status <= 1; m_axi_arvalid <= 1; m_axi_araddr <= base0; m_axi_awaddr <= base1; end
    endcase
    if (m_axi_arvalid && options[4]) m_axi_araddr <= m_axi_araddr + 4096;
    if (m_axi_arvalid && m_axi_arready) begin m_axi_arvalid <= 0; got <= 0; state <= 2; end
    if (m_axi_rvalid) begin
      buffer[got[3:0]] <= m_axi_rdata;
      got <= got + 1;
      if (m_axi_rresp != 0) begin status <= 4; state <= 0; end
      else if (m_axi_rlast) begin state <= 3; put <= 0; m_axi_awvalid <= 1; end
    end
    if (m_axi_awvalid && m_axi_awready) m_axi_awvalid <= 0;
    if (m_axi_wvalid && m_axi_wready) begin
      put <= put + 1;
      if (m_axi_wlast) state <= 4;
    end
    if (m_axi_bvalid) begin
      left <= left - BEATS * BYTES;
      if (m_axi_bresp != 0) begin status <= 4; state <= 0; end
      else if (left == BEATS * BYTES) begin status <= options[5] ? 1 : 2; state <= 0; end
      else begin
        m_axi_arvalid <= 1; state <= 1;
        m_axi_araddr <= m_axi_araddr + BEATS * BYTES; m_axi_awaddr <= m_axi_awaddr + BEATS * BYTES;
      end
    end
    if (rst) begin state <= 0; status <= 0; m_axi_arvalid <= 0; m_axi_awvalid <= 0; options <= 0; end
  end
endmodule
"""
SOURCE, TARGET = 0x10000000, 0x20000000


@pytest.fixture(scope="session")
def copier():
    """Both bus widths with different C++ port types; kept in the user's cache like any other build."""
    def make(bus_bytes: int, trace: str = ""):
        return build.build_verilog(lambda: COPIER.replace("WIDTH = 64", f"WIDTH = {8 * bus_bytes}"), bus_bytes,
                                   f"copier-{build._key(COPIER)}", trace=trace)
    return make


def start(bench: Bench, size: int, options: int = 0, source: int = SOURCE, target: int = TARGET) -> bytes:
    """Map memory, start a copy, return what is to be in the target."""
    contents = random.Random(size).randbytes(size)
    bench.map(SOURCE, contents, writable=False)
    bench.map(TARGET, bytes(size))
    for name, value in (("base0", source), ("base1", target), ("command_offset", options), ("command_bytes", size),
                        ("control", 1)):
        bench.write_register(name, value)
    return bytes(255 - byte for byte in contents)


@pytest.mark.parametrize("bus_bytes", [8, 16])
@pytest.mark.parametrize("latency", [1, 30])
def test_copy_takes_the_time_it_should(copier, bus_bytes, latency):
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
        # A beat comes `latency` cycles after its address, the next address the cycle after the response.
        assert bench.cycles == bursts * (latency + 16 + 16 + latency)


@pytest.mark.parametrize(("bytes_per_cycle", "cycles"), [
    (4, 3200 * 2), (2.5, 3200 * 16 // 5 - 1), (16, 100 * (1 + 16 + 16 + 1))])
def test_bytes_per_cycle(copier, bytes_per_cycle, cycles):
    """3200 beats of 8 bytes at the memory's rate; where it is not what limits, as above."""
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


def test_memory_that_is_not_there(copier):
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
        with pytest.raises(ToolError, match="AR channel changed what it offered"):
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
        bench.trace(tmp_path / "a.vcd")
        start(bench, 128)
        assert bench.run(5_000)
    assert "m_axi_araddr" in (tmp_path / "a.vcd").read_text()
    with Bench(copier(8)) as bench, pytest.raises(OptionError, match="waves cannot be written"):
        bench.trace(tmp_path / "b.vcd")


def test_missing_tools(monkeypatch):
    def make():
        return build.build_verilog(lambda: "", 8, "never")
    monkeypatch.setattr(build.shutil, "which", lambda name: None if name == "make" else name)
    with pytest.raises(MissingToolError, match="make is needed .* apt install make"):
        make()


def test_fst_without_lz4(monkeypatch):
    monkeypatch.setattr(build.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))
    with pytest.raises(MissingToolError, match="apt install liblz4-dev zlib1g-dev; .* ends in .vcd"):
        build.build_verilog(lambda: "", 8, "never", trace="fst")


def test_failed_build_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ToolError, match=r"verilator failed .*\n(.*\n)*.*syntax error"):
        build.build_verilog(lambda: "module accelerator(; endmodule", 8, "bad")
    assert [path.suffix for path in (tmp_path / "tq-hw" / "rtl").iterdir()] == [".lock"]


def test_every_register_has_an_offset_of_its_own():
    assert len({register.offset_bytes for register in REGISTERS}) == len(REGISTERS)
