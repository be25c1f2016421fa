// A reader, a controller and its SDR SDRAM.
module board (input wire clk, rst, mem_clk, mem_pin_clk, output wire [31:0] beats, output wire [3:0] broken);
    wire [12:0] a;
    wire [1:0] ba, dm;
    wire ras_n, cas_n, we_n, cs_n, cke;
    wire [15:0] dq;
    fpga fpga (
        .clk(clk), .rst(rst), .mem_clk(mem_clk), .beats(beats),
        .sdram_a(a), .sdram_ba(ba), .sdram_dm(dm), .sdram_ras_n(ras_n), .sdram_cas_n(cas_n), .sdram_we_n(we_n),
        .sdram_cs_n(cs_n), .sdram_cke(cke), .sdram_dq(dq)
    );
    sdram_chip chip (
        .clk(mem_pin_clk), .cke(cke), .cs_n(cs_n), .ras_n(ras_n), .cas_n(cas_n), .we_n(we_n), .ba(ba), .a(a),
        .dqm(dm), .dq(dq), .broken(broken), .refreshes()
    );
endmodule
