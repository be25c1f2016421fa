// C interface of the verilated accelerator and its AXI4 memory; data are passed in whole blocks.
//
// The memory answers in order. A read's first beat comes `latency` cycles after its address is accepted, a write's
// response `latency` cycles after its last beat. Written data can be read after the response. Reads and writes share
// `bytes_per_cycle`. With a stall seed, every channel also pauses at random. A broken AXI rule ends the run.
//
// On request, a channel stops at a given transfer, or RLAST of a read burst is misplaced.

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "Vaccelerator.h"
#include "flash.h"
#include "verilated.h"
// Generated after Verilator: TQ_WATCHED and the names of the registers that watch() reads.
#include "watched.h"
#if TQ_WATCHED
#include "Vaccelerator___024root.h"
#endif
#if VM_TRACE_FST
#include "verilated_fst_c.h"
using Tracer = VerilatedFstC;
#elif VM_TRACE
#include "verilated_vcd_c.h"
using Tracer = VerilatedVcdC;
#endif

namespace {

constexpr uint32_t kDecodeError = 3;

template <class Port> void put(Port& port, const uint8_t* bytes, size_t count) {
    if constexpr (std::is_integral_v<Port>) {
        port = 0;
        std::memcpy(&port, bytes, count);
    } else {
        std::memcpy(&port[0], bytes, count);
    }
}

template <class Port> void get(const Port& port, uint8_t* bytes, size_t count) {
    if constexpr (std::is_integral_v<Port>) {
        std::memcpy(bytes, &port, count);
    } else {
        std::memcpy(bytes, &port[0], count);
    }
}

struct Region {
    uint32_t base;
    std::vector<uint8_t> bytes;
    bool writable;
};

struct Burst {
    uint32_t addr;
    uint32_t beats;
    uint32_t id;
    uint64_t due;       // cycle of the first beat or of the response
    uint32_t early = 0; // RLAST is also set at the beat with this many left
    bool endless = false; // RLAST is not set at the last beat
};

// Misplaced RLAST of one read burst.
enum LastFault : uint32_t {
    kCut,   // at beat `at`, and no beat comes after it
    kEarly, // at beat `at`, and at the last one
    kLate,  // `at` beats after the last one
    kNever, // nowhere
};

struct WriteBeat {
    std::vector<uint8_t> data;
    uint32_t strobe;
    bool last;
};

// An operation of a unit (0 load, 1 array, 2 vector, 3 store) was taken by its engine, or was done.
struct Event {
    uint64_t cycle;
    uint32_t unit;
    uint32_t done;
};

// Beats read and written in kSpanCycles consecutive cycles.
struct Span {
    uint64_t read = 0, written = 0;
};
constexpr uint64_t kSpanCycles = 64;

// Pauses of random length; never without a seed.
class Pauses {
  public:
    void seed(uint64_t value) { state_ = value ? value * 0x9E3779B97F4A7C15ull | 1 : 0; }
    bool now() {
        if (!state_) return false;
        if (left_) {
            left_--;
            return true;
        }
        const uint32_t draw = next();
        if (draw % 4 == 0) left_ = (draw >> 8) % 64 == 0 ? (draw >> 16) % 100 : (draw >> 16) % 6;
        return draw % 4 == 0;
    }

  private:
    uint32_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<uint32_t>(state_ >> 24);
    }
    uint64_t state_ = 0;
    uint32_t left_ = 0;
};

// Payload that a master offers: it must not change until it is accepted.
struct Offer {
    bool waiting = false;
    uint64_t key = 0;
};

