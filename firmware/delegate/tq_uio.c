/* An accelerator in this processor's address space: registers through Linux's UIO, memory through u-dma-buf. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tq_port.h"

#define WINDOW_BYTES 4096u

/* Where the kernel module gives the size of a buffer; older versions have the second name. */
#ifndef TQ_SYSFS
#define TQ_SYSFS "/sys/class"
#endif
static const char *const classes[] = {"u-dma-buf", "udmabuf"};

static FILE *attribute(const char *buffer, const char *name, const char *mode)
{
    const char *slash = strrchr(buffer, '/');
    FILE *file = NULL;
    for (size_t at = 0; !file && at < 2; at++) {
        char path[TQ_PATH_BYTES + 64u];
        snprintf(path, sizeof path, "%s/%s/%s/%s", TQ_SYSFS, classes[at], slash ? slash + 1 : buffer, name);
        file = fopen(path, mode);
    }
    return file;
}

static int number_of(const char *buffer, const char *name, uint64_t *value)
{
    long long found = -1;
    FILE *file = attribute(buffer, name, "r");
    const int count = file ? fscanf(file, "%lli", &found) : 0;
    if (file)
        fclose(file);
    *value = (uint64_t)found;
    return count == 1 && found >= 0 ? 0 : -1;
}

static tq_status tell(const char *buffer, const char *name, uint64_t value)
{
    FILE *file = attribute(buffer, name, "w");
    if (!file)
        return TQ_BUS_FAILED;
    const int failed = fprintf(file, "%llu\n", (unsigned long long)value) < 0;
    return fclose(file) || failed ? TQ_BUS_FAILED : TQ_OK;
}

static tq_status read_bus(void *context, tq_space space, uint32_t address, void *data, uint32_t bytes)
{
    tq_port *port = context;
    const tq_status status = port->direct.read(port->direct.context, space, address, data, bytes);
    /* The poll that finds the machine done is the last one before its memory is read. */
    if (status == TQ_OK && space == TQ_REGISTERS && address == TQ_REG_STATUS)
        return tell(port->buffer, "sync_for_cpu", 1);
    return status;
}

static tq_status write_bus(void *context, tq_space space, uint32_t address, const void *data, uint32_t bytes)
{
    tq_port *port = context;
    const int control = space == TQ_REGISTERS && address == TQ_REG_CONTROL;
    if (control && tell(port->buffer, "sync_for_device", 1) != TQ_OK)
        return TQ_BUS_FAILED;
    const tq_status status = port->direct.write(port->direct.context, space, address, data, bytes);
    /* A bus may post a write; control reads as 0 once the accelerator has taken it. */
    for (uint32_t polls = 0; control && port->mmio.registers[TQ_REG_CONTROL / 4u] != 0; polls++)
        if (polls == TQ_STUCK_POLLS)
            return TQ_BUS_FAILED;
    return status;
}

static int fail(tq_port *port, const char *path, const char *what, char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "%s: %s", path, what);
    tq_port_close(port);
    return -1;
}

int tq_port_uio(tq_port *port, const char *uio, const char *buffer, char *why, size_t why_bytes)
{
    uint64_t base, size;
    memset(port, 0, sizeof *port);
    port->handle = port->buffer_handle = -1;
    if (strlen(buffer) >= sizeof port->buffer)
        return fail(port, "buffer", "the name is too long", why, why_bytes);
    memcpy(port->buffer, buffer, strlen(buffer) + 1u);
    if (number_of(buffer, "phys_addr", &base) || number_of(buffer, "size", &size))
        return fail(port, buffer, "there is no such buffer: load the kernel module u-dma-buf", why, why_bytes);
    /* Another program may have selected a part of the buffer, or one direction. */
    if (tell(buffer, "sync_offset", 0) || tell(buffer, "sync_size", size) || tell(buffer, "sync_direction", 0))
        return fail(port, buffer, "its files sync_* cannot be written", why, why_bytes);
    if (base + size > (uint64_t)1 << 32 || base % TQ_ALIGN)
        return fail(port, buffer, "the accelerator has 32 address bits and takes multiples of 256", why, why_bytes);
    port->handle = open(uio, O_RDWR | O_CLOEXEC);
    if (port->handle < 0)
        return fail(port, uio, strerror(errno), why, why_bytes);
    port->buffer_handle = open(buffer, O_RDWR | O_CLOEXEC);
    if (port->buffer_handle < 0)
        return fail(port, buffer, strerror(errno), why, why_bytes);
    void *page = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, port->handle, 0);
    if (page == MAP_FAILED)
        return fail(port, uio, strerror(errno), why, why_bytes);
    port->page = page;
    void *bytes = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, port->buffer_handle, 0);
    if (bytes == MAP_FAILED)
        return fail(port, buffer, strerror(errno), why, why_bytes);
    port->memory = (uint32_t)base;
    port->memory_bytes = (uint32_t)(size > 0xffffffffu ? 0xffffffffu : size);
    port->mmio = (tq_mmio){page, bytes, port->memory};
    port->direct = tq_mmio_bus(&port->mmio);
    port->bus = (tq_bus){read_bus, write_bus, port};
    return 0;
}

void tq_port_close(tq_port *port)
{
    if (port->mmio.memory)
        munmap((void *)(uintptr_t)port->mmio.memory, port->memory_bytes);
    if (port->page)
        munmap(port->page, WINDOW_BYTES);
    if (port->handle >= 0)
        close(port->handle);
    if (port->buffer_handle >= 0)
        close(port->buffer_handle);
    memset(port, 0, sizeof *port);
    port->handle = port->buffer_handle = -1;
}
