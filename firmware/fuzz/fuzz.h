/* Shared by the fuzz targets. Each target is one function for libFuzzer; main.c runs it on stored files instead. */
#ifndef TQ_FUZZ_H
#define TQ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Abort, which the fuzzer reports, unless a condition holds. */
void expect(int holds);
/* A copy of exactly `size` bytes, so that a read beyond them is detected; to be freed. */
uint8_t *copied(const uint8_t *data, size_t size);
/* Give a compiled file its magic, version, size and checksum, if it is long enough. */
void seal(uint8_t *file, size_t size);
void put_word(uint8_t *to, uint32_t value);
uint32_t get_word(const uint8_t *from);

#endif /* TQ_FUZZ_H */