class Bench {
  public:
    Bench(uint32_t latency, double bytes_per_cycle, uint32_t outstanding, uint64_t stall_seed)
        : context_(new VerilatedContext), top_(new Vaccelerator(context_.get())), latency_(latency ? latency : 1),
          bytes_per_cycle_(bytes_per_cycle), outstanding_(outstanding) {
        // Fractions of a beat carry over from cycle to cycle; whole beats do not.
        const bool whole = uint64_t(bytes_per_cycle) % bus_bytes_ == 0 && bytes_per_cycle == uint64_t(bytes_per_cycle);
        most_credit_ = whole ? bytes_per_cycle : bytes_per_cycle + bus_bytes_;
        for (size_t i = 0; i < 5; i++) pauses_[i].seed(stall_seed ? stall_seed * 8 + i + 1 : 0);
        top_->clk = 0;
        top_->rst = 1;
#if TQ_LINK
        top_->rx_valid = 0;
        top_->tx_ready = 1;
#if TQ_SOC
        top_->load_en = 0;
        top_->flash_cipo = 1;
#endif
#else
        top_->reg_write_en = 0;
#endif
        for (int i = 0; i < 4; i++) cycle();
        top_->rst = 0;
        cycle();
    }

    ~Bench() {
        trace(nullptr, "", 0, 0);
        top_->final();
    }

    void map(uint32_t base, uint32_t size, bool writable) {
        regions_.push_back({base, std::vector<uint8_t>(size), writable});
    }

    bool copy(uint32_t addr, uint8_t* to, const uint8_t* from, uint32_t size) {
        for (auto& region : regions_) {
            if (addr < region.base || uint64_t(addr) + size > uint64_t(region.base) + region.bytes.size()) continue;
            uint8_t* here = region.bytes.data() + (addr - region.base);
            if (to) std::memcpy(to, here, size);
            if (from) std::memcpy(here, from, size);
            return true;
        }
        return false;
    }

#if TQ_SOC
    // Initial contents of the processor's memory, and of the flash from an address on.
    void load(const uint8_t* program, uint32_t count, uint32_t address, const uint8_t* image, uint32_t image_count) {
        program_.assign(program, program + count);
        flash_.fill(address, image, image_count);
    }
#endif

#if TQ_LINK
    // Reset the board: bursts under way are lost, and memory is filled with noise.
    void reset(uint64_t seed) {
        top_->rst = 1;
        for (int i = 0; i < 4; i++) cycle();
#if TQ_SOC
        for (size_t at = 0; at + 4 <= program_.size(); at += 4) {
            top_->load_en = 1;
            top_->load_addr = at / 4;
            std::memcpy(&top_->load_data, &program_[at], 4);
            cycle();
        }
        top_->load_en = 0;
#endif
        reads_.clear();
        writes_.clear();
        answers_.clear();
        beats_.clear();
        pending_ = 0;
        r_valid_ = b_valid_ = false;
        ar_offer_ = aw_offer_ = w_offer_ = Offer();
        for (int i = 0; i < 4; i++) cycle();
        top_->rst = 0;
        uint64_t noise = seed | 1;
        for (auto& region : regions_) {
            for (size_t i = 0; i + 8 <= region.bytes.size(); i += 8) {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                std::memcpy(&region.bytes[i], &noise, 8);
            }
        }
        link_cycle();
    }

    // Send bytes, each after the board has handled the ones before, then run for `cycles`, or until an AXI rule is
    // broken. The board's answer is in sent().
    bool exchange(const uint8_t* bytes, uint64_t count, uint64_t cycles) {
        sent_.clear();
        for (uint64_t i = 0; i < count && error_.empty(); i++) {
            top_->rx_data = bytes[i];
            top_->rx_valid = 1;
            link_cycle();
            top_->rx_valid = 0;
            for (int k = 0; k < 3; k++) link_cycle();
            for (uint64_t k = 0; (top_->busy || top_->tx_valid) && error_.empty(); k++) {
                if (k == kLongestWork) fail("the bridge is busy for %llu cycles", (unsigned long long)k);
                link_cycle();
            }
        }
        for (uint64_t i = 0; i < cycles && error_.empty(); i++) link_cycle();
        return error_.empty();
    }
    const std::vector<uint8_t>& sent() const { return sent_; }
    bool running() const { return top_->running; }
#else
    void write_register(uint32_t offset, uint32_t value) {
        top_->reg_addr = offset;
        top_->reg_write_data = value;
        top_->reg_write_en = 1;
        cycle();
        top_->reg_write_en = 0;
        started_at_ = cycles_;
        events_.clear();
        spans_.clear();
        cycle();
    }

