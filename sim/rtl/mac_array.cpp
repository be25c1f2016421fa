// A cycle-exact model of MacArray (hdl/array/grid.py), called at each rising edge by the module that replaces it.
//
// TQ_ROWS, TQ_COLS, TQ_GROUPS and TQ_SUM_BITS are parameters of the configuration. Ports are vectors of 32-bit words,
// lowest bits first, as the DPI passes them. Ring buffers of the last cycles replace the delay chains of the rows.

#include "wide.h"

namespace {

constexpr int kRows = TQ_ROWS, kCols = TQ_COLS, kGroups = TQ_GROUPS, kSumBits = TQ_SUM_BITS;
constexpr uint32_t kRing = 32;  // length of the ring buffers; more than the registers of any chain
static_assert(kRows <= int(kRing), "a row looks back as many cycles as its number");
constexpr int kXBytes = kGroups ? kGroups * kCols : 1;

constexpr int padded(int count, int power) { return power < count ? padded(count, 2 * power) : power; }
constexpr int kWide = padded(kCols, 4);  // columns of a vector; the contents of excess columns have no effect
#define TQ_VECTOR(type) __attribute__((vector_size(kWide * sizeof(type)), aligned(sizeof(type)))) type
typedef TQ_VECTOR(int32_t) Sums;
typedef TQ_VECTOR(int16_t) Factors;
typedef TQ_VECTOR(int8_t) Bytes;

struct MacArray {
    Sums total[kRows];
    Factors product[kRows], activation[kRows], active[kRows];
    Bytes shadow[kRows];
    // Inputs of the last cycles.
    int8_t a[kRing][kRows];
    int8_t x[kRing][kXBytes + kWide];
    uint32_t sel[kRing];
    uint64_t swaps;  // bit r: the register in front of row r
    uint32_t now;

    TQ_PART void step_row(int r, bool swap, bool write, bool reset, const Bytes& weight) {
        const Sums products = __builtin_convertvector(product[r], Sums);
        total[r] = r ? total[r - 1] + products : products;
        product[r] = activation[r] * active[r];
        const uint32_t then = (now - uint32_t(r)) % kRing;
        const int group = r / 3;
        if (group < kGroups && (sel[then] >> r & 1)) {
            Bytes taken;
            std::memcpy(&taken, x[(now - uint32_t(3 * group)) % kRing] + group * kCols, sizeof taken);
            activation[r] = __builtin_convertvector(taken, Factors);
        } else {
            activation[r] = Factors{} + int16_t(a[then][r]);
        }
        if (swap) active[r] = __builtin_convertvector(shadow[r], Factors);
        if (reset || (swap && !write)) {
            shadow[r] = Bytes{};
        } else if (write) {
            shadow[r] = weight;
        }
    }

    TQ_PART void put_sums(uint32_t* psum) const {
        uint64_t word = 0;
        int bits = 0;
        for (int c = 0; c < kCols; c++) {
            word |= (uint64_t(uint32_t(total[kRows - 1][c])) & ((uint64_t(1) << kSumBits) - 1)) << bits;
            bits += kSumBits;
            if (bits >= 32) {
                *psum++ = uint32_t(word);
                word >>= 32;
                bits -= 32;
            }
        }
        if (bits) *psum = uint32_t(word);
    }
};

TQ_WIDE void step(MacArray& array, uint8_t reset, uint8_t swap, const uint32_t* sel, const uint32_t* weight_row,
                  const uint32_t* a, const uint32_t* x, const uint32_t* weight, uint32_t* psum) {
    std::memcpy(array.a[array.now % kRing], a, kRows);
    if (kGroups) std::memcpy(array.x[array.now % kRing], x, kXBytes);
    array.sel[array.now % kRing] = *sel;
    const uint64_t swaps = array.swaps | (swap & 1);
    Bytes weights = {};
    std::memcpy(&weights, weight, kCols);
    // From the bottom: each row reads the old sums of the row above.
    for (int r = kRows - 1; r >= 0; r--) {
        array.step_row(r, swaps >> r & 1, *weight_row >> r & 1, reset & 1, weights);
    }
    array.swaps = reset & 1 ? 0 : swaps << 1;
    array.now++;
    array.put_sums(psum);
}

}  // namespace

extern "C" {

void* tq_array_new() { return new MacArray(); }
void tq_array_delete(void* array) { delete static_cast<MacArray*>(array); }

// One rising edge: inputs before it, `psum` after it.
void tq_array_step(void* handle, uint8_t reset, uint8_t swap, const uint32_t* sel, const uint32_t* weight_row,
                   const uint32_t* a, const uint32_t* x, const uint32_t* weight, uint32_t* psum) {
    step(*static_cast<MacArray*>(handle), reset, swap, sel, weight_row, a, x, weight, psum);
}

}  // extern "C"
