#include "tq.h"

#if defined(__GNUC__)
/* Memory of this program, accessed in words whatever its type. */
typedef uint32_t __attribute__((may_alias)) any_word;

static int aligned(const volatile void *device, const void *data)
{
    return ((uintptr_t)device | (uintptr_t)data) % 4u == 0;
}
#endif

/* Both copy whole words where they can, several times as fast as bytes. */
static void copy_in(const volatile uint8_t *from, uint8_t *to, uint32_t bytes)
{
    uint32_t i = 0;
#if defined(__GNUC__)
    const volatile uint32_t *words = (const volatile uint32_t *)(const volatile void *)from;
    any_word *out = (any_word *)(void *)to;
    for (; aligned(from, to) && bytes - i >= 4u; i += 4u)
        out[i / 4u] = words[i / 4u];
#endif
    for (; i < bytes; i++)
        to[i] = from[i];
}

static void copy_out(volatile uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    uint32_t i = 0;
#if defined(__GNUC__)
    volatile uint32_t *words = (volatile uint32_t *)(volatile void *)to;
    const any_word *in = (const any_word *)(const void *)from;
    for (; aligned(to, from) && bytes - i >= 4u; i += 4u)
        words[i / 4u] = in[i / 4u];
#endif
    for (; i < bytes; i++)
        to[i] = from[i];
}

static tq_status mmio_read(void *context, tq_space space, uint32_t address, void *data, uint32_t bytes)
{
    const tq_mmio *mmio = context;
    uint8_t *to = data;
    if (space == TQ_MEMORY) {
        copy_in(mmio->memory + (address - mmio->memory_address), to, bytes);
        return TQ_OK;
    }
    for (uint32_t i = 0; i < bytes; i += 4u) {
        const uint32_t word = mmio->registers[(address + i) / 4u];
        for (uint32_t k = 0; k < 4u; k++)
            to[i + k] = (uint8_t)(word >> (8u * k));
    }
    return TQ_OK;
}

static tq_status mmio_write(void *context, tq_space space, uint32_t address, const void *data, uint32_t bytes)
{
    const tq_mmio *mmio = context;
    const uint8_t *from = data;
    if (space == TQ_MEMORY) {
        copy_out(mmio->memory + (address - mmio->memory_address), from, bytes);
        return TQ_OK;
    }
    for (uint32_t i = 0; i < bytes; i += 4u)
        mmio->registers[(address + i) / 4u] = (uint32_t)from[i] | (uint32_t)from[i + 1u] << 8
                                              | (uint32_t)from[i + 2u] << 16 | (uint32_t)from[i + 3u] << 24;
    return TQ_OK;
}

tq_bus tq_mmio_bus(tq_mmio *mmio)
{
    const tq_bus bus = {mmio_read, mmio_write, mmio};
    return bus;
}
