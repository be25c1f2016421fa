/* Options of the program that loads the delegate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tq_port.h"

static const char *option(const char *const *keys, const char *const *values, size_t count, const char *name)
{
    for (size_t at = 0; at < count; at++)
        if (!strcmp(keys[at], name))
            return values[at];
    return NULL;
}

static int is_known(const char *key)
{
    static const char *const known[] = {"port", "baud", "uio", "udmabuf", "seconds"};
    for (size_t at = 0; at < sizeof known / sizeof known[0]; at++)
        if (!strcmp(key, known[at]))
            return 1;
    return 0;
}

/* The positive integer of an option, `absent` if the option is missing, 0 for anything else. */
static unsigned long number(const char *text, unsigned long absent)
{
    char *end = NULL;
    const unsigned long found = text ? strtoul(text, &end, 10) : absent;
    return text && (*end || text[0] == '-') ? 0 : found;
}

int tq_port_open(tq_port *port, const char *const *keys, const char *const *values, size_t count, uint32_t *most_cycles,
                 char *why, size_t why_bytes)
{
    const char *path = option(keys, values, count, "port"), *uio = option(keys, values, count, "uio");
    const char *buffer = option(keys, values, count, "udmabuf");
    const unsigned long baud = number(option(keys, values, count, "baud"), 1000000);
    const unsigned long seconds = number(option(keys, values, count, "seconds"), 60);
    for (size_t at = 0; at < count; at++)
        if (!is_known(keys[at])) {
            snprintf(why, why_bytes, "there is no option %s; options are port, baud, uio, udmabuf and seconds",
                     keys[at]);
            return -1;
        }
    if ((path != NULL) == (uio != NULL) || !baud || !seconds) {
        snprintf(why, why_bytes, "%s", !baud || !seconds ? "baud and seconds are whole numbers above 0"
                                                         : "name port, or uio, and not both");
        return -1;
    }
    if (path ? tq_port_serial(port, path, baud, why, why_bytes)
             : tq_port_uio(port, uio, buffer ? buffer : "/dev/udmabuf0", why, why_bytes))
        return -1;
    const uint64_t cycles = (uint64_t)seconds * port->clock_hz;
    *most_cycles = !cycles || seconds > 0xffffffffu || cycles > 0xffffffffu ? 0xffffffffu : (uint32_t)cycles;
    return 0;
}
