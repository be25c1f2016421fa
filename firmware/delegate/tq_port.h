/* The accelerator as the delegate reaches it under Linux: over a serial line, or in this processor's address space. */
#ifndef TQ_PORT_H
#define TQ_PORT_H

#include <stddef.h>

#include "tq.h"
#include "tq_link.h"

#define TQ_PATH_BYTES 256u
#define TQ_ROOM_BYTES 4096u

typedef struct tq_port {
    tq_bus bus;
    uint32_t memory, memory_bytes; /* the device's address of its memory, and its size */
    uint32_t clock_hz;             /* 0 if unknown */
    int handle, buffer_handle;
    /* a serial line */
    tq_line line;
    tq_link link;
    uint8_t room[TQ_ROOM_BYTES];
    uint32_t taken, came;
    /* a UIO device with a u-dma-buf */
    tq_mmio mmio;
    tq_bus direct;
    char buffer[TQ_PATH_BYTES];
    void *page;
} tq_port;

/* Open the device that options name: see tq_delegate.c. `most_cycles` limits a run. Return 0, or -1 and why. */
int tq_port_open(tq_port *port, const char *const *keys, const char *const *values, size_t count, uint32_t *most_cycles,
                 char *why, size_t why_bytes);
/* Open a board's serial port, or the terminal of `tq-hw emulate`, and begin a session. Return 0, or -1 and why. */
int tq_port_serial(tq_port *port, const char *path, unsigned long baud, char *why, size_t why_bytes);
/* Open an accelerator at a UIO device with the memory of a u-dma-buf. Return 0, or -1 and why. */
int tq_port_uio(tq_port *port, const char *uio, const char *buffer, char *why, size_t why_bytes);
void tq_port_close(tq_port *port);

#endif /* TQ_PORT_H */
