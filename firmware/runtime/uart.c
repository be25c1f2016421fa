#include "console.h"

#include <tq_soc.h>

static volatile uint32_t *const uart = (volatile uint32_t *)(TQ_SOC_DEVICES + TQ_DEVICE_UART);

void put_byte(char letter)
{
    /* The write stalls until the line is free. */
    *uart = (uint8_t)letter;
}

int get_byte(void)
{
    const uint32_t value = *uart;
    return value < 256u ? (int)value : -1;
}
