"""Models of memories and multipliers whose cells have no behaviour in Yosys' libraries, for benches/gate_level.py.

They are written from the vendors' descriptions (Lattice FPGA-TN-02204 and -02205, AMD UG473, Gowin UG285 and UG287) for
the modes in which Yosys uses the cells; any other mode ends the simulation. If one port reads a byte while the other
writes it, the read returns the byte's inverse, because the vendors promise nothing.
"""

from collections.abc import Iterator

__all__ = ["MODELLED", "models"]

#: Replacements in a family's netlist for cells that have a model here.
MODELLED = {"ecp5": ("DP16KD", "MULT18X18D"), "gowin": ("SP", "SPX9", "SDPX9B", "MULT9X9", "MULT18X18"), "ice40": (),
            "xc7": ("RAMB18E1", "RAMB36E1")}

_RAM = """\
// Bytes of nine bits behind two ports; WIDTH 0 is a port that is not there. Addresses count bits of eight to a byte.
module gate_ram #(parameter BYTES = 2048, parameter WIDTH_A = 9, parameter WIDTH_B = 9, parameter MODE_A = 0,
                  parameter MODE_B = 0, parameter OLD = 0, parameter [BYTES * 9 - 1:0] INIT = 0)
                 (input clk, input en_a, rst_a, input [7:0] we_a, input [15:0] addr_a, input [71:0] di_a,
                  output reg [71:0] do_a, input en_b, input [7:0] we_b, input [15:0] addr_b, input [71:0] di_b,
                  output reg [71:0] do_b);
  // MODE: what a port that writes reads: 0 nothing new, 1 the new, 2 the old word.
  reg [8:0] store [0:BYTES - 1];
  integer i;
  reg [8:0] old;
  initial begin
    for (i = 0; i < BYTES; i = i + 1) store[i] = INIT[i * 9 +: 9];
    do_a = 0;
    do_b = 0;
  end
{ports}  always @(posedge clk) begin
    // Both ports read what was there before either writes.
{reads}    if (rst_a) do_a <= 0;
{writes}  end
endmodule
"""
#: For port P, where a byte begins and whether the port writes it.
_PORT = """\
  localparam COUNT_P = WIDTH_P < 9 ? 1 : WIDTH_P / 9;
  wire [15:0] first_p = (addr_p >> 3) / COUNT_P * COUNT_P;
  wire [3:0] bit_p = WIDTH_P < 9 ? addr_p[2:0] / (WIDTH_P ? WIDTH_P : 1) * WIDTH_P : 0;
  wire [8:0] mask_p = WIDTH_P < 9 ? ((1 << WIDTH_P) - 1) << bit_p : 9'h1ff;
  function written_by_p(input [15:0] place);
    written_by_p = WIDTH_P != 0 && en_p && place >= first_p && place < first_p + COUNT_P && we_p[place - first_p];
  endfunction
"""
#: Port P reads while Q may write.
_READ = """\
    if (WIDTH_P != 0 && en_p && !(MODE_P == 0 && we_p != 0))
      for (i = 0; i < COUNT_P; i = i + 1) begin
        old = written_by_q(first_p + i) && !OLD ? ~store[first_p + i] : store[first_p + i];
        if (MODE_P == 1 && we_p[i]) old = old & ~mask_p | (di_p[i * 9 +: 9] << bit_p) & mask_p;
        do_p[i * 9 +: 9] <= (old & mask_p) >> bit_p;
      end
"""
_WRITE = """\
    if (WIDTH_P != 0 && en_p)
      for (i = 0; i < COUNT_P; i = i + 1)
        if (we_p[i])
          store[first_p + i] = store[first_p + i] & ~mask_p | (di_p[i * 9 +: 9] << bit_p) & mask_p;
"""


