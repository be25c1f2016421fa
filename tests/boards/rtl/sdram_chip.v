// An SDR SDRAM of 4 banks with bursts of one word, which detects violations of the data sheets of such chips.
//
// `broken` keeps the number of the first violated rule (0: none):
//   1 mode register not set or not as expected      2 activate of an open bank, or too early
//   3 read or write of a bank that is not open, or too early
//   4 precharge too early    5 refresh with open banks, or too early    6 command before the power-up pause
//   7 a refresh is overdue
module sdram_chip #(
    parameter ROW_BITS = 13, COL_BITS = 9, POWER_UP_CYCLES = 8750, // 100 us at 87.5 MHz
    parameter T_RCD = 2, T_RP = 2, T_RAS = 4, T_RFC = 6, T_WR = 2, // cycles at 87.5 MHz
    parameter T_REFRESH = 682 * 10                                 // ten intervals of 7.8 us
) (
    input wire clk, cke, cs_n, ras_n, cas_n, we_n,
    input wire [1:0] ba,
    input wire [ROW_BITS-1:0] a,
    input wire [1:0] dqm,
    inout wire [15:0] dq,
    output reg [3:0] broken,
    output reg [31:0] refreshes
);
    reg [15:0] cells [0:(1 << (ROW_BITS + COL_BITS + 2)) - 1];
    reg [ROW_BITS-1:0] row [0:3];
    reg [3:0] is_open;
    reg [31:0] now, opened [0:3], ready [0:3], closable [0:3], refreshed, last_refresh;
    reg mode_set;
    reg [2:0] latency;
    reg [15:0] out [0:3];
    reg [3:0] valid;
    integer b;

    wire [2:0] command = {ras_n, cas_n, we_n};
    wire [ROW_BITS+COL_BITS+1:0] at = {ba, row[ba], a[COL_BITS-1:0]};
    // Cycles from a read or write with auto precharge until the bank may close.
    wire [31:0] pause = we_n ? 1 : T_WR;
    // A word read with latency L is on the pins from L-1 cycles after its command until the next edge.
    assign dq = valid[latency - 1] ? out[latency - 1] : 16'bz;

    initial begin
        is_open = 0; now = 0; mode_set = 0; latency = 3; valid = 0; broken = 0; refreshes = 0; refreshed = 0;
        last_refresh = 0;
        for (b = 0; b < 4; b = b + 1) begin
            opened[b] = 0; ready[b] = 0; closable[b] = 0;
        end
    end

    always @(posedge clk) begin
        now <= now + 1;
        valid <= {valid[2:0], 1'b0};
        out[3] <= out[2]; out[2] <= out[1]; out[1] <= out[0];
        if (mode_set && now - last_refresh > T_REFRESH && broken == 0) broken <= 7;
        if (cke && !cs_n && command != 3'b111) begin
            if (now < POWER_UP_CYCLES && broken == 0) broken <= 6;
            case (command)
                3'b000: begin
                    if ((is_open != 0 || a[2:0] != 0 || a[3] != 0 || (a[6:4] != 2 && a[6:4] != 3)) && broken == 0)
                        broken <= 1;
                    // The first write may also request the reset of a DLL, which such a chip does not have.
                    mode_set <= a[8:7] == 0;
                    latency <= a[6:4];
                    last_refresh <= now;
                end
                3'b001: begin
                    if ((is_open != 0 || now < refreshed || now < ready[0] || now < ready[1] || now < ready[2]
                         || now < ready[3]) && broken == 0)
                        broken <= 5;
                    refreshed <= now + T_RFC;
                    last_refresh <= now;
                    refreshes <= refreshes + 1;
                end
                3'b010: begin
                    for (b = 0; b < 4; b = b + 1)
                        if (a[10] || ba == b) begin
                            if (is_open[b] && now < closable[b] && broken == 0) broken <= 4;
                            is_open[b] <= 0;
                            ready[b] <= now + T_RP;
                        end
                end
                3'b011: begin
                    if ((!mode_set || is_open[ba] || now < ready[ba] || now < refreshed) && broken == 0)
                        broken <= mode_set ? 2 : 1;
                    is_open[ba] <= 1;
                    row[ba] <= a;
                    opened[ba] <= now + T_RCD;
                    closable[ba] <= now + T_RAS;
                end
                3'b100, 3'b101: begin
                    if ((!is_open[ba] || now < opened[ba]) && broken == 0) broken <= 3;
                    if (command == 3'b100) begin
                        if (!dqm[0]) cells[at][7:0] <= dq[7:0];
                        if (!dqm[1]) cells[at][15:8] <= dq[15:8];
                        if (closable[ba] < now + T_WR) closable[ba] <= now + T_WR;
                    end else begin
                        out[0] <= cells[at];
                        valid[0] <= 1;
                    end
                    if (a[10]) begin
                        is_open[ba] <= 0;
                        ready[ba] <= (now + pause > closable[ba] ? now + pause : closable[ba]) + T_RP;
                    end
                end
                default: ;
            endcase
        end
    end
endmodule
