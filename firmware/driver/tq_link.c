#include "tq_link.h"

#define FEWEST_BYTES 16u
#define GROW_AFTER 8u
#define REQUEST_HEADER 10u
#define ANSWER_HEADER 6u
#define CRC_BYTES 4u

enum outcome { ANSWERED, SILENT, DAMAGED, GONE };

static void put(uint8_t *to, uint32_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8u * i));
}

static uint32_t get(const uint8_t *from, uint32_t bytes)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < bytes; i++)
        value |= (uint32_t)from[i] << (8u * i);
    return value;
}

static int send_request(const tq_link *link, const uint8_t *header, const uint8_t *data, uint32_t count)
{
    static const uint8_t sync[2] = {TQ_LINK_REQUEST_SYNC0, TQ_LINK_REQUEST_SYNC1};
    const tq_line *line = link->line;
    uint8_t crc[CRC_BYTES];
    put(crc, tq_crc32(tq_crc32(0, header, REQUEST_HEADER), data, count), CRC_BYTES);
    if (line->send(line->context, sync, 2) < 0 || line->send(line->context, header, REQUEST_HEADER) < 0
        || (count > 0 && line->send(line->context, data, count) < 0)
        || line->send(line->context, crc, CRC_BYTES) < 0)
        return -1;
    return 0;
}

/* Receive `count` bytes; 1 when all came, 0 when not, negative when the line is gone. */
static int receive(const tq_link *link, uint8_t *to, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const int got = link->line->receive(link->line->context, to + i, TQ_LINK_WAIT_MS);
        if (got <= 0)
            return got;
    }
    return 1;
}

/* Wait for one answer to the request under way; data of up to `room` bytes go to `data`. This always ends: at most
 * TQ_LINK_MOST_LATE frames are read, each after at most as many bytes of noise as the longest frame has. */
static enum outcome receive_answer(const tq_link *link, uint8_t *data, uint32_t room, uint32_t *status, uint32_t *size)
{
    uint8_t header[ANSWER_HEADER], crc[CRC_BYTES], byte, before = 0;
    uint32_t late = 0;
    for (uint32_t noise = 0; noise <= TQ_LINK_MOST_BYTES + ANSWER_HEADER + CRC_BYTES; noise++) {
        int got = receive(link, &byte, 1);
        if (got <= 0)
            return got < 0 ? GONE : SILENT;
        if (before != TQ_LINK_ANSWER_SYNC0 || byte != TQ_LINK_ANSWER_SYNC1) {
            before = byte;
            continue;
        }
        before = 0;
        got = receive(link, header, ANSWER_HEADER);
        if (got <= 0)
            return got < 0 ? GONE : SILENT;
        *status = header[0];
        *size = get(header + 4, 2);
        if (*size > room)
            return DAMAGED;
        got = receive(link, data, *size);
        if (got > 0)
            got = receive(link, crc, CRC_BYTES);
        if (got <= 0)
            return got < 0 ? GONE : SILENT;
        if (get(crc, CRC_BYTES) != tq_crc32(tq_crc32(0, header, ANSWER_HEADER), data, *size))
            return DAMAGED;
        if (header[1] == link->sequence && get(header + 2, 2) == link->session)
            return *status == TQ_RESULT_BAD_FRAME ? DAMAGED : ANSWERED;
        /* An answer to an earlier request that was sent twice. */
        if (++late == TQ_LINK_MOST_LATE)
            break;
        noise = 0;
    }
    return DAMAGED;
}

static void note(tq_link *link, int failed)
{
    link->good = failed ? 0u : link->good + 1u;
    if (failed && link->block > FEWEST_BYTES)
        link->block /= 2u;
    if (link->good >= GROW_AFTER && link->block < TQ_LINK_MOST_BYTES) {
        link->block *= 2u;
        link->good = 0;
    }
}

/* Send a request until it is answered, at most `attempts` times. `out` has the `count` bytes of a write, `in` room for
 * the `count` bytes of a read. */
