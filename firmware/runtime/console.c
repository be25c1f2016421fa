#include "console.h"

void put_text(const char *text)
{
    while (*text != 0)
        put_byte(*text++);
}

void put_number(uint32_t value)
{
    char digits[10];
    uint32_t count = 0;
    do {
        digits[count++] = (char)('0' + value % 10u);
        value /= 10u;
    } while (value != 0);
    while (count > 0)
        put_byte(digits[--count]);
}

void put_hex(uint32_t value, uint32_t digits)
{
    while (digits > 0)
        put_byte("0123456789abcdef"[value >> 4u * --digits & 15u]);
}

void put_bytes(const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        put_hex(bytes[i], 2);
}
