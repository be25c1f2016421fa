/* The UART of a LiteX SoC. */
#include "console.h"

#include <generated/csr.h>

/* Bit of the receiver in the UART's events. */
#define RECEIVED 2u

void put_byte(char letter)
{
    while (uart_txfull_read()) {
    }
    uart_rxtx_write((uint8_t)letter);
}

int get_byte(void)
{
    int letter = -1;
    if (!uart_rxempty_read()) {
        letter = (int)(uart_rxtx_read() & 255u);
        /* Removes the byte from the queue. */
        uart_ev_pending_write(RECEIVED);
    }
    return letter;
}