    uint32_t read_register(uint32_t offset) {
        top_->reg_addr = offset;
        for (int i = 0; i < 3; i++) cycle();
        return top_->reg_read_data;
    }
#endif

    // Stop a channel at its `after`-th transfer (from 0): 0 AR, 1 R, 2 AW, 3 W, 4 B.
    void stop_channel(uint32_t channel, uint64_t after) { stops_[channel] = after; }

    void wrong_last(uint64_t burst, uint32_t kind, uint32_t at) {
        wrong_burst_ = burst;
        wrong_kind_ = kind;
        wrong_at_ = at;
    }

    // Verilator renames ports whose names some C++ compiler reserves, such as "interrupt".
    int run(uint64_t max_cycles) {
        for (uint64_t i = 0; i < max_cycles; i++) {
            if (top_->__SYM__interrupt || !error_.empty()) break;
            cycle();
        }
        if (!error_.empty()) return 2;
        return top_->__SYM__interrupt ? 0 : 1;
    }

    // Write waves from the next cycle on, with a nanosecond per cycle: of scopes (one per line, none: all), in cycles
    // `first` to `last`. A null path ends the file.
    bool trace(const char* path, const char* scopes, uint64_t first, uint64_t last) {
#if VM_TRACE
        if (tracer_) {
            tracer_->close();
            tracer_.reset();
        }
        if (!path) return true;
        context_->traceEverOn(true);
        tracer_.reset(new Tracer);
        std::istringstream lines(scopes);
        for (std::string scope; std::getline(lines, scope);) tracer_->dumpvars(kAllLevels, scope);
        if (*scopes) tracer_->dumpvars(1, "TOP");
        top_->trace(tracer_.get(), kAllLevels);
        tracer_->open(path);
        waves_first_ = first;
        waves_last_ = last;
        waves_start_ = cycles_ + 1;
        return tracer_->isOpen();
#else
        (void)scopes, (void)first, (void)last;
        return !path;
#endif
    }

    const std::vector<Event>& events() const { return events_; }
    const std::vector<Span>& spans() const { return spans_; }
    uint64_t cycles() const { return cycles_ - started_at_; }
    const char* error() const { return error_.c_str(); }
    uint64_t statistic(uint32_t index) const { return index < 4 ? statistics_[index] : 0; }

  private:
#if TQ_LINK
    static constexpr uint64_t kLongestWork = 10'000'000;

    void link_cycle() {
        if (top_->tx_valid) sent_.push_back(top_->tx_data);
#if TQ_SOC
        top_->flash_cipo = flash_.step(top_->flash_select, top_->flash_clk, top_->flash_copi);
#endif
        cycle();
    }
    std::vector<uint8_t> sent_;
#endif
#if TQ_SOC
    SpiFlash flash_;
    std::vector<uint8_t> program_;
#endif

    enum Statistic { kReadBeats, kWriteBeats, kReadBursts, kWriteBursts };

    void fail(const char* format, ...) {
        if (!error_.empty()) return;
        char text[256];
        va_list arguments;
        va_start(arguments, format);
        std::vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        error_ = text;
    }

    // The region with bytes of a beat; null if there is none.
    Region* region_of(uint32_t addr) {
        for (auto& region : regions_) {
            if (uint64_t(addr) + bus_bytes_ > region.base && addr < uint64_t(region.base) + region.bytes.size())
                return &region;
        }
        return nullptr;
    }

