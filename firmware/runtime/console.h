/* The UART: text out, bytes in. */
#ifndef TQ_CONSOLE_H
#define TQ_CONSOLE_H

#include <stdint.h>

void put_text(const char *text);
void put_number(uint32_t value);               /* decimal */
void put_hex(uint32_t value, uint32_t digits); /* the lowest digits */
void put_bytes(const uint8_t *bytes, uint32_t count);
/* uart.c: */
void put_byte(char letter); /* waits until there is room */
int get_byte(void); /* the last byte that came, -1 when none did */

#endif /* TQ_CONSOLE_H */