def _of_ports(text: str) -> str:
    """Return a text about port P and the other port Q, once for A and once for B."""
    return "".join(text.replace("_p", f"_{port}").replace("_P", f"_{port.upper()}").replace("_q", f"_{other}")
                   for port, other in ("ab", "ba"))


def _bus(name: str, bits: int, way: str) -> str:
    """Return the port declarations of a bus whose bits are separate ports."""
    return f"  {way} " + ", ".join(f"{name}{bit}" for bit in reversed(range(bits)))


def _joined(name: str, bits: int) -> str:
    return "{" + ", ".join(f"{name}{bit}" for bit in reversed(range(bits))) + "}"


def _initial(name: str, count: int, bits: int) -> str:
    return "\n".join(f"  parameter [{bits - 1}:0] {name}_{number:02X} = 0;" for number in range(count))


def _must(condition: str, cell: str) -> str:
    return f'  initial if (!({condition})) begin $display("{cell}: a use without a model"); $fatal; end\n'


def _ecp5_ram() -> str:
    ports = ",\n".join(_bus(f"{name}{port}", bits, way) for port in "AB" for name, bits, way in (
        ("DI", 18, "input"), ("AD", 14, "input"), ("DO", 18, "output")))
    controls = ", ".join(f"{name}{port}" for port in "AB" for name in ("CE", "OCE", "CLK", "WE", "RST"))
    selects = ", ".join(f"CS{port}{bit}" for port in "AB" for bit in range(3))
    slices = ",\n".join(f"    INITVAL_{slice_:02X}[{word * 20} +: 18]" for slice_ in reversed(range(64))
                        for word in reversed(range(16)))
    modes = "\n".join(f'  parameter WRITEMODE_{port} = "NORMAL", REGMODE_{port} = "NOREG", CSDECODE_{port} = "0b000", '
                      f'CLK{port}MUX = "CLK{port}";\n  parameter DATA_WIDTH_{port} = 18;' for port in "AB")
    mode = '(WRITEMODE_{0} == "READBEFOREWRITE" ? 2 : WRITEMODE_{0} == "WRITETHROUGH" ? 1 : 0)'
    return f"""\
module gate_DP16KD(
{ports},
  input {controls},
  input {selects});
{modes}
  parameter GSR = "AUTO", RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC", INIT_DATA = "STATIC";
{_initial("INITVAL", 64, 320)}
{_must('REGMODE_A == "NOREG" && REGMODE_B == "NOREG" && CLKAMUX == "CLKA" && CLKBMUX == "CLKB"', "DP16KD")}
  // Thirty-six bits: port A writes the lower half, B's inputs the upper one; B reads, the lower half at A's outputs.
  localparam WIDE = DATA_WIDTH_A == 36 && DATA_WIDTH_B == 36;
{_must("WIDE || (DATA_WIDTH_A <= 18 && DATA_WIDTH_B <= 18)", "DP16KD")}
  wire [13:0] ad_a = {_joined("ADA", 14)}, ad_b = {_joined("ADB", 14)};
  wire [17:0] in_a = {_joined("DIA", 18)}, in_b = {_joined("DIB", 18)};
  wire [71:0] out_a, out_b;
  wire [3:0] bytes_a = WIDE ? ad_a[3:0] : DATA_WIDTH_A == 18 ? ad_a[1:0] : 1;
  wire [3:0] bytes_b = DATA_WIDTH_B == 18 ? ad_b[1:0] : 1;
  gate_ram #(.BYTES(2048), .WIDTH_A(DATA_WIDTH_A), .WIDTH_B(DATA_WIDTH_B), .MODE_A({mode.format("A")}),
             .MODE_B({mode.format("B")}), .INIT({{
{slices}}})) ram (.clk(CLKA | CLKB), .en_a(CEA), .we_a(WEA ? bytes_a : 0), .addr_a(ad_a),
             .di_a(WIDE ? {{in_b, in_a}} : in_a), .do_a(out_a), .rst_a(1'b0), .en_b(CEB),
             .we_b(WEB && !WIDE ? bytes_b : 0), .addr_b(ad_b), .di_b(in_b), .do_b(out_b));
  assign {_joined("DOA", 18)} = WIDE ? out_b[17:0] : out_a[17:0];
  assign {_joined("DOB", 18)} = WIDE ? out_b[35:18] : out_b[17:0];
  always @(posedge (CLKA | CLKB)) if ($time > 0 && (RSTA || RSTB)) begin
    $display("DP16KD: reset without a model");
    $fatal;
  end
endmodule
"""


