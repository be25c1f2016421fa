/* The host's end of the link of docs/reference/link.md, for a program that reaches the board over a line of bytes. */
#ifndef TQ_LINK_H
#define TQ_LINK_H

#include "tq.h"
#include "tq_link_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Times that a request is sent before the board is given up; milliseconds that a byte of an answer may take; answers to
 * earlier requests that may precede it each time. */
#ifndef TQ_LINK_ATTEMPTS
#define TQ_LINK_ATTEMPTS 100u
#endif
#ifndef TQ_LINK_WAIT_MS
#define TQ_LINK_WAIT_MS 200u
#endif
#ifndef TQ_LINK_MOST_LATE
#define TQ_LINK_MOST_LATE 8u
#endif

/* The line. `send` sends all bytes. `receive` waits for one byte and returns 1, or 0 when none came in time. Both return
 * a negative number when the line is gone. */
typedef struct tq_line {
    int (*send)(void *context, const uint8_t *bytes, uint32_t count);
    int (*receive)(void *context, uint8_t *byte, uint32_t wait_ms);
    void *context;
} tq_line;

typedef struct tq_link {
    const tq_line *line;
    uint16_t session;
    uint8_t sequence;
    uint32_t block; /* bytes of the next request; halves when one fails */
    uint32_t good;  /* requests in a row that did not fail */
    /* the identity of the board */
    uint32_t fingerprint, memory_base, memory_bytes, clock_hz;
} tq_link;

/* Begin a session. `session` is any number but 0, another one than last time. */
tq_status tq_link_open(tq_link *link, const tq_line *line, uint16_t session);
/* The bus over an open link, for tq_open. */
tq_bus tq_link_bus(tq_link *link);

#ifdef __cplusplus
}
#endif

#endif /* TQ_LINK_H */