    void read_beat(uint32_t addr, uint8_t* beat, uint32_t* response) {
        Region* region = region_of(addr);
        *response = region ? 0 : kDecodeError;
        for (uint32_t i = 0; i < bus_bytes_; i++) {
            const uint64_t at = uint64_t(addr) + i - (region ? region->base : 0);
            // Bytes of the last beat beyond the end of a region are arbitrary: no program may depend on them.
            beat[i] = region && addr + i >= region->base && at < region->bytes.size() ? region->bytes[at]
                                                                                      : uint8_t(cycles_ * 37 + i);
        }
    }

    bool write_beat(uint32_t addr, const WriteBeat& beat) {
        for (uint32_t i = 0; i < bus_bytes_; i++) {
            if (!(beat.strobe >> i & 1)) continue;
            Region* found = nullptr;
            for (auto& region : regions_) {
                if (addr + i >= region.base && uint64_t(addr) + i < uint64_t(region.base) + region.bytes.size())
                    found = &region;
            }
            if (!found || !found->writable) return false;
            found->bytes[addr + i - found->base] = beat.data[i];
        }
        return true;
    }

    void check_offer(const char* channel, Offer& offer, bool valid, bool ready, uint64_t key) {
        if (offer.waiting && (!valid || key != offer.key))
            fail("AXI: the %s channel withdrew or changed an offer before the transfer, in cycle %llu", channel,
                 static_cast<unsigned long long>(cycles_));
        offer.waiting = valid && !ready;
        offer.key = key;
    }

    void check_burst(const char* channel, uint32_t addr, uint32_t beats, uint32_t size, uint32_t kind) {
        if (kind != 1) fail("AXI: %s burst type %u, expected INCR (1)", channel, kind);
        if (1u << size != bus_bytes_) fail("AXI: %s size %u, expected beats of %u bytes", channel, size, bus_bytes_);
        if (addr % bus_bytes_) fail("AXI: %s address %#x is not a multiple of %u", channel, addr, bus_bytes_);
        if (addr / 4096 != (addr + beats * bus_bytes_ - 1) / 4096)
            fail("AXI: %s burst of %u beats at %#x crosses 4 KiB", channel, beats, addr);
    }

    void cycle() {
        Vaccelerator& top = *top_;
        credit_ += bytes_per_cycle_;
        if (credit_ > most_credit_) credit_ = most_credit_;

        const bool may_read = !stopped(1) && !r_valid_ && !reads_.empty() && reads_.front().due <= cycles_ && !pauses_[1].now();
        const bool may_write = !stopped(3) && beats_.size() < 512 && !pauses_[3].now();
        const bool wants_write = may_write && top.m_axi_wvalid;
        bool read_now = may_read && credit_ >= bus_bytes_;
        bool write_now = wants_write && credit_ >= bus_bytes_;
        if (read_now && write_now && credit_ < 2 * bus_bytes_) {
            (write_turn_ ? read_now : write_now) = false;
            write_turn_ = !write_turn_;
        }
        if (read_now) {
            credit_ -= bus_bytes_;
            Burst& burst = reads_.front();
            uint8_t beat[64];
            uint32_t response = 0;
            read_beat(burst.addr, beat, &response);
            put(top.m_axi_rdata, beat, bus_bytes_);
            top.m_axi_rid = burst.id;
            top.m_axi_rresp = response;
            top.m_axi_rlast = (burst.beats == 1 && !burst.endless) || burst.beats == burst.early;
            r_valid_ = true;
        }
        if (!stopped(4) && !b_valid_ && !answers_.empty() && answers_.front().due <= cycles_ && !pauses_[4].now()) {
            top.m_axi_bid = answers_.front().id;
            top.m_axi_bresp = commit(answers_.front()) ? 0 : kDecodeError;
            b_valid_ = true;
        }
        top.m_axi_rvalid = r_valid_;
        top.m_axi_bvalid = b_valid_;
        top.m_axi_wready = write_now;
        top.m_axi_arready = !stopped(0) && reads_.size() < outstanding_ && !pauses_[0].now();
        top.m_axi_awready = !stopped(2) && writes_.size() + answers_.size() < outstanding_ && !pauses_[2].now();
        top.clk = 0;
        top.eval();
        dump(0);
        sample();
        top.clk = 1;
        top.eval();
        dump(1);
        cycles_++;
        watch();
    }

