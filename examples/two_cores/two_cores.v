// Two generated cores that share one memory: the part written by hand around `tq-hw generate`.
//
// `left` has its registers on AXI4-Lite, `right` on APB. Addresses alternate. The upper bit of an id names the core of
// a burst, so that answers may come in any order. A burst of writes keeps the channel until its last word.
`default_nettype none

module two_cores (
  input wire aclk,
  input wire aresetn,
  input wire [11:0] s_axi_awaddr,
  input wire [2:0] s_axi_awprot,
  input wire s_axi_awvalid,
  output wire s_axi_awready,
  input wire [31:0] s_axi_wdata,
  input wire [3:0] s_axi_wstrb,
  input wire s_axi_wvalid,
  output wire s_axi_wready,
  output wire [1:0] s_axi_bresp,
  output wire s_axi_bvalid,
  input wire s_axi_bready,
  input wire [11:0] s_axi_araddr,
  input wire [2:0] s_axi_arprot,
  input wire s_axi_arvalid,
  output wire s_axi_arready,
  output wire [31:0] s_axi_rdata,
  output wire [1:0] s_axi_rresp,
  output wire s_axi_rvalid,
  input wire s_axi_rready,
  input wire [11:0] s_apb_paddr,
  input wire [2:0] s_apb_pprot,
  input wire s_apb_psel,
  input wire s_apb_penable,
  input wire s_apb_pwrite,
  input wire [31:0] s_apb_pwdata,
  input wire [3:0] s_apb_pstrb,
  output wire s_apb_pready,
  output wire [31:0] s_apb_prdata,
  output wire s_apb_pslverr,
  output wire [1:0] m_axi_arid,
  output wire [31:0] m_axi_araddr,
  output wire [7:0] m_axi_arlen,
  output wire [2:0] m_axi_arsize,
  output wire [1:0] m_axi_arburst,
  output wire [3:0] m_axi_arcache,
  output wire [2:0] m_axi_arprot,
  output wire m_axi_arvalid,
  input wire m_axi_arready,
  input wire [1:0] m_axi_rid,
  input wire [63:0] m_axi_rdata,
  input wire [1:0] m_axi_rresp,
  input wire m_axi_rlast,
  input wire m_axi_rvalid,
  output wire m_axi_rready,
  output wire [1:0] m_axi_awid,
  output wire [31:0] m_axi_awaddr,
  output wire [7:0] m_axi_awlen,
  output wire [2:0] m_axi_awsize,
  output wire [1:0] m_axi_awburst,
  output wire [3:0] m_axi_awcache,
  output wire [2:0] m_axi_awprot,
  output wire m_axi_awvalid,
  input wire m_axi_awready,
  output wire [63:0] m_axi_wdata,
  output wire [7:0] m_axi_wstrb,
  output wire m_axi_wlast,
  output wire m_axi_wvalid,
  input wire m_axi_wready,
  input wire [1:0] m_axi_bid,
  input wire [1:0] m_axi_bresp,
  input wire m_axi_bvalid,
  output wire m_axi_bready,
  output wire left_interrupt,
  output wire right_interrupt
);
  wire l_arid;
  wire [31:0] l_araddr;
  wire [7:0] l_arlen;
  wire [2:0] l_arsize;
  wire [1:0] l_arburst;
  wire [3:0] l_arcache;
  wire [2:0] l_arprot;
  wire l_arvalid;
  wire l_arready;
  wire l_rid;
  wire l_rvalid;
  wire l_rready;
  wire l_awid;
  wire [31:0] l_awaddr;
  wire [7:0] l_awlen;
  wire [2:0] l_awsize;
  wire [1:0] l_awburst;
  wire [3:0] l_awcache;
  wire [2:0] l_awprot;
  wire l_awvalid;
  wire l_awready;
  wire [63:0] l_wdata;
  wire [7:0] l_wstrb;
  wire l_wlast;
  wire l_wvalid;
  wire l_wready;
  wire l_bid;
  wire l_bvalid;
  wire l_bready;
  wire r_arid;
  wire [31:0] r_araddr;
  wire [7:0] r_arlen;
  wire [2:0] r_arsize;
  wire [1:0] r_arburst;
  wire [3:0] r_arcache;
  wire [2:0] r_arprot;
  wire r_arvalid;
  wire r_arready;
  wire r_rid;
  wire r_rvalid;
  wire r_rready;
  wire r_awid;
  wire [31:0] r_awaddr;
  wire [7:0] r_awlen;
  wire [2:0] r_awsize;
  wire [1:0] r_awburst;
  wire [3:0] r_awcache;
  wire [2:0] r_awprot;
  wire r_awvalid;
  wire r_awready;
  wire [63:0] r_wdata;
  wire [7:0] r_wstrb;
  wire r_wlast;
  wire r_wvalid;
  wire r_wready;
  wire r_bid;
  wire r_bvalid;
  wire r_bready;

  // Reads: an offered choice stays until it is accepted.
  reg read_right, read_held;
  wire read_now = read_held ? read_right : r_arvalid && (!l_arvalid || !read_right);
  always @(posedge aclk)
    if (!aresetn) begin
      read_right <= 1'b0;
      read_held <= 1'b0;
    end else begin
      read_held <= m_axi_arvalid && !m_axi_arready;
      if (m_axi_arvalid) read_right <= read_now;
    end
  assign m_axi_arvalid = read_now ? r_arvalid : l_arvalid;
  assign l_arready = m_axi_arready && !read_now;
  assign r_arready = m_axi_arready && read_now;
  assign m_axi_arid = {read_now, read_now ? r_arid : l_arid};
  assign m_axi_araddr = read_now ? r_araddr : l_araddr;
  assign m_axi_arlen = read_now ? r_arlen : l_arlen;
  assign m_axi_arsize = read_now ? r_arsize : l_arsize;
  assign m_axi_arburst = read_now ? r_arburst : l_arburst;
  assign m_axi_arcache = read_now ? r_arcache : l_arcache;
  assign m_axi_arprot = read_now ? r_arprot : l_arprot;
  assign l_rvalid = m_axi_rvalid && !m_axi_rid[1];
  assign r_rvalid = m_axi_rvalid && m_axi_rid[1];
  assign l_rid = m_axi_rid[0];
  assign r_rid = m_axi_rid[0];
  assign m_axi_rready = m_axi_rid[1] ? r_rready : l_rready;

  // Writes: one burst at a time, its address and its words.
  reg write_right, writing, addressed;
  wire ends = m_axi_wvalid && m_axi_wready && m_axi_wlast;
  always @(posedge aclk)
    if (!aresetn) begin
      write_right <= 1'b0;
      writing <= 1'b0;
      addressed <= 1'b0;
    end else if (!writing) begin
      writing <= l_awvalid || r_awvalid;
      write_right <= r_awvalid && (!l_awvalid || !write_right);
      addressed <= 1'b0;
    end else begin
      if (m_axi_awvalid && m_axi_awready) addressed <= 1'b1;
      if (ends) writing <= 1'b0;
    end
  assign m_axi_awvalid = writing && !addressed && (write_right ? r_awvalid : l_awvalid);
  assign l_awready = writing && !addressed && m_axi_awready && !write_right;
  assign r_awready = writing && !addressed && m_axi_awready && write_right;
  // Words wait for their address, so that both are done when the last word is.
  assign m_axi_wvalid = writing && addressed && (write_right ? r_wvalid : l_wvalid);
  assign l_wready = writing && addressed && m_axi_wready && !write_right;
  assign r_wready = writing && addressed && m_axi_wready && write_right;
  assign m_axi_awid = {write_right, write_right ? r_awid : l_awid};
  assign m_axi_awaddr = write_right ? r_awaddr : l_awaddr;
  assign m_axi_awlen = write_right ? r_awlen : l_awlen;
  assign m_axi_awsize = write_right ? r_awsize : l_awsize;
  assign m_axi_awburst = write_right ? r_awburst : l_awburst;
  assign m_axi_awcache = write_right ? r_awcache : l_awcache;
  assign m_axi_awprot = write_right ? r_awprot : l_awprot;
  assign m_axi_wdata = write_right ? r_wdata : l_wdata;
  assign m_axi_wstrb = write_right ? r_wstrb : l_wstrb;
  assign m_axi_wlast = write_right ? r_wlast : l_wlast;
  assign l_bvalid = m_axi_bvalid && !m_axi_bid[1];
  assign r_bvalid = m_axi_bvalid && m_axi_bid[1];
  assign l_bid = m_axi_bid[0];
  assign r_bid = m_axi_bid[0];
  assign m_axi_bready = m_axi_bid[1] ? r_bready : l_bready;

  left u_left (
    .aclk(aclk),
    .aresetn(aresetn),
    .interrupt(left_interrupt),
    .s_axi_awaddr(s_axi_awaddr),
    .s_axi_awprot(s_axi_awprot),
    .s_axi_awvalid(s_axi_awvalid),
    .s_axi_awready(s_axi_awready),
    .s_axi_wdata(s_axi_wdata),
    .s_axi_wstrb(s_axi_wstrb),
    .s_axi_wvalid(s_axi_wvalid),
    .s_axi_wready(s_axi_wready),
    .s_axi_bresp(s_axi_bresp),
    .s_axi_bvalid(s_axi_bvalid),
    .s_axi_bready(s_axi_bready),
    .s_axi_araddr(s_axi_araddr),
    .s_axi_arprot(s_axi_arprot),
    .s_axi_arvalid(s_axi_arvalid),
    .s_axi_arready(s_axi_arready),
    .s_axi_rdata(s_axi_rdata),
    .s_axi_rresp(s_axi_rresp),
    .s_axi_rvalid(s_axi_rvalid),
    .s_axi_rready(s_axi_rready),
    .m_axi_arid(l_arid),
    .m_axi_araddr(l_araddr),
    .m_axi_arlen(l_arlen),
    .m_axi_arsize(l_arsize),
    .m_axi_arburst(l_arburst),
    .m_axi_arcache(l_arcache),
    .m_axi_arprot(l_arprot),
    .m_axi_arvalid(l_arvalid),
    .m_axi_arready(l_arready),
    .m_axi_rid(l_rid),
    .m_axi_rdata(m_axi_rdata),
    .m_axi_rresp(m_axi_rresp),
    .m_axi_rlast(m_axi_rlast),
    .m_axi_rvalid(l_rvalid),
    .m_axi_rready(l_rready),
    .m_axi_awid(l_awid),
    .m_axi_awaddr(l_awaddr),
    .m_axi_awlen(l_awlen),
    .m_axi_awsize(l_awsize),
    .m_axi_awburst(l_awburst),
    .m_axi_awcache(l_awcache),
    .m_axi_awprot(l_awprot),
    .m_axi_awvalid(l_awvalid),
    .m_axi_awready(l_awready),
    .m_axi_wdata(l_wdata),
    .m_axi_wstrb(l_wstrb),
    .m_axi_wlast(l_wlast),
    .m_axi_wvalid(l_wvalid),
    .m_axi_wready(l_wready),
    .m_axi_bid(l_bid),
    .m_axi_bresp(m_axi_bresp),
    .m_axi_bvalid(l_bvalid),
    .m_axi_bready(l_bready)
  );

  right u_right (
    .aclk(aclk),
    .aresetn(aresetn),
    .interrupt(right_interrupt),
    .s_apb_paddr(s_apb_paddr),
    .s_apb_pprot(s_apb_pprot),
    .s_apb_psel(s_apb_psel),
    .s_apb_penable(s_apb_penable),
    .s_apb_pwrite(s_apb_pwrite),
    .s_apb_pwdata(s_apb_pwdata),
    .s_apb_pstrb(s_apb_pstrb),
    .s_apb_pready(s_apb_pready),
    .s_apb_prdata(s_apb_prdata),
    .s_apb_pslverr(s_apb_pslverr),
    .m_axi_arid(r_arid),
    .m_axi_araddr(r_araddr),
    .m_axi_arlen(r_arlen),
    .m_axi_arsize(r_arsize),
    .m_axi_arburst(r_arburst),
    .m_axi_arcache(r_arcache),
    .m_axi_arprot(r_arprot),
    .m_axi_arvalid(r_arvalid),
    .m_axi_arready(r_arready),
    .m_axi_rid(r_rid),
    .m_axi_rdata(m_axi_rdata),
    .m_axi_rresp(m_axi_rresp),
    .m_axi_rlast(m_axi_rlast),
    .m_axi_rvalid(r_rvalid),
    .m_axi_rready(r_rready),
    .m_axi_awid(r_awid),
    .m_axi_awaddr(r_awaddr),
    .m_axi_awlen(r_awlen),
    .m_axi_awsize(r_awsize),
    .m_axi_awburst(r_awburst),
    .m_axi_awcache(r_awcache),
    .m_axi_awprot(r_awprot),
    .m_axi_awvalid(r_awvalid),
    .m_axi_awready(r_awready),
    .m_axi_wdata(r_wdata),
    .m_axi_wstrb(r_wstrb),
    .m_axi_wlast(r_wlast),
    .m_axi_wvalid(r_wvalid),
    .m_axi_wready(r_wready),
    .m_axi_bid(r_bid),
    .m_axi_bresp(m_axi_bresp),
    .m_axi_bvalid(r_bvalid),
    .m_axi_bready(r_bready)
  );
endmodule

`default_nettype wire
