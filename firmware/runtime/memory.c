#include "memory.h"

#include <tq_soc.h>

uint32_t cycles_now(void)
{
    return *(volatile uint32_t *)(TQ_SOC_DEVICES + TQ_DEVICE_TIMER);
}

void start_memory(void)
{
#if TQ_DRAM_STEPS > 0
    static const struct {
        uint16_t offset, value;
        uint32_t cycles;
    } steps[TQ_DRAM_STEPS] = TQ_DRAM_SEQUENCE;
    for (uint32_t i = 0; i < TQ_DRAM_STEPS; i++) {
        const uint32_t began = cycles_now();
        *(volatile uint32_t *)(TQ_SOC_DRAM + steps[i].offset) = steps[i].value;
        while (cycles_now() - began <= steps[i].cycles + 16u) {
        }
    }
#endif
}

/* The processor has no data cache. */
void give_memory(void)
{
}

void take_memory(void)
{
}
