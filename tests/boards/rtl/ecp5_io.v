// Cells that the DRAM core instantiates at its pins, as described in Lattice's library.
module OFS1P3BX (input wire D, SP, SCLK, PD, output reg Q);
    always @(posedge SCLK or posedge PD) if (PD) Q <= 1; else if (SP) Q <= D;
endmodule

module IFS1P3BX (input wire D, SP, SCLK, PD, output reg Q);
    always @(posedge SCLK or posedge PD) if (PD) Q <= 1; else if (SP) Q <= D;
endmodule

module FD1S3BX (input wire D, CK, PD, output reg Q);
    always @(posedge CK or posedge PD) if (PD) Q <= 1; else Q <= D;
endmodule

module TRELLIS_IO #(parameter DIR = "INPUT") (inout wire B, input wire I, T, output wire O);
    assign B = T ? 1'bz : I;
    assign O = B;
endmodule