def _ecp5_multiplier() -> str:
    inputs = ",\n".join(_bus(name, 18, "input") for name in ("A", "B", "C", "SRIA", "SRIB"))
    controls = ", ".join(f"{name}{number}" for name in ("CLK", "CE", "RST") for number in range(4))
    outputs = ",\n".join(_bus(name, 18, "output") for name in ("ROA", "ROB", "ROC", "SROA", "SROB"))
    return f"""\
module gate_MULT18X18D(
{inputs},
  input {controls}, SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
{outputs},
{_bus("P", 36, "output")}, output SIGNEDP);
  parameter REG_INPUTA_CLK = "NONE", REG_INPUTB_CLK = "NONE", REG_PIPELINE_CLK = "NONE", REG_OUTPUT_CLK = "NONE";
{_must('REG_INPUTA_CLK == "NONE" && REG_INPUTB_CLK == "NONE" && REG_PIPELINE_CLK == "NONE" '
       '&& REG_OUTPUT_CLK == "NONE"', "MULT18X18D")}
  wire [17:0] a = {_joined("A", 18)}, b = {_joined("B", 18)};
  wire signed [35:0] long_a = {{{{18{{SIGNEDA & a[17]}}}}, a}}, long_b = {{{{18{{SIGNEDB & b[17]}}}}, b}};
  assign {_joined("P", 36)} = long_a * long_b;
  assign SIGNEDP = SIGNEDA | SIGNEDB;
endmodule
"""


