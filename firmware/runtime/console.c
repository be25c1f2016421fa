#include "console.h"

#include <tq_soc.h>

static volatile uint32_t *const uart = (volatile uint32_t *)(TQ_SOC_DEVICES + TQ_DEVICE_UART);

static void put(char letter)
{
    /* The write waits until the line is free. */
    *uart = (uint8_t)letter;
}

void put_text(const char *text)
{
    while (*text != 0)
        put(*text++);
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
        put(digits[--count]);
}

void put_hex(uint32_t value, uint32_t digits)
{
    while (digits > 0)
        put("0123456789abcdef"[value >> 4u * --digits & 15u]);
}

void put_bytes(const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        put_hex(bytes[i], 2);
}

int get_byte(void)
{
    const uint32_t value = *uart;
    return value < 256u ? (int)value : -1;
}
