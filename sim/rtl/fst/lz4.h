// The part of LZ4 that Verilator's FST writer uses: a block compressor, written from the block format's description.
//
// Debian has the headers of the real library in a package that a fresh system lacks. A match is the last position with
// the same four bytes, if it is less than 64 KiB back.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace tq_lz4 {

constexpr int kHashBits = 14;
constexpr int kLeastMatch = 4;
constexpr int kLastLiterals = 5;   // a block ends with at least this many literals
constexpr int kLastMatchStart = 12;  // no match begins in this many last bytes

inline uint32_t word(const uint8_t* at) {
    uint32_t value;
    std::memcpy(&value, at, 4);
    return value;
}

// The rest of a length that does not fit into its half of the token.
inline uint8_t* put_length(uint8_t* out, int rest) {
    for (; rest >= 255; rest -= 255) *out++ = 255;
    *out++ = uint8_t(rest);
    return out;
}

// Literals, then a match of `match` bytes (0: the end of the block).
inline uint8_t* put_sequence(uint8_t* out, const uint8_t* literals, int count, int distance, int match) {
    uint8_t* token = out++;
    const int more = match ? match - kLeastMatch : 0;
    *token = uint8_t((count < 15 ? count : 15) << 4 | (more < 15 ? more : 15));
    if (count >= 15) out = put_length(out, count - 15);
    std::memcpy(out, literals, size_t(count));
    out += count;
    if (!match) return out;
    *out++ = uint8_t(distance);
    *out++ = uint8_t(distance >> 8);
    if (more >= 15) out = put_length(out, more - 15);
    return out;
}

}  // namespace tq_lz4

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

// `room` is the result of LZ4_compressBound; returns the bytes written.
inline int LZ4_compress_default(const char* source, char* target, int size, int /*room*/) {
    using namespace tq_lz4;
    const auto* in = reinterpret_cast<const uint8_t*>(source);
    auto* out = reinterpret_cast<uint8_t*>(target);
    std::vector<int> last(size_t(1) << kHashBits, -1);
    int at = 0, literals = 0;
    while (at + kLastMatchStart < size) {
        const uint32_t hash = word(in + at) * 2654435761u >> (32 - kHashBits);
        const int found = last[hash];
        last[hash] = at;
        if (found < 0 || at - found > 65535 || word(in + found) != word(in + at)) {
            at++;
            continue;
        }
        int match = kLeastMatch;
        while (at + match < size - kLastLiterals && in[found + match] == in[at + match]) match++;
        out = put_sequence(out, in + literals, at - literals, at - found, match);
        at += match;
        literals = at;
    }
    out = put_sequence(out, in + literals, size - literals, 0, 0);
    return int(out - reinterpret_cast<uint8_t*>(target));
}