    // Record begins and ends of operations, from registers of the four control units.
    void watch() {
#if TQ_WATCHED
        const Vaccelerator___024root& root = *top_->rootp;
        const uint32_t runs[4] = {root.TQ_LOAD_runs, root.TQ_ARRAY_runs, root.TQ_VECTOR_runs, root.TQ_STORE_runs};
        const uint32_t open[4] = {root.TQ_LOAD_in_flight, root.TQ_ARRAY_in_flight, root.TQ_VECTOR_in_flight,
                                  root.TQ_STORE_in_flight};
        for (uint32_t unit = 0; unit < 4; unit++) {
            const uint32_t done = runs[unit] - open[unit];
            if (runs[unit] > runs_[unit]) events_.push_back({cycles(), unit, 0});
            if (done > done_[unit]) events_.push_back({cycles(), unit, 1});
            runs_[unit] = runs[unit];
            done_[unit] = done;
        }
#endif
    }

    // The transfers of this cycle.
    void sample() {
        Vaccelerator& top = *top_;
        if (top.rst) return;
        check_offer("AR", ar_offer_, top.m_axi_arvalid, top.m_axi_arready, burst_key(top.m_axi_araddr, top.m_axi_arlen));
        check_offer("AW", aw_offer_, top.m_axi_awvalid, top.m_axi_awready, burst_key(top.m_axi_awaddr, top.m_axi_awlen));
        if (top.m_axi_arvalid && top.m_axi_arready) {
            check_burst("AR", top.m_axi_araddr, top.m_axi_arlen + 1u, top.m_axi_arsize, top.m_axi_arburst);
            reads_.push_back({top.m_axi_araddr, top.m_axi_arlen + 1u, top.m_axi_arid, cycles_ + latency_});
            if (transfers_[0] == wrong_burst_) misplace_last(reads_.back());
            transfers_[0]++;
            statistics_[kReadBursts]++;
        }
        if (r_valid_ && top.m_axi_rready) {
            r_valid_ = false;
            transfers_[1]++;
            statistics_[kReadBeats]++;
            span().read++;
            Burst& burst = reads_.front();
            burst.addr += bus_bytes_;
            if (--burst.beats == 0) reads_.pop_front();
        }
        if (top.m_axi_awvalid && top.m_axi_awready) {
            check_burst("AW", top.m_axi_awaddr, top.m_axi_awlen + 1u, top.m_axi_awsize, top.m_axi_awburst);
            writes_.push_back({top.m_axi_awaddr, top.m_axi_awlen + 1u, top.m_axi_awid, 0});
            transfers_[2]++;
            statistics_[kWriteBursts]++;
        }
        uint64_t w_key = top.m_axi_wstrb * 2u + top.m_axi_wlast;
        uint8_t w_data[64];
        if (top.m_axi_wvalid) {
            get(top.m_axi_wdata, w_data, bus_bytes_);
            for (uint32_t i = 0; i < bus_bytes_; i++) w_key = w_key * 31 + w_data[i];
        }
        check_offer("W", w_offer_, top.m_axi_wvalid, top.m_axi_wready, w_key);
        if (top.m_axi_wvalid && top.m_axi_wready) {
            credit_ -= bus_bytes_;
            beats_.push_back({{w_data, w_data + bus_bytes_}, uint32_t(top.m_axi_wstrb), bool(top.m_axi_wlast)});
            statistics_[kWriteBeats]++;
            span().written++;
            transfers_[3]++;
        }
        if (b_valid_ && top.m_axi_bready) {
            b_valid_ = false;
            transfers_[4]++;
            answers_.pop_front();
        }
        // A burst is answered `latency` cycles after both its address and its last beat have come.
        while (!writes_.empty() && pending_ + writes_.front().beats <= beats_.size()) {
            Burst burst = writes_.front();
            writes_.pop_front();
            for (uint32_t i = 0; i < burst.beats; i++) {
                if (beats_[pending_ + i].last != (i + 1 == burst.beats))
                    fail("AXI: WLAST is at the wrong beat of the burst of %u beats at %#x", burst.beats, burst.addr);
            }
            pending_ += burst.beats;
            burst.due = cycles_ + latency_;
            answers_.push_back(burst);
        }
    }

