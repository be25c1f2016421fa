// The netlist of a packed array beside its RTL, with inputs that keep to no rule; both in the module `both`.
// The netlist has a register before each input and after each output.

#include <cstdint>
#include <cstdio>
#include <random>

#include "Vboth.h"

int main() {
    VerilatedContext context;
    Vboth both(&context, "both");
    std::mt19937_64 random(1);
    const auto byte = [&] {
        static const int extremes[] = {-128, -128, 127, -1, 0};
        return uint32_t(random() % 3 ? int(random() % 256) - 128 : extremes[random() % 5]) & 255;
    };
    uint64_t before = 0, last = 0;
    int wrong = 0, moved = 0;
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        both.rst = cycle < 4;
        for (int word = 0; word < 3; word++)
            both.a[word] = word < 2 ? byte() | byte() << 8 | byte() << 16 | byte() << 24 : byte();
        both.x = 0;
        for (int place = 0; place < 6; place++) both.x |= uint64_t(byte()) << 8 * place;
        both.sel = random() & 511;
        both.swap = random() % 12 == 0;
        both.weight = uint16_t(byte() | byte() << 8);
        both.weight_row = random() % 40 ? 1 << random() % 9 : 0;
        both.clk = 0;
        both.eval();
        if (cycle > 60) {
            wrong += both.netlist != before;
            moved += last != before;
        }
        before = last;
        last = both.rtl;
        both.clk = 1;
        both.eval();
    }
    std::printf("%d %d\n", moved > CYCLES / 2, wrong);
    return 0;
}
