/* Functions that compilers call implicitly. */
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    while (bytes-- > 0)
        *out++ = *in++;
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    uint8_t *out = to;
    while (bytes-- > 0)
        *out++ = (uint8_t)value;
    return to;
}