    // The span that counts the beats of this cycle.
    Span& span() {
        const uint64_t now = cycles() / kSpanCycles;
        if (now >= spans_.size()) spans_.resize(now + 1);
        return spans_[now];
    }

    // Write the bytes of the oldest burst to memory.
    bool commit(const Burst& burst) {
        bool good = true;
        for (uint32_t i = 0; i < burst.beats; i++) {
            good = write_beat(burst.addr + i * bus_bytes_, beats_.front()) && good;
            beats_.pop_front();
        }
        pending_ -= burst.beats;
        return good;
    }

    bool stopped(uint32_t channel) const { return transfers_[channel] >= stops_[channel]; }

    void misplace_last(Burst& burst) const {
        switch (wrong_kind_) {
        case kCut: burst.beats = wrong_at_ + 1; break;
        case kEarly: burst.early = burst.beats - wrong_at_; break;
        case kLate: burst.beats += wrong_at_; break;
        default: burst.endless = true;
        }
    }

    static uint64_t burst_key(uint64_t addr, uint64_t length) { return addr << 8 | length; }

    // Half 0 ends in the middle of a cycle, half 1 at its rising edge, whose time is the cycle's number.
    void dump(int half) {
#if VM_TRACE
        const uint64_t edge = cycles_ + uint64_t(half);
        if (!tracer_ || edge < waves_start_) return;
        const uint64_t cycle = edge - waves_start_;
        if (cycle >= waves_first_ && cycle <= waves_last_) tracer_->dump(1000 * cycle + (half ? 0 : 500));
#else
        (void)half;
#endif
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vaccelerator> top_;
#if VM_TRACE
    static constexpr int kAllLevels = 99;
    std::unique_ptr<Tracer> tracer_;
    uint64_t waves_start_ = 0, waves_first_ = 0, waves_last_ = UINT64_MAX;
#endif
    uint32_t latency_;
    double bytes_per_cycle_;
    uint32_t outstanding_;
    const uint32_t bus_bytes_ = TQ_BUS_BYTES;
    double credit_ = 0;  // bytes that may be transferred now
    double most_credit_;
    bool write_turn_ = false;
    Pauses pauses_[5];  // AR R AW W B
    std::vector<Region> regions_;
    std::deque<Burst> reads_;     // accepted addresses, oldest first
    std::deque<Burst> writes_;    // addresses with incomplete data
    std::deque<Burst> answers_;   // complete bursts without a response
    std::deque<WriteBeat> beats_; // data not yet in memory; the first `pending_` belong to `answers_`
    size_t pending_ = 0;
    bool r_valid_ = false, b_valid_ = false;
    Offer ar_offer_, aw_offer_, w_offer_;
    uint64_t cycles_ = 0, started_at_ = 0;
    uint64_t statistics_[4] = {};
    uint64_t transfers_[5] = {};  // AR R AW W B
    uint64_t stops_[5] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    uint64_t wrong_burst_ = UINT64_MAX;
    uint32_t wrong_kind_ = kCut, wrong_at_ = 0;
    std::vector<Event> events_;
    std::vector<Span> spans_;
    uint32_t runs_[4] = {}, done_[4] = {};
    std::string error_;
};

}  // namespace

