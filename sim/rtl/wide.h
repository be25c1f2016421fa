// Attributes for functions whose loops should use the processor's full vector width.
#pragma once

#include <cstdint>
#include <cstring>

// A part of such a function: inlined, and so compiled once for each kind of processor.
#define TQ_PART inline __attribute__((always_inline))

#if defined(__GLIBC__) && defined(__x86_64__) && defined(__has_attribute)
#if __has_attribute(target_clones)
// The loader selects the variant for the processor: several machines may share the cache.
#define TQ_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef TQ_WIDE
#define TQ_WIDE
#endif