def _xilinx_ram(cell: str, half: bool) -> str:
    slices, bits, enables = (64, 14, 4) if half else (128, 16, 8)
    data, parity = (16, 2) if half else (32, 4)
    count = 2048 if half else 4096
    wide = 36 if half else 72
    contents = ",\n".join(f"    INITP_{byte // 256:02X}[{byte % 256}], INIT_{byte // 32:02X}[{byte % 32 * 8} +: 8]"
                          for byte in reversed(range(count)))
    extension = "" if half else ', RAM_EXTENSION_A = "NONE", RAM_EXTENSION_B = "NONE"'
    joined = {port: ", ".join(f"DIP{port}DIP[{n}], DI{port}DI[{8 * n + 7}:{8 * n}]" for n in reversed(range(parity)))
              for port in ("A", "B")}
    outs = {port: ", ".join(f"DOP{port}DOP[{n}], DO{port}DO[{8 * n + 7}:{8 * n}]" for n in reversed(range(parity)))
            for port in ("A", "B")}
    low, high = 9 * parity - 1, 18 * parity - 1
    return f"""\
module gate_{cell}(
  input CLKARDCLK, CLKBWRCLK, ENARDEN, ENBWREN, REGCEAREGCE, REGCEB, RSTRAMARSTRAM, RSTRAMB, RSTREGARSTREG, RSTREGB,
  input CASCADEINA, CASCADEINB, INJECTDBITERR, INJECTSBITERR,
  input [{bits - 1}:0] ADDRARDADDR, ADDRBWRADDR, input [{data - 1}:0] DIADI, DIBDI, input [{parity - 1}:0] DIPADIP,
  DIPBDIP, input [{parity - 1}:0] WEA, input [{enables - 1}:0] WEBWE, output [{data - 1}:0] DOADO, DOBDO,
  output [{parity - 1}:0] DOPADOP, DOPBDOP);
  parameter DOA_REG = 0, DOB_REG = 0, READ_WIDTH_A = 0, READ_WIDTH_B = 0, WRITE_WIDTH_A = 0, WRITE_WIDTH_B = 0;
  parameter RAM_MODE = "TDP", WRITE_MODE_A = "WRITE_FIRST", WRITE_MODE_B = "WRITE_FIRST"{extension};
  parameter [{wide - 1}:0] INIT_A = 0, INIT_B = 0, SRVAL_A = 0, SRVAL_B = 0;
  parameter SIM_DEVICE = "7SERIES";
{_initial("INIT", slices, 256)}
{_initial("INITP", slices // 8, 256)}
  localparam WIDE = RAM_MODE == "SDP";
  localparam WIDTH_A = WIDE || !WRITE_WIDTH_A ? READ_WIDTH_A : WRITE_WIDTH_A;
  localparam WIDTH_B = WIDE || WRITE_WIDTH_B ? WRITE_WIDTH_B : READ_WIDTH_B;
{_must('DOA_REG == 0 && DOB_REG == 0 && WRITE_MODE_A == "READ_FIRST" && WRITE_MODE_B == "READ_FIRST"', cell)}
{_must("SRVAL_A == 0", cell)}
{_must(f"!WIDE || (READ_WIDTH_A == {wide} && WRITE_WIDTH_B == {wide})", cell)}
  wire [{low}:0] in_a = {{{joined["A"]}}}, in_b = {{{joined["B"]}}};
  wire [71:0] out_a, out_b;
  // In this mode a port reads the old word whichever port writes it, by one clock. A reset needs the enable, too.
  gate_ram #(.BYTES({count}), .WIDTH_A(WIDTH_A), .WIDTH_B(WIDTH_B), .MODE_A(2), .MODE_B(2), .OLD(1), .INIT({{
{contents}}})) ram (.clk(CLKARDCLK | CLKBWRCLK), .en_a(ENARDEN), .we_a(WIDE || !WRITE_WIDTH_A ? 0 : WEA),
    .addr_a(ADDRARDADDR[{min(bits, 15) - 1}:0]), .di_a(in_a), .do_a(out_a),
    .rst_a(RSTRAMARSTRAM && ENARDEN), .en_b(ENBWREN),
    .we_b(WRITE_WIDTH_B ? WEBWE : 0), .addr_b(ADDRBWRADDR[{min(bits, 15) - 1}:0]),
    .di_b(WIDE ? {{in_b, in_a}} : in_b), .do_b(out_b));
  assign {{{outs["A"]}}} = out_a[{low}:0];
  assign {{{outs["B"]}}} = WIDE ? out_a[{high}:{low + 1}] : out_b[{low}:0];
  always @(posedge (CLKARDCLK | CLKBWRCLK)) if ($time > 0 && RSTRAMB) begin
    $display("{cell}: reset without a model");
    $fatal;
  end
endmodule
"""


