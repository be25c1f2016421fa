"""A small machine that copies data, for tests of the harness and of the cache of simulators."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tq_hw.sim.rtl import build

#: Copies `command_bytes` from base0 to base1 with every byte inverted, in bursts of 16 beats, one burst at a time.
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

Copier = Callable[..., Path]


@pytest.fixture(scope="session")
def copier() -> Copier:
    """Libraries for both bus widths, whose C++ ports differ in type; kept in the user's cache, as other builds."""
    def make(bus_bytes: int, trace: str = "") -> Path:
        return build.build_verilog(lambda: COPIER.replace("WIDTH = 64", f"WIDTH = {8 * bus_bytes}"), bus_bytes,
                                   f"copier-{build._key(COPIER)}", trace=trace)
    return make
