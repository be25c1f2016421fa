/* The host's end of the link, against a board whose answers the input determines.
 *
 * Input: a byte of flags, then the board's successive actions: see `enum deed`. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tq_link.h"

/* Action of an input byte, modulo COUNT. A number in brackets: further bytes that it consumes. */
enum deed {
    SILENCE,    /* nothing comes */
    BYTE,       /* [1] any byte */
    ANSWER,     /* the right answer */
    OTHER,      /* [2] the right answer except for a byte, with a matching checksum */
    AGAIN,      /* the frame before */
    REFUSAL,    /* [1] an answer without data, of any status */
    BROKEN,     /* the right answer with a wrong checksum */
    GONE,       /* the line is gone */
    COUNT
};
enum { FOREVER = 1, STRANGE_IDENTITY = 2 };

#define FRAME_BYTES (8u + TQ_LINK_MOST_BYTES + 4u)
#define MEMORY 0x100u
#define MEMORY_BYTES 0x1000u
/* Frames, with noise before each, in every attempt of every request of the longest transfer. */
#define MOST_RECEIVED (400u * TQ_LINK_ATTEMPTS * TQ_LINK_MOST_LATE * 2u * FRAME_BYTES)

typedef struct board {
    const uint8_t *script;
    size_t script_bytes, at;
    int flags;
    uint32_t received;
    uint8_t request[FRAME_BYTES + 16u], frame[FRAME_BYTES];
    uint32_t request_bytes, frame_bytes, sent;
} board;

static uint8_t next(board *b)
{
    if (b->at >= b->script_bytes && (b->flags & FOREVER) != 0)
        b->at = 0;
    return b->at < b->script_bytes ? b->script[b->at++] : (uint8_t)GONE;
}

static uint32_t read_data(const board *b, uint8_t *data)
{
    const uint32_t size = get_word(b->request + 6) & 0xffffu, address = get_word(b->request + 8);
    if ((b->request[2] & 1u) != 0 || size > TQ_LINK_MOST_BYTES)
        return 0;
    memset(data, 0, size);
    if (b->request[2] == TQ_LINK_OPEN && size == TQ_LINK_IDENTITY_BYTES) {
        put_word(data + TQ_IDENTITY_VERSION, TQ_LINK_VERSION);
        put_word(data + TQ_IDENTITY_MEMORY_BASE, (b->flags & STRANGE_IDENTITY) != 0 ? 0xffffff00u : MEMORY);
        put_word(data + TQ_IDENTITY_MEMORY_BYTES, (b->flags & STRANGE_IDENTITY) != 0 ? 0xffffff00u : MEMORY_BYTES);
    } else if (b->request[2] == TQ_LINK_READ_REGISTERS && size == 4u) {
        put_word(data, address == TQ_REG_MAGIC ? TQ_MAGIC : address == TQ_REG_STATUS ? TQ_STATUS_DONE : 0u);
    }
    return size;
}

static void finish(board *b, uint32_t size)
{
    b->frame[0] = TQ_LINK_ANSWER_SYNC0;
    b->frame[1] = TQ_LINK_ANSWER_SYNC1;
    put_word(b->frame + 8u + size, tq_crc32(0, b->frame + 2, 6u + size));
    b->frame_bytes = 12u + size;
    b->sent = 0;
}

static void build(board *b, uint8_t status, int with_data)
{
    const uint32_t size = with_data ? read_data(b, b->frame + 8) : 0u;
    b->frame[2] = status;
    b->frame[3] = b->request[3];
    memcpy(b->frame + 4, b->request + 4, 2);
    b->frame[6] = (uint8_t)size;
    b->frame[7] = (uint8_t)(size >> 8);
    finish(b, size);
}

/* Perform the next action; 1 when there are bytes to send, 0 for silence, negative for a line that is gone. */
static int act(board *b, uint8_t *byte)
{
    const uint8_t deed = next(b) % COUNT;
    switch (deed) {
    case SILENCE: return 0;
    case GONE: return -1;
    case BYTE: *byte = next(b); return 2;
    case REFUSAL: build(b, next(b), 0); break;
    case AGAIN: b->sent = 0; break;
    default:
        build(b, TQ_RESULT_OK, 1);
        if (deed == OTHER) {
            const uint32_t size = b->frame_bytes - 12u, place = next(b) % (6u + size);
            b->frame[2u + place] = next(b);
            finish(b, size);
        }
        if (deed == BROKEN)
            b->frame[b->frame_bytes - 1u] ^= 1u;
    }
    return b->frame_bytes > 0 ? 1 : 0;
}

static int receive(void *context, uint8_t *byte, uint32_t wait_ms)
{
    board *b = context;
    (void)wait_ms;
    expect(++b->received <= MOST_RECEIVED);
    if (b->sent >= b->frame_bytes) {
        const int got = act(b, byte);
        if (got != 1)
            return got == 2 ? 1 : got;
    }
    *byte = b->frame[b->sent++];
    return 1;
}

static int send(void *context, const uint8_t *bytes, uint32_t count)
{
    board *b = context;
    if (count == 2u && bytes[0] == TQ_LINK_REQUEST_SYNC0 && bytes[1] == TQ_LINK_REQUEST_SYNC1)
        b->request_bytes = 0;
    expect(count <= sizeof b->request - b->request_bytes);
    memcpy(b->request + b->request_bytes, bytes, count);
    b->request_bytes += count;
    return 0;
}

/* A whole file without tensors, whose commands are END. */
static void open_model(const tq_bus *bus, const tq_link *link)
{
    static tq_model model;
    uint8_t file[TQ_FILE_HEADER_BYTES + 16u] = {0};
    put_word(file + TQ_FILE_IMAGE_OFFSET, TQ_FILE_HEADER_BYTES);
    put_word(file + TQ_FILE_IMAGE_BYTES, 16u);
    put_word(file + TQ_FILE_COMMAND_BYTES, 4u);
    put_word(file + TQ_FILE_PORT_BYTES, TQ_PORT_RECORD_BYTES);
    put_word(file + TQ_FILE_PORT_OFFSET, TQ_FILE_HEADER_BYTES);
    put_word(file + TQ_FILE_NAMES_OFFSET, TQ_FILE_HEADER_BYTES);
    put_word(file + TQ_FILE_STATE_OFFSET, TQ_FILE_HEADER_BYTES);
    put_word(file + TQ_FILE_HEADER_BYTES, 8u);
    seal(file, sizeof file);
    if (tq_open(&model, bus, file, sizeof file, link->memory_base, link->memory_bytes) == TQ_OK)
        (void)tq_run(&model, 100u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    board b = {0};
    const tq_line line = {send, receive, &b};
    tq_link link;
    tq_bus bus;
    uint8_t *bytes;
    if (size < 1)
        return 0;
    b.flags = data[0];
    b.script = data + 1;
    b.script_bytes = size - 1u;
    if (tq_link_open(&link, &line, 0x1234u) != TQ_OK)
        return 0;
    bus = tq_link_bus(&link);
    open_model(&bus, &link);
    bytes = calloc(700, 1);
    expect(bytes != NULL);
    (void)bus.write(bus.context, TQ_MEMORY, MEMORY, bytes, 700);
    (void)bus.read(bus.context, TQ_MEMORY, MEMORY + 1u, bytes, 699);
    (void)bus.read(bus.context, TQ_REGISTERS, 0, bytes, 72);
    free(bytes);
    return 0;
}
