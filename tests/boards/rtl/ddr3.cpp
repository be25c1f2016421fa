// Run levelling with given windows; return its result.
#include "Vfpga.h"

extern "C" int level(unsigned long eyes, unsigned most_cycles, unsigned long* found) {
    Vfpga fpga;
    fpga.eyes = eyes;
    fpga.rst = 1;
    unsigned cycle = 0;
    for (; cycle < most_cycles && !fpga.done && !fpga.failed; ++cycle) {
        fpga.rst = cycle < 50;
        fpga.clk = 0;
        fpga.eval();
        fpga.clk = 1;
        fpga.eval();
    }
    found[0] = fpga.windows;
    found[1] = fpga.good;
    found[2] = fpga.init_done;
    found[3] = fpga.init_error;
    found[4] = cycle;
    return fpga.done ? 1 : fpga.failed ? 2 : 0;
}
