/* A serial line under POSIX, as the line of tq_link. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tq_port.h"

#define SEND_MS 5000

static const struct {
    unsigned long baud;
    speed_t speed;
} speeds[] = {
    {9600, B9600},       {19200, B19200},     {38400, B38400},     {57600, B57600},     {115200, B115200},
    {230400, B230400},   {460800, B460800},   {500000, B500000},   {576000, B576000},   {921600, B921600},
    {1000000, B1000000}, {1500000, B1500000}, {2000000, B2000000}, {3000000, B3000000}, {4000000, B4000000},
};

static int send_bytes(void *context, const uint8_t *bytes, uint32_t count)
{
    const tq_port *port = context;
    for (uint32_t done = 0; done < count;) {
        const ssize_t sent = write(port->handle, bytes + done, count - done);
        if (sent > 0) {
            done += (uint32_t)sent;
            continue;
        }
        struct pollfd ready = {port->handle, POLLOUT, 0};
        if ((sent < 0 && errno != EAGAIN && errno != EINTR) || poll(&ready, 1, SEND_MS) == 0)
            return -1;
    }
    return 0;
}

static int receive_byte(void *context, uint8_t *byte, uint32_t wait_ms)
{
    tq_port *port = context;
    if (port->taken == port->came) {
        struct pollfd ready = {port->handle, POLLIN, 0};
        const int found = poll(&ready, 1, (int)wait_ms);
        if (found <= 0)
            return found < 0 && errno != EINTR ? -1 : 0;
        const ssize_t got = read(port->handle, port->room, sizeof port->room);
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
        port->taken = 0;
        port->came = (uint32_t)got;
    }
    *byte = port->room[port->taken++];
    return 1;
}

static int fail(tq_port *port, const char *path, const char *what, char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "port %s: %s", path, what);
    tq_port_close(port);
    return -1;
}

int tq_port_serial(tq_port *port, const char *path, unsigned long baud, char *why, size_t why_bytes)
{
    size_t at = 0;
    memset(port, 0, sizeof *port);
    port->buffer_handle = -1;
    port->handle = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (port->handle < 0)
        return fail(port, path, strerror(errno), why, why_bytes);
    /* Two programs on one line would get each other's answers. */
    if (flock(port->handle, LOCK_EX | LOCK_NB) != 0)
        return fail(port, path, "is in use by another program; close that first", why, why_bytes);
    while (at < sizeof speeds / sizeof speeds[0] && speeds[at].baud != baud)
        at++;
    struct termios mode;
    if (at == sizeof speeds / sizeof speeds[0])
        return fail(port, path, "this system has no such baud rate", why, why_bytes);
    if (tcgetattr(port->handle, &mode) != 0)
        return fail(port, path, strerror(errno), why, why_bytes);
    cfmakeraw(&mode);
    mode.c_cflag |= CLOCAL | CREAD;
    if (cfsetispeed(&mode, speeds[at].speed) != 0 || cfsetospeed(&mode, speeds[at].speed) != 0
        || tcsetattr(port->handle, TCSANOW, &mode) != 0 || tcflush(port->handle, TCIOFLUSH) != 0)
        return fail(port, path, strerror(errno), why, why_bytes);
    port->line = (tq_line){send_bytes, receive_byte, port};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint32_t session = (uint32_t)now.tv_nsec / 1000u ^ (uint32_t)getpid();
    const tq_status status = tq_link_open(&port->link, &port->line, (uint16_t)(session % 0xffffu + 1u));
    if (status != TQ_OK)
        return fail(port, path, tq_text(status), why, why_bytes);
    port->bus = tq_link_bus(&port->link);
    port->memory = port->link.memory_base;
    port->memory_bytes = port->link.memory_bytes;
    port->clock_hz = port->link.clock_hz;
    return 0;
}
