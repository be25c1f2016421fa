// Every pair of bytes and every weight through PackedCell, each byte from the row and from the column.

#include <cstdint>
#include <cstdio>

#include "Vcell.h"

int main() {
    VerilatedContext context;
    Vcell cell(&context, "cell");
    struct Want {
        int64_t products;
        int high;
    } want[4] = {};
    uint64_t count = 0, noise = 1, wrong = 0;
    int64_t above = 0;
    int above_high = 0;
    for (int from = 0; from < FROMS; from++)
        for (int factor = -128; factor <= 128; factor++)  // 128: idle, with some weight at its port
            for (int h = -128; h < 128; h++)
                for (int l = -128; l < 128; l++) {
                    const int w = factor < 128 ? factor : 0;
                    const int row_high = from & 1 ? 0 : h, row_low = from & 2 ? -128 : l;
                    cell.row = uint32_t(row_high * 65536 + row_low) & 0x1ffffff;
                    cell.row_high = row_high & 3;
                    cell.x_high = from & 1 ? h & 255 : 0;
                    cell.x_low = from & 2 ? (l + 128) & 255 : 0;
                    cell.weight = (factor < 128 ? factor : l) & 255;
                    cell.idle = factor == 128;
                    cell.clk = 0;
                    cell.eval();
                    // After the last edge: the sum of three cycles ago, the bits modulo 4 of two cycles ago.
                    const int64_t total = int64_t(cell.total << 29) >> 29;
                    if (count > 3 && total != above + want[(count - 3) & 3].products) wrong++;
                    if (count > 3 && cell.total_high != ((above_high + want[(count - 2) & 3].high) & 3)) wrong++;
                    want[count & 3] = {int64_t(h) * w * 65536 + l * w, (h * w) & 3};
                    // What the cell above has, as far as sums of seven cells go.
                    noise = noise * 6364136223846793005u + 1442695040888963407u;
                    above = (int64_t(noise >> 40) % 113792) * 65536 + int64_t(noise >> 20 & 0xfffff) % 113792;
                    above_high = int(noise >> 60) & 3;
                    cell.above = uint64_t(above) & 0x7ffffffff;
                    cell.above_high = above_high;
                    cell.clk = 1;
                    cell.eval();
                    count++;
                }
    std::printf("%llu %llu\n", (unsigned long long)count, (unsigned long long)wrong);
    return wrong != 0;
}
