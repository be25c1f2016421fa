// A cycle-exact model of the vector unit's lanes (hdl/lane), called at each rising edge by the module that replaces
// them.
//
// TQ_LANES is the configuration's number of lanes. lanes_control.h, generated from hdl/lane/lane.py, has the positions
// of the controls. Ports are vectors of 32-bit words, lowest bits first, as the DPI passes them.
//
// Several registers of the hardware may be one value of the model, but results appear in the same cycle.

#include <algorithm>

#include "lanes_control.h"
#include "wide.h"

namespace {

constexpr int kLanes = TQ_LANES;
constexpr uint32_t kEntries = 512;
using Words = uint32_t[kLanes];
using Doubles = int64_t[kLanes];

// A bit as a mask of 32 bits.
TQ_PART uint32_t mask(bool bit) { return bit ? ~0u : 0u; }

struct Lanes {
    // Operands. The table is written in all lanes at once.
    Words a_first, b_first, a_chosen, b_chosen, a_found, b_found, a_past, b_past, a, b;
    // As in the hardware, a is complemented for operations that add the complement.
    Words a_place, b_place;
    bool waiting;  // the entries at these indices are not yet looked up
    uint32_t table[kEntries];
    // ALU: sums with their sign, operands, and the bits selected from them.
    Words sum, negative, a1, b1, sum2, chosen, less, counted;
    // The factor, and delays of shift amounts.
    Words b_late, b_later, multiplier, left_amount, right_or_none, exponent;
    bool right_by_b, positive;
    Words right_amount[8];
    Words x;
    Doubles product, nudged, nudged2, total;
    Words word, right;
    bool some_rounding, away;
    Words clamp_total, clamp_late, below, above, result;

    // Stages from last to first: each reads the old registers of the stage before it.

    TQ_PART void clamp(const Control& c) {
        const uint32_t low_late = uint32_t(c.low_late), high_late = uint32_t(c.high_late), take = mask(c.take);
        const uint32_t also = uint32_t(c.also), used = mask(c.used);
        for (int l = 0; l < kLanes; l++) {
            const uint32_t limit = below[l] ? low_late : high_late;
            const uint32_t next = (below[l] | above[l] ? limit : clamp_late[l]) | also;
            result[l] = (next & take) | (result[l] & ~take);
        }
        const uint32_t clamps = mask(c.clamp);
        for (int l = 0; l < kLanes; l++) {
            below[l] = clamps & mask(int32_t(clamp_total[l]) < c.low);
            above[l] = clamps & mask(int32_t(clamp_total[l]) > c.high);
            clamp_late[l] = clamp_total[l] & used;
            clamp_total[l] = right[l] + uint32_t(c.zero_point);
        }
    }

    TQ_PART void shift_right(const Control& c) {
        for (int l = 0; l < kLanes; l++) {
            right[l] = uint32_t(total[l] >> right_amount[7][l]);
        }
        const uint32_t rounds = mask(some_rounding), ties = mask(away);
        for (int l = 0; l < kLanes; l++) {
            const uint32_t amount = right_amount[6][l];
            // A half is 1 more than the mask of the bits below it; for a negative tie, only the mask is added.
            const uint32_t below_half = ((1u << amount) - 1) >> 1 & rounds;
            const uint32_t one = mask(amount != 0) & rounds & ~(ties & mask(int32_t(word[l]) < 0)) & 1;
            total[l] = int64_t(int32_t(word[l])) + int64_t(below_half) + int64_t(one);
        }
        some_rounding = c.rounding != TQ_ROUNDING_FLOOR;
        away = c.rounding == TQ_ROUNDING_HALF_AWAY;
    }

    TQ_PART void multiply(const Control& c) {
        const uint32_t low = mask(c.low_product), saturates = mask(c.saturate);
        const int64_t nudge = int64_t(c.nudge) << 30;
        for (int l = 0; l < kLanes; l++) {
            const int64_t whole = low ? nudged2[l] : nudged2[l] >> 31;
            word[l] = uint32_t(saturates ? std::clamp<int64_t>(whole, INT32_MIN, INT32_MAX) : whole);
        }
        for (int l = 0; l < kLanes; l++) {
            nudged2[l] = nudged[l];
            nudged[l] = int64_t(uint64_t(product[l]) + uint64_t(nudge));
            product[l] = int64_t(int32_t(x[l])) * (positive ? int64_t(multiplier[l]) : int32_t(multiplier[l]));
        }
    }