static tq_status ask(tq_link *link, uint8_t command, uint32_t address, uint32_t count, const uint8_t *out, uint8_t *in,
                     uint32_t attempts)
{
    uint8_t header[REQUEST_HEADER];
    const uint32_t sent = out != NULL ? count : 0u;
    const uint32_t wanted = out != NULL ? 0u : count;
    link->sequence++;
    header[0] = command;
    header[1] = link->sequence;
    put(header + 2, link->session, 2);
    put(header + 4, count, 2);
    put(header + 6, address, 4);
    for (uint32_t attempt = 0; attempt < attempts; attempt++) {
        uint32_t status = 0, size = 0;
        enum outcome outcome = GONE;
        if (send_request(link, header, out, sent) == 0)
            outcome = receive_answer(link, in, wanted, &status, &size);
        if (outcome == GONE)
            return TQ_BUS_FAILED;
        note(link, outcome != ANSWERED || attempt > 0);
        if (outcome != ANSWERED)
            continue;
        if (status == TQ_RESULT_NO_SESSION)
            return TQ_BOARD_RESET;
        return status == TQ_RESULT_OK && size == wanted ? TQ_OK : TQ_REFUSED;
    }
    return TQ_NO_ANSWER;
}

tq_status tq_link_open(tq_link *link, const tq_line *line, uint16_t session)
{
    uint8_t identity[TQ_LINK_IDENTITY_BYTES];
    tq_status status;
    if (link == NULL || line == NULL || session == 0)
        return TQ_BAD_ARGUMENT;
    link->line = line;
    link->session = session;
    link->sequence = 0;
    link->block = TQ_LINK_MOST_BYTES;
    link->good = 0;
    status = ask(link, TQ_LINK_OPEN, 0, TQ_LINK_IDENTITY_BYTES, NULL, identity, TQ_LINK_ATTEMPTS);
    if (status != TQ_OK)
        return status;
    if (get(identity + TQ_IDENTITY_VERSION, 4) != TQ_LINK_VERSION)
        return TQ_OTHER_VERSION;
    link->fingerprint = get(identity + TQ_IDENTITY_FINGERPRINT, 4);
    link->memory_base = get(identity + TQ_IDENTITY_MEMORY_BASE, 4);
    link->memory_bytes = get(identity + TQ_IDENTITY_MEMORY_BYTES, 4);
    link->clock_hz = get(identity + TQ_IDENTITY_CLOCK_HZ, 4);
    return TQ_OK;
}

/* Transfer `bytes` bytes in as many requests as needed. A block that fails is tried again in smaller ones. A write to
 * registers is repeated unchanged until it is answered, because the board must not execute it twice. */
static tq_status carry(tq_link *link, uint8_t command, uint32_t address, const uint8_t *out, uint8_t *in, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes;) {
        const uint32_t count = bytes - at < link->block ? bytes - at : link->block;
        const int once = command != TQ_LINK_WRITE_REGISTERS && count > FEWEST_BYTES;
        const tq_status status = ask(link, command, address + at, count, out != NULL ? out + at : NULL,
                                     in != NULL ? in + at : NULL, once ? 1u : TQ_LINK_ATTEMPTS);
        if (status == TQ_OK)
            at += count;
        else if (status != TQ_NO_ANSWER || !once)
            return status;
    }
    return TQ_OK;
}

static tq_status link_read(void *context, tq_space space, uint32_t address, void *data, uint32_t bytes)
{
    return carry(context, space == TQ_MEMORY ? TQ_LINK_READ_MEMORY : TQ_LINK_READ_REGISTERS, address, NULL, data, bytes);
}

static tq_status link_write(void *context, tq_space space, uint32_t address, const void *data, uint32_t bytes)
{
    return carry(context, space == TQ_MEMORY ? TQ_LINK_WRITE_MEMORY : TQ_LINK_WRITE_REGISTERS, address, data, NULL,
                 bytes);
}

tq_bus tq_link_bus(tq_link *link)
{
    const tq_bus bus = {link_read, link_write, link};
    return bus;
}