def _gowin_ram(cell: str, ports: str, data: int, byte: int) -> str:
    two = ports == "AB"
    # The ninth bit of each byte is unused when data is eight bits wide.
    contents = ",\n".join(f"    {'' if byte == 9 else chr(49) + chr(39) + 'b0, '}"
                          f"INIT_RAM_{number // 32:02X}[{number % 32 * byte} +: {byte}]" for number in
                          reversed(range(2048)))
    width = "BIT_WIDTH_0" if two else "BIT_WIDTH"
    read = "BIT_WIDTH_1" if two else "0"
    widths = ("parameter BIT_WIDTH_0 = 36, BIT_WIDTH_1 = 36, BLK_SEL_0 = 0, BLK_SEL_1 = 0;" if two else
              "parameter BIT_WIDTH = 36, BLK_SEL = 0, WRITE_MODE = 0;")
    pins = ("input CLKA, CEA, RESETA, CLKB, CEB, RESETB, OCE, input [2:0] BLKSELA, BLKSELB, input [13:0] ADA, ADB"
            if two else "input CLK, CE, WRE, RESET, OCE, input [2:0] BLKSEL, input [13:0] AD")
    address, clock = ("ADA", "CLKA | CLKB") if two else ("AD", "CLK")
    reset = "RESETA || RESETB" if two else 'RESET && RESET_MODE != "SYNC"'
    writes = f"{width} == 36 ? {address}[3:0] : {width} == 18 ? {address}[1:0] : 1"
    wiring = (f".en_a(CEA), .we_a({writes}), .addr_a(ADA), .di_a(DI), .do_a(), .rst_a(1'b0), .en_b(CEB),\n"
              "    .we_b(0), .addr_b(ADB), .di_b(0), .do_b(out)" if two else
              f".en_a(CE), .we_a(WRE ? ({writes}) : 0), .addr_a(AD), .di_a(DI), .do_a(out), .rst_a(RESET), .en_b(0),\n"
              "    .we_b(0), .addr_b(0), .di_b(0), .do_b()")
    condition = f"OCE && !READ_MODE{'' if byte == 9 else f' && {width} < 9'}"
    return f"""\
module gate_{cell}({pins}, input [{data - 1}:0] DI, output [{data - 1}:0] DO);
  parameter READ_MODE = 0, RESET_MODE = "SYNC";
  {widths}
{_initial("INIT_RAM", 64, 32 * byte)}
  wire [71:0] out;
  assign DO = out;
  gate_ram #(.BYTES(2048), .WIDTH_A({width}), .WIDTH_B({read}), .MODE_A({"0" if two else "WRITE_MODE"}), .INIT({{
{contents}}})) ram (.clk({clock}), {wiring});
  always @(posedge ({clock})) if ($time > 0 && (({reset}) || !({condition}))) begin
    $display("{cell}: a use without a model");
    $fatal;
  end
endmodule
"""


def _gowin_multiplier(bits: int) -> str:
    return f"""\
module gate_MULT{bits}X{bits}(input [{bits - 1}:0] A, B, SIA, SIB, input ASIGN, BSIGN, ASEL, BSEL, CE, CLK, RESET,
  output [{2 * bits - 1}:0] DOUT, output [{bits - 1}:0] SOA, SOB);
  parameter AREG = 0, BREG = 0, OUT_REG = 0, PIPE_REG = 0, ASIGN_REG = 0, BSIGN_REG = 0, SOA_REG = 0;
  parameter MULT_RESET_MODE = "SYNC";
{_must("!(AREG || BREG || OUT_REG || PIPE_REG || ASIGN_REG || BSIGN_REG || SOA_REG)", f"MULT{bits}X{bits}")}
  wire signed [{2 * bits - 1}:0] a = {{{{{bits}{{ASIGN & A[{bits - 1}]}}}}, A}};
  wire signed [{2 * bits - 1}:0] b = {{{{{bits}{{BSIGN & B[{bits - 1}]}}}}, B}};
  assign DOUT = a * b;
endmodule
"""


def models(family: str) -> Iterator[str]:
    """Yield the modules of a family, each named `gate_CELL`."""
    yield _RAM.format(ports=_of_ports(_PORT), reads=_of_ports(_READ), writes=_of_ports(_WRITE))
    if family == "ecp5":
        yield from (_ecp5_ram(), _ecp5_multiplier())
    elif family == "xc7":
        yield from (_xilinx_ram("RAMB18E1", True), _xilinx_ram("RAMB36E1", False))
    elif family == "gowin":
        yield from (_gowin_ram("SP", "A", 32, 8), _gowin_ram("SPX9", "A", 36, 9), _gowin_ram("SDPX9B", "AB", 36, 9),
                    _gowin_multiplier(9), _gowin_multiplier(18))