    TQ_PART void choose_multiplier(const Control& c, const uint32_t* parameter) {
        const uint32_t of_channel = mask(c.by_param), by_b = mask(c.by_b), all = uint32_t(c.multiplier);
        positive = c.power_late;  // 2^31 too
        for (int l = 0; l < kLanes; l++) {
            multiplier[l] = all | b_later[l] | (parameter[l] & of_channel);
        }
        const uint32_t power = mask(c.by_power) & 1, power_of_b = mask(c.shifts_by_b);
        for (int l = 0; l < kLanes; l++) {
            b_later[l] = b_late[l] | power << (exponent[l] & 31);
            b_late[l] = b[l] & by_b;
            exponent[l] = (b[l] & power_of_b) | (left_amount[l] & ~power_of_b);
        }
    }

    // The ALU's last stage.
    TQ_PART void join(const Control& c) {
        std::memmove(right_amount[1], right_amount[0], sizeof right_amount - sizeof right_amount[0]);
        const uint32_t pair = mask(c.alu2_pair), subtracts = mask(c.alu2_subtracts), lesses = mask(c.alu2_less);
        for (int l = 0; l < kLanes; l++) {
            const uint32_t truth = (less[l] & lesses) | (counted[l] ? mask(c.alu2_differs) : mask(c.alu2_equals));
            x[l] = (subtracts | (l & 1 ? pair : 0) ? ~sum2[l] : sum2[l] | chosen[l]) | (truth & 1);
            right_amount[0][l] = right_by_b ? b[l] & 31 : right_or_none[l];
        }
        if (!c.alu2_zeros) return;
        for (int l = 0; l < kLanes; l++) x[l] |= counted[l] ? uint32_t(__builtin_clz(counted[l])) : 32;
    }

    TQ_PART void choose_shift(const Control& c, const int32_t* amounts) {
        for (int l = 0; l < kLanes; l++) {
            const int32_t shift = c.shift_source == TQ_SHIFT_PARAM ? amounts[l]
                                  : c.shift_source == TQ_SHIFT_IMMEDIATE ? c.shift : 0;
            left_amount[l] = shift < 0 ? 0 : uint32_t(shift);
            right_or_none[l] = shift < 0 && !c.shifts_left ? uint32_t(-shift) & 31 : 0;
        }
        right_by_b = c.shift_source == TQ_SHIFT_B;
    }

    TQ_PART void calculate(const Control& c) {
        const uint32_t takes = mask(c.alu1_takes), totals = mask(c.alu1_total);
        const uint32_t with_less = mask(c.alu1_takes_less), with_more = mask(c.alu1_takes_more);
        const uint32_t with_negative = mask(c.alu1_takes_negative), both = mask(c.alu1_takes_both);
        for (int l = 0; l < kLanes; l++) {
            const uint32_t minus = negative[l], sign = mask(int32_t(a1[l]) < 0);
            const uint32_t other = (minus ? with_more : with_less) | (with_negative & sign) | both;
            const uint32_t mixed = (minus ? with_less : with_more) | both;
            const uint32_t not_mixed = (b1[l] & other) | (a1[l] & ~other);
            chosen[l] = (mixed ? (a1[l] & b1[l] & other) | (~a1[l] & ~other) : not_mixed) & takes;
            less[l] = ~minus;
            sum2[l] = sum[l] & totals;
            counted[l] = sum[l];
        }
        const uint32_t pair = mask(c.alu0_pair), carry = mask(c.alu0_carry), carry_even = mask(c.alu0_carry_even);
        Words second;
        for (int l = 0; l < kLanes; l++) second[l] = (l ^ 1) < kLanes ? a[l ^ 1] : ~a[l];
        for (int l = 0; l < kLanes; l++) {
            const uint32_t other = pair ? second[l] : b[l];
            const int64_t all = int64_t(int32_t(a[l])) + int32_t(other) + ((l & 1 ? carry : carry_even) & 1);
            sum[l] = uint32_t(all);
            negative[l] = mask(all < 0);
            a1[l] = a[l];
            b1[l] = b[l];
        }
    }

