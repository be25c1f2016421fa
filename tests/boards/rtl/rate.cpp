// Let a reader read from an initialized DRAM for `cycles` cycles of `clk`; return the number of beats.
#include <cstdint>

#include "Vboard.h"

// Enough cycles to initialize any of the DRAMs and to read the first blocks.
constexpr uint64_t kBefore = 60'000;

extern "C" uint32_t rate(uint32_t half, uint32_t mem_half, uint32_t cycles) {
    Vboard top;
    const uint64_t reset = 128 * uint64_t(half), before = 2 * half * kBefore;
    uint32_t first = 0;
    for (uint64_t time = 0; time < before + 2 * uint64_t(half) * cycles; ++time) {
        top.rst = time < reset;
        const bool clk = time / half % 2, mem_clk = time / mem_half % 2;
        // The chip's pin lags by a quarter of a period.
        const bool pin = (time + 2 * mem_half - mem_half / 2) / mem_half % 2;
        if (time == before) first = top.beats;
        if (clk == top.clk && mem_clk == top.mem_clk && pin == top.mem_pin_clk) continue;
        top.clk = clk, top.mem_clk = mem_clk, top.mem_pin_clk = pin;
        top.eval();
    }
    return top.beats - first;
}
