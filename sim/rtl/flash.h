// An SPI flash with one command, READ (0x03), whose pins are sampled once a cycle.
#pragma once

#include <cstdint>
#include <vector>

class SpiFlash {
  public:
    void fill(uint32_t address, const uint8_t* bytes, uint32_t count) {
        base_ = address;
        bytes_.assign(bytes, bytes + count);
    }

    // Takes the pins before a clock edge of the design; returns the flash's output after it.
    bool step(bool select, bool clk, bool copi) {
        if (!select) {
            bits_ = 0;
            command_ = 0;
        } else if (clk && !clk_ && bits_ < 32) {
            command_ = command_ << 1 | copi;
            bits_++;
        } else if (!clk && clk_ && bits_ >= 32 && command_ >> 24 == 3) {
            const uint32_t at = (command_ & 0xffffff) + (bits_ - 32) / 8 - base_;
            const uint8_t byte = at < bytes_.size() ? bytes_[at] : 0xff;
            out_ = byte >> (7 - bits_ % 8) & 1;
            bits_++;
        }
        clk_ = clk;
        return out_;
    }

  private:
    uint32_t base_ = 0;
    std::vector<uint8_t> bytes_;  // all other bytes are erased
    uint32_t command_ = 0;
    uint64_t bits_ = 0;
    bool clk_ = false, out_ = true;
};
