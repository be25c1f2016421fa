// Block RAM and multiplier of an ECP5; Yosys has models of its other cells.
//
// Block RAM: both ports on one clock, output registers without reset. Words of 9 bits and more use the parity bits,
// narrower ones do not. A word that is read at the edge at which it is written comes out inverted: the device
// guarantees nothing then, so no design may rely on it.

module DP16KD #(
    parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18, REGMODE_A = "NOREG", REGMODE_B = "NOREG", RESETMODE = "SYNC",
    ASYNC_RESET_RELEASE = "SYNC", CSDECODE_A = "0b000", CSDECODE_B = "0b000", WRITEMODE_A = "NORMAL",
    WRITEMODE_B = "NORMAL", CLKAMUX = "CLKA", CLKBMUX = "CLKB", GSR = "AUTO", WID = 0, INIT_DATA = "STATIC",
    parameter [319:0]
        INITVAL_00 = 320'h0, INITVAL_01 = 320'h0, INITVAL_02 = 320'h0, INITVAL_03 = 320'h0, INITVAL_04 = 320'h0,
        INITVAL_05 = 320'h0, INITVAL_06 = 320'h0, INITVAL_07 = 320'h0, INITVAL_08 = 320'h0, INITVAL_09 = 320'h0,
        INITVAL_0A = 320'h0, INITVAL_0B = 320'h0, INITVAL_0C = 320'h0, INITVAL_0D = 320'h0, INITVAL_0E = 320'h0,
        INITVAL_0F = 320'h0, INITVAL_10 = 320'h0, INITVAL_11 = 320'h0, INITVAL_12 = 320'h0, INITVAL_13 = 320'h0,
        INITVAL_14 = 320'h0, INITVAL_15 = 320'h0, INITVAL_16 = 320'h0, INITVAL_17 = 320'h0, INITVAL_18 = 320'h0,
        INITVAL_19 = 320'h0, INITVAL_1A = 320'h0, INITVAL_1B = 320'h0, INITVAL_1C = 320'h0, INITVAL_1D = 320'h0,
        INITVAL_1E = 320'h0, INITVAL_1F = 320'h0, INITVAL_20 = 320'h0, INITVAL_21 = 320'h0, INITVAL_22 = 320'h0,
        INITVAL_23 = 320'h0, INITVAL_24 = 320'h0, INITVAL_25 = 320'h0, INITVAL_26 = 320'h0, INITVAL_27 = 320'h0,
        INITVAL_28 = 320'h0, INITVAL_29 = 320'h0, INITVAL_2A = 320'h0, INITVAL_2B = 320'h0, INITVAL_2C = 320'h0,
        INITVAL_2D = 320'h0, INITVAL_2E = 320'h0, INITVAL_2F = 320'h0, INITVAL_30 = 320'h0, INITVAL_31 = 320'h0,
        INITVAL_32 = 320'h0, INITVAL_33 = 320'h0, INITVAL_34 = 320'h0, INITVAL_35 = 320'h0, INITVAL_36 = 320'h0,
        INITVAL_37 = 320'h0, INITVAL_38 = 320'h0, INITVAL_39 = 320'h0, INITVAL_3A = 320'h0, INITVAL_3B = 320'h0,
        INITVAL_3C = 320'h0, INITVAL_3D = 320'h0, INITVAL_3E = 320'h0, INITVAL_3F = 320'h0
) (
    input wire
        DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2,
        DIA1, DIA0, ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0, CEA,
        OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0, DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9,
        DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0, ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7,
        ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0, CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
    output wire
        DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2,
        DOA1, DOA0, DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4,
        DOB3, DOB2, DOB1, DOB0
);
    reg [17:0] cells [0:1023];
    wire [35:0] dia = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0, DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
    wire [35:0] dib = {18'b0, DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
    wire [13:0] ada = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
    wire [13:0] adb = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
    reg [35:0] read_a, read_b, late_a, late_b;
    wire [35:0] doa = REGMODE_A == "OUTREG" ? late_a : read_a, dob = REGMODE_B == "OUTREG" ? late_b : read_b;
    // A port of 36 bits uses the pins of the other port for its upper half.
    assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} = DATA_WIDTH_B == 36 ? dob[17:0] : doa[17:0];
    assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0} = DATA_WIDTH_B == 36 ? dob[35:18] : dob[17:0];

    localparam [64*320-1:0] INIT = {
        INITVAL_3F, INITVAL_3E, INITVAL_3D, INITVAL_3C, INITVAL_3B, INITVAL_3A, INITVAL_39, INITVAL_38,
        INITVAL_37, INITVAL_36, INITVAL_35, INITVAL_34, INITVAL_33, INITVAL_32, INITVAL_31, INITVAL_30,
        INITVAL_2F, INITVAL_2E, INITVAL_2D, INITVAL_2C, INITVAL_2B, INITVAL_2A, INITVAL_29, INITVAL_28,
        INITVAL_27, INITVAL_26, INITVAL_25, INITVAL_24, INITVAL_23, INITVAL_22, INITVAL_21, INITVAL_20,
        INITVAL_1F, INITVAL_1E, INITVAL_1D, INITVAL_1C, INITVAL_1B, INITVAL_1A, INITVAL_19, INITVAL_18,
        INITVAL_17, INITVAL_16, INITVAL_15, INITVAL_14, INITVAL_13, INITVAL_12, INITVAL_11, INITVAL_10,
        INITVAL_0F, INITVAL_0E, INITVAL_0D, INITVAL_0C, INITVAL_0B, INITVAL_0A, INITVAL_09, INITVAL_08,
        INITVAL_07, INITVAL_06, INITVAL_05, INITVAL_04, INITVAL_03, INITVAL_02, INITVAL_01, INITVAL_00
    };
    integer i;
    initial begin
        for (i = 0; i < 1024; i = i + 1) cells[i] = INIT[320 * (i / 16) + 20 * (i % 16) +: 18];
        read_a = 0;
        read_b = 0;
        late_a = 0;
        late_b = 0;
    end

    function automatic [9:0] first_row(input integer width, input [13:0] address);
        first_row = width == 36 ? {address[13:5], 1'b0} : address[13:4];
    endfunction
    function automatic [4:0] first_bit(input integer width, input [13:0] address);
        first_bit = width >= 18 ? 0 : width == 9 ? (address[3] ? 9 : 0) : address[3:0] + (address[3] ? 1 : 0);
    endfunction
    // Bits of two rows that a write changes.
    function automatic [35:0] reach(input integer width, input [13:0] address);
        case (width)
            36: reach = {{9{address[3]}}, {9{address[2]}}, {9{address[1]}}, {9{address[0]}}};
            18: reach = {18'b0, {9{address[1]}}, {9{address[0]}}};
            9: reach = 36'h1FF << first_bit(width, address);
            4: reach = 36'hF << first_bit(width, address);
            2: reach = 36'h3 << first_bit(width, address);
            default: reach = 36'h1 << first_bit(width, address);
        endcase
    endfunction

    wire write_a = CEA && WEA, write_b = CEB && WEB && DATA_WIDTH_B != 36;
    wire [9:0] row_a = first_row(DATA_WIDTH_A, ada), row_b = first_row(DATA_WIDTH_B, adb);
    wire [35:0] bits_a = write_a ? reach(DATA_WIDTH_A, ada) : 0, bits_b = write_b ? reach(DATA_WIDTH_B, adb) : 0;
    // Two rows as seen by a port; bits that the other port is writing are inverted.
    wire [35:0] now_a = {cells[row_a | 1] ^ seen(bits_b, row_b, row_a | 1), cells[row_a] ^ seen(bits_b, row_b, row_a)};
    wire [35:0] now_b = {cells[row_b | 1] ^ seen(bits_a, row_a, row_b | 1), cells[row_b] ^ seen(bits_a, row_a, row_b)};
    function automatic [17:0] seen(input [35:0] bits, input [9:0] written, input [9:0] row);
        seen = row == written ? bits[17:0] : row == (written | 1) ? bits[35:18] : 0;
    endfunction

    always @(posedge CLKA) begin
        if (bits_a[17:0] != 0)
            cells[row_a] <= cells[row_a] & ~bits_a[17:0] | 18'(dia << first_bit(DATA_WIDTH_A, ada)) & bits_a[17:0];
        if (bits_a[35:18] != 0) cells[row_a | 1] <= cells[row_a | 1] & ~bits_a[35:18] | dia[35:18] & bits_a[35:18];
        if (bits_b[17:0] != 0)
            cells[row_b] <= cells[row_b] & ~bits_b[17:0] | 18'(dib << first_bit(DATA_WIDTH_B, adb)) & bits_b[17:0];
        if (CEA && (!WEA || WRITEMODE_A == "READBEFOREWRITE")) read_a <= now_a >> first_bit(DATA_WIDTH_A, ada);
        else if (CEA && WRITEMODE_A == "WRITETHROUGH") read_a <= dia;
        if (CEB && (!WEB || WRITEMODE_B == "READBEFOREWRITE")) read_b <= now_b >> first_bit(DATA_WIDTH_B, adb);
        else if (CEB && WRITEMODE_B == "WRITETHROUGH") read_b <= dib;
        if (RSTA) read_a <= 0;
        if (RSTB) read_b <= 0;
        if (OCEA) late_a <= read_a;
        if (OCEB) late_b <= read_b;
    end
endmodule

module MULT18X18D #(
    parameter REG_INPUTA_CLK = "NONE", REG_INPUTA_CE = "CE0", REG_INPUTA_RST = "RST0", REG_INPUTB_CLK = "NONE",
    REG_INPUTB_CE = "CE0", REG_INPUTB_RST = "RST0", REG_INPUTC_CLK = "NONE", REG_PIPELINE_CLK = "NONE",
    REG_PIPELINE_CE = "CE0", REG_PIPELINE_RST = "RST0", REG_OUTPUT_CLK = "NONE", REG_OUTPUT_CE = "CE0",
    REG_OUTPUT_RST = "RST0", CLK0_DIV = "ENABLED", CLK1_DIV = "ENABLED", CLK2_DIV = "ENABLED", CLK3_DIV = "ENABLED",
    GSR = "ENABLED", SOURCEB_MODE = "B_SHIFT", RESETMODE = "SYNC", MULT_BYPASS = "DISABLED",
    CAS_MATCH_REG = "FALSE"
) (
    input wire
        A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0, B17, B16, B15, B14, B13,
        B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0, C17, C16, C15, C14, C13, C12, C11, C10, C9, C8,
        C7, C6, C5, C4, C3, C2, C1, C0, SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK3, CLK2, CLK1, CLK0, CE3, CE2,
        CE1, CE0, RST3, RST2, RST1, RST0,
    output wire
        P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, P17, P16, P15,
        P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
);
    wire [3:0] ces = {CE3, CE2, CE1, CE0}, rsts = {RST3, RST2, RST1, RST0};
    localparam integer CEA = index(REG_INPUTA_CE), CEB = index(REG_INPUTB_CE), CEP = index(REG_PIPELINE_CE),
        CEO = index(REG_OUTPUT_CE), RSA = index(REG_INPUTA_RST), RSB = index(REG_INPUTB_RST),
        RSP = index(REG_PIPELINE_RST), RSO = index(REG_OUTPUT_RST);
    // The last character of a name like CE2 is its number.
    function automatic integer index(input [39:0] name);
        index = {30'b0, name[1:0]};
    endfunction
    wire signed [18:0] a = {SIGNEDA & A17, A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
    wire signed [18:0] b = {SIGNEDB & B17, B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
    reg signed [18:0] a_kept, b_kept;
    reg signed [37:0] middle, last;
    wire signed [18:0] a_used = REG_INPUTA_CLK == "NONE" ? a : a_kept;
    wire signed [18:0] b_used = REG_INPUTB_CLK == "NONE" ? b : b_kept;
    wire signed [37:0] product = a_used * b_used;
    wire signed [37:0] after = REG_PIPELINE_CLK == "NONE" ? product : middle;
    assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18, P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} = REG_OUTPUT_CLK == "NONE" ? after[35:0] : last[35:0];
    initial begin a_kept = 0; b_kept = 0; middle = 0; last = 0; end
    always @(posedge CLK0) begin
        if (rsts[RSA]) a_kept <= 0; else if (ces[CEA]) a_kept <= a;
        if (rsts[RSB]) b_kept <= 0; else if (ces[CEB]) b_kept <= b;
        if (rsts[RSP]) middle <= 0; else if (ces[CEP]) middle <= product;
        if (rsts[RSO]) last <= 0; else if (ces[CEO]) last <= after;
    end
endmodule
