#include "tq.h"

static tq_status mmio_read(void *context, tq_space space, uint32_t address, void *data, uint32_t bytes)
{
    const tq_mmio *mmio = context;
    uint8_t *to = data;
    if (space == TQ_MEMORY) {
        const volatile uint8_t *from = mmio->memory + (address - mmio->memory_address);
        for (uint32_t i = 0; i < bytes; i++)
            to[i] = from[i];
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
        volatile uint8_t *to = mmio->memory + (address - mmio->memory_address);
        for (uint32_t i = 0; i < bytes; i++)
            to[i] = from[i];
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
