#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "tq.h"

void expect(int holds)
{
    if (!holds)
        abort();
}

uint8_t *copied(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

void put_word(uint8_t *to, uint32_t value)
{
    for (uint32_t i = 0; i < 4u; i++)
        to[i] = (uint8_t)(value >> (8u * i));
}

uint32_t get_word(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

void seal(uint8_t *file, size_t size)
{
    if (size < TQ_FILE_HEADER_BYTES)
        return;
    put_word(file + TQ_FILE_MAGIC, TQ_FILE_MAGIC_VALUE);
    put_word(file + TQ_FILE_VERSION, TQ_FILE_VERSION_VALUE);
    put_word(file + TQ_FILE_FILE_BYTES, (uint32_t)size);
    put_word(file + TQ_FILE_CRC, tq_crc32(0, file + TQ_FILE_CRC_FROM, size - TQ_FILE_CRC_FROM));
}
