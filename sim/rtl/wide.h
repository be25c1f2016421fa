// Functions whose loops are to be as wide as the processor's vectors.
#pragma once

#include <cstdint>
#include <cstring>

// What such a function is made of: compiled with it, once for each kind of processor.
#define TQ_PART inline __attribute__((always_inline))

#if defined(__GLIBC__) && defined(__x86_64__) && defined(__has_attribute)
#if __has_attribute(target_clones)
// The loader takes what fits the processor: the cache may serve several machines.
#define TQ_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef TQ_WIDE
#define TQ_WIDE
#endif