    // Table look-ups are delayed until their result is used or the table changes: most operations use no table.
    TQ_PART void look_up(const Control& c) {
        if (waiting && (c.a_used || c.b_used || c.table_write)) {
            for (int l = 0; l < kLanes; l++) {
                a_found[l] = table[a_place[l]];
                b_found[l] = table[b_place[l]];
            }
            waiting = false;
        }
        const uint32_t a_used = mask(c.a_used), b_used = mask(c.b_used);
        for (int l = 0; l < kLanes; l++) {
            a[l] = ((a_found[l] & a_used) | (a_past[l] & ~a_used)) ^ mask(c.a_inverted >> (l & 1) & 1);
            b[l] = (b_found[l] & b_used) | (b_past[l] & ~b_used);
            a_past[l] = a_chosen[l];
            b_past[l] = b_chosen[l];
        }
        if (c.table_write) {
            table[c.table_index] = uint32_t(c.table_entry);
            return;
        }
        put_places(a_place, c.a_table, a_chosen);
        put_places(b_place, c.b_table, b_chosen);
        waiting = true;
    }

    // 9 bits index all entries, 8 bits a half of them.
    static TQ_PART void put_places(Words& places, uint32_t which, const Words& values) {
        const uint32_t used = which == 3 ? 511 : 255, first = which == 3 ? 0 : (which & 2) << 7;
        for (int l = 0; l < kLanes; l++) places[l] = (values[l] & used) | first;
    }

    static TQ_PART void choose(Words& first, Words& chosen, uint32_t source, const uint32_t* of_register,
                       const uint32_t* other, uint32_t immediate, const uint32_t* stream) {
        const uint32_t registers = mask(source == TQ_SOURCE_REGISTER), others = mask(source == TQ_SOURCE_ACC_OR_BIAS);
        const uint32_t all = source == TQ_SOURCE_IMMEDIATE ? immediate : 0;
        for (int l = 0; l < kLanes; l++) {
            chosen[l] = first[l] | stream[l];
            first[l] = (of_register[l] & registers) | (other[l] & others) | all;
        }
    }
};

TQ_WIDE void step(Lanes& lanes, const uint32_t* control, const uint32_t* acc, const uint32_t* register_a,
                  const uint32_t* register_b, const uint32_t* bias, const uint32_t* stream_a, const uint32_t* stream_b,
                  const uint32_t* shift, const uint32_t* multiplier, uint32_t* result) {
    const Control c = unpacked(control);
    int32_t amounts[kLanes];
    for (int l = 0; l < kLanes; l++) amounts[l] = int32_t(bits(shift, 6 * l, 6) ^ 32) - 32;
    lanes.clamp(c);
    lanes.shift_right(c);
    lanes.multiply(c);
    lanes.choose_multiplier(c, multiplier);
    lanes.join(c);
    lanes.choose_shift(c, amounts);
    lanes.calculate(c);
    lanes.look_up(c);
    Lanes::choose(lanes.a_first, lanes.a_chosen, c.a_source, register_a, acc, uint32_t(c.operand), stream_a);
    Lanes::choose(lanes.b_first, lanes.b_chosen, c.b_source, register_b, bias, uint32_t(c.operand), stream_b);
    std::memcpy(result, lanes.result, sizeof lanes.result);
}

}  // namespace

extern "C" {

void* tq_lanes_new() {
    Lanes* lanes = new Lanes();
    // The hardware's registers count no zeros at first.
    std::fill_n(lanes->counted, kLanes, 0x80000000u);
    return lanes;
}
void tq_lanes_delete(void* lanes) { delete static_cast<Lanes*>(lanes); }

// One rising edge: inputs before it, `result` after it. `shift` has 6 bits per lane.
void tq_lanes_step(void* handle, const uint32_t* control, const uint32_t* acc, const uint32_t* register_a,
                   const uint32_t* register_b, const uint32_t* bias, const uint32_t* stream_a,
                   const uint32_t* stream_b, const uint32_t* shift, const uint32_t* multiplier, uint32_t* result) {
    step(*static_cast<Lanes*>(handle), control, acc, register_a, register_b, bias, stream_a, stream_b, shift,
         multiplier, result);
}

}  // extern "C"