extern "C" {

void* tq_create(uint32_t latency, double bytes_per_cycle, uint32_t outstanding, uint64_t stall_seed) {
    return new Bench(latency, bytes_per_cycle, outstanding, stall_seed);
}
void tq_destroy(void* bench) { delete static_cast<Bench*>(bench); }
void tq_map(void* bench, uint32_t base, uint32_t size, int writable) {
    static_cast<Bench*>(bench)->map(base, size, writable);
}
int tq_write_memory(void* bench, uint32_t addr, const uint8_t* bytes, uint32_t size) {
    return static_cast<Bench*>(bench)->copy(addr, nullptr, bytes, size);
}
int tq_read_memory(void* bench, uint32_t addr, uint8_t* bytes, uint32_t size) {
    return static_cast<Bench*>(bench)->copy(addr, bytes, nullptr, size);
}
#if TQ_SOC
void tq_load(void* bench, const uint8_t* program, uint32_t count, uint32_t address, const uint8_t* image,
             uint32_t image_count) {
    static_cast<Bench*>(bench)->load(program, count, address, image, image_count);
}
#endif
#if TQ_LINK
void tq_reset(void* bench, uint64_t seed) { static_cast<Bench*>(bench)->reset(seed); }
int tq_exchange(void* bench, const uint8_t* bytes, uint64_t count, uint64_t cycles) {
    return static_cast<Bench*>(bench)->exchange(bytes, count, cycles);
}
// Copy the bytes that the board sent; return their number, even if it exceeds `room`.
uint64_t tq_sent(void* bench, uint8_t* to, uint64_t room) {
    const auto& sent = static_cast<Bench*>(bench)->sent();
    std::memcpy(to, sent.data(), sent.size() < room ? sent.size() : room);
    return sent.size();
}
int tq_running(void* bench) { return static_cast<Bench*>(bench)->running(); }
#else
void tq_write_register(void* bench, uint32_t offset, uint32_t value) {
    static_cast<Bench*>(bench)->write_register(offset, value);
}
uint32_t tq_read_register(void* bench, uint32_t offset) { return static_cast<Bench*>(bench)->read_register(offset); }
#endif
void tq_stop_channel(void* bench, uint32_t channel, uint64_t after) {
    static_cast<Bench*>(bench)->stop_channel(channel, after);
}
void tq_wrong_last(void* bench, uint64_t burst, uint32_t kind, uint32_t at) {
    static_cast<Bench*>(bench)->wrong_last(burst, kind, at);
}
int tq_run(void* bench, uint64_t max_cycles) { return static_cast<Bench*>(bench)->run(max_cycles); }
int tq_trace(void* bench, const char* path, const char* scopes, uint64_t first, uint64_t last) {
    return static_cast<Bench*>(bench)->trace(path, scopes, first, last);
}
uint64_t tq_cycles(void* bench) { return static_cast<Bench*>(bench)->cycles(); }
uint64_t tq_statistic(void* bench, uint32_t index) { return static_cast<Bench*>(bench)->statistic(index); }
// Copy the next events from `first` on, three numbers each; return how many.
uint64_t tq_events(void* bench, uint64_t first, uint64_t* to, uint64_t most) {
    const auto& events = static_cast<Bench*>(bench)->events();
    uint64_t count = 0;
    for (; count < most && first + count < events.size(); count++) {
        const Event& event = events[first + count];
        *to++ = event.cycle;
        *to++ = event.unit;
        *to++ = event.done;
    }
    return count;
}
uint64_t tq_span_cycles() { return kSpanCycles; }
// Copy beats read and written of the next spans from `first` on, two numbers each; return how many spans.
uint64_t tq_spans(void* bench, uint64_t first, uint64_t* to, uint64_t most) {
    const auto& spans = static_cast<Bench*>(bench)->spans();
    uint64_t count = 0;
    for (; count < most && first + count < spans.size(); count++) {
        *to++ = spans[first + count].read;
        *to++ = spans[first + count].written;
    }
    return count;
}
const char* tq_error(void* bench) { return static_cast<Bench*>(bench)->error(); }
}
