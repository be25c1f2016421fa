// A Verilated board behind a C interface: its clocks and the pins of its UART.
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "Vboard.h"
#include "verilated.h"

namespace {

// Time in fourteenths of 10 ns: `clk` has 100 MHz, `mem_clk` 87.5 MHz; `mem_pin_clk` lags it by a quarter period.
constexpr uint64_t kHalf = 7, kMemHalf = 8, kLag = 4;

struct Board {
    VerilatedContext context;
    Vboard top{&context};
    uint32_t bit_cycles;
    uint64_t time = 0;
    std::deque<uint8_t> to_send;
    std::vector<uint8_t> came;
    uint32_t send_left = 0, send_shift = 1, send_bits = 0;
    uint32_t receive_left = 0, receive_bits = 0, receive_shift = 0;

    explicit Board(uint32_t cycles) : bit_cycles(cycles) {
        top.rx = 1;
        top.rst = 1;
        run(64);
        top.rst = 0;
    }

    void uart() {
        if (!send_bits && !to_send.empty()) {
            send_shift = to_send.front() << 1 | 1u << 9;
            to_send.pop_front();
            send_bits = 10;
            send_left = bit_cycles;
        }
        top.rx = send_bits ? send_shift & 1 : 1;
        if (send_bits && --send_left == 0) {
            send_shift >>= 1;
            send_bits--;
            send_left = bit_cycles;
        }
        if (!receive_bits) {
            if (!top.tx) {
                receive_bits = 9;
                receive_left = bit_cycles + bit_cycles / 2;
                receive_shift = 0;
            }
        } else if (--receive_left == 0) {
            receive_bits--;
            if (receive_bits) receive_shift = receive_shift >> 1 | (top.tx ? 0x80 : 0);
            else came.push_back(receive_shift);
            receive_left = bit_cycles;
        }
    }

    void run(uint64_t cycles) {
        for (uint64_t left = cycles; left;) {
            time++;
            top.mem_pin_clk = (time + 2 * kMemHalf - kLag) / kMemHalf % 2 == 0;
            top.mem_clk = time / kMemHalf % 2 == 0;
            const bool high = time / kHalf % 2 == 0;
            if (high && !top.clk) {
                uart();
                left--;
            }
            top.clk = high;
            top.eval();
        }
    }
};

}  // namespace

extern "C" {
void* board_create(uint32_t bit_cycles) { return new Board(bit_cycles); }
void board_destroy(void* board) { delete static_cast<Board*>(board); }
void board_send(void* board, const uint8_t* data, uint32_t size) {
    auto& queue = static_cast<Board*>(board)->to_send;
    queue.insert(queue.end(), data, data + size);
}
// Run until bytes have arrived, at most for `cycles`; return how many were copied.
uint32_t board_receive(void* handle, uint8_t* data, uint32_t most, uint64_t cycles) {
    Board& board = *static_cast<Board*>(handle);
    for (uint64_t done = 0; board.came.empty() && done < cycles; done += 64) board.run(64);
    uint32_t count = 0;
    while (count < most && count < board.came.size()) data[count] = board.came[count], count++;
    board.came.erase(board.came.begin(), board.came.begin() + count);
    return count;
}
void board_run(void* board, uint64_t cycles) { static_cast<Board*>(board)->run(cycles); }
uint32_t board_broken(void* board) { return static_cast<Board*>(board)->top.broken; }
uint32_t board_refreshes(void* board) { return static_cast<Board*>(board)->top.refreshes; }
}
