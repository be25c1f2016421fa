// The bench of sim.py: a clock, a reset, and the letters of the UART, until the firmware prints its last line.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "Vsim.h"

int main(int count, char **words)
{
    const uint64_t most = count > 1 ? std::strtoull(words[1], nullptr, 10) : 100000000;
    auto *const top = new Vsim;
    std::string line;
    uint64_t cycle = 0;
    bool ended = false;
    top->serial_source_ready = 1;
    for (; cycle < most && !ended; cycle++) {
        top->sys_rst = cycle < 8;
        top->sys_clk = 0;
        top->eval();
        top->sys_clk = 1;
        top->eval();
        if (!top->serial_source_valid)
            continue;
        const char letter = static_cast<char>(top->serial_source_data);
        std::putchar(letter);
        if (letter == '\n') {
            ended = line == "done" || line.rfind("error: ", 0) == 0;
            line.clear();
            std::fflush(stdout);
        } else {
            line += letter;
        }
    }
    std::fprintf(stderr, "%llu cycles\n", static_cast<unsigned long long>(cycle));
    delete top;
    return ended ? 0 : 1;
}
